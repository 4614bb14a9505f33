# SPDX-License-Identifier: Apache-2.0
"""include/postern.h by ctypes: the library as a caller of its public interface sees it.

    library = Library(path)
    with library.open("model.gguf") as model, model.session(n_ctx=512) as session:
        ids = model.tokenize("Once upon a time", bos=True)
        print(session.generate(ids, max_tokens=20, sampling=library.sampling(temperature=0)).text)

Names are those of the header without their prefix. What fails raises PosternError. Text goes in as str or bytes and
comes out as bytes, since pieces need not be whole characters; what the library calls JSON comes out parsed.
"""

import ctypes as c
import json
from typing import NamedTuple

NO_POSITION = 2**64 - 1
TOKENIZE_BOS, TOKENIZE_CONTROL = 1, 2
KV_F16, KV_F32 = 0, 1
PRECISION_HIGH, PRECISION_EXACT, PRECISION_FAST = 0, 1, 2
LOOKUP_AUTO, LOOKUP_OFF, LOOKUP_ON = 0, 1, 2
OVERFLOW_ERROR, OVERFLOW_SLIDE = 0, 1
PREFIX_CACHE_OFF = 2**64 - 1
FINISH_STOP, FINISH_LENGTH, FINISH_CANCELLED = 0, 1, 2


class Error(c.Structure):
    _fields_ = [("code", c.c_int), ("position", c.c_uint64), ("message", c.c_char * 480)]


class Text(c.Structure):
    _fields_ = [("data", c.c_void_p), ("len", c.c_size_t)]


class Tokens(c.Structure):
    _fields_ = [("ids", c.POINTER(c.c_int32)), ("n", c.c_size_t)]


class ModelOptions(c.Structure):
    _fields_ = [
        ("n_threads", c.c_int),
        ("n_threads_decode", c.c_int),
        ("no_probe", c.c_bool),
        ("prefix_cache", c.c_uint64),
        ("tiers", c.c_void_p),
        ("n_tiers", c.c_size_t),
        ("kv_layers", c.c_void_p),
        ("n_kv_layers", c.c_size_t),
        ("session", c.c_void_p),
        ("cache_dir", c.c_char_p),
        ("cache_dir_bytes", c.c_uint64),
        ("baked", c.c_char_p),
        ("on_note", c.c_void_p),
        ("note_user", c.c_void_p),
    ]


class ModelInfo(c.Structure):
    _fields_ = [
        ("architecture", c.c_char_p),
        ("name", c.c_char_p),
        ("n_layer", c.c_int),
        ("n_embd", c.c_int),
        ("n_head", c.c_int),
        ("n_head_kv", c.c_int),
        ("head_dim", c.c_int),
        ("n_vocab", c.c_int),
        ("n_ctx_train", c.c_int),
        ("n_threads", c.c_int),
        ("n_threads_decode", c.c_int),
        ("kernels", c.c_char_p),
        ("bos_id", c.c_int32),
        ("eos_id", c.c_int32),
        ("has_chat_template", c.c_bool),
        ("template_note", c.c_char_p),
        ("tables_bytes", c.c_uint64),
        ("weights_bytes", c.c_uint64),
        ("mapped_bytes", c.c_uint64),
        ("decode_bytes_per_token", c.c_uint64),
    ]


class ChatOptions(c.Structure):
    _fields_ = [
        ("no_generation_prompt", c.c_bool),
        ("template_source", c.c_char_p),
        ("extra_json", c.c_char_p),
        ("now", c.c_int64),
    ]


class SessionOptions(c.Structure):
    _fields_ = [
        ("n_ctx", c.c_int),
        ("n_chunk", c.c_int),
        ("kv_type", c.c_int),
        ("precision", c.c_int),
        ("lookup", c.c_int),
        ("overflow", c.c_int),
        ("tier", c.c_char_p),
        ("kv_bytes", c.c_uint64),
    ]


class Plan(c.Structure):
    _fields_ = [
        ("weights_bytes", c.c_uint64),
        ("tables_bytes", c.c_uint64),
        ("n_ctx", c.c_int),
        ("kv_bytes", c.c_uint64),
        ("prefix_cache_bytes", c.c_uint64),
        ("scratch_bytes", c.c_uint64),
        ("total_bytes", c.c_uint64),
        ("budget_bytes", c.c_uint64),
        ("kv_token_bytes", c.c_uint64),
    ]


class SessionStats(c.Structure):
    _fields_ = [
        ("n_ctx", c.c_int),
        ("tier", c.c_char_p),
        ("n_tokens", c.c_size_t),
        ("n_reused", c.c_size_t),
        ("n_shared", c.c_size_t),
        ("n_restored", c.c_size_t),
        ("n_prefilled", c.c_size_t),
        ("prefill_seconds", c.c_double),
        ("cache_cause", c.c_int),
        ("n_recomputed", c.c_size_t),
        ("recomputed_seconds", c.c_double),
        ("kv_bytes", c.c_uint64),
        ("kv_type", c.c_int),
        ("n_step_downs", c.c_size_t),
        ("n_stepped", c.c_size_t),
        ("prefix_cache_bytes", c.c_uint64),
        ("pinned_bytes", c.c_uint64),
        ("n_evicted", c.c_uint64),
        ("n_baked", c.c_size_t),
        ("scratch_bytes", c.c_uint64),
    ]


class LogitBias(c.Structure):
    _fields_ = [("id", c.c_int32), ("bias", c.c_float)]


class Sampling(c.Structure):
    _fields_ = [
        ("temperature", c.c_float),
        ("top_k", c.c_int),
        ("top_p", c.c_float),
        ("min_p", c.c_float),
        ("repeat_penalty", c.c_float),
        ("presence_penalty", c.c_float),
        ("frequency_penalty", c.c_float),
        ("penalty_last_n", c.c_int),
        ("logit_bias", c.POINTER(LogitBias)),
        ("n_logit_bias", c.c_size_t),
        ("seed", c.c_uint64),
        ("has_seed", c.c_bool),
    ]


ProgressFn = c.CFUNCTYPE(None, c.c_void_p, c.c_size_t, c.c_size_t)
OnTextFn = c.CFUNCTYPE(c.c_bool, c.c_void_p, c.c_void_p, c.c_size_t)


class GenerateOptions(c.Structure):
    _fields_ = [
        ("max_tokens", c.c_int),
        ("n_keep", c.c_size_t),
        ("sampling", Sampling),
        ("stop", c.POINTER(c.c_char_p)),
        ("n_stop", c.c_size_t),
        ("ignore_eos", c.c_bool),
        ("on_text", OnTextFn),
        ("on_token", c.c_void_p),
        ("on_prefill", ProgressFn),
        ("user", c.c_void_p),
    ]


class GenerateResult(c.Structure):
    _fields_ = [
        ("text", Text),
        ("tokens", Tokens),
        ("finish", c.c_int),
        ("stopped_by", c.c_char_p),
        ("seed", c.c_uint64),
        ("n_prompt", c.c_size_t),
        ("n_reused", c.c_size_t),
        ("n_prefilled", c.c_size_t),
        ("cut_from", c.c_size_t),
        ("cut_to", c.c_size_t),
        ("n_slides", c.c_size_t),
        ("n_step_downs", c.c_size_t),
        ("n_stepped", c.c_size_t),
        ("kv_type", c.c_int),
        ("ttft_seconds", c.c_double),
        ("prefill_seconds", c.c_double),
        ("decode_seconds", c.c_double),
        ("n_drafted", c.c_size_t),
        ("n_accepted", c.c_size_t),
        ("lookup_break_even", c.c_double),
    ]


class Generated(NamedTuple):
    """What pn_generate gave, copied out of the library's memory."""

    text: bytes
    tokens: list
    finish: int
    seed: int
    n_prompt: int
    n_reused: int
    ttft_seconds: float
    prefill_seconds: float
    decode_seconds: float


class PosternError(Exception):
    """A status other than PN_OK: its name ("format", "limit", …), the library's message, and where."""

    def __init__(self, status, error):
        self.status = status
        self.message = error.message.decode("utf-8", "replace")
        self.position = None if error.position == NO_POSITION else error.position
        super().__init__(f"{status}: {self.message}")


# Name: (result, arguments); functions that fail return a status and take a pn_error last.
POINTER, STATUS = c.c_void_p, c.c_int
FUNCTIONS = {
    "pn_status_name": (c.c_char_p, [c.c_int]),
    "pn_version": (c.c_char_p, []),
    "pn_text_free": (None, [c.POINTER(Text)]),
    "pn_tokens_free": (None, [c.POINTER(Tokens)]),
    "pn_model_open": (STATUS, [c.c_char_p, c.POINTER(ModelOptions), c.POINTER(POINTER), c.POINTER(Error)]),
    "pn_model_share": (POINTER, [POINTER]),
    "pn_model_close": (None, [POINTER]),
    "pn_model_get_info": (None, [POINTER, c.POINTER(ModelInfo)]),
    "pn_inspect_json": (STATUS, [c.c_char_p, c.c_bool, c.POINTER(Text), c.POINTER(Error)]),
    "pn_tokenize": (
        STATUS,
        [POINTER, c.c_char_p, c.c_size_t, c.c_uint, c.POINTER(Tokens), c.POINTER(Error)],
    ),
    "pn_detokenize": (
        STATUS,
        [POINTER, c.POINTER(c.c_int32), c.c_size_t, c.c_bool, c.POINTER(Text), c.POINTER(Error)],
    ),
    "pn_chat_render": (
        STATUS,
        [POINTER, c.c_char_p, c.POINTER(ChatOptions), c.POINTER(Text), c.POINTER(Error)],
    ),
    "pn_chat_tokenize": (
        STATUS,
        [POINTER, c.c_char_p, c.POINTER(ChatOptions), c.POINTER(Tokens), c.POINTER(Error)],
    ),
    "pn_session_create": (
        STATUS,
        [POINTER, c.POINTER(SessionOptions), c.POINTER(POINTER), c.POINTER(Error)],
    ),
    "pn_session_free": (None, [POINTER]),
    "pn_session_get_stats": (None, [POINTER, c.POINTER(SessionStats)]),
    "pn_session_plan": (STATUS, [POINTER, c.POINTER(SessionOptions), c.POINTER(Plan), c.POINTER(Error)]),
    "pn_session_sync": (
        STATUS,
        [POINTER, c.POINTER(c.c_int32), c.c_size_t, ProgressFn, c.c_void_p, c.POINTER(Error)],
    ),
    "pn_session_logits": (c.POINTER(c.c_float), [POINTER]),
    "pn_session_cancel": (None, [POINTER]),
    "pn_sampling_default": (Sampling, []),
    "pn_generate_result_free": (None, [c.POINTER(GenerateResult)]),
    "pn_generate": (
        STATUS,
        [
            POINTER,
            c.POINTER(c.c_int32),
            c.c_size_t,
            c.POINTER(GenerateOptions),
            c.POINTER(GenerateResult),
            c.POINTER(Error),
        ],
    ),
    "pn_measure_bandwidth": (STATUS, [c.c_int, c.POINTER(c.c_double), c.POINTER(Error)]),
}


def _bytes(text):
    return text.encode("utf-8") if isinstance(text, str) else bytes(text)


def _path(path):
    return str(path).encode("utf-8", "surrogateescape")


def _id_array(ids):
    return (c.c_int32 * len(ids))(*ids)


def _messages(messages):
    return _bytes(messages if isinstance(messages, (str, bytes)) else json.dumps(messages))


class Library:
    """The shared library at path."""

    def __init__(self, path):
        self._dll = c.CDLL(str(path))
        for name, (result, arguments) in FUNCTIONS.items():
            function = getattr(self._dll, name)
            function.restype, function.argtypes = result, arguments
            setattr(self, name, function)

    def call(self, name, *arguments):
        """Calls a function that can fail, with a pn_error of its own."""
        error = Error()
        status = getattr(self, name)(*arguments, c.byref(error))
        if status != 0:
            raise PosternError(self.pn_status_name(status).decode(), error)

    def take_text(self, text):
        data = c.string_at(text.data, text.len) if text.data else b""
        self.pn_text_free(c.byref(text))
        return data

    def take_tokens(self, tokens):
        ids = tokens.ids[: tokens.n] if tokens.n else []
        self.pn_tokens_free(c.byref(tokens))
        return ids

    def version(self):
        return self.pn_version().decode()

    def open(self, path, n_threads=0, prefix_cache=0):
        return Model(self, path, n_threads, prefix_cache)

    def inspect(self, path, full=False):
        text = Text()
        self.call("pn_inspect_json", _path(path), full, c.byref(text))
        return json.loads(self.take_text(text))

    def sampling(self, logit_bias=None, seed=None, **changes):
        """pn_sampling_default with changes; logit_bias is a dict of id to bias."""
        sampling = self.pn_sampling_default()
        for name, value in changes.items():
            assert hasattr(sampling, name), name
            setattr(sampling, name, value)
        if logit_bias:
            sampling.logit_bias = (LogitBias * len(logit_bias))(*logit_bias.items())
            sampling.n_logit_bias = len(logit_bias)
        if seed is not None:
            sampling.seed, sampling.has_seed = seed, True
        return sampling

    def measure_bandwidth(self, n_threads=0):
        gb_per_s = c.c_double()
        self.call("pn_measure_bandwidth", n_threads, c.byref(gb_per_s))
        return gb_per_s.value


class Handle:
    """Something of the library's that is closed once."""

    def __init__(self):
        self.pointer = POINTER()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


class Model(Handle):
    def __init__(self, library, path, n_threads=0, prefix_cache=0):
        super().__init__()
        self.library = library
        options = ModelOptions(n_threads, prefix_cache=prefix_cache)
        library.call("pn_model_open", _path(path), c.byref(options), c.byref(self.pointer))

    def close(self):
        self.library.pn_model_close(self.pointer)
        self.pointer = POINTER()

    def info(self):
        info = ModelInfo()
        self.library.pn_model_get_info(self.pointer, c.byref(info))
        return info

    def tokenize(self, text, bos=False, control=False):
        text, tokens = _bytes(text), Tokens()
        flags = (TOKENIZE_BOS if bos else 0) | (TOKENIZE_CONTROL if control else 0)
        self.library.call("pn_tokenize", self.pointer, text, len(text), flags, c.byref(tokens))
        return self.library.take_tokens(tokens)

    def detokenize(self, ids, with_control=False):
        text = Text()
        self.library.call("pn_detokenize", self.pointer, _id_array(ids), len(ids), with_control, c.byref(text))
        return self.library.take_text(text)

    def _chat_options(self, template=None, extra=None, generation_prompt=True, now=0):
        return ChatOptions(
            no_generation_prompt=not generation_prompt,
            template_source=None if template is None else _bytes(template),
            extra_json=None if extra is None else _bytes(json.dumps(extra)),
            now=now,
        )

    def chat_render(self, messages, **options):
        text, o = Text(), self._chat_options(**options)
        self.library.call("pn_chat_render", self.pointer, _messages(messages), c.byref(o), c.byref(text))
        return self.library.take_text(text)

    def chat_tokenize(self, messages, **options):
        tokens, o = Tokens(), self._chat_options(**options)
        self.library.call("pn_chat_tokenize", self.pointer, _messages(messages), c.byref(o), c.byref(tokens))
        return self.library.take_tokens(tokens)

    def session(self, n_ctx=0, n_chunk=0, kv_type=KV_F16, precision=PRECISION_HIGH, lookup=LOOKUP_AUTO):
        return Session(self, SessionOptions(n_ctx, n_chunk, kv_type, precision, lookup))

    def session_plan(self, n_ctx=0, n_chunk=0, kv_type=KV_F16, precision=PRECISION_HIGH, lookup=LOOKUP_AUTO):
        """The Plan of such a session."""
        options, plan = SessionOptions(n_ctx, n_chunk, kv_type, precision, lookup), Plan()
        self.library.call("pn_session_plan", self.pointer, c.byref(options), c.byref(plan))
        return plan


class Session(Handle):
    def __init__(self, model, options):
        super().__init__()
        self.model, self.library = model, model.library
        self.n_vocab = model.info().n_vocab
        self.library.call("pn_session_create", model.pointer, c.byref(options), c.byref(self.pointer))

    def close(self):
        self.library.pn_session_free(self.pointer)
        self.pointer = POINTER()

    def sync(self, ids, progress=None):
        """progress(n_done, n_total), when given, is called between chunks."""
        on_progress = ProgressFn(lambda _, done, total: progress(done, total)) if progress else ProgressFn()
        self.library.call("pn_session_sync", self.pointer, _id_array(ids), len(ids), on_progress, None)

    def logits(self):
        """The logits after the last token as a list, or None for an empty timeline."""
        logits = self.library.pn_session_logits(self.pointer)
        return logits[: self.n_vocab] if logits else None

    def stats(self):
        stats = SessionStats()
        self.library.pn_session_get_stats(self.pointer, c.byref(stats))
        return stats

    def cancel(self):
        self.library.pn_session_cancel(self.pointer)

    def generate(
        self,
        prompt,
        max_tokens=0,
        sampling=None,
        stop=(),
        ignore_eos=False,
        on_text=None,
        on_prefill=None,
    ):
        """on_text(bytes) may return False to stop; on_prefill(n_done, n_total)."""
        stops = (c.c_char_p * len(stop))(*map(_bytes, stop))
        options = GenerateOptions(
            max_tokens=max_tokens,
            sampling=sampling or self.library.sampling(),
            stop=stops,
            n_stop=len(stop),
            ignore_eos=ignore_eos,
        )
        if on_text:
            options.on_text = OnTextFn(lambda _, data, n: on_text(c.string_at(data, n)) is not False)
        if on_prefill:
            options.on_prefill = ProgressFn(lambda _, done, total: on_prefill(done, total))
        result = GenerateResult()
        arguments = (self.pointer, _id_array(prompt), len(prompt), c.byref(options), c.byref(result))
        self.library.call("pn_generate", *arguments)
        generated = Generated(
            c.string_at(result.text.data, result.text.len) if result.text.data else b"",
            result.tokens.ids[: result.tokens.n] if result.tokens.n else [],
            *(getattr(result, name) for name in Generated._fields[2:]),
        )
        self.library.pn_generate_result_free(c.byref(result))
        return generated
