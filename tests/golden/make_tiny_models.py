# SPDX-License-Identifier: Apache-2.0
"""Makes tests/golden/tiny/: random models of a few thousand weights and what they must compute.

    python tests/golden/make_tiny_models.py            # writes NAME.gguf and NAME.ref of every model
    python tests/golden/make_tiny_models.py --check    # compares the committed files with themselves read back

Packages and versions: reference.py. The files are the same on every run.

NAME.gguf is a complete model as llama.cpp's convert_hf_to_gguf.py names, orders and transforms it, with a small working
tokenizer and chat template. Weights are random; norms, biases and scales are spread so that a mistake in any of them is
far above rounding. A quantised tensor is what its bytes say: the reference runs on the dequantised values.

NAME.ref, little-endian, everything 4 bytes wide, no padding:

    "PNRF"                                  magic
    u32 version                             1
    u32 n_tok, n_layer, n_embd, n_vocab, n_pos
    i32 ids[n_tok]                          the sequence
    i32 positions[n_pos]                    where logits are given, rising; the last is n_tok - 1
    f32 stream[n_layer + 1][n_tok][n_embd]  residual stream: the embedding (scaled, where the model scales), then the
                                            output of each layer after its residual additions, before the final norm
    f32 logits[n_pos][n_vocab]              after the final norm and the output matrix

What each model is for:

    llama-gqa         6 heads on 2 KV heads; head size 8 with 36 / 6 = 6 (key_length); tied output
    llama-untied-mha  every head its own KV head, no key_length key; own output matrix; llama3 scaling (rope_freqs)
    llama-f16         the shape of llama-untied-mha, matrices in F16
    llama-q8          Q8_0, Q4_0, Q4_1, Q5_0, Q5_1 and, in the 256-wide rows of ffn_down, Q4_K, Q5_K, Q6_K; one KV head
    llama-bias        biases on Q, K, V and the attention output
    gemma3-window     7 layers of which the sixth is global; window 8; local rotary base by default (10000), no key
    gemma3-linear     linear scaling by 8 on the global layer only; local base by key (freq_base_swa); F16; GQA
"""

import argparse
import math
import pathlib
import struct
import sys

import gguf
import numpy as np
import reference
import torch
from gguf import GGMLQuantizationType as Type
from gguf import TokenType, quants
from transformers import AutoModelForCausalLM, Gemma3TextConfig, LlamaConfig

N_TOK = 40
CHATML = (
    "{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>' "
    "+ '\n' }}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)
GEMMA_TEMPLATE = (
    "{{ bos_token }}{% for message in messages %}"
    "{% if (message['role'] == 'user') != (loop.index0 % 2 == 0) %}"
    "{{ raise_exception('Conversation roles must alternate user/assistant/user/assistant/...') }}{% endif %}"
    "{% set role = 'model' if message['role'] == 'assistant' else message['role'] %}"
    "{{ '<start_of_turn>' + role + '\n' + message['content'] | trim + '<end_of_turn>\n' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<start_of_turn>model\n' }}{% endif %}"
)
MERGES = "Ġ t|h e|i n|Ġt he|a n|e r|o n|r e|Ġ a|n d|Ġa nd|o u|Ġ h|l l|Ġh e|Ġhe ll|Ġhell o|Ġ w|o r|Ġw or".split("|")
PIECES = "▁t he in ▁the er ▁a on re an nd ▁and ou ll ▁h ▁he llo ▁hello".split()
LETTERS = "▁etaoinsrhldcumfpgwybvkxjqz.,!?'-0123456789HWT"

# Types of the matrices of llama-q8, by layer; its embedding is Q8_0.
QUANT_LAYERS = [
    {"attn_q": Type.Q4_0, "attn_k": Type.Q8_0, "attn_v": Type.Q5_0, "attn_output": Type.Q4_1, "ffn_gate": Type.Q4_0,
     "ffn_up": Type.Q5_1, "ffn_down": Type.Q4_K},
    {"attn_q": Type.Q4_1, "attn_k": Type.Q4_0, "attn_v": Type.Q8_0, "attn_output": Type.Q5_0, "ffn_gate": Type.Q4_1,
     "ffn_up": Type.Q4_0, "ffn_down": Type.Q6_K},
    {"attn_q": Type.Q5_0, "attn_k": Type.Q5_1, "attn_v": Type.Q4_1, "attn_output": Type.Q8_0, "ffn_gate": Type.Q5_0,
     "ffn_up": Type.Q4_1, "ffn_down": Type.Q5_K},
]  # fmt: skip
F16_MODELS = ("llama-f16", "gemma3-linear")

# Where the half-precision scales of a block of the K types lie, and the value of one step of scale times quant.
K_SCALES = {Type.Q4_K: (0, 2), Type.Q5_K: (0, 2), Type.Q6_K: (208,)}
K_STEP = {Type.Q4_K: (1.5e-4, 1.1e-3), Type.Q5_K: (7.5e-5, 1.1e-3), Type.Q6_K: (4e-5,)}


def byte_alphabet():
    """The printable stand-ins of byte-level BPE, in order of byte."""
    kept = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = iter(range(0x100, 0x200))
    return [chr(b if b in kept else next(others)) for b in range(256)]


def gpt2_vocabulary():
    """(tokens, kinds, merges)."""
    control = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
    normal = byte_alphabet() + [merge.replace(" ", "") for merge in MERGES]
    kinds = [TokenType.CONTROL] * len(control) + [TokenType.NORMAL] * len(normal)
    return control + normal, kinds, MERGES


def sentencepiece_vocabulary():
    """(tokens, scores, kinds), ordered and scored as in Gemma 3: joined pieces before single letters."""
    control = ["<pad>", "<eos>", "<bos>", "<unk>", "<start_of_turn>", "<end_of_turn>"]
    user = ["\n", "  "]  # the converter writes user-defined pieces with plain spaces
    byte = [f"<0x{b:02X}>" for b in range(256)]
    normal = PIECES + list(LETTERS)
    scores = [-1000.0] * (len(control) + len(user)) + [0.0] * len(byte) + [-float(i) for i in range(len(normal))]
    kinds = (
        [TokenType.CONTROL] * len(control)
        + [TokenType.USER_DEFINED] * len(user)
        + [TokenType.BYTE] * len(byte)
        + [TokenType.NORMAL] * len(normal)
    )
    return control + user + byte + normal, scores, kinds


def configs():
    """The transformers configuration of every model, by name."""
    llama = {"vocab_size": len(gpt2_vocabulary()[0]), "num_hidden_layers": 2}
    tied = {"tie_word_embeddings": True, "max_position_embeddings": 256}
    gemma = {
        "vocab_size": len(sentencepiece_vocabulary()[0]), "num_hidden_layers": 7, "head_dim": 16,
        "query_pre_attn_scalar": 16, "pad_token_id": None,
    }  # fmt: skip
    untied_mha = LlamaConfig(
        hidden_size=48, intermediate_size=40, num_attention_heads=3, num_key_value_heads=3, rms_norm_eps=1e-4,
        max_position_embeddings=1024, rope_parameters={  # with head size 16 all three ranges of wavelengths occur
            "rope_type": "llama3", "rope_theta": 10000.0, "factor": 8.0, "low_freq_factor": 1.0,
            "high_freq_factor": 4.0, "original_max_position_embeddings": 128,
        }, **llama,
    )  # fmt: skip
    return {
        "llama-gqa": LlamaConfig(
            hidden_size=36, intermediate_size=68, num_attention_heads=6, num_key_value_heads=2, head_dim=8,
            rms_norm_eps=1e-5, rope_parameters={"rope_type": "default", "rope_theta": 100000.0}, **llama, **tied,
        ),
        "llama-untied-mha": untied_mha,
        "llama-f16": untied_mha,
        "llama-q8": LlamaConfig(
            hidden_size=64, intermediate_size=256, num_attention_heads=4, num_key_value_heads=1, rms_norm_eps=1e-5,
            rope_parameters={"rope_type": "default", "rope_theta": 10000.0}, **(llama | {"num_hidden_layers": 3}),
            **tied,
        ),
        "llama-bias": LlamaConfig(
            hidden_size=32, intermediate_size=72, num_attention_heads=4, num_key_value_heads=2, rms_norm_eps=1e-6,
            rope_parameters={"rope_type": "default", "rope_theta": 500.0}, attention_bias=True, **llama, **tied,
        ),
        "gemma3-window": Gemma3TextConfig(
            hidden_size=24, intermediate_size=36, num_attention_heads=2, num_key_value_heads=1, sliding_window=8,
            rms_norm_eps=1e-3, rope_parameters={
                "full_attention": {"rope_type": "default", "rope_theta": 1000000.0},
                "sliding_attention": {"rope_type": "default", "rope_theta": 10000.0},
            }, **gemma, **tied,
        ),
        "gemma3-linear": Gemma3TextConfig(
            hidden_size=32, intermediate_size=40, num_attention_heads=4, num_key_value_heads=2, sliding_window=16,
            rms_norm_eps=1e-4, rope_parameters={
                "full_attention": {"rope_type": "linear", "factor": 8.0, "rope_theta": 1000000.0},
                "sliding_attention": {"rope_type": "default", "rope_theta": 4000.0},
            }, **gemma, **tied,
        ),
    }  # fmt: skip


def write_gpt2_tokenizer(out):
    tokens, kinds, merges = gpt2_vocabulary()
    out.add_tokenizer_model("gpt2")
    out.add_tokenizer_pre("smollm")
    out.add_token_list(tokens)
    out.add_token_types(kinds)
    out.add_token_merges(merges)
    out.add_bos_token_id(1)
    out.add_eos_token_id(2)
    out.add_unk_token_id(0)
    out.add_pad_token_id(2)
    out.add_add_space_prefix(False)
    out.add_add_bos_token(False)
    out.add_chat_template(CHATML)


def write_gemma_tokenizer(out):
    tokens, scores, kinds = sentencepiece_vocabulary()
    out.add_tokenizer_model("llama")
    out.add_tokenizer_pre("default")
    out.add_token_list(tokens)
    out.add_token_scores(scores)
    out.add_token_types(kinds)
    out.add_bos_token_id(2)
    out.add_eos_token_id(1)
    out.add_unk_token_id(3)
    out.add_pad_token_id(0)
    out.add_add_bos_token(True)
    out.add_add_eos_token(False)
    out.add_add_space_prefix(False)
    out.add_chat_template(GEMMA_TEMPLATE)


def write_keys(out, name, config):
    """The keys that the converter writes for the architecture. Some are left out on purpose (see above)."""
    is_gemma = out.arch == "gemma3"
    rope = config.rope_parameters["full_attention"] if is_gemma else config.rope_parameters
    out.add_type(gguf.GGUFType.MODEL)
    out.add_name(f"postern tiny {name}")
    out.add_license("apache-2.0")
    out.add_block_count(config.num_hidden_layers)
    out.add_context_length(config.max_position_embeddings)
    out.add_embedding_length(config.hidden_size)
    out.add_feed_forward_length(config.intermediate_size)
    out.add_head_count(config.num_attention_heads)
    out.add_head_count_kv(config.num_key_value_heads)
    out.add_layer_norm_rms_eps(config.rms_norm_eps)
    out.add_rope_freq_base(rope["rope_theta"])
    if rope["rope_type"] == "linear":
        out.add_rope_scaling_type(gguf.RopeScalingType.LINEAR)
        out.add_rope_scaling_factor(rope["factor"])
    if config.head_dim != config.hidden_size // config.num_attention_heads:
        out.add_key_length(config.head_dim)
        out.add_value_length(config.head_dim)
    if is_gemma:
        out.add_sliding_window(config.sliding_window)
        if name != "gemma3-window":
            out.add_rope_freq_base_swa(config.rope_parameters["sliding_attention"]["rope_theta"])
    else:
        out.add_vocab_size(config.vocab_size)
        out.add_rope_dimension_count(config.head_dim)


def tensor_shapes(config):
    """Name and row-major shape of every tensor of the model, in the converter's order."""
    n_embd, n_ff = config.hidden_size, config.intermediate_size
    q_dim, kv_dim = (n * config.head_dim for n in (config.num_attention_heads, config.num_key_value_heads))
    yield "token_embd.weight", (config.vocab_size, n_embd)
    if not config.tie_word_embeddings:
        yield "output.weight", (config.vocab_size, n_embd)
    for i in range(config.num_hidden_layers):
        layer = {"attn_norm": (n_embd,)}
        layer |= {"ffn_down": (n_embd, n_ff), "ffn_gate": (n_ff, n_embd), "ffn_up": (n_ff, n_embd)}
        if config.model_type == "gemma3_text":
            layer |= {"post_attention_norm": (n_embd,), "post_ffw_norm": (n_embd,)}
            layer |= {"attn_k_norm": (config.head_dim,), "attn_q_norm": (config.head_dim,)}
        layer |= {"ffn_norm": (n_embd,)}
        layer |= {"attn_k": (kv_dim, n_embd), "attn_output": (n_embd, q_dim), "attn_q": (q_dim, n_embd)}
        layer |= {"attn_v": (kv_dim, n_embd)}
        for part, shape in layer.items():
            yield f"blk.{i}.{part}.weight", shape
            if config.attention_bias and part.startswith("attn_") and len(shape) == 2:
                yield f"blk.{i}.{part}.bias", shape[:1]
    yield "output_norm.weight", (n_embd,)


def tensor_type(model_name, name, shape):
    if len(shape) == 1:
        return Type.F32
    if model_name in F16_MODELS:
        return Type.F16
    if model_name == "llama-q8":
        parts = name.split(".")
        return QUANT_LAYERS[int(parts[1])][parts[2]] if parts[0] == "blk" else Type.Q8_0
    return Type.F32


def random_values(rng, name, shape):
    """Scales chosen so that attention is peaked but not one-hot, every layer moves the stream by about its own size,
    and the epsilon of the first norm matters."""
    if name.endswith("norm.weight"):
        return rng.uniform(0.4, 1.6, shape)
    if name.endswith(".bias"):
        return rng.normal(0, 0.5, shape)
    if name == "token_embd.weight":
        return rng.normal(0, 0.05, shape)
    if name == "output.weight":
        return rng.normal(0, 2 / math.sqrt(shape[1]), shape)
    gain = 1.8 if ".attn_q." in name or ".attn_k." in name else 1.0
    return rng.normal(0, gain / math.sqrt(shape[1]), shape)


def random_k_blocks(rng, kind, shape):
    """Bytes of a K type: the gguf package cannot encode them, but random quants with sound scales are a matrix too."""
    block_len, block_bytes = gguf.GGML_QUANT_SIZES[kind]
    blocks = rng.integers(0, 256, (shape[0], shape[1] // block_len, block_bytes), dtype=np.uint8)
    for at, step in zip(K_SCALES[kind], K_STEP[kind], strict=True):
        scale = (step * rng.uniform(0.6, 1.4, blocks.shape[:2])).astype("<f2")
        blocks[:, :, at : at + 2] = scale[..., None].view(np.uint8)
    return blocks.reshape(shape[0], -1)


def random_tensor(rng, name, shape, kind):
    """The tensor as stored: numbers for F32 and F16, bytes for the quantised types."""
    if kind in K_SCALES:
        return random_k_blocks(rng, kind, shape)
    values = random_values(rng, name, shape).astype(np.float32)
    return values if kind == Type.F32 else quants.quantize(values, kind)


def llama3_factors(config):
    """What rope_freqs.weight holds: the divisor of each frequency (llama3 scaling of Llama 3.1)."""
    rope, dim = config.rope_parameters, config.head_dim
    wavelengths = 2 * math.pi * rope["rope_theta"] ** (np.arange(0, dim, 2) / dim)
    low, high, factor = rope["low_freq_factor"], rope["high_freq_factor"], rope["factor"]
    smooth = np.clip((rope["original_max_position_embeddings"] / wavelengths - low) / (high - low), 0, 1)
    return (1 / ((1 - smooth) / factor + smooth)).astype(np.float32)


def write_model(path, name, config):
    arch = "gemma3" if config.model_type == "gemma3_text" else "llama"
    out = gguf.GGUFWriter(path, arch)
    write_keys(out, name, config)
    write_tokenizer = write_gemma_tokenizer if arch == "gemma3" else write_gpt2_tokenizer
    write_tokenizer(out)
    out.add_quantization_version(gguf.GGML_QUANT_VERSION)
    if not config.tie_word_embeddings:
        out.add_tensor("rope_freqs.weight", llama3_factors(config))
    rng = np.random.default_rng(list(name.encode()))
    for tensor, shape in tensor_shapes(config):
        kind = tensor_type(name, tensor, shape)
        out.add_tensor(tensor, random_tensor(rng, tensor, shape, kind), raw_dtype=kind)
    out.write_header_to_file()
    out.write_kv_data_to_file()
    out.write_tensors_to_file()
    out.close()


def sequence(name, config):
    """Random ids; the first is BOS where the model wants one; later ones repeat earlier ones, for attention to find."""
    rng = np.random.default_rng([1, *name.encode()])
    ids = rng.integers(0, config.vocab_size, N_TOK)
    ids[N_TOK // 2 :: 3] = ids[1 : 1 + len(ids[N_TOK // 2 :: 3])]
    if config.model_type == "gemma3_text":
        ids[0] = 2
    return [int(i) for i in ids]


def write_reference(path, model, ids):
    stream, logits = reference.residual_stream(model, ids)
    positions = sorted({*range(0, len(ids), 4), len(ids) - 1})
    n_layer, n_vocab = stream.shape[0] - 1, logits.shape[1]
    with open(path, "wb") as f:
        f.write(b"PNRF" + struct.pack("<6I", 1, len(ids), n_layer, stream.shape[2], n_vocab, len(positions)))
        for values, kind in ((ids, "<i4"), (positions, "<i4"), (stream, "<f4"), (logits[positions], "<f4")):
            f.write(np.ascontiguousarray(values, kind).tobytes())


def read_reference(path):
    """(ids, positions, stream, logits) of a NAME.ref."""
    data = pathlib.Path(path).read_bytes()
    magic, version, n_tok, n_layer, n_embd, n_vocab, n_pos = struct.unpack_from("<4s6I", data)
    assert magic == b"PNRF" and version == 1
    ints = np.frombuffer(data, "<i4", n_tok + n_pos, 28)
    floats = np.frombuffer(data, "<f4", -1, 28 + ints.nbytes)
    n_stream = (n_layer + 1) * n_tok * n_embd
    stream = floats[:n_stream].reshape(n_layer + 1, n_tok, n_embd)
    return ints[:n_tok].tolist(), ints[n_tok:].tolist(), stream, floats[n_stream:].reshape(n_pos, n_vocab)


def make(out_dir, name, config):
    path = out_dir / f"{name}.gguf"
    write_model(path, name, config)
    model = reference.build_model(config, gguf.GGUFReader(path))
    write_reference(path.with_suffix(".ref"), model, sequence(name, config))


def their_logits(path, factors, ids):
    """Logits by transformers' own GGUF loader, which misses rope_freqs: they are put in here."""
    model = AutoModelForCausalLM.from_pretrained(path.parent, gguf_file=path.name, attn_implementation="eager")
    assert model.dtype == torch.float32
    if factors is not None:
        model.model.rotary_emb.inv_freq /= torch.from_numpy(factors)
    return reference.residual_stream(model.eval(), ids)[1]


def check(out_dir, name, config):
    """Reads NAME.gguf by its own keys and, for llama, by transformers' loader; prints the distance to NAME.ref."""
    path = out_dir / f"{name}.gguf"
    ids, positions, stream, logits = read_reference(path.with_suffix(".ref"))
    model, _ = reference.load_model(path)
    again, all_logits = reference.residual_stream(model, ids)
    errors = {"by keys": max(np.abs(again - stream).max(), np.abs(all_logits[positions] - logits).max())}
    if config.model_type == "llama" and not config.attention_bias:  # their loader drops biases, and gemma3 needs more
        factors = None if config.tie_word_embeddings else llama3_factors(config)
        errors["by transformers' loader"] = np.abs(their_logits(path, factors, ids)[positions] - logits).max()
    print(f"{name}: largest error", ", ".join(f"{how} {error:.1e}" for how, error in errors.items()))
    return max(errors.values()) < 1e-4


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--check", action="store_true", help="check the files instead of writing them")
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path(__file__).parent / "tiny")
    args = parser.parse_args()
    if args.check:
        return 0 if all([check(args.out, name, config) for name, config in configs().items()]) else 1
    args.out.mkdir(exist_ok=True)
    for name, config in configs().items():
        make(args.out, name, config)
    return 0


if __name__ == "__main__":
    sys.exit(main())
