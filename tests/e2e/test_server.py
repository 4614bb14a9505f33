# SPDX-License-Identifier: Apache-2.0
"""postern serve: the API as clients of OpenAI's use it, and clients that misbehave."""

import json
import math
import re
import signal
import socket
import threading
import time

import pytest
from postern import Library
from serving import Server, eventually

openai = pytest.importorskip("openai")
anthropic = pytest.importorskip("anthropic")

CHAT, COMPLETIONS = "/v1/chat/completions", "/v1/completions"
LONG = "word " * 600


@pytest.fixture(scope="module")
def start(postern_bin, tmp_path_factory):
    """Starts servers, which end with the module; each must end well."""
    servers = []

    def run(model, *options, **more):
        server = Server(postern_bin, model, *options, home=tmp_path_factory.mktemp("home"), **more)
        servers.append(server)
        return server

    yield run
    codes = []
    for server in servers:
        try:
            codes.append(server.stop())
        finally:
            server.kill()
    assert codes == [0] * len(codes), [server.log[-30:] for server in servers if server.process.returncode != 0]


@pytest.fixture(scope="module")
def plain_build(build_dir):
    """Skips under a sanitizer, which keeps what was freed, and whose library Python cannot load."""
    if re.search(r"^PN_SANITIZE:\w+=.", (build_dir / "CMakeCache.txt").read_text(), re.MULTILINE):
        pytest.skip("a sanitizer build")


@pytest.fixture(scope="module")
def tiny(start, tiny_models):
    """A server whose answers are noise, and fast."""
    return start(tiny_models["llama-q8"], "--ctx", 256)


@pytest.fixture(scope="module")
def smol(start, smollm2):
    return start(smollm2, "--log-json")


@pytest.fixture(scope="module")
def client(smol):
    return openai.OpenAI(base_url=f"http://127.0.0.1:{smol.port}/v1", api_key="none", max_retries=0)


def user(text):
    return [{"role": "user", "content": text}]


# ---- endless answers, to be interrupted: the tiny models seldom end theirs ----


def endless(**fields):
    return {"prompt": "a", "max_tokens": 200, "temperature": 0, "n": 128, **fields}


# ---- the official client ----------------------------------------------------------------------------------------------


def test_client_chats(client):
    answer = client.chat.completions.create(model="any", messages=user("What is 2+2?"), temperature=0, max_tokens=12)
    assert answer.object == "chat.completion" and answer.model == "SmolLM2-135M-Instruct.Q4_1"
    assert answer.choices[0].message.role == "assistant" and answer.choices[0].message.content
    assert answer.choices[0].finish_reason in ("stop", "length")
    usage = answer.usage
    assert usage.total_tokens == usage.prompt_tokens + usage.completion_tokens and usage.completion_tokens <= 12
    again = client.chat.completions.create(model="any", messages=user("What is 2+2?"), temperature=0, max_tokens=12)
    assert again.choices[0].message.content == answer.choices[0].message.content
    assert again.usage.prompt_tokens_details.cached_tokens >= usage.prompt_tokens - 1 - 64


def test_client_streams_the_same(client):
    ask = {"model": "any", "messages": user("Tell me of the sea."), "temperature": 0, "max_completion_tokens": 24}
    whole = client.chat.completions.create(**ask)
    pieces = list(client.chat.completions.create(**ask, stream=True, stream_options={"include_usage": True}))
    assert pieces[0].choices[0].delta.role == "assistant"
    assert "".join(p.choices[0].delta.content or "" for p in pieces if p.choices) == whole.choices[0].message.content
    assert [p.choices[0].finish_reason for p in pieces if p.choices][-1] == whole.choices[0].finish_reason
    assert all(p.usage is None for p in pieces[:-1]) and not pieces[-1].choices
    assert pieces[-1].usage.completion_tokens == whole.usage.completion_tokens
    assert len({p.id for p in pieces}) == 1


def test_client_gets_logprobs(client):
    answer = client.chat.completions.create(
        model="any", messages=user("Hi"), temperature=0, max_tokens=6, logprobs=True, top_logprobs=3
    )
    tokens = answer.choices[0].logprobs.content
    assert len(tokens) == answer.usage.completion_tokens
    assert "".join(t.token for t in tokens) == answer.choices[0].message.content
    for t in tokens:
        assert bytes(t.bytes).decode("utf-8", "replace") == t.token
        assert len(t.top_logprobs) == 3 and t.logprob == t.top_logprobs[0].logprob  # temperature 0 takes the first
        assert sum(math.exp(top.logprob) for top in t.top_logprobs) <= 1.001
    pieces = client.chat.completions.create(
        model="any", messages=user("Hi"), temperature=0, max_tokens=6, logprobs=True, top_logprobs=3, stream=True
    )
    streamed = [t for p in pieces if p.choices[0].logprobs for t in p.choices[0].logprobs.content]
    assert [t.token for t in streamed] == [t.token for t in tokens]
    assert all(math.isclose(s.logprob, t.logprob, rel_tol=1e-6) for s, t in zip(streamed, tokens))


def test_client_sees_errors_as_its_own(client):
    with pytest.raises(openai.BadRequestError) as wrong:
        client.chat.completions.create(model="any", messages=user("Hi"), temperature="hot")
    assert wrong.value.param == "temperature" and "temperature" in wrong.value.message
    with pytest.raises(openai.BadRequestError) as unsupported:
        client.chat.completions.create(model="any", messages=user("Hi"), response_format={"type": "json_object"})
    assert unsupported.value.param == "response_format" and "not supported yet" in unsupported.value.message
    tool = {"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}
    with pytest.raises(openai.BadRequestError) as tools:
        client.chat.completions.create(model="any", messages=user("Hi"), tools=[tool])
    assert tools.value.param == "tools"
    with pytest.raises(openai.NotFoundError):
        client.embeddings.create(model="any", input="a")


def test_client_lists_models_and_completes(client):
    assert [m.id for m in client.models.list()] == ["SmolLM2-135M-Instruct.Q4_1"]
    answer = client.completions.create(model="any", prompt="The capital of France is", temperature=0, max_tokens=1)
    assert answer.choices[0].text == " Paris" and answer.choices[0].finish_reason == "length"


# ---- sampling and stopping --------------------------------------------------------------------------------------------


def text_of(answer):
    assert answer.status == 200, answer.body
    return answer.json["choices"][0]["message"]["content"]


def test_a_seed_gives_the_same_text(smol):
    texts = [text_of(smol.chat("Tell a story.", temperature=1, seed=seed, max_tokens=16)) for seed in (7, 7, 8)]
    assert texts[0] == texts[1] != texts[2]
    several = smol.chat("Tell a story.", temperature=1, seed=7, max_tokens=16, n=2).json
    assert [c["index"] for c in several["choices"]] == [0, 1]
    assert [c["message"]["content"] for c in several["choices"]] == [texts[0], texts[2]]
    assert several["usage"]["completion_tokens"] > 16


def test_stop_strings_never_leak(smol):
    body = {"prompt": "1 2 3 4 5 6 7 8 9 10 11", "max_tokens": 24, "temperature": 0}
    full = smol.post(COMPLETIONS, body).json["choices"][0]["text"]
    assert len(full) > 10
    stop = full[5:9]
    for given in (stop, ["never", stop]):
        whole = smol.post(COMPLETIONS, {**body, "stop": given}).json["choices"][0]
        assert whole["text"] == full[: full.index(stop)] and whole["finish_reason"] == "stop"
        pieces = [e["choices"][0] for e in smol.events(COMPLETIONS, {**body, "stop": given, "stream": True}) if e != "[DONE]"]
        assert "".join(p["text"] for p in pieces) == whole["text"] and pieces[-1]["finish_reason"] == "stop"
    scored = smol.post(COMPLETIONS, {**body, "stop": stop, "logprobs": 0}).json["choices"][0]["logprobs"]
    assert "".join(scored["tokens"]) == whole["text"][: len("".join(scored["tokens"]))]


def test_logit_bias_bans_and_forces(smol):
    paris = smol.post("/tokenize", {"content": " Paris"}).json["tokens"]
    body = {"prompt": "The capital of France is", "max_tokens": 1, "temperature": 0}
    assert smol.post(COMPLETIONS, {**body, "logit_bias": {str(paris[0]): -100}}).json["choices"][0]["text"] != " Paris"
    word = smol.post("/tokenize", {"content": " London"}).json["tokens"][0]
    assert smol.post(COMPLETIONS, {**body, "logit_bias": {str(word): 100}}).json["choices"][0]["text"] == " London"


def test_characters_are_streamed_whole(smol):
    """An emoji takes several tokens: pieces never hold part of it, or what stands for a part."""
    ids = smol.post("/tokenize", {"content": "😀"}).json["tokens"]
    assert len(ids) > 1
    body = {"prompt": "😀" * 12, "max_tokens": 24, "temperature": 0, "stream": True, "logprobs": 0, "logit_bias": {}}
    body["logit_bias"] = {str(i): 100 for i in ids}
    pieces = [e["choices"][0] for e in smol.events(COMPLETIONS, body) if e != "[DONE]"]
    text = "".join(p["text"] for p in pieces)
    assert text == "😀" * 8 and all("�" not in p["text"] for p in pieces[:-1])
    whole = smol.post(COMPLETIONS, {**body, "stream": False}).json["choices"][0]
    assert whole["text"] == text
    assert [t for p in pieces for t in p["logprobs"]["tokens"]] == whole["logprobs"]["tokens"]


# ---- completions, as lm-evaluation-harness asks -------------------------------------------------------------------------


def test_echo_scores_the_prompt(smol, smollm2):
    text = "The capital of France is Paris." + " It is a large city." * 60
    ids = smol.post("/tokenize", {"content": text, "add_special": True}).json["tokens"]
    assert len(ids) > 300
    by_text = smol.post(COMPLETIONS, {"prompt": text, "max_tokens": 0, "echo": True, "logprobs": 1}).json
    by_ids = smol.post(COMPLETIONS, {"prompt": [ids], "max_tokens": 1, "echo": True, "logprobs": 1, "temperature": 0}).json
    one, two = (a["choices"][0]["logprobs"] for a in (by_text, by_ids))
    assert len(one["tokens"]) == len(ids) and len(two["tokens"]) == len(ids) + 1
    assert one["token_logprobs"] == two["token_logprobs"][:-1] and one["token_logprobs"][0] is None
    assert "".join(one["tokens"]) == text == by_text["choices"][0]["text"]
    assert one["text_offset"] == [len("".join(one["tokens"][:i])) for i in range(len(ids))]
    assert one["top_logprobs"][0] is None
    for logprob, top in zip(one["token_logprobs"][1:], one["top_logprobs"][1:]):
        assert max(top.values()) >= logprob
    assert by_text["usage"]["prompt_tokens_details"]["cached_tokens"] == 0

    # As said a word further on: the same sum, bit for bit, whatever chunks it was computed in.
    shorter = smol.post(COMPLETIONS, {"prompt": ids[:200], "max_tokens": 0, "echo": True, "logprobs": 0}).json
    assert shorter["choices"][0]["logprobs"]["token_logprobs"] == one["token_logprobs"][:200]


def test_scores_are_those_of_the_library(start, tiny_models, plain_build, postern_lib):
    """Log-probabilities of a prompt and of what follows, over several chunks, and the text, as the library gives them."""
    path = tiny_models["llama-gqa"]
    server = start(path)
    with Library(postern_lib).open(path) as model, model.session() as session:
        ids = [10 + (37 * i + i * i) % (session.n_vocab - 10) for i in range(100)]
        body = {"prompt": ids, "max_tokens": 4, "echo": True, "logprobs": 2, "temperature": 0}
        choice = server.post(COMPLETIONS, body).json["choices"][0]
        result = session.generate(ids, max_tokens=4, sampling=model.library.sampling(temperature=0))
        texts = [model.detokenize([i], with_control=True).decode("utf-8", "replace") for i in ids + result.tokens]
        assert choice["logprobs"]["tokens"][: len(texts)] == texts
        for n in (1, 2, 50, 64, 99, 100, 102):
            session.sync((ids + result.tokens)[:n])
            logits = session.logits()
            total = max(logits) + math.log(sum(math.exp(x - max(logits)) for x in logits))
            scored = choice["logprobs"]["token_logprobs"][n]
            assert math.isclose(scored, logits[(ids + result.tokens)[n]] - total, abs_tol=1e-4)
            top = sorted(choice["logprobs"]["top_logprobs"][n].values(), reverse=True)
            assert math.isclose(top[0], max(logits) - total, abs_tol=1e-4)


def test_an_end_token_is_scored(smol):
    """Harnesses drop the last token, which they asked for: it must be there also where the answer ends at once."""
    end = smol.post("/tokenize", {"content": "<|im_end|>"}).json["tokens"]
    assert len(end) == 1
    body = {"prompt": [5, 6, 7], "max_tokens": 1, "echo": True, "logprobs": 1, "logit_bias": {str(end[0]): 100}, "temperature": 0}
    choice = smol.post(COMPLETIONS, body).json["choices"][0]
    assert choice["finish_reason"] == "stop" and len(choice["logprobs"]["tokens"]) == 4


def test_several_prompts(tiny):
    body = {"prompt": ["a", "b c"], "n": 2, "max_tokens": 3, "temperature": 0}
    answer = tiny.post(COMPLETIONS, body).json
    assert [c["index"] for c in answer["choices"]] == [0, 1, 2, 3]
    for i, prompt in enumerate(body["prompt"]):
        alone = tiny.post(COMPLETIONS, {**body, "prompt": prompt, "n": 1}).json["choices"][0]["text"]
        assert [c["text"] for c in answer["choices"][2 * i : 2 * i + 2]] == [alone, alone]
    streamed = ["", "", "", ""]
    for event in tiny.events(COMPLETIONS, {**body, "stream": True}):
        if event != "[DONE]":
            streamed[event["choices"][0]["index"]] += event["choices"][0]["text"]
    assert streamed == [c["text"] for c in answer["choices"]]


# ---- reuse ------------------------------------------------------------------------------------------------------------


def cached(answer):
    assert answer.status == 200, answer.body
    return answer.json["usage"]["prompt_tokens_details"]["cached_tokens"]


def test_conversations_go_on_where_they_were(smol):
    stories = [f"Story number {i}: " + f"{i} mice and a cat. " * 40 for i in range(3)]
    firsts = [smol.chat(story).json["usage"]["prompt_tokens"] for story in stories]
    for story, n in zip(stories, firsts):
        assert cached(smol.chat(story)) == n - 1
    assert cached(smol.chat(stories[0], cache_prompt=False)) == 0
    assert text_of(smol.chat(stories[0], cache_prompt=False)) == text_of(smol.chat(stories[0]))
    assert cached(smol.chat(stories[0], session="mine")) == firsts[0] - 1


def test_overflow_and_tier(tiny):
    text = "word " * 400
    assert tiny.chat(text, overflow="error").error["code"] == "context_length_exceeded"
    assert tiny.chat(text, overflow="slide").status == 200
    assert tiny.chat(text).status == 400
    assert tiny.chat("a", tier="long").status == 200 and tiny.chat("a").status == 200
    unknown = tiny.chat("a", tier="huge")
    assert unknown.status == 400 and unknown.error["param"] == "tier"
    assert tiny.chat("a", overflow="fold").error["param"] == "overflow"


MESSAGES = "/v1/messages"


def test_anthropic_client(smol):
    client = anthropic.Anthropic(base_url=f"http://127.0.0.1:{smol.port}", api_key="none", max_retries=0)
    asked = {"model": "any", "max_tokens": 12, "extra_body": {"temperature": 0}, "system": "Be brief.",
             "messages": [{"role": "user", "content": [{"type": "text", "text": "What is the capital of France?"}]}]}
    same = [{"role": "system", "content": "Be brief."}, *user("What is the capital of France?")]
    want = smol.post(CHAT, {"messages": same, "max_tokens": 12, "temperature": 0})
    whole = client.messages.create(**asked)
    assert (whole.type, whole.role, whole.content[0].text) == ("message", "assistant", text_of(want))
    usage = whole.usage
    assert usage.input_tokens + usage.cache_read_input_tokens == want.json["usage"]["prompt_tokens"]
    assert usage.output_tokens == want.json["usage"]["completion_tokens"]
    finish = {"stop": "end_turn", "length": "max_tokens"}[want.json["choices"][0]["finish_reason"]]
    assert whole.stop_reason == finish and whole.stop_sequence is None
    with client.messages.stream(**asked) as stream:
        pieces = list(stream.text_stream)
        assert "".join(pieces) == whole.content[0].text and len(pieces) > 1
        assert stream.get_final_message().stop_reason == finish
    cut = client.messages.create(**{**asked, "stop_sequences": ["Paris"]})
    assert (cut.stop_reason, cut.stop_sequence) == ("stop_sequence", "Paris") and "Paris" not in cut.content[0].text
    with pytest.raises(anthropic.BadRequestError, match="thinking"):
        client.messages.create(**asked, thinking={"type": "enabled", "budget_tokens": 1024})


def test_messages_are_checked(tiny):
    good = {"max_tokens": 2, "messages": user("Hello")}
    assert tiny.post(MESSAGES, good).json["type"] == "message"
    for change, field in (({"max_tokens": None}, "max_tokens"), ({"messages": []}, "messages"), ({"messages": "a"}, "messages"),
                          ({"messages": [{"role": "tool", "content": "a"}]}, "messages"), ({"system": 3}, "system"),
                          ({"messages": [*user("a"), {"role": "system", "content": "b"}]}, "messages"),
                          ({"stop_sequences": [""]}, "stop"), ({"tools": [{"name": "look"}]}, "tools")):
        refused = tiny.post(MESSAGES, {**good, **change})
        assert refused.status == 400 and refused.json["type"] == "error" and refused.error["param"] == field, change


def test_pinned_system_messages_are_there_from_the_start(start, tiny_models, tmp_path):
    rules = ["Be brief, and say what you know, no more than that, in a few words.", "Speak as a pirate would: " * 3]
    (tmp_path / "rules").write_text(rules[1], encoding="utf-8")
    server = start(tiny_models["llama-q8"], "--pin-system", rules[0], "--pin-system", f"@{tmp_path / 'rules'}")
    for rule in rules:
        answer = server.post(CHAT, {"messages": [{"role": "system", "content": rule}, *user("Hello")], "max_tokens": 1})
        assert cached(answer) >= 64, answer.body


def test_what_became_of_the_context_is_said(tiny):
    before = tiny.metrics()
    cut = tiny.chat("word " * 400, overflow="slide").json["postern"]
    assert cut["cut"]["slides"] > 0 and 0 < cut["cut"]["from"] < cut["cut"]["to"] and cut["kv"]["type"] == "f16"
    body = {"messages": user("word " * 400), "max_tokens": 2, "overflow": "slide", "stream": True}
    events = [event for event in tiny.events(CHAT, body) if event != "[DONE]"]
    assert [event["postern"]["cut"] for event in events if "postern" in event] == [cut["cut"]]
    after = tiny.metrics()
    assert after["postern_slides_total"] == before["postern_slides_total"] + 2 * cut["cut"]["slides"]
    whole = tiny.chat("a word").json["postern"]
    assert whole["cut"] == {"slides": 0, "from": 0, "to": 0} and whole["kv"]["step_downs"] == 0
    assert whole["cache"]["cause"] in ("reused", "nothing_before", "changed", "evicted", "slid")


def test_sliding_keeps_the_system_message(tiny, tiny_models, postern):
    system, text = "Say a word of two. " * 3, "word after word " * 100
    messages = [{"role": "system", "content": system}, *user(text)]
    options = ["--ctx", 256, "--temp", 0, "-n", 8, "--overflow", "slide", "--json"]
    alone = json.loads(postern("run", tiny_models["llama-q8"], "--system", system, "-p", text, *options).stdout)
    assert alone["cut"]["slides"] > 0 and alone["cut"]["from"] > 40
    body = {"messages": messages, "max_tokens": 8, "temperature": 0, "overflow": "slide"}
    assert text_of(tiny.post(CHAT, body)) == alone["text"]


# ---- what else there is -------------------------------------------------------------------------------------------------


def test_tokenize_and_back(smol):
    text = "Grüße, 世界! <|im_end|>"
    done = smol.post("/tokenize", {"content": text}).json
    assert done["count"] == len(done["tokens"])
    assert smol.post("/detokenize", {"tokens": done["tokens"]}).json == {"content": text}
    plain = smol.post("/tokenize", {"content": text, "parse_special": False}).json
    assert plain["count"] > done["count"]
    chat = smol.post("/tokenize", {"messages": user("Hi")}).json
    assert chat["count"] == smol.chat("Hi", max_tokens=1).json["usage"]["prompt_tokens"]
    assert smol.post("/tokenize", {"content": 5}).error["param"] == "content"
    assert smol.post("/detokenize", {"tokens": [5, "a"]}).error["param"] == "tokens"
    assert smol.post("/detokenize", {"tokens": [10**8]}).error["param"] == "tokens"


def test_metrics_count(smol):
    before = smol.metrics()
    answer = smol.chat("Count me.", max_tokens=5, ignored_field=True).json["usage"]
    after = smol.metrics()

    def grown(name):
        return after[f"postern_{name}"] - before.get(f"postern_{name}", 0)

    assert grown('requests_total{path="/v1/chat/completions",code="200"}') == 1
    assert grown("prompt_tokens_total") == answer["prompt_tokens"]
    assert grown("decode_tokens_total") == answer["completion_tokens"]
    assert grown("prefix_hit_tokens_total") + grown("prefill_tokens_total") == answer["prompt_tokens"]
    assert grown("ttft_seconds_count") == grown("queue_seconds_count") == 1
    assert grown('ttft_seconds_bucket{le="+Inf"}') == 1
    assert after["postern_kv_bytes"] > 0 and after['postern_memory_bytes{use="weights"}'] > 1 << 20
    assert after["postern_memory_budget_bytes"] > 0


def test_logs_say_nothing_of_what_was_said(smol):
    secret = "xylophone-4711"
    assert smol.chat(secret).status == 200
    assert eventually(lambda: '"path":"/v1/chat/completions"' in smol.log[-1])
    line = json.loads(smol.log[-1])
    assert line["status"] == 200 and line["completion_tokens"] > 0 and line["finish"] in ("stop", "length")
    assert not any(secret in line for line in smol.log)


def test_keys(start, tiny_models, tmp_path):
    keys = tmp_path / "keys"
    keys.write_text("# ours\nfirst-key\n\n second-key \n")
    server = start(tiny_models["llama-q8"], "--api-key-file", keys)
    for headers in ({}, {"Authorization": "Bearer first-ke"}, {"Authorization": "first-key"}, {"Authorization": "Bearer "}):
        refused = server.get("/v1/models", headers=headers)
        assert refused.status == 401 and refused.error["code"] == "invalid_api_key", headers
    assert server.post(CHAT, {"messages": user("a")}).status == 401
    assert server.get("/metrics").status == 401 and server.get("/health").status == 200
    assert server.get("/v1/models", headers={"Authorization": "Bearer first-key"}).status == 200
    assert server.get("/v1/models", headers={"x-api-key": "second-key"}).status == 200
    keys.write_text("# none\n")
    assert Server(server.process.args[0], tiny_models["llama-q8"], "--api-key-file", keys, home=tmp_path, wait=False).process.wait(60) == 2
    assert server.stop() == 0


def test_loading_is_told(start, smollm2):
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    server = start(smollm2, port=port, wait=False)
    seen = set()

    def look():
        try:
            health = server.get("/health")
        except ConnectionError:
            return False
        seen.add((health.status, health.json["status"]))
        if health.status == 503:
            early = server.chat("Hi")
            assert early.status == 200 or (early.error["code"] == "loading" and int(early.headers["Retry-After"]) > 0)
        return health.status == 200

    assert eventually(look, 60)
    assert (200, "ready") in seen and seen <= {(200, "ready"), (503, "loading")}
    assert server.stop() == 0


def test_what_cannot_be_served(start, tiny, tiny_models, tmp_path, postern):
    broken = tmp_path / "broken.gguf"
    broken.write_bytes(b"GGUF")
    done = postern("serve", broken, "--port", 0)
    assert done.returncode == 3 and str(broken) in done.stderr
    done = postern("serve", tiny_models["llama-q8"], "--port", tiny.port)
    assert done.returncode == 1 and "in use" in done.stderr
    done = postern("serve", tiny_models["llama-q8"], "--ctx", 10, "--tier", "long")
    assert done.returncode == 2


# ---- wrong requests -----------------------------------------------------------------------------------------------------

WRONG = [
    ({"messages": "hi"}, "messages"),
    ({"messages": []}, "messages"),
    ({"messages": [{"content": "a"}]}, "messages"),
    ({"messages": [{"role": "user", "content": 5}]}, "messages"),
    ({}, "messages"),
    ({"temperature": "hot"}, "temperature"),
    ({"temperature": -1}, "temperature"),
    ({"temperature": True}, "temperature"),
    ({"top_p": 2}, "top_p"),
    ({"top_k": 1.5}, "top_k"),
    ({"min_p": []}, "min_p"),
    ({"repetition_penalty": 0}, "repetition_penalty"),
    ({"frequency_penalty": {}}, "frequency_penalty"),
    ({"max_tokens": 0}, "max_tokens"),
    ({"max_tokens": "5"}, "max_tokens"),
    ({"max_completion_tokens": -3}, "max_completion_tokens"),
    ({"n": 0}, "n"),
    ({"n": 1000}, "n"),
    ({"seed": "x"}, "seed"),
    ({"stop": 5}, "stop"),
    ({"stop": ["a", 5]}, "stop"),
    ({"stop": ""}, "stop"),
    ({"stop": "a\0b"}, "stop"),
    ({"stop": ["a"] * 100}, "stop"),
    ({"logit_bias": []}, "logit_bias"),
    ({"logit_bias": {"a": 1}}, "logit_bias"),
    ({"logit_bias": {"1": "x"}}, "logit_bias"),
    ({"logit_bias": {"1": 1000}}, "logit_bias"),
    ({"stream": "yes"}, "stream"),
    ({"stream_options": {"include_usage": True}}, "stream_options"),
    ({"stream": True, "stream_options": 5}, "stream_options"),
    ({"stream": True, "stream_options": {"include_usage": 1}}, "include_usage"),
    ({"logprobs": 5}, "logprobs"),
    ({"top_logprobs": 3}, "top_logprobs"),
    ({"logprobs": True, "top_logprobs": 21}, "top_logprobs"),
    ({"model": 5}, "model"),
    ({"session": 5}, "session"),
    ({"cache_prompt": "no"}, "cache_prompt"),
    ({"tools": {}}, "tools"),
    ({"response_format": "json"}, "response_format"),
    ({"response_format": {"type": "json_schema"}}, "response_format"),
]


@pytest.mark.parametrize("fields, param", WRONG, ids=[json.dumps(fields)[:50] for fields, _ in WRONG])
def test_a_wrong_field_is_named(tiny, fields, param):
    body = {"messages": user("a"), "max_tokens": 2, **fields} if fields else {}
    answer = tiny.post(CHAT, body)
    assert (answer.status, answer.error["param"]) == (400, param), answer.body
    assert answer.error["type"] == "invalid_request_error" and answer.error["code"] and answer.error["message"]


def test_null_and_unknown_fields_are_nothing(tiny):
    body = {"messages": user("a"), "max_tokens": 2, "temperature": None, "stop": None, "tools": None, "tools_x": 5, "tools": []}
    assert tiny.post(CHAT, body).status == 200


@pytest.mark.parametrize(
    "fields",
    [{"prompt": 5}, {"prompt": []}, {"prompt": [[1], "a", 5]}, {"prompt": [1, "a"]}, {"prompt": [10**6]}, {"prompt": [-1]},
     {"prompt": ["a"] * 300}, {"prompt": ["a"] * 3, "n": 100}, {"prompt": ""}, {"prompt": [[]]}, {}],
)
def test_a_wrong_prompt_is_named(tiny, fields):
    answer = tiny.post(COMPLETIONS, {"max_tokens": 1, **fields})
    if fields.get("prompt") == "" and answer.status == 200:
        return  # a model that begins texts with a token has something to go on from
    assert (answer.status, answer.error["param"]) == (400, "prompt"), answer.body


def test_paths_and_methods(tiny):
    assert tiny.get("/nothing").status == 404 and tiny.post("/v1", {}).error["code"] == "not_found"
    wrong = tiny.get(CHAT)
    assert wrong.status == 405 and wrong.headers["Allow"] == "POST"
    assert tiny.ask("DELETE", "/v1/models").headers["Allow"] == "GET"
    head = tiny.ask("HEAD", "/health")
    assert head.status == 200 and head.body == b""
    typed = tiny.ask("POST", CHAT, b"{}", headers={"Content-Type": "text/plain"})
    assert typed.status == 415 and "application/json" in typed.error["message"]


# ---- misbehaving clients ------------------------------------------------------------------------------------------------


JSON = [
    *(b'null', b'-0', b'1E+2', b'0.1e-3', b'[]', b'{}', b'[[[]]]', b'{"a": {"a": 1}}', b'{"a": 1, "a": 2}', b'{"": 0}'),
    *(b'" \\/ \\" \\\\ \\n"', b'"\\u0000"', b'"\\ud83e\\udd9c"', b'"\x7f"', "\"ü🦜\u2028\"".encode(), b'[1,\t\r\n2]'),
]
NO_JSON = [
    *(b'', b'nul', b'True', b'NaN', b'Infinity', b'+1', b'01', b'1.', b'.5', b'1e', b'0x1', b'--1', b'1 2', b"1\0", b"[1\0]"),
    *(b'[', b']', b'[1,]', b'[,1]', b'[1 2]', b'{', b'{"a"}', b'{"a":}', b'{"a":1,}', b'{a: 1}', b"{'a': 1}", b'{1: 1}'),
    *(b'"', b'"a', b"'a'", b'"\\x"', b'"\\u12"', b'"\\ud800"', b'"\n"', b'"\t"', b'"\0"', b'/* a */ 1', b'1 // a'),
    *(b'"\xff"', b'"\xc3"', b'"\xc0\x80"', b'"\xed\xa0\x80"', b'"\xf4\x90\x80\x80"', b'"\xe2\x82"', b'\xef\xbb\xbf1'),
    *(b'[' * 100000, b'{"a":' * 100000, b'[' * 100000 + b']' * 100000, b'1e9999'),
]


def body_with(value):
    return b'{"messages": [{"role": "user", "content": "a"}], "max_tokens": 1, "unknown": ' + value + b"}"


@pytest.mark.parametrize("value", JSON, ids=lambda value: repr(value[:20]))
def test_json_is_taken(tiny, value):
    answer = tiny.post(CHAT, body_with(value))
    assert answer.status == 200, answer.body


@pytest.mark.parametrize("value", NO_JSON, ids=lambda value: repr(value[:20]))
def test_what_is_no_json_is_refused(tiny, value):
    answer = tiny.post(CHAT, body_with(value))
    assert (answer.status, answer.error["code"]) == (400, "invalid_json"), answer.body


@pytest.mark.parametrize("body", [b"", b"[]", b"5", b'"a"', b"null", body_with(b"1")[:-1], body_with(b"1") + b"x"])
def test_what_is_no_object_is_refused(tiny, body):
    answer = tiny.post(CHAT, body)
    assert (answer.status, answer.error["code"]) == (400, "invalid_json"), answer.body


def test_a_large_body_is_refused(start, tiny_models, plain_build):
    server = start(tiny_models["llama-q8"], "--max-body", "64K")
    before = server.rss()
    assert server.post(CHAT, b" " * (100 << 20)).status == 413
    chunks = (b" " * 65536 for _ in range(320))
    connection = server.connect()
    connection.request("POST", CHAT, chunks, {"Content-Type": "application/json"}, encode_chunked=True)
    assert connection.getresponse().status == 413
    asking = server.send_raw(b"POST " + CHAT.encode() + b" HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 9999999\r\n\r\n")
    assert asking.recv(100).startswith(b"HTTP/1.1 413")
    assert server.rss() < before + (16 << 20)
    assert server.chat("a").status == 200
    assert server.stop() == 0


def test_what_would_take_much_memory_is_refused(tiny, plain_build):
    before = tiny.rss()
    body = b'{"messages": [' + b"[]," * 1000000 + b"[]]}"
    refused = tiny.post(CHAT, body)
    assert refused.status == 413 and refused.error["code"] == "body_too_large"
    many = {"prompt": ["a " * 100] * 128, "echo": True, "max_tokens": 0, "logprobs": 20}
    refused = tiny.post(COMPLETIONS, many)
    assert refused.status == 400 and refused.error["code"] == "answer_too_large"
    last = None
    for event in tiny.events(COMPLETIONS, {**many, "stream": True}):
        last = event
    assert last == "[DONE]"
    assert tiny.rss() < before + (300 << 20)


def test_a_slow_request_is_cut_off(start, tiny_models):
    server = start(tiny_models["llama-q8"], "--timeout", 2)
    sockets = [
        server.send_raw(b""),
        server.send_raw(b"POST /v1/chat/"),
        server.send_raw(b"POST " + CHAT.encode() + b" HTTP/1.1\r\nHost: a\r\nContent-Length: 100\r\n\r\n{"),
    ]

    def drip(s):
        try:
            for _ in range(100):
                s.sendall(b"a")
                time.sleep(0.1)
        except OSError:
            pass

    threading.Thread(target=drip, args=(sockets[1],), daemon=True).start()
    begun = time.monotonic()
    for s in sockets:
        try:
            while s.recv(1000):
                pass
        except ConnectionError:
            pass
        s.close()
    assert time.monotonic() - begun < 12
    assert server.chat("a").status == 200
    assert server.stop() == 0


def test_bytes_that_are_no_http(tiny):
    for data in (
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" * 40,
        b"GET\r\n\r\n",
        b"\0" * 1000,
        b"POST / HTTP/1.1\r\nContent-Length: -5\r\n\r\n",
        b"GET /health HTTP/1.1\r\nHost: a\r\nX: " + b"a" * 100000 + b"\r\n\r\n",
    ):
        s = tiny.send_raw(b"")
        try:
            s.sendall(data)
            s.shutdown(socket.SHUT_WR)
            while s.recv(1000):
                pass
        except OSError:
            pass
        s.close()
    assert tiny.chat("a").status == 200


def test_who_leaves_frees_the_model(tiny):
    """At every stage: while waiting, while the prompt is read, in the middle of a stream; the next one is served."""
    for stream in (False, True):
        running = tiny.start_request(COMPLETIONS, endless(stream=stream))
        assert eventually(lambda: tiny.metrics()["postern_requests_running"] == 1)
        waiting = tiny.start_request(COMPLETIONS, endless())
        assert eventually(lambda: tiny.metrics()["postern_requests_waiting"] == 1)
        waiting.close()
        assert eventually(lambda: tiny.metrics()["postern_requests_waiting"] == 0)
        if stream:
            assert b"data: " in running.recv(4096)
        running.close()
        begun = time.monotonic()
        assert tiny.chat("a").status == 200
        assert time.monotonic() - begun < 5
    assert tiny.metrics()['postern_requests_total{path="/v1/completions",code="499"}'] >= 4


def test_a_cancelled_stream_beside_a_live_one(smol):
    body = {"prompt": "One two three", "max_tokens": 60, "temperature": 0, "stream": True}
    expected = "".join(e["choices"][0]["text"] for e in smol.events(COMPLETIONS, body) if e != "[DONE]")
    leaving = smol.start_request(COMPLETIONS, {**body, "prompt": "Long ago", "max_tokens": 2000, "n": 20})
    assert leaving.recv(4096)
    live = smol.events(COMPLETIONS, body)
    threading.Timer(0.3, leaving.close).start()
    assert "".join(e["choices"][0]["text"] for e in live if e != "[DONE]") == expected


def test_memory_returns(tiny, plain_build):
    def leave(n):
        for i in range(n):
            s = tiny.start_request(COMPLETIONS, endless(stream=i % 2 == 0, logprobs=5, echo=True, prompt="a " * (20 + i)))
            if i % 3 == 0:
                s.recv(4096)
            s.close()
        assert tiny.chat("a").status == 200

    leave(40)
    before = tiny.rss()
    leave(120)
    assert tiny.rss() < before + (4 << 20)


def test_the_queue_is_bounded(start, tiny_models):
    server = start(tiny_models["llama-q8"], "--max-queue", 2)
    held = [server.start_request(COMPLETIONS, endless())]
    assert eventually(lambda: server.metrics()["postern_requests_running"] == 1)
    held += [server.start_request(COMPLETIONS, endless()) for _ in range(2)]
    assert eventually(lambda: server.metrics()["postern_requests_waiting"] == 2)
    refused = server.chat("a")
    assert refused.status == 503 and refused.error["code"] == "queue_full" and int(refused.headers["Retry-After"]) >= 1
    for s in held:
        s.close()
    assert eventually(lambda: server.chat("a").status == 200)
    assert server.stop() == 0


def test_answers_are_not_mixed(smol):
    """Many at once: each gets what it gets alone."""
    words = ["red", "blue", "green", "seven", "north", "salt", "glass", "river"]
    alone = {w: text_of(smol.chat(f"Repeat: {w}")) for w in words}
    found = {}

    def ask(w):
        found[w] = text_of(smol.chat(f"Repeat: {w}"))

    threads = [threading.Thread(target=ask, args=(w,)) for w in words]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert found == alone


def test_a_thousand_connections(start, tiny_models):
    server = start(tiny_models["llama-q8"], "--timeout", 30)
    sockets = [server.send_raw(b"GET /health HTTP/1.1\r\nHost: a\r\n") for _ in range(1000)]
    assert server.chat("a").status == 200
    for s in sockets:
        s.sendall(b"\r\n")
    assert all(s.recv(100).startswith(b"HTTP/1.1 200") for s in sockets)
    for s in sockets:
        s.close()
    assert server.chat("a").status == 200
    assert server.stop() == 0


# ---- the end --------------------------------------------------------------------------------------------------------------


def test_a_drain_answers_what_has_come(start, tiny_models):
    server = start(tiny_models["llama-q8"])
    body = {"prompt": "a", "max_tokens": 200, "temperature": 0, "n": 30, "stream": True}
    events = server.events(COMPLETIONS, body)
    first = next(events)
    waiting = server.start_request(COMPLETIONS, {"prompt": "b", "max_tokens": 3})
    assert eventually(lambda: server.metrics()["postern_requests_waiting"] == 1)
    server.process.send_signal(signal.SIGTERM)
    assert eventually(lambda: server.get("/health").json["status"] == "draining")
    refused = server.chat("a")
    assert refused.status == 503 and refused.error["code"] == "draining"
    rest = list(events)
    assert rest[-1] == "[DONE]" and first["id"] == rest[0]["id"]
    assert waiting.recv(4096).startswith(b"HTTP/1.1 200")
    assert server.process.wait(30) == 0


def test_a_second_signal_ends_at_once(start, tiny_models):
    server = start(tiny_models["llama-q8"])
    held = server.start_request(COMPLETIONS, endless())
    assert eventually(lambda: server.metrics()["postern_requests_running"] == 1)
    server.process.send_signal(signal.SIGTERM)
    assert eventually(lambda: server.get("/health").json["status"] == "draining")
    server.process.send_signal(signal.SIGTERM)
    assert server.process.wait(10) == 0
    held.close()
