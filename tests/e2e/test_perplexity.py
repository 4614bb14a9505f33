# SPDX-License-Identifier: Apache-2.0
"""postern perplexity: what it prints, what it saves, what it refuses. The numbers are checked in tests/unit."""

import json

import pytest

USAGE, FILE = 2, 3
ESTIMATES = {"ppl", "base_ppl", "ppl_ratio", "kl", "same_top"}
PLAIN_KEYS = {"model", "precision", "ctx", "chunks", "scored_tokens", "seconds", "ppl", "ppl_stderr"}
COMPARED_KEYS = (
    PLAIN_KEYS
    | {name + suffix for name in ESTIMATES for suffix in ("", "_stderr")}
    | {"base", "base_precision", "kl_p99", "kl_max", "kl_is_estimate"}
)
PROSE = """A postern is a small gate in the wall of a fortress, away from the main entrance and often hidden. Those inside
could leave through it, or let a messenger in, without the besiegers noticing. Its smallness was its strength: a few
defenders could hold it, and whoever came through had to come one at a time. Many castles kept theirs locked in times of
peace, and a stair led down to it from the yard. When the main gate fell, it was the way out. Travellers who arrive today
look for the great doors with their towers and portcullis, and walk past the low arch behind the ivy that saved the
garrison more than once. """


@pytest.fixture
def text(tmp_path):
    path = tmp_path / "text.txt"
    path.write_text(PROSE * 2, encoding="utf-8")
    return path


def measured(postern, model, text, *options):
    done = postern("perplexity", model, "--text", text, "--json", *options)
    assert (done.returncode, done.stderr) == (0, ""), done
    return json.loads(done.stdout)


def test_json_of_one_model(postern, tiny_models, text):
    found = measured(postern, tiny_models["llama-gqa"], text, "--ctx", 64, "--chunks", 2)
    assert set(found) == PLAIN_KEYS
    assert (found["ctx"], found["chunks"], found["scored_tokens"], found["precision"]) == (64, 2, 62, "high")
    assert found["ppl"] > 1 and found["ppl_stderr"] > 0 and found["seconds"] > 0


def test_a_base_and_its_reference_give_the_same(postern, tiny_models, text, tmp_path):
    model, base, saved = tiny_models["llama-q8"], tiny_models["llama-gqa"], tmp_path / "base.ref"
    direct = measured(postern, model, text, "--ctx", 64, "--against", base)
    alone = measured(postern, base, text, "--ctx", 64, "--save-reference", saved)
    read = measured(postern, model, text, "--against", saved)
    assert set(direct) == set(read) == COMPARED_KEYS and set(alone) == PLAIN_KEYS
    assert alone["ppl"] == direct["base_ppl"] == pytest.approx(read["base_ppl"], rel=1e-5)
    for name in ("model", "base", "ctx", "chunks", "scored_tokens", "ppl", "same_top"):
        assert direct[name] == read[name], name
    assert (direct["kl_is_estimate"], read["kl_is_estimate"]) == (False, True)
    assert 0 < direct["kl"] <= direct["kl_max"] and read["kl"] == pytest.approx(direct["kl"], rel=0.05)
    assert direct["ppl_ratio"] == pytest.approx(direct["ppl"] / direct["base_ppl"], rel=1e-4)


def test_a_model_against_itself(postern, tiny_models, text):
    for name in ("llama-q8", "gemma3-window"):
        found = measured(postern, tiny_models[name], text, "--ctx", 64, "--against", tiny_models[name])
        assert (found["kl"], found["kl_max"], found["same_top"], found["ppl_ratio"]) == (0, 0, 1, 1), name


def test_the_page_for_people(postern, tiny_models, text, tmp_path):
    model, saved = tiny_models["llama-q8"], tmp_path / "own.ref"
    done = postern("perplexity", model, "--text", text, "--ctx", 64, "--against", tiny_models["llama-gqa"])
    assert (done.returncode, done.stderr) == (0, "")
    rows = {line[:15].strip() for line in done.stdout.splitlines()[3:]}
    assert rows == {"perplexity", "base", "ratio", "KL divergence", "same first"}
    assert "about" not in done.stdout
    measured(postern, model, text, "--ctx", 64, "--save-reference", saved)
    done = postern("perplexity", model, "--text", "-", "--against", saved, input=PROSE * 2)
    assert done.returncode == 0 and "KL divergence   about" in done.stdout


def test_a_reference_is_replaced_only_by_force(postern, tiny_models, text, tmp_path):
    model, saved = tiny_models["llama-gqa"], tmp_path / "base.ref"
    saved.write_bytes(b"mine")
    done = postern("perplexity", model, "--text", text, "--save-reference", saved)
    assert done.returncode == USAGE and "--force" in done.stderr
    assert saved.read_bytes() == b"mine"
    measured(postern, model, text, "--ctx", 64, "--save-reference", saved, "--force")
    assert saved.read_bytes()[:4] == b"PNLP"


def refusal(postern, *arguments):
    done = postern("perplexity", *arguments)
    assert done.stdout == "" and len(done.stderr.splitlines()) == 1, done
    return done.returncode, done.stderr


def test_what_cannot_be_measured_is_said(postern, tiny_models, text, tmp_path):
    llama, gemma, saved = tiny_models["llama-gqa"], tiny_models["gemma3-window"], tmp_path / "base.ref"
    measured(postern, llama, text, "--ctx", 64, "--save-reference", saved)
    short, other = tmp_path / "short.txt", tmp_path / "other.txt"
    short.write_text("A gate.", encoding="utf-8")
    other.write_text("No " + PROSE * 2, encoding="utf-8")
    for arguments, code, reason in (
        ((llama,), USAGE, "--text"),
        ((llama, "--text", tmp_path / "none"), FILE, "none"),
        ((llama, "--text", short, "--ctx", 64), USAGE, "fewer than a chunk of"),
        ((llama, "--text", text, "--ctx", 100000), USAGE, "are possible"),
        ((llama, "--text", text, "--ctx", 64, "--against", gemma), USAGE, "cannot be compared"),
        ((gemma, "--text", text, "--against", saved), USAGE, "cannot be compared"),
        ((llama, "--text", other, "--against", saved), USAGE, "another text"),
        ((llama, "--text", text, "--against", saved, "--ctx", 32), USAGE, "in chunks of 64 tokens"),
        ((llama, "--text", text, "--against", text), FILE, "no reference"),
        ((llama, "--text", text, "--against", tmp_path / "none"), FILE, "none"),
    ):
        assert refusal(postern, *arguments)[0] == code, arguments
        assert reason in refusal(postern, *arguments)[1], arguments


def test_a_damaged_reference_is_refused(postern, tiny_models, text, tmp_path):
    model, saved = tiny_models["llama-gqa"], tmp_path / "base.ref"
    measured(postern, model, text, "--ctx", 64, "--save-reference", saved)
    whole = saved.read_bytes()
    for spoilt, reason in ((whole[:-1], "cut off"), (whole[:20], "header"), (b"", "empty")):
        saved.write_bytes(spoilt)
        code, message = refusal(postern, model, "--text", text, "--against", saved)
        assert code == FILE and reason in message and "base.ref" in message
    saved.write_bytes(whole[:-100] + bytes([whole[-100] ^ 1]) + whole[-99:])
    assert "damaged" in refusal(postern, model, "--text", text, "--against", saved)[1]


# What llama.cpp (by llama-cpp-python 0.3.36) gives for this text, in chunks of 64 tokens, on the same weights as F16.
LLAMA_CPP = {"smollm2": 49.379, "gemma3": 39.399}


@pytest.mark.parametrize("name", LLAMA_CPP)
def test_llama_cpp_finds_the_same(postern, request, text, name):
    model = request.getfixturevalue(name)
    found = measured(postern, model, text, "--ctx", 64, "--precision", "exact")
    assert found["ppl"] == pytest.approx(LLAMA_CPP[name], rel=0.001)
