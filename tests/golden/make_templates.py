#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Renders tests/golden/templates/*.jinja with transformers' own environment and writes templates/cases.json.

usage: make_templates.py        (needs transformers and jinja2 >= 3.1.6; run from anywhere)

cases.json: {"made_with": …, "now": Unix time, "trusted": {…}, "inputs": {name: variables},
             "cases": [{"template": file, "input": name, "expected": text} or {…, "error": class, "message": text}]}
The text of a template file is the template, byte for byte; the files were typed for this test.
"""

import datetime
import json
import pathlib

import jinja2
import transformers
from transformers.utils import chat_template_utils

FOLDER = pathlib.Path(__file__).resolve().parent / "templates"
NOW = 1767323045  # 2026-01-02 03:04:05 UTC, a Friday
TRUSTED = {"bos_token": "<s>", "eos_token": "</s>"}


class FixedClock:
    @staticmethod
    def now():
        return datetime.datetime.fromtimestamp(NOW, datetime.timezone.utc).replace(tzinfo=None)


chat_template_utils.datetime = FixedClock

SYSTEM = {"role": "system", "content": " Be brief.\n"}
HELLO = {"role": "user", "content": "Hello, wörld! 你好 😀"}
HI = {"role": "assistant", "content": "Hi there.\n\n"}
MORE = {"role": "user", "content": "  And \"now\"?\r\n<tag> & \\n 'x'\t"}

WEATHER = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "description": "The weather of a place, 天气",
        "parameters": {
            "type": "object",
            "properties": {
                "place": {"type": "string", "description": "City, e.g. \"Köln\""},
                "days": {"type": "integer", "default": 3},
                "units": {"type": "string", "enum": ["C", "F"], "default": "C"},
                "hours": {"type": "array", "items": {"type": "number"}},
                "extra": {"type": ["string", "null"]},
            },
            "required": ["place"],
        },
    },
}
CLOCK = {"type": "function", "function": {"name": "now", "description": "", "parameters": {"type": "object", "properties": {}, "required": []}}}


def call(name, arguments, call_id):
    return {"id": call_id, "type": "function", "function": {"name": name, "arguments": arguments}}


CALLING = [
    {"role": "user", "content": "Weather in Köln?"},
    {"role": "assistant", "content": None,
     "tool_calls": [call("get_weather", {"place": "Köln", "days": 2, "f": 1.5, "n": None, "b": True}, "abcdef123")]},
    {"role": "tool", "name": "get_weather", "content": "{\"t\": -3.5}", "tool_call_id": "abcdef123"},
    {"role": "assistant", "content": "Cold."},
    {"role": "user", "content": "Thanks"},
]
TWO_CALLS = [
    {"role": "user", "content": "Both?"},
    {"role": "assistant", "content": "",
     "tool_calls": [call("get_weather", {"place": "Bonn"}, "abcdef123"), call("now", {}, "abcdef124")]},
    {"role": "tool", "content": "1", "tool_call_id": "abcdef123"},
    {"role": "tool", "content": "2", "tool_call_id": "abcdef124"},
]
THINKING = [
    {"role": "user", "content": "1+1?"},
    {"role": "assistant", "content": "<think>\nEasy.\n</think>\n\n2"},
    {"role": "user", "content": "2+2?"},
    {"role": "assistant", "content": "4", "reasoning_content": "\nAlso easy\n"},
]


def chat(messages, prompt=True, **more):
    return {"messages": messages, "add_generation_prompt": prompt, **more}


CHATS = {
    "empty": chat([]),
    "user": chat([HELLO]),
    "system": chat([SYSTEM, HELLO]),
    "system_only": chat([SYSTEM]),
    "turns": chat([SYSTEM, HELLO, HI, MORE]),
    "no_prompt": chat([HELLO, HI], prompt=False),
    "two_users": chat([HELLO, MORE]),
    "tools": chat(CALLING, tools=[WEATHER, CLOCK]),
    "no_tools": chat([HELLO], tools=None),
    "two_calls": chat(TWO_CALLS, tools=[WEATHER]),
    "thinking": chat(THINKING),
    "no_thinking": chat([HELLO], enable_thinking=False),
    "parts": chat([{"role": "user", "content": [{"type": "text", "text": " see "}, {"type": "image"}]}]),
    "control": chat([{"role": "user", "content": "<|im_end|>\n<|im_start|>system\n[INST]</s><end_of_turn>"}]),
}
ALL = list(CHATS)
PLAIN = ["empty", "user", "system", "turns", "no_prompt", "two_users", "control"]
TOOLS = ["empty", "user", "system", "turns", "no_prompt", "tools", "no_tools", "two_calls"]

VALUES = {
    "slices": {"s": "héllo 中文 😀", "l": [1, "two", 3.0, None, [5]], "d": {"k": "v", "items": 1}},
    "expressions": {"d": {"k": 1}, "y": "why"},
    "filters": {"d": {"b": 1, "A": 2, "c": 0},
                "people": [{"name": "Ann", "age": 41, "city": "Bonn", "nick": "A"}, {"name": "bob", "age": 30, "city": "Köln"},
                           {"name": "Cy", "age": 41, "city": "bonn", "nick": ""}]},
    "strings": {"d": {"a": 1, "b": [2]}},
    "json": {"value": {"b": [1, 2.5, True, None, {"x": []}], "a": "中文 \"quoted\" \\ / \n\t\b\f\r\u0001\u007f\u2028 😀",
                       "nested": {"z": {}, "y": [[1], [2, {"k": "v"}]]}, "num": [0, -1, 1e100, 1e-7, 0.1, 1.0, 12345678901234567]}},
    "tree": chat([HELLO, HI, MORE, {"role": "tool", "content": "x"}, HI, MORE],
                 tree=[{"name": "a", "kids": [{"name": "b", "kids": [{"name": "c"}]}, {"name": "d"}]}, {"name": "e", "kids": []}]),
    "no_messages": {"messages": [], "tree": []},
}
KINDS = ["none_of_them", "raise", "undefined", "add", "none", "append", "update", "call", "nomethod", "zero", "iterate", "unpack",
         "json", "length", "filter", "test", "macro", "namespace", "compare", "index", "step", "generator", "dunder"]
ERRORS = {"error_" + kind: {"kind": kind, "d": {"k": 1}} for kind in KINDS}
INPUTS = {**CHATS, **VALUES, **ERRORS}

CASES = {
    "alpaca": ["empty", "user", "turns", "no_prompt"],
    "chatml": ["empty", "user", "turns", "no_prompt", "control", "tools", "parts"],
    "chatml_default_system": PLAIN,
    "chatml_parts": ["user", "turns", "parts", "tools", "control"],
    "command_r": ["user", "system", "system_only", "turns", "two_users"],
    "command_r_tools": ["user", "tools", "two_calls", "no_tools"],
    "comments": ["empty"],
    "crlf": ["empty"],
    "dates": ["empty"],
    "deepseek_r1": ["empty", "system", "turns", "tools", "two_calls", "thinking", "control"],
    "errors": list(ERRORS),
    "expressions": ["expressions"],
    "falcon_like": ["empty", "turns", "no_prompt"],
    "filters": ["filters"],
    "gemma1": ["user", "system", "turns", "no_prompt", "two_users"],
    "gemma3": ["empty", "user", "system", "system_only", "turns", "no_prompt", "two_users", "parts", "control"],
    "granite": ["empty", "user", "system", "turns", "tools", "no_prompt"],
    "harmony_like": ["user", "turns", "tools", "two_calls", "no_prompt"],
    "llama2": ["user", "system", "turns", "two_users", "no_prompt", "control"],
    "llama3": PLAIN,
    "llama31_tools": TOOLS,
    "loop_controls": ["tree", "no_messages"],
    "macros": ["empty"],
    "mistral_tools": ["user", "system", "turns", "two_users", "tools", "two_calls", "no_tools"],
    "mistral_v1": ["user", "system", "no_prompt", "two_users"],
    "phi3": PLAIN,
    "phi4_mini": ["user", "turns", "no_prompt", "control"],
    "qwen_coder_macro": TOOLS,
    "qwen_thinking": ["empty", "system", "turns", "tools", "two_calls", "thinking", "no_thinking", "parts"],
    "qwen_tools": TOOLS,
    "slices": ["slices"],
    "smollm3_generation": ["empty", "user", "turns", "thinking", "no_thinking", "no_prompt"],
    "strings": ["strings"],
    "tests": ["empty"],
    "tojson": ["json"],
    "vicuna": ["empty", "system", "turns", "no_prompt"],
    "whitespace": ["empty"],
    "zephyr": ["empty", "user", "turns", "no_prompt"],
}


def render(source, variables):
    # A name that is both given and trusted is the trusted one, as transformers' special tokens are keyword arguments too.
    variables = json.loads(json.dumps(variables))
    try:
        return {"expected": chat_template_utils._compile_jinja_template(source).render(**variables, **TRUSTED)}
    except Exception as error:
        return {"error": type(error).__name__, "message": str(error)}


def main():
    files = {path.stem: path for path in FOLDER.glob("*.jinja")}
    assert set(files) == set(CASES), set(files) ^ set(CASES)
    cases = []
    for name in sorted(CASES):
        source = files[name].read_bytes().decode("utf-8")
        for given in CASES[name]:
            cases.append({"template": files[name].name, "input": given, **render(source, INPUTS[given])})
    used = {case["input"] for case in cases}
    assert used == set(INPUTS), set(INPUTS) - used
    made_with = f"transformers {transformers.__version__}, jinja2 {jinja2.__version__}"
    whole = {"made_with": made_with, "now": NOW, "trusted": TRUSTED, "inputs": INPUTS}
    lines = [json.dumps(case, ensure_ascii=False) for case in cases]
    head = json.dumps(whole, ensure_ascii=False)[:-1]
    text = head + ', "cases": [\n' + ",\n".join(lines) + "\n]}\n"
    (FOLDER / "cases.json").write_text(text, encoding="utf-8")
    n_errors = sum("error" in case for case in cases)
    print(f"{len(files)} templates, {len(cases)} cases, {n_errors} of them errors, {len(text.encode())} bytes")


if __name__ == "__main__":
    main()
