# SPDX-License-Identifier: Apache-2.0
"""The reference implementation behind the golden files: a GGUF file as a float32 `transformers` model.

Used by make_tiny_models.py, make_real_logits.py and compare_logits.py. None of this runs in CI: the results are
committed. To run it, in a virtual environment:

    pip install torch==2.15.0 transformers==5.24.0 gguf==0.19.0 numpy==2.4.6 tokenizers==0.23.3 sentencepiece==0.2.3 \\
        protobuf==7.36.2

Weights are dequantised by the gguf package and the transformations that llama.cpp's converter applies are undone here
(transformers' own GGUF loader is not trusted, only compared with): rows of Q and K of "llama" are permuted for rotary
pairs (x[2i], x[2i+1]) where transformers rotates halves, and the RMSNorm weights of "gemma3" are stored as w + 1.
"""

import re
import warnings
from importlib.metadata import version

import gguf
import numpy as np
import torch
import transformers
from gguf import quants
from transformers import Gemma3ForCausalLM, Gemma3TextConfig, LlamaConfig, LlamaForCausalLM

torch.set_num_threads(1)
torch.use_deterministic_algorithms(True)
transformers.logging.set_verbosity_error()
transformers.logging.disable_progress_bar()
warnings.filterwarnings("ignore", message="The given NumPy array is not writable")

MODEL_NAMES = {"token_embd": "model.embed_tokens", "output_norm": "model.norm", "output": "lm_head"}
LAYER_NAMES = {
    "attn_norm": "input_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}
LAYER_NAMES_OF_ARCH = {
    "llama": LAYER_NAMES | {"ffn_norm": "post_attention_layernorm"},
    "gemma3": LAYER_NAMES
    | {
        "attn_q_norm": "self_attn.q_norm",
        "attn_k_norm": "self_attn.k_norm",
        "post_attention_norm": "post_attention_layernorm",
        "ffn_norm": "pre_feedforward_layernorm",
        "post_ffw_norm": "post_feedforward_layernorm",
    },
}


def field(reader, key, default=None):
    """Value of a metadata key."""
    entry = reader.fields.get(key)
    return default if entry is None else entry.contents()


def versions():
    """Versions of the packages that decide the numbers."""
    return {name: version(name) for name in ("torch", "transformers", "gguf", "numpy")}


def hf_name(arch, name):
    """transformers' name of a tensor: blk.3.attn_q.weight is model.layers.3.self_attn.q_proj.weight."""
    if m := re.fullmatch(r"blk\.(\d+)\.(\w+)\.(weight|bias)", name):
        layer, part, kind = m.groups()
        return f"model.layers.{layer}.{LAYER_NAMES_OF_ARCH[arch][part]}.{kind}"
    part, kind = name.rsplit(".", 1)
    return f"{MODEL_NAMES[part]}.{kind}"


def halves_from_pairs(rows, n_head):
    """Undoes the converter's permutation of the output rows of Q or K: row 2i + j of a head back to i + j * dim / 2."""
    head_dim = rows.shape[0] // n_head
    return rows.reshape(n_head, head_dim // 2, 2, *rows.shape[1:]).swapaxes(1, 2).reshape(rows.shape)


def dequantize(tensor):
    """A tensor of the file as float32 of its shape in row-major order."""
    return quants.dequantize(tensor.data, tensor.tensor_type).astype(np.float32)


def state_dict(reader, config):
    """The file's weights under transformers' names and in its layout; without rope_freqs."""
    arch = field(reader, "general.architecture")
    state = {}
    for tensor in reader.tensors:
        if tensor.name == "rope_freqs.weight":
            continue
        value = dequantize(tensor)
        if arch == "llama" and re.search(r"\.attn_q\.", tensor.name):
            value = halves_from_pairs(value, config.num_attention_heads)
        elif arch == "llama" and re.search(r"\.attn_k\.", tensor.name):
            value = halves_from_pairs(value, config.num_key_value_heads)
        elif arch == "gemma3" and tensor.name.endswith("norm.weight"):
            value = value - np.float32(1)
        state[hf_name(arch, tensor.name)] = torch.from_numpy(np.array(value))
    return state


def config_of(reader):
    """The transformers configuration that the file's keys describe."""
    arch = field(reader, "general.architecture")

    def key(name, default=None):
        value = field(reader, f"{arch}.{name}", default)
        if value is None:
            raise KeyError(f"{arch}.{name}")
        return value

    n_embd, n_head = key("embedding_length"), key("attention.head_count")
    head_dim = key("attention.key_length", n_embd // n_head)
    common = {
        "vocab_size": len(field(reader, "tokenizer.ggml.tokens")),
        "hidden_size": n_embd,
        "intermediate_size": key("feed_forward_length"),
        "num_hidden_layers": key("block_count"),
        "num_attention_heads": n_head,
        "num_key_value_heads": key("attention.head_count_kv", n_head),
        "head_dim": head_dim,
        "max_position_embeddings": key("context_length"),
        "rms_norm_eps": key("attention.layer_norm_rms_epsilon"),
        "tie_word_embeddings": all(t.name != "output.weight" for t in reader.tensors),
        "pad_token_id": None,
    }
    base = {"rope_type": "default", "rope_theta": key("rope.freq_base", 10000.0)}
    if key("rope.scaling.type", "none") == "linear":
        base |= {"rope_type": "linear", "factor": key("rope.scaling.factor")}
    if arch == "llama":
        has_bias = any(t.name == "blk.0.attn_q.bias" for t in reader.tensors)
        return LlamaConfig(rope_parameters=base, attention_bias=has_bias, **common)
    if arch == "gemma3":
        local = {"rope_type": "default", "rope_theta": key("rope.freq_base_swa", 10000.0)}
        return Gemma3TextConfig(
            rope_parameters={"full_attention": base, "sliding_attention": local},
            sliding_window=key("attention.sliding_window"),
            query_pre_attn_scalar=head_dim,
            **common,
        )
    raise ValueError(f"architecture {arch}")


def build_model(config, reader):
    """A model of this configuration with the file's weights; every weight must be given exactly once."""
    kind = {"llama": LlamaForCausalLM, "gemma3_text": Gemma3ForCausalLM}[config.model_type]
    config._attn_implementation = "eager"
    config.dtype = torch.float32
    model = kind(config).to(torch.float32).eval()
    missing, unexpected = model.load_state_dict(state_dict(reader, config), strict=False)
    assert not unexpected, unexpected
    assert not missing or (config.tie_word_embeddings and missing == ["lm_head.weight"]), missing
    return model


def load_model(path):
    """(model, reader) of a GGUF file, configured by the file alone."""
    reader = gguf.GGUFReader(path)
    model = build_model(config_of(reader), reader)
    factors = [t for t in reader.tensors if t.name == "rope_freqs.weight"]
    if factors:
        model.model.rotary_emb.inv_freq /= torch.from_numpy(dequantize(factors[0]))
    return model, reader


@torch.inference_mode()
def residual_stream(model, ids):
    """(stream [n_layer + 1, n_tok, n_embd], logits [n_tok, n_vocab]): the scaled embedding, then the output of each
    layer after its residual additions; the last one is before the final norm."""
    taken = []
    modules = [model.model.embed_tokens, *model.model.layers]
    hooks = [m.register_forward_hook(lambda _m, _in, out: taken.append(out.clone())) for m in modules]
    logits = model(torch.tensor([ids]), use_cache=False).logits[0]
    for hook in hooks:
        hook.remove()
    return torch.cat(taken).numpy(), logits.numpy()


@torch.inference_mode()
def logits_at(model, ids, positions):
    """[len(positions), n_vocab] logits, without keeping those of other positions."""
    where = torch.tensor(positions)
    return model(torch.tensor([ids]), use_cache=False, logits_to_keep=where).logits[0].numpy()


def log_softmax(logits):
    """Natural log of the probabilities, in double precision."""
    x = logits.astype(np.float64)
    x = x - x.max(-1, keepdims=True)
    return x - np.log(np.exp(x).sum(-1, keepdims=True))
