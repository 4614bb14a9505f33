# SPDX-License-Identifier: Apache-2.0
"""postern compress --format: in every format, mode and group size the file holds what a slow reference makes of the
weights, bit for bit; the folder for transformers says what it must, and its tokenizer gives the same tokens."""

import json
import math
import random
import struct
import subprocess

import pytest
from conftest import ROOT
from gguf_file import F16, F32, GgufFile, read_safetensors, u32, write_gguf
from gguf_keys import read_keys
from integers import Matrix, Reference, parse_type
from tokenizers import Tokenizer

USAGE, FILE = 2, 3
N_EMBD, N_FF, N_HEAD, N_HEAD_KV, HEAD_DIM, N_LAYER = 128, 64, 4, 2, 8, 2
CONTEXT, FACTOR, BASE = 128, 8.0, 10000.0  # of the RoPE scaling
PLACES = {
    "attn_norm": "input_layernorm", "attn_q": "self_attn.q_proj", "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj", "attn_output": "self_attn.o_proj", "ffn_norm": "post_attention_layernorm",
    "ffn_gate": "mlp.gate_proj", "ffn_up": "mlp.up_proj", "ffn_down": "mlp.down_proj",
}  # fmt: skip
ENDS = {"token_embd": "model.embed_tokens", "output_norm": "model.norm"}


def shapes(n_vocab):
    """Rows and columns, or the length."""
    shapes = {"token_embd.weight": (n_vocab, N_EMBD), "output_norm.weight": (N_EMBD,)}
    q, kv = N_HEAD * HEAD_DIM, N_HEAD_KV * HEAD_DIM
    for i in range(N_LAYER):
        for part, shape in {
            "attn_norm": (N_EMBD,), "attn_q": (q, N_EMBD), "attn_k": (kv, N_EMBD), "attn_v": (kv, N_EMBD),
            "attn_output": (N_EMBD, q), "ffn_norm": (N_EMBD,), "ffn_gate": (N_FF, N_EMBD), "ffn_up": (N_FF, N_EMBD),
            "ffn_down": (N_EMBD, N_FF),
        }.items():  # fmt: skip
            shapes[f"blk.{i}.{part}.weight"] = shape
    return shapes


def rope_factors():
    """Those of Llama 3.1 (rope_freqs.weight)."""
    for i in range(HEAD_DIM // 2):
        smooth = (CONTEXT / (2 * math.pi * BASE ** (2 * i / HEAD_DIM)) - 1) / 3
        yield 1 / ((1 - min(max(smooth, 0), 1)) / FACTOR + min(max(smooth, 0), 1))


class Model:
    """A random Llama of which all group sizes divide something, with edges among its weights."""

    def __init__(self, path, tiny):
        self.path = path
        keys = dict(GgufFile(tiny).keys)
        tokens = read_keys(tiny)["tokenizer.ggml.tokens"]
        for key, value in {
            "embedding_length": N_EMBD, "feed_forward_length": N_FF, "attention.head_count": N_HEAD,
            "attention.head_count_kv": N_HEAD_KV, "block_count": N_LAYER, "rope.dimension_count": HEAD_DIM,
            "attention.key_length": HEAD_DIM, "attention.value_length": HEAD_DIM,
        }.items():  # fmt: skip
            keys[f"llama.{key}"] = u32(value)
        keys["llama.rope.freq_base"] = struct.pack("<If", 6, BASE)
        rng = random.Random(1)
        self.tensors = {"rope_freqs.weight": (F32, [HEAD_DIM // 2], struct.pack("<4f", *rope_factors()))}
        matrices = {}
        for name, shape in shapes(len(tokens)).items():
            code, kind = ("e", F16) if "ffn_up" in name else ("f", F32)
            values = [rng.gauss(0, 0.05) for _ in range(math.prod(shape))]
            if len(shape) == 2:
                values[: shape[1]] = [0.0] * shape[1]
                values[shape[1] : 2 * shape[1]] = [1 + abs(x) for x in values[shape[1] : 2 * shape[1]]]
                values[2 * shape[1]] = -3.0
            data = struct.pack(f"<{len(values)}{code}", *values)
            self.tensors[name] = (kind, list(reversed(shape)), data)
            if len(shape) == 2:
                values = struct.unpack(f"<{len(values)}{code}", data)
                matrices[name] = [values[i : i + shape[1]] for i in range(0, len(values), shape[1])]
        self.reference = Reference(matrices)
        write_gguf(path, keys, self.tensors)


@pytest.fixture(scope="module")
def model(tiny_models, tmp_path_factory):
    return Model(tmp_path_factory.mktemp("export") / "model.gguf", tiny_models["llama-bias"])


@pytest.fixture
def compress(postern, model, tmp_path):
    """Compresses the model; gives the path and the report."""

    def run(*options, source=None):
        out = tmp_path / f"out-{len(list(tmp_path.iterdir()))}"
        done = postern("compress", source or model.path, out, "--json", *options)
        assert done.returncode == 0, done.stderr
        return out, json.loads(done.stdout)

    return run


def fitting(asked, n_col):
    """The group that rows of n_col columns get."""
    return 0 if asked == -1 else next(group for group in (asked, asked // 2, asked // 4) if n_col % group == 0)


def check_kinds(report, model, mode, group, ratio):
    """Which matrices have which kind; those of which the knapsack decides may have either."""
    kinds = set()
    for tensor in report["tensors"]:
        name = tensor["name"]
        kind, got = parse_type(tensor["type_after"])
        if name not in model.reference.matrices or kind is None or not name.startswith("blk."):
            continue
        wanted = (mode.upper(), fitting(group, len(model.reference.matrices[name][0])) if "INT4" in kind else got)
        assert (kind, got) == wanted or (ratio < 1 and "INT8" in kind), tensor
        kinds.add(kind)
    assert len(kinds) == (2 if ratio < 1 and "int4" in mode else 1)


MODES = ("int4_asym", "int4_sym", "int8_asym", "int8_sym")


def test_posterns_own_format_is_the_reference(compress, model):
    for mode in MODES:
        for group in (32, 64, 128, -1):
            for ratio in (1, 0.5):
                for backup in ("int8_asym", "int8_sym"):
                    options = ["--mode", mode, "--group-size", group, "--ratio", ratio, "--backup-mode", backup]
                    out, report = compress(*options)
                    check_kinds(report, model, mode, group, ratio)
                    file = GgufFile(out)
                    for tensor in report["tensors"]:
                        kind, size = parse_type(tensor["type_after"])
                        data = file.tensors[tensor["name"]][2][: tensor["bytes_after"]]
                        if kind:
                            assert data == model.reference.panels(tensor["name"], kind, size), tensor
                        else:
                            assert data == model.tensors[tensor["name"]][2], tensor
                    out.unlink()


def test_gguf_is_the_reference(postern, compress, model):
    for mode in ("int4_asym", "int4_sym", "int8_sym"):
        for ratio in (1, 0.5):
            out, report = compress("--format", "gguf", "--mode", mode, "--ratio", ratio)
            check_kinds(report, model, mode, 32, ratio)
            file, keys = GgufFile(out), read_keys(out)
            assert keys["general.file_type"] == {"int4_sym": 2, "int4_asym": 3, "int8_sym": 7}[mode]
            assert keys["general.quantization_version"] == 2 and "postern.layout" not in keys
            page = json.loads(postern("inspect", out, "--json").stdout)["compression"]
            assert [t["type_after"] for t in page["tensors"]] == [t["type_after"] for t in report["tensors"]]
            assert page["bytes_after"] == report["bytes_after"] == sum(t["bytes_after"] for t in report["tensors"])
            numbers = {"F32": F32, "F16": F16, "Q4_0": 2, "Q4_1": 3, "Q8_0": 8}
            for tensor in report["tensors"]:
                name = tensor["name"]
                number, dims, data = file.tensors[name]
                assert number == numbers[tensor["type_after"]] and dims == model.tensors[name][1]
                kind, size = parse_type(tensor["type_after"])
                wanted = model.reference.rounded(name, kind, size).blocks() if kind else model.tensors[name][2]
                assert data[: tensor["bytes_after"]] == wanted, tensor
            assert postern("run", out, "-p", "Once", "--max-tokens", 4, "--temp", 0).returncode == 0


def place(name):
    """The module that a tensor belongs to, and which of the file's rows are its rows."""
    parts = name.split(".")
    if parts[0] != "blk":
        return ENDS[parts[0]], None
    heads = {"attn_q": N_HEAD, "attn_k": N_HEAD_KV}.get(parts[2], 0)
    half = HEAD_DIM // 2
    order = [h * HEAD_DIM + 2 * (j % half) + j // half for h in range(heads) for j in range(HEAD_DIM)]
    return f"model.layers.{parts[1]}.{PLACES[parts[2]]}", order or None


def check_config(config, kinds):
    """The configuration says the kind of each matrix; those that vLLM joins are of one."""
    quantization = config["quantization_config"]
    assert quantization["quant_method"] == "compressed-tensors" and quantization["format"] == "pack-quantized"
    said = {}
    for group in quantization["config_groups"].values():
        weights = group["weights"]
        kind = f"INT{weights['num_bits']}_{'SYM' if weights['symmetric'] else 'ASYM'}"
        assert weights["strategy"] == ("group" if weights["group_size"] else "channel") and weights["type"] == "int"
        said |= {module: (kind, weights["group_size"] or 0) for module in group["targets"]}
    assert said == kinds
    for i in range(N_LAYER):
        for joined in (("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"), ("mlp.gate_proj", "mlp.up_proj")):
            assert len({said[f"model.layers.{i}.{module}"] for module in joined}) == 1
    assert config["model_type"] == "llama" and config["tie_word_embeddings"] and config["hidden_size"] == N_EMBD
    assert config["rope_scaling"] == {
        "rope_type": "llama3", "factor": FACTOR, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
        "original_max_position_embeddings": CONTEXT,
    }  # fmt: skip


def check_folder(out, report, matrix_of, floats):
    """matrix_of(name, kind, group) gives the integers that are expected, floats type, dims and bytes of the others."""
    tensors, kinds = read_safetensors(out / "model.safetensors"), {}
    for tensor in report["tensors"]:
        name = tensor["name"]
        if name == "rope_freqs.weight":
            continue
        (module, order), (kind, size) = place(name), parse_type(tensor["type_after"])
        if kind is None:
            dtype, shape, data = tensors.pop(f"{module}.weight")
            number, dims, wanted = floats[name]
            assert (dtype, shape) == ("F16" if number == F16 else "F32", dims[::-1]), name
            assert data == wanted[: tensor["bytes_after"]], name
            continue
        kinds[module] = (kind, size)
        matrix = matrix_of(name, kind, size)
        parts = matrix.parts(order or range(len(matrix.codes)))
        assert tensor["bytes_after"] == sum(map(len, parts.values()))
        for part, wanted in parts.items():
            dtype, _, data = tensors.pop(f"{module}.{part}")
            assert dtype == {"weight_scale": "F16", "weight_shape": "I64"}.get(part, "I32")
            assert data == wanted, (name, part)
    assert not tensors
    check_config(json.loads((out / "config.json").read_text()), kinds)


def test_compressed_tensors_is_the_reference(compress, model):
    for mode in MODES:
        for group in (32, 64, 128, -1):
            for ratio in (1, 0.5):
                out, report = compress(
                    "--format", "compressed-tensors", "--mode", mode, "--group-size", group, "--ratio", ratio
                )  # fmt: skip
                check_kinds(report, model, mode, group, ratio)
                check_folder(out, report, model.reference.rounded, model.tensors)


def test_calibrated_weights_are_the_same_in_all_formats(compress, model):
    options = ["--ratio", 1, "--group-size", 32, "--calibration", ROOT / "tests/golden/multilingual.txt"]
    options += ["--samples", 4, "--sample-tokens", 32]
    for mode in ("int4_sym", "int4_asym"):
        own, report = compress(*options, "--mode", mode)
        panels, matrices = GgufFile(own), {}
        for tensor in report["tensors"]:
            name, (kind, group) = tensor["name"], parse_type(tensor["type_after"])
            if name in model.reference.matrices and name.startswith("blk."):
                n_col, n_row = model.tensors[name][1]
                matrices[name] = Matrix.of_panels(kind, panels.tensors[name][2], n_row, n_col, group)
                assert matrices[name].panels() == panels.tensors[name][2][: tensor["bytes_after"]]
        plain = {name: model.reference.rounded(name, mode.upper(), 32) for name in matrices}
        assert any(matrices[name].codes != plain[name].codes for name in matrices)
        out, _ = compress(*options, "--mode", mode, "--format", "gguf")
        blocks = GgufFile(out)
        for name, matrix in matrices.items():
            wanted = matrix.blocks()
            assert blocks.tensors[name][2][: len(wanted)] == wanted, name
        out, report = compress(*options, "--mode", mode, "--format", "compressed-tensors")
        floats = {name: panels.tensors[name] for name in model.tensors if name not in model.reference.matrices}
        assert any(floats[name][2][:512] != model.tensors[name][2] for name in floats)  # norms are stretched
        check_folder(out, report, lambda name, kind, group: matrices[name], model.tensors | floats)


TEXTS = (
    "Hello there, the hello of 2026!", "  two  spaces, and\n\n\nlines\t.", "中文 emoji 😀👍🏽 naïve 12345",
    "", " ", "on and on",
)  # fmt: skip


def test_the_tokenizer_gives_the_same_tokens(postern, compress, tiny_models):
    lines = (ROOT / "tests/golden/multilingual.txt").read_text(encoding="utf-8").splitlines(keepends=True)
    texts = [*TEXTS, "".join(line for line in lines if "<" not in line)]  # control tokens are found there
    for name in ("llama-bias", "gemma3-linear"):
        out, _ = compress("--format", "compressed-tensors", source=tiny_models[name])
        tokenizer = Tokenizer.from_file(str(out / "tokenizer.json"))
        for text in texts:
            done = postern("tokenize", tiny_models[name], "-f", "-", "--json", input=text)
            assert tokenizer.encode(text).ids == json.loads(done.stdout)["ids"], (name, text)
        settings = json.loads((out / "tokenizer_config.json").read_text())
        assert settings["chat_template"].encode() == read_keys(tiny_models[name])["tokenizer.chat_template"]
        ends = json.loads((out / "generation_config.json").read_text())["eos_token_id"]
        assert settings["eos_token"] in [tokenizer.id_to_token(token) for token in ends]


def test_biases_and_norms_are_put_back(compress, tiny_models):
    out, _ = compress("--format", "compressed-tensors", "--mode", "int8_sym", source=tiny_models["llama-bias"])
    source, tensors = GgufFile(tiny_models["llama-bias"]), read_safetensors(out / "model.safetensors")
    rows = struct.unpack("<32f", source.tensors["blk.1.attn_q.bias"][2][:128])  # 4 heads of 8
    order = [h * 8 + 2 * (j % 4) + j // 4 for h in range(4) for j in range(8)]
    assert struct.unpack("<32f", tensors["model.layers.1.self_attn.q_proj.bias"][2]) == tuple(rows[i] for i in order)
    assert json.loads((out / "config.json").read_text())["attention_bias"]
    out, _ = compress("--format", "compressed-tensors", "--mode", "int8_sym", source=tiny_models["gemma3-linear"])
    source, tensors = GgufFile(tiny_models["gemma3-linear"]), read_safetensors(out / "model.safetensors")
    for name, module in (("output_norm", "model.norm"), ("blk.3.attn_q_norm", "model.layers.3.self_attn.q_norm")):
        data = tensors[f"{module}.weight"][2]
        n = len(data) // 4
        values = struct.unpack(f"<{n}f", source.tensors[f"{name}.weight"][2][: 4 * n])
        assert struct.unpack(f"<{n}f", data) == struct.unpack(f"<{n}f", struct.pack(f"<{n}f", *(x - 1 for x in values)))
    config = json.loads((out / "config.json").read_text())
    assert config["architectures"] == ["Gemma3ForCausalLM"] and config["rope_local_base_freq"] == 4000
    assert config["layer_types"][4:7] == ["sliding_attention", "full_attention", "sliding_attention"]
    assert config["rope_scaling"] == {"rope_type": "linear", "factor": 8.0}


def test_what_a_format_cannot_hold_is_refused(postern, model, tiny_models, tmp_path):
    out = tmp_path / "out"
    for code, says, *options in (
        (USAGE, "groups of 32", "--format", "gguf", "--group-size", 64),
        (USAGE, "no zero points", "--format", "gguf", "--mode", "int8_asym"),
        (USAGE, "no zero points", "--format", "gguf", "--backup-mode", "int8_asym"),
        (USAGE, "embedding and output head", "--format", "compressed-tensors", "--all-layers"),
        (USAGE, "one of postern", "--format", "onnx"),
    ):
        done = postern("compress", model.path, out, *options)
        assert done.returncode == code and says in done.stderr, (options, done)
    packed = tmp_path / "packed.gguf"
    assert postern("pack", model.path, packed).returncode == 0
    done = postern("compress", packed, out, "--format", "gguf", "--ignore", "*")
    assert done.returncode == FILE and "only postern reads" in done.stderr
    packed.unlink()
    assert list(tmp_path.iterdir()) == []
    out.mkdir()
    (out / "mine").write_bytes(b"mine")
    done = postern("compress", model.path, out, "--format", "compressed-tensors", "--force")
    assert done.returncode == FILE and "never replaced" in done.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["out"] and (out / "mine").read_bytes() == b"mine"
    (out / "mine").unlink()
    done = postern("compress", model.path, f"{out}/", "--format", "compressed-tensors", "--mode", "int4_sym")
    assert done.returncode == 0 and (out / "model.safetensors").exists(), done


def test_a_full_disk_leaves_no_folder(postern_bin, model, tmp_path):
    script = 'trap "" XFSZ; ulimit -f 64; exec "$0" compress "$1" "$2" --format compressed-tensors'
    done = subprocess.run(
        ["bash", "-c", script, postern_bin, model.path, tmp_path / "out"], capture_output=True, text=True, check=False
    )
    assert done.returncode == FILE and "cannot write" in done.stderr, done
    assert list(tmp_path.iterdir()) == []
