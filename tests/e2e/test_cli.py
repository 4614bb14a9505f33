# SPDX-License-Identifier: Apache-2.0
"""The command postern: options, output, exit codes, and the chat on a terminal."""

import json
import os
import pty
import re
import resource
import select
import signal
import subprocess
import time

import pytest
from command import FILE, LIMIT, USAGE, assert_fails, output, run_json
from conftest import ROOT

COMMANDS = ["run", "serve", "inspect", "tokenize", "template", "bake", "compress", "pack", "perplexity", "bench"]


@pytest.fixture
def tiny(tiny_models):
    return tiny_models["llama-q8"]


# ---- help, man page, completion --------------------------------------------------------------------------------------


def options_of(page):
    """[(short or None, long)] of a help page."""
    found = re.findall(r"^  (?:-(\w),|   ) --([a-z-]+)", page, re.MULTILINE)
    return [(short or None, name) for short, name in found]


def test_overview_lists_commands_and_exit_codes(postern):
    page = output(postern("--help"))
    assert page == output(postern("help")) == output(postern("-h"))
    for word in [*COMMANDS, "help", "130"]:
        assert re.search(rf"^  {word} ", page, re.MULTILINE), word
    nothing = postern()
    assert (nothing.returncode, nothing.stdout) == (USAGE, "") and "usage:" in nothing.stderr


def test_version(postern):
    header = (ROOT / "include/postern.h").read_text(encoding="utf-8")
    version = re.search(r'PN_VERSION_STRING "(.*)"', header).group(1)
    assert output(postern("--version")) == f"postern {version}\n"


@pytest.mark.parametrize("command", COMMANDS)
def test_every_option_is_in_man_page_and_completion(postern, postern_bin, command):
    page = output(postern(command, "--help"))
    assert page == output(postern("help", command))
    options = options_of(page)
    assert {(None, "json"), (None, "log-json")} & set(options) and ("h", "help") not in options[:-1]

    manual = (ROOT / "docs/postern.1").read_text(encoding="utf-8")
    section = re.search(rf"^\.Ss postern {command}$(.*?)^\.S[sh] ", manual, re.MULTILINE | re.DOTALL).group(1)
    items = {name for line in re.findall(r"^\.It (Fl .*)$", section, re.MULTILINE) for name in re.split(r"[ ,]+", line)}
    for short, name in options:
        if name != "help":
            assert f"-{name}" in items, f"--{name} is not in the man page"
            assert short is None or short in items
    assert len(items & {f"-{name}" for _, name in options}) == len(options) - 1, "the man page knows more options"

    script = 'source scripts/postern.bash; COMP_WORDS=("$1" "$2" -); COMP_CWORD=2; _postern; printf "%s\\n" "${COMPREPLY[@]}"'
    done = subprocess.run(["bash", "-c", script, "bash", postern_bin, command], cwd=ROOT, capture_output=True, text=True,
                          timeout=60, check=True)
    offered = set(done.stdout.split())
    assert offered == {f"--{name}" for _, name in options} | {f"-{short}" for short, _ in options if short}


@pytest.mark.parametrize(
    "arguments, fragment",
    [
        (["rnu"], "did you mean 'run'"),
        (["nonsense"], "postern --help"),
        (["--versoin"], "did you mean '--version'"),
        (["run", "--tmep", "1"], "did you mean --temp"),
        (["run", "-x"], "unknown option -x"),
        (["bench", "--machine"], "unknown option --machine"),  # a heading of the help page
        (["run", "--seed"], "--seed needs a value"),
        (["run", "--raw=1"], "--raw takes no value"),
        (["run", "a.gguf", "b.gguf"], "'b.gguf'"),
        (["bench"], "operand is missing"),
        (["run", "-p", "a", "-f", "b"], "exclude each other"),
        (["run", "--temp", "-1"], "--temp: '-1' is not a number from 0 to 100"),
        (["run", "--temp", "nan"], "--temp: 'nan'"),
        (["run", "--temp", "0.5x"], "--temp: '0.5x'"),
        (["run", "--temp="], "--temp: ''"),
        (["run", "--top-p", "1.01"], "from 0 to 1"),
        (["run", "--min-p", "-0.1"], "from 0 to 1"),
        (["run", "--top-k", "-1"], "from 0 to"),
        (["run", "--top-k", "99999999999"], "from 0 to"),
        (["run", "-n", "0"], "--max-tokens: '0' is not a whole number from 1 to"),
        (["run", "-n1.5"], "'1.5'"),
        (["run", "--ctx", " 12"], "' 12'"),
        (["run", "--seed", "-1"], "'-1'"),
        (["run", "--seed", "18446744073709551616"], "18446744073709551615"),
        (["run", "--repeat-penalty", "0"], "--repeat-penalty"),
        (["run", "--kv-type", "q5"], "one of f16|f32|q8|q4|k8v4"),
        (["run", "--precision", "low"], "one of high|exact|fast"),
        (["bench", "x", "--precision", ""], "one of high|exact|fast"),
        (["bench", "x", "--batch", "0"], "'0'"),
        (["bench", "x", "--kernels"], "without a model"),
        (["run", "--logit-bias", "5"], "ID=BIAS"),
        (["run", "--logit-bias", "5=1,6=x"], "ID=BIAS"),
        (["run", "--now", "2026-02-30"], "2026-01-02"),
        (["run", "--now", "2026-1-2"], "2026-01-02"),
        (["bench", "x", "--depth", "1,,2"], "'1,,2'"),
    ],
)
def test_wrong_usage(postern, arguments, fragment):
    assert_fails(postern(*arguments, input="text"), USAGE, fragment)


# ---- run -------------------------------------------------------------------------------------------------------------


def test_run_prints_only_the_answer(postern, tiny):
    arguments = [tiny, "-p", "Hello", "-n", "12", "--seed", "7"]
    plain = postern("run", *arguments)
    answer = run_json(postern, *arguments)
    assert output(plain) == answer["text"] != ""
    assert plain.stderr == ""
    assert set(answer) == {"text", "finish_reason", "usage", "cut", "kv", "seed", "timings", "lookup", "model", "precision", "memory"}
    assert answer["precision"] == "high"
    assert answer["seed"] == 7 and answer["finish_reason"] in ("stop", "length")
    usage = answer["usage"]
    assert usage["prompt_tokens"] > 0 and usage["cached_tokens"] == 0 and 0 < usage["completion_tokens"] <= 12
    assert set(answer["timings"]) == {"load_ms", "ttft_ms", "prefill_tokens_per_s", "decode_tokens_per_s"}
    assert answer["timings"]["ttft_ms"] > 0


def test_prompt_from_file_and_standard_input(postern, tiny, tmp_path):
    path = tmp_path / "prompt.txt"
    path.write_text("Hello\n", encoding="utf-8")
    options = ["-n", "8", "--temp", "0"]
    expected = output(postern("run", tiny, "-p", "Hello", *options))
    assert output(postern("run", tiny, "-f", path, *options)) == expected
    assert output(postern("run", tiny, *options, input="Hello\n")) == expected
    assert output(postern("run", tiny, "-p", "-", *options, input="Hello")) == expected
    path.write_text("Be brief.", encoding="utf-8")
    inline = output(postern("run", tiny, "-p", "Hello", "--system", "Be brief.", *options))
    assert output(postern("run", tiny, "-p", "Hello", "--system", f"@{path}", *options)) == inline
    assert_fails(postern("run", tiny, "-p", ""), USAGE, "prompt is empty")
    assert_fails(postern("run", tiny, "-f", tmp_path / "none"), FILE, "none")
    assert_fails(postern("run", tiny, "--raw", "--system", "x", input="x"), USAGE, "--raw")


def test_seed_repeats_and_no_seed_varies(postern, tiny):
    def text(*options):
        return output(postern("run", tiny, "-p", "Hello", "-n", "16", "--temp", "1.5", *options))

    assert text("--seed", "42") == text("--seed", "42") != text("--seed", "43")
    assert len({text() for _ in range(4)}) > 1
    seed = run_json(postern, tiny, "-p", "Hello", "-n", "16", "--temp", "1.5")
    assert text("--seed", seed["seed"]) == seed["text"]


@pytest.mark.parametrize("options", [["--top-p", "0"], ["--min-p", "1"], ["--temp", "0"], ["--temp", "1e-9"],
                                     ["--temp", "100"], ["--top-k", "0"], ["--top-k", "1000000000"], ["--top-k", "1"]])
def test_extreme_sampling_keeps_a_candidate(postern, tiny, options):
    answer = run_json(postern, tiny, "-p", "Hello", "-n", "5", "--seed", "1", *options)
    assert (answer["usage"]["completion_tokens"], answer["finish_reason"]) == (5, "length") or answer["finish_reason"] == "stop"


def test_logit_bias_and_stop(postern, tiny):
    options = ["--raw", "-p", "Hello", "-n", "6", "--temp", "0"]
    text = run_json(postern, tiny, *options)["text"]
    first, second = [json.loads(output(postern("tokenize", tiny, "--json", "--no-bos", word)))["ids"][0] for word in "ab"]
    forced = run_json(postern, tiny, *options, "--logit-bias", f"{first}=1000,{second}=-inf")
    assert forced["text"] == "aaaaaa" and forced["finish_reason"] == "length"
    stopped = run_json(postern, tiny, *options, "--logit-bias", f"{first}=1000", "--stop", "none", "--stop", "aaa")
    assert stopped["text"] == "" and stopped["finish_reason"] == "stop"
    assert run_json(postern, tiny, *options)["text"] == text


def test_stats_and_plan_go_to_standard_error(postern, tiny):
    done = postern("run", tiny, "-p", "Hello", "-n", "4", "--stats", "--seed", "5")
    assert output(done) == output(postern("run", tiny, "-p", "Hello", "-n", "4", "--seed", "5"))
    first, *rest = done.stderr.splitlines()
    assert re.search(r"\d+ threads?, \w+; memory: weights .* \+ KV at most .* \+ scratch .* = ", first)
    assert [line.split()[0] for line in rest] == ["load", "prefill", "decode", "context", "memory", "budget", "seed"]
    assert rest[-1].split()[1] == "5"


def test_limits_and_broken_files(postern, tiny, tmp_path):
    assert_fails(postern("run", tiny, "-p", "Hello " * 20, "--ctx", "16"), LIMIT, "16")
    assert_fails(postern("run", tiny, "-p", "Hello", "--ctx", "1000000000"), USAGE, "1000000000")
    missing = tmp_path / "no\033[31m model.gguf"
    for arguments in (["run", missing, "-p", "Hello"], ["template", tiny, "-f", missing]):
        done = postern(*arguments)
        assert_fails(done, FILE, "31m model.gguf")
        assert "\033" not in done.stderr
    cut = tmp_path / "cut.gguf"
    cut.write_bytes(tiny.read_bytes()[:-100])
    for command in (["run", cut, "-p", "x"], ["tokenize", cut, "x"], ["template", cut, "-m", "user:x"], ["bench", cut]):
        assert_fails(postern(*command), FILE, "cut.gguf")
    assert_fails(postern("run", "-p", "Hello"), FILE, "SmolLM2-135M-Instruct.Q4_1.gguf", "make run", "name a model")


def test_default_model_is_found_in_the_cache(postern, tiny, tmp_path):
    folder = tmp_path / "elsewhere" / "postern"
    folder.mkdir(parents=True)
    (folder / "SmolLM2-135M-Instruct.Q4_1.gguf").symlink_to(tiny)
    done = postern("run", "-p", "Hello", "-n", "4", env={"XDG_CACHE_HOME": str(folder.parent)})
    assert output(done) != ""


def test_standard_output_that_fails(postern_bin, tiny):
    for arguments in (["run", tiny, "-p", "Hello", "-n", "4"], ["tokenize", tiny, "Hello"], ["--help"]):
        with open("/dev/full", "wb") as full:
            done = subprocess.run([postern_bin, *arguments], stdin=subprocess.DEVNULL, stdout=full,
                                  stderr=subprocess.PIPE, text=True, timeout=60, check=False)
        assert done.returncode == 1 and "No space left" in done.stderr

        reader, writer = os.pipe()
        os.close(reader)
        done = subprocess.run([postern_bin, *arguments], stdin=subprocess.DEVNULL, stdout=writer,
                              stderr=subprocess.PIPE, text=True, timeout=60, check=False)
        os.close(writer)
        assert (done.returncode, done.stderr) == (-signal.SIGPIPE, "")

    closed = subprocess.run(["sh", "-c", '"$0" run "$1" -p Hello -n 4 >&-', postern_bin, tiny], capture_output=True,
                            timeout=60, check=False)
    assert (closed.returncode, closed.stderr) == (0, b"")


def test_template_from_file(postern, tiny, tmp_path):
    path = tmp_path / "template.jinja"
    path.write_text("{{ raise_exception('not today') }}", encoding="utf-8")
    assert_fails(postern("run", tiny, "-p", "x", "--template", path), 1, f"{path.name}: ", "not today")
    path.write_text("{{ messages[0].content }}", encoding="utf-8")
    options = ["-n", "8", "--temp", "0", "-p", "Hello"]
    assert output(postern("run", tiny, "--template", path, *options)) == output(postern("run", tiny, "--raw", *options))


def test_interrupt_ends_a_single_answer(postern_bin, smollm2):
    process = subprocess.Popen([postern_bin, "run", smollm2, "-p", "Count from one to a thousand.", "--temp", "0"],
                               stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert process.stdout.read(1) != b""
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=60)
    assert (process.returncode, errors) == (130, b"")


# ---- what real models do ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "prompt", ["用中文写一句话介绍北京。", "Answer only with emoji: 🙂🎉👨‍👩‍👧"], ids=["chinese", "emoji"]
)
def test_no_character_is_cut(postern, smollm2, prompt):
    options = [smollm2, "-p", prompt, "--seed", 3]
    whole = run_json(postern, *options, "-n", 40)["text"]
    assert output(postern("run", *options, "-n", 40)) == whole
    for n in (1, 2, 3, 4, 5, 7, 10, 15):
        streamed = output(postern("run", *options, "-n", n))
        streamed.encode("utf-8")  # bytes that are not UTF-8 would have come as surrogates
        assert whole.startswith(streamed.rstrip("\ufffd"))  # a character that the limit cuts is shown so


def test_penalties_change_the_answer(postern, smollm2):
    def text(*options):
        return output(postern("run", smollm2, "-p", "BANANA " * 8, "-n", "16", "--temp", "0", *options))

    plain = text()
    for penalty in ("--presence-penalty", "--frequency-penalty"):
        assert text(penalty, "50") != plain
    assert text("--repeat-penalty", "3") != plain
    assert text("--repeat-penalty", "3", "--penalty-last-n", "0") == plain


def ids_of(postern, *arguments, **options):
    return json.loads(output(postern(*arguments, "--json", **options)))["ids"]


def test_one_bos_only(postern, smollm2, gemma3, tmp_path):
    chat = ids_of(postern, "template", smollm2, "-m", "user:hi", "--tokens")
    assert chat[0] == 1 != chat[1]
    assert ids_of(postern, "tokenize", smollm2, "hi")[0] != 1
    assert ids_of(postern, "tokenize", gemma3, "hi")[0] == 2 != ids_of(postern, "tokenize", gemma3, "hi", "--no-bos")[0]
    twice = ids_of(postern, "tokenize", gemma3, "<bos>hi", "--control")
    assert twice[0] == 2 != twice[1]
    path = tmp_path / "template.jinja"
    path.write_text("{{ bos_token }}{{ messages[0].content }}", encoding="utf-8")
    with_template = ids_of(postern, "template", gemma3, "--template", path, "-m", "user:hi", "--tokens")
    assert with_template[0] == 2 != with_template[1]
    warned = postern("run", gemma3, "--raw", "-p", "<bos>hi", "-n", "1")
    assert "BOS token <bos>" in warned.stderr and output(warned) is not None


# ---- tokenize, template ----------------------------------------------------------------------------------------------

HARD_TEXTS = ["Hello world", "  two  spaces ", "tab\tnewline\n", "北京 🙂", "\U0010ffff", "a" * 1000]


@pytest.mark.parametrize("text", HARD_TEXTS, ids=range(len(HARD_TEXTS)))
def test_tokens_give_the_text_back(postern, smollm2, text):
    tokens = json.loads(output(postern("tokenize", smollm2, "--json", "--no-bos", input=text)))
    assert tokens["n"] == len(tokens["ids"]) == len(tokens["pieces"]) > 0
    assert output(postern("tokenize", smollm2, "--count", "--no-bos", input=text)) == f"{tokens['n']}\n"
    ids = " ".join(map(str, tokens["ids"]))
    assert output(postern("tokenize", smollm2, "--decode", input=ids)) == text + "\n"


def test_tokenize_lines_and_operands(postern, tiny):
    by_operand = output(postern("tokenize", tiny, "a b", "c\td"))
    assert by_operand == output(postern("tokenize", tiny, input="a b c\td"))
    lines = [line.split("\t") for line in by_operand.splitlines()]
    assert all(len(line) == 2 and line[0].isdigit() for line in lines)
    ids = [line[0] for line in lines]
    assert output(postern("tokenize", tiny, "--decode", *ids)) == "a b c\td\n"
    assert json.loads(output(postern("tokenize", tiny, "--decode", ",".join(ids), "--json"))) == {"text": "a b c\td"}
    assert_fails(postern("tokenize", tiny, "--decode", "1000000"), USAGE, "1000000")
    assert_fails(postern("tokenize", tiny, "--decode", "1 x"), USAGE, "'x' is not a token id")


def test_template_renders(postern, tiny, tmp_path):
    messages = tmp_path / "messages.json"
    messages.write_text('[{"role": "user", "content": "hi: there"}]', encoding="utf-8")
    prompt = output(postern("template", tiny, "-f", messages))
    assert "hi: there" in prompt
    assert prompt == output(postern("template", tiny, "-m", "user:hi: there"))
    assert prompt == output(postern("template", tiny, input=messages.read_text(encoding="utf-8")))
    shorter = output(postern("template", tiny, "-f", messages, "--no-generation-prompt"))
    assert prompt.startswith(shorter) and shorter != prompt
    everything = json.loads(output(postern("template", tiny, "-f", messages, "--json", "--tokens")))
    assert everything["text"] == prompt and everything["n"] == len(everything["ids"]) > 0

    path = tmp_path / "template.jinja"
    path.write_text("{{ strftime_now('%Y-%m-%d %H') }}{{ mood }}", encoding="utf-8")
    for now in ("2026-01-02T03:04:05", "1767323045"):
        options = ["-m", "user:x", "--template", path, "--now", now, "--extra", '{"mood": "!"}']
        assert output(postern("template", tiny, *options)) == "2026-01-02 03!"


def test_template_errors(postern, tiny, tmp_path):
    assert_fails(postern("template", tiny, "-m", "no colon"), USAGE, "ROLE:TEXT")
    assert postern("template", tiny, input="[{").returncode != 0
    assert postern("template", tiny, "-m", "user:x", "--extra", "[]").returncode != 0
    path = tmp_path / "template.jinja"
    path.write_text("{% if x %}", encoding="utf-8")
    broken = postern("template", tiny, "-m", "user:x", "--template", path)
    assert broken.returncode in (1, FILE) and broken.stderr.startswith("postern: ")


# ---- inspect, bench --------------------------------------------------------------------------------------------------


def test_inspect(postern, tiny, smollm2):
    json.loads(output(postern("inspect", tiny, "--json")))
    short, full = (output(postern("inspect", smollm2, *options)) for options in ([], ["--full"]))
    for word in ("llama", "135", "weights", "KV", "4096", "token_embd.weight", "chat template"):
        assert word in full, word
    assert len(short) < len(full)


BENCH = ["--prompt-tokens", "16", "--gen-tokens", "4", "--repeat", "2", "--threads", "1"]


def bench_json(postern, *arguments):
    return json.loads(output(postern("bench", *arguments, "--json")))


def test_bench(postern, tiny):
    bench = bench_json(postern, tiny, *BENCH, "--depth", "8,20", "--kv-type", "f32")
    assert set(bench) == {"model", "threads", "threads_decode", "kernels", "precision", "repeat", "prefill", "decode", "memory", "load_ms",
                          "depths"}
    assert (bench["threads"], bench["precision"]) == (1, "high")
    assert [entry["depth"] for entry in bench["depths"]] == [8, 20]
    entries = [bench, *bench["depths"]]
    for entry in entries:
        prefill, decode = entry["prefill"], entry["decode"]
        assert prefill["tokens"] == 16 and decode["tokens"] == 4 and prefill["ttft_ms"] > 0
        for part in (prefill, decode):
            assert 0 < part["tokens_per_s_min"] <= part["tokens_per_s"] <= part["tokens_per_s_max"]
        assert decode["bandwidth_share"] == pytest.approx(decode["bandwidth_gb_s"] / decode["bandwidth_peak_gb_s"], rel=1e-3)
        moved = decode["bytes_per_token"] * decode["tokens_per_s"] / 1e9
        assert decode["bandwidth_gb_s"] == pytest.approx(moved, rel=1e-3)
        assert prefill["arithmetic_share"] == pytest.approx(prefill["gmac_s"] / prefill["gmac_s_peak"], rel=1e-3)
        done = prefill["macs"] / prefill["tokens"] * prefill["tokens_per_s"] / 1e9
        assert prefill["gmac_s"] == pytest.approx(done, rel=1e-3)
    for values in ([entry["decode"]["bytes_per_token"] for entry in entries], [entry["prefill"]["macs"] for entry in entries]):
        assert values[0] < values[1] < values[2]
    assert all(bench["memory"][key] > 0 for key in ("weights_bytes", "kv_bytes", "scratch_bytes", "peak_rss_bytes"))
    table = output(postern("bench", tiny, *BENCH))
    for words in ("prefill", "decode", "precision high", "of the bandwidth", "of the arithmetic"):
        assert words in table
    assert_fails(postern("bench", tiny, "--depth", "1000000"), LIMIT, "1000000")


def test_bench_sweep_goes_as_deep_as_the_context(postern, tiny):
    trained = json.loads(output(postern("inspect", tiny, "--json")))["metadata"]["llama.context_length"]
    deepest = bench_json(postern, tiny, *BENCH, "--sweep").get("depths", [])
    assert [entry["depth"] for entry in deepest] == [depth for depth in (512, 4096, 16384) if depth + 18 <= trained]


def test_bench_batches(postern, tiny):
    batches = bench_json(postern, tiny, *BENCH, "--batch", "4,1,2", "--batch", "9,4")["batches"]
    assert [batch["tokens"] for batch in batches] == [1, 4, 2, 9] and batches[0]["cost"] == 1
    for batch in batches:
        assert 0 < batch["ms_min"] <= batch["ms"] <= batch["ms_max"]
        assert batch["tokens_per_s"] == pytest.approx(batch["tokens"] / batch["ms"] * 1e3, rel=1e-3)
        assert batch["cost"] == pytest.approx(batch["ms"] / batches[0]["ms"], rel=1e-3)
    assert "times one token" in output(postern("bench", tiny, *BENCH, "--batch", "2"))
    assert_fails(postern("bench", tiny, *BENCH, "--batch", "8192"), LIMIT, "8192")


def test_bench_profile(postern, tiny):
    bench = bench_json(postern, tiny, *BENCH, "--profile", "--depth", "8")
    for entry in [bench, *bench["depths"]]:
        for part in (entry["prefill"], entry["decode"]):
            operations = {operation.pop("operation"): operation for operation in part["profile"]}
            assert {"qkv", "attention", "out", "gate+up", "down", "head", "norms", "quantise", "sampling"} <= set(operations)
            assert sum(operation["share"] for operation in operations.values()) == pytest.approx(1, abs=1e-3)
            for times in operations.values():
                assert times["laps"] > 0 and 0 <= times["waiting_us_per_token"] <= times["us_per_token"]
        macs = sum(operation["macs"] for operation in entry["prefill"]["profile"])
        assert macs == entry["prefill"]["macs"]
    exact = bench_json(postern, tiny, *BENCH, "--profile", "--precision", "exact")
    assert exact["precision"] == "exact"
    assert "quantise" not in [operation["operation"] for operation in exact["decode"]["profile"]]
    table = output(postern("bench", tiny, *BENCH, "--profile"))
    assert "us/token" in table and "gate+up" in table


def test_bench_kernels(postern):
    report = json.loads(output(postern("bench", "--kernels", "--json", "--precision", "fast")))
    assert set(report) == {"kernels", "precision", "rates"} and report["precision"] == "fast"
    names = {rate["kernel"] for rate in report["rates"]}
    assert {"quantise", "matmul_codes", "matmul_f32", "add_f32", "few", "expand", "peak_codes"} <= names
    assert all(rate["us"] > 0 and rate["share"] > 0 and ("gmac_s" in rate or "gb_s" in rate) for rate in report["rates"])
    assert {rate["format"] for rate in report["rates"] if rate["kernel"] == "few"} >= {"Q4_0", "Q6_K", "IQ4_XS"}
    exact = output(postern("bench", "--kernels", "--precision", "exact"))
    assert "matmul_f32" in exact and "matmul_codes" not in exact


def test_precisions(postern, smollm2):
    """Rounding to 16 bits changes no word of a short answer; 8 bits may."""
    options = [smollm2, "-p", "Name three rivers of France.", "-n", "24", "--temp", "0"]
    answers = {name: run_json(postern, *options, "--precision", name) for name in ("high", "exact", "fast")}
    for name, answer in answers.items():
        assert answer["precision"] == name and answer["text"] != ""
    assert answers["high"]["text"] == answers["exact"]["text"]


# ---- what is reused, and why not ------------------------------------------------------------------------------------


def test_a_template_is_linted(postern, tiny, tmp_path):
    turns = "{% for m in messages %}<{{ m.role }}>{{ m.content }}</{{ m.role }}>{% endfor %}<assistant>"
    good, dated = tmp_path / "good.jinja", tmp_path / "dated.jinja"
    good.write_text(turns.replace("<assistant>", "{% if add_generation_prompt %}<assistant>{% endif %}"))
    dated.write_text("{{ strftime_now('%H:%M') }}\n" + good.read_text())
    whole = postern("template", tiny, "--lint", "--template", good, "--json")
    assert whole.returncode == 0 and json.loads(whole.stdout)["appends"]
    found = postern("template", tiny, "--lint", "--template", dated)
    assert found.returncode == 1 and re.search(r"another time +rewrites", found.stdout), found.stdout
    cases = {case["name"]: case for case in json.loads(postern("template", tiny, "--lint", "--template", dated, "--json").stdout)["cases"]}
    assert cases["another time"]["cause"] == "clock" and cases["third turn"]["result"] == "appends"


def test_a_chat_explains_what_was_not_reused(terminal, smollm2):
    chat = terminal("run", smollm2, "-n", "4", "--temp", "0", "--explain-cache")
    chat.expect(PROMPT)
    chat.send("Good morning.\n")
    chat.expect(r"cache    \d+ of \d+ tokens reused")
    chat.expect(PROMPT)
    chat.send("/system You are a bird.\n")
    chat.expect(PROMPT)
    chat.send("And now?\n")
    assert re.search("edited.* computed again", chat.expect("became"))


def test_layers_keep_their_bits(postern, tiny):
    def planned(*options):
        return json.loads(output(postern("run", tiny, "--plan", "--json", "--ctx", "256", *options)))["kv_bytes"]

    few, some = planned("--kv-type", "q4"), planned("--kv-type", "q4", "--kv-layers", "0=q8")
    assert few < some
    for wrong in ("1", "0=q4", "0-=q8", "0=q8;1=q8", "=q8", "1-0=q8", "0-99=q8", "9999999=q8"):
        assert postern("run", tiny, "-p", "a", "--kv-layers", wrong).returncode == USAGE, wrong


def test_a_single_answer_explains_itself(postern, tiny):
    answer = run_json(postern, tiny, "-p", "Hello", "-n", "1", "--explain-cache")
    assert answer["cache"]["cause"] == "nothing_before" and answer["cache"]["reused_tokens"] == 0
    raw = run_json(postern, tiny, "-p", "Hello", "-n", "1", "--explain-cache", "--raw")
    assert raw["cache"]["cause"] == "nothing_before"


# ---- chat on a terminal ----------------------------------------------------------------------------------------------


class Terminal:
    """The command on a pseudo-terminal of 100 columns."""

    def __init__(self, command, env):
        pid, self.fd = pty.fork()
        if pid == 0:
            os.execve(command[0], [str(part) for part in command], {**os.environ, "TERM": "xterm", **env})
        self.pid = pid
        self.seen = ""

    def send(self, text):
        os.write(self.fd, text.encode("utf-8"))

    def expect(self, pattern, timeout=60):
        """Waits until pattern comes after all that was matched before, and returns the text up to its end."""
        deadline = time.monotonic() + timeout
        while True:
            match = re.search(pattern, self.seen)
            if match:
                text, self.seen = self.seen[: match.end()], self.seen[match.end() :]
                return text
            left = deadline - time.monotonic()
            assert left > 0 and select.select([self.fd], [], [], left)[0], f"no {pattern!r} in {self.seen!r}"
            try:
                self.seen += os.read(self.fd, 65536).decode("utf-8", "replace")
            except OSError as end:
                raise AssertionError(f"ended without {pattern!r}: {self.seen!r}") from end

    def close(self, timeout=30):
        """The exit code, after all output."""
        try:
            while select.select([self.fd], [], [], timeout)[0]:
                self.seen += os.read(self.fd, 65536).decode("utf-8", "replace")
            raise AssertionError(f"still there: {self.seen!r}")
        except OSError:
            pass  # how a pseudo-terminal says that its other side is closed
        os.close(self.fd)
        return os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])


PROMPT = "> "


@pytest.fixture
def terminal(postern_bin, tmp_path):
    opened = []

    def open_terminal(*arguments):
        env = {"HOME": str(tmp_path), "XDG_STATE_HOME": str(tmp_path / "state"), "NO_COLOR": "1"}
        opened.append(Terminal([postern_bin, *arguments], env))
        return opened[-1]

    yield open_terminal
    for one in opened:
        try:
            os.kill(one.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass


def saved(path):
    return [(message["role"], message["content"]) for message in json.loads(path.read_text(encoding="utf-8"))]


def test_a_system_message_is_read_while_the_user_types(terminal, smollm2):
    """Before the first message, in every new conversation, and for good where it is pinned."""
    rules = " ".join(f"Rule {i} is to answer question {i} kindly." for i in range(60))
    for option, pinned in (("--system", False), ("--pin-system", True)):
        chat = terminal("run", smollm2, "-n", "4", "--temp", "0", "--stats", option, rules)
        chat.expect(PROMPT)
        time.sleep(0 if pinned else 5)
        for is_read in (pinned, True):
            chat.send("hello\n")
            tokens, reused = map(int, re.search(r"prefill  (\d+) tokens \((\d+) more reused", chat.expect("seed ")).groups())
            assert reused > 400 > 100 > tokens if is_read else reused > 0
            chat.expect(PROMPT)
            chat.send("/reset\n")
            chat.expect("a new conversation")
            chat.expect(PROMPT)
        chat.send("hello\n")
        assert ("pinned 0 B" in chat.expect("seed ")) != pinned
        chat.expect(PROMPT)
        chat.send("\x04")
        assert chat.close() == 0


def test_chat_messages_and_commands(terminal, tiny, tmp_path):
    chat = terminal("run", tiny, "-n", "4", "--temp", "0", "--system", "Be brief.")
    chat.expect(r"memory: weights")
    chat.expect("Type a message")
    chat.expect(PROMPT)
    chat.send("dropped\x03")
    chat.expect(PROMPT)
    chat.send("first \\\nline\n")
    chat.expect("… ")
    chat.expect(PROMPT)
    chat.send('"""one\ntwo"""\n')
    chat.expect("… ")
    chat.expect(PROMPT)
    chat.send("\x1b[200~pasted\rlines\r\x1b[201~ end\n")
    chat.expect("end")
    chat.expect(PROMPT)
    chat.send("/regenerat\n")
    chat.expect("did you mean /regenerate")
    chat.send("/regenerate\n")
    chat.expect(PROMPT)
    chat.send("/stats\n")
    chat.expect("seed ")
    path = tmp_path / "saved.json"
    chat.send(f"/save {path}\n")
    chat.expect("7 messages saved")
    chat.send("/reset\n")
    chat.expect("a new conversation")
    chat.send("/system none\n")
    chat.expect("no system message")
    chat.expect(PROMPT)
    chat.send("\x04")
    assert chat.close() == 0

    messages = saved(path)
    assert messages[0] == ("system", "Be brief.")
    assert [content for role, content in messages if role == "user"] == ["first \nline", "one\ntwo", "pasted\nlines end"]
    assert [role for role, _ in messages[1:]] == ["user", "assistant"] * 3
    history = tmp_path / "state/postern/history"
    assert history.stat().st_mode & 0o077 == 0 and "pasted" in history.read_text(encoding="utf-8")


def test_a_long_text_slides_and_says_so(postern, tiny):
    text = "word " * 60
    assert_fails(postern("run", tiny, "-p", text, "--ctx", "48"), LIMIT, "do not fit the context of 48")
    done = postern("run", tiny, "-p", text, "--ctx", "48", "--overflow", "slide", "--temp", "0", "-n", "8", "--json")
    answer = json.loads(output(done))
    cut, usage = answer["cut"], answer["usage"]
    assert cut["slides"] >= 1 and cut["to"] - cut["from"] >= usage["prompt_tokens"] - 48
    assert usage["completion_tokens"] == 8 and answer["finish_reason"] == "length"
    assert f"tokens {cut['from'] + 1} to {cut['to']} were cut out" in done.stderr
    whole = json.loads(output(postern("run", tiny, "-p", text, "--ctx", "200", "-n", "8", "--json")))
    assert whole["cut"] == {"from": 0, "to": 0, "slides": 0}


def test_the_plan_is_printed_and_kept(postern, tiny):
    plan = json.loads(output(postern("run", tiny, "--plan", "--ctx", "128", "--json")))
    parts = [plan[key] for key in ("weights_bytes", "kv_bytes", "prefix_cache_bytes", "scratch_bytes", "tables_bytes")]
    assert plan["fits"] and plan["ctx"] == 128 and sum(parts) == plan["total_bytes"] < plan["budget_bytes"]
    table = output(postern("run", tiny, "--plan", "--ctx", "128"))
    assert re.search(r"keys and values .* 128 tokens of type f16, \d+ B each where all layers see them\n.*budget .* fits\n", table, re.DOTALL)
    answer = json.loads(output(postern("run", tiny, "-p", "Hello", "--ctx", "128", "-n", "60", "--json")))
    memory = answer["memory"]
    assert memory["planned_bytes"] == plan["total_bytes"] and memory["peak_bytes"] <= plan["total_bytes"] * 1.03
    assert plan["kv_token_bytes"] * 128 <= plan["kv_bytes"]
    assert memory["budget_bytes"] > memory["peak_bytes"] and memory["peak_rss_bytes"] > 0
    assert max(memory["peaks"].values()) <= memory["peak_bytes"] <= sum(memory["peaks"].values())


def test_bench_and_perplexity_have_a_budget(postern, tiny, tmp_path):
    bench = json.loads(output(postern("bench", tiny, "--repeat", "1", "--prompt-tokens", "8", "--gen-tokens", "4",
                                      "--memory-budget", "64M", "--json")))
    memory = bench["memory"]
    assert memory["budget_bytes"] == 64 << 20 and memory["peak_bytes"] <= memory["planned_bytes"] * 1.03
    text = tmp_path / "text"
    text.write_text("The old clock on the wall. " * 100)
    for command in (["bench", tiny], ["perplexity", tiny, "--text", text, "--ctx", "64"]):
        done = postern(*command, "--memory-budget", "1K")
        assert done.returncode == 4 and "memory budget" in done.stderr


def test_a_limit_of_the_address_space_bounds_the_budget(postern_bin, tiny):
    def limit():
        resource.setrlimit(resource.RLIMIT_AS, (300 << 20, 300 << 20))

    done = subprocess.run([postern_bin, "run", tiny, "--plan", "--ctx", "128", "--json"], preexec_fn=limit,
                          capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    # what program and libraries have of it is not there for the model
    assert json.loads(done.stdout)["budget_bytes"] < (300 << 20) * 19 // 20


def test_what_passes_the_budget_is_refused(postern, tiny):
    plan = json.loads(output(postern("run", tiny, "--plan", "--ctx", "256", "--json")))
    little = str(plan["total_bytes"] - plan["kv_bytes"] // 2)
    assert_fails(postern("run", tiny, "-p", "Hello", "--ctx", "256", "--memory-budget", little), LIMIT,
                 "256 tokens of context", "the memory budget is", "what would do: a context of ")
    shown = postern("run", tiny, "--plan", "--ctx", "256", "--memory-budget", little)
    assert shown.returncode == LIMIT and "does not fit" in shown.stdout and "what would do" in shown.stderr
    done = postern("run", tiny, "-p", "Hello", "-n", "4", "--temp", "0", "--memory-budget", little)
    assert re.search(r"memory budget of .* leaves a context of \d+ tokens", done.stderr), done.stderr


def test_a_quota_packs_keys_and_values_to_fewer_bits(postern, smollm2):
    run = ["run", smollm2, "-p", "one two three four five six. " * 60, "--temp", "0", "-n", "8", "--json"]
    whole = json.loads(output(postern(*run)))
    assert whole["kv"] == {"type": "f16", "step_downs": 0, "packed_tokens": 0}
    done = postern(*run, "--kv-quota", "8M")
    kv = json.loads(output(done))["kv"]
    assert kv["type"] in ("q8", "q4") and kv["step_downs"] >= 1 and kv["packed_tokens"] % 64 == 0
    assert f"packed to {kv['type']}" in done.stderr
    assert_fails(postern(*run, "--kv-quota", "10k"), LIMIT, "holds no token")


def test_the_system_message_is_never_cut(postern, tiny):
    run = ["run", tiny, "--ctx", "100", "--overflow", "slide", "--temp", "0", "-n", "4", "--json"]
    plain = json.loads(output(postern(*run, "-p", "word " * 99)))["cut"]["from"]
    kept = json.loads(output(postern(*run, "-p", "word " * 99, "--system", "Be brief. " * 3)))["cut"]["from"]
    assert kept > plain
    assert_fails(postern(*run, "-p", "word", "--system", "Be brief. " * 50), LIMIT, "more than half of the context of 100")


def test_chat_says_that_the_context_is_full(terminal, tiny):
    chat = terminal("run", tiny, "--ctx", "48", "-n", "4")
    chat.expect(PROMPT)
    chat.send("word " * 60 + "\n")
    chat.expect(r"not answered: the context of 48 tokens is full\. /reset")
    chat.expect(PROMPT)
    chat.send("/quit\n")
    assert chat.close() == 0


def test_a_chat_moves_up_a_tier(terminal, tiny):
    chat = terminal("run", tiny, "--ctx", "48", "-n", "4", "--temp", "0", "--stats")
    chat.expect(PROMPT)
    chat.send("word " * 5 + "\n")
    chat.expect(r"context  \d+ of 48 tokens")
    chat.expect(PROMPT)
    chat.send("/tier huge\n")
    chat.expect("no context tier of the name huge, only short, long")
    chat.expect(PROMPT)
    chat.send("/tier long\n")
    chat.expect(r"long: a context of \d{3,} tokens")
    chat.expect(PROMPT)
    chat.send("word " * 30 + "\n")
    chat.expect(r"\(\d\d+ more reused\)")
    chat.expect(PROMPT)
    chat.send("/quit\n")
    assert chat.close() == 0


def test_chat_goes_on_after_an_interrupt(terminal, smollm2, tmp_path):
    # Without its end tokens (<|endoftext|>, <|im_end|>) the model goes on until it is stopped.
    chat = terminal("run", smollm2, "--temp", "0", "--logit-bias", "0=-inf,2=-inf")
    chat.expect(PROMPT)
    chat.send("Tell me a long story.\n")
    chat.expect("story\\.\r\n")
    chat.expect("[a-z]+ [a-z]+ [a-z]+")
    chat.send("\x03")
    chat.expect("stopped; the part above stays")
    chat.expect(PROMPT)
    path = tmp_path / "saved.json"
    chat.send(f"/save {path}\n")
    chat.expect("2 messages saved")
    chat.expect(PROMPT)
    chat.send("\x04")
    assert chat.close() == 0
    assert saved(path)[1][0] == "assistant" and saved(path)[1][1] != ""
