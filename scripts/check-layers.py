#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""usage: check-layers.py ROOT            checks the source tree
          check-layers.py --symbols LIB   checks that the library exports only pn_ names
          check-layers.py --self-test     checks that every rule is seen when it is broken

The rules of the house that a compiler does not know. The tables below are their only statement; documents point here.
Prints "file:line: rule: what" for each violation; exit code 1 when there is one.
"""

import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

# An include points to the same module or to a strictly lower layer, never sideways or up.
LAYERS = (
    {"base"},
    {"quant", "template", "text"},
    {"kernels", "format"},
    {"weights", "kv"},
    {"ops"},
    {"model"},
    {"engine"},
    {"advise", "eval"},
    {"compress"},
    {"export"},
)
LAYER_OF = {module: level for level, modules in enumerate(LAYERS) for module in modules}

# These see the public header and files of their own folder; and the headers of others that are named here.
OUTSIDE = {"cli": ("server/server.h",), "examples": (), "server": ()}

# What belongs to one instruction set stays where it is chosen or detected.
ISA_WORD = re.compile(
    r"__AVX\w*|__SSE\w*|__ARM_\w+|__x86_64__|__i386__|__aarch64__|\b\w*intrin\.h|\barm_neon\.h|\b_mm\d*_\w+|__builtin_ia32_\w+"
)
ISA_PLACES = ("src/kernels/", "src/base/cpu.")

# The library never prints, exits or aborts; bad input never reaches an assert; strings carry their length.
BANNED = re.compile(
    r"(?<![\w.>])(v?f?printf|puts|fputs|putchar|perror|_?exit|_Exit|abort|assert|v?sprintf|gets|str(?:n?cpy|n?cat|tok))\s*\("
)
# All allocation goes through base/mem, so that a test can make any of it fail.
ALLOCATION = re.compile(r"(?<![\w.>])((?:m|c|re|aligned_)alloc|reallocarray|posix_memalign|free|strn?dup|v?asprintf)\s*\(")
ALLOCATION_PLACES = ("src/base/mem.c",)

MAX_FILE_LINES = 800
MAX_FUNCTION_LINES = 120
ALLOWED = set()  # of (path, rule): exceptions, each with its reason

SPDX = "/* SPDX-License-Identifier: Apache-2.0 */"
FOLDERS = ("include", "src", "server", "cli", "examples", "tests")
C_SUFFIXES = (".c", ".h", ".inc")


class Violation(NamedTuple):
    path: str
    line: int
    rule: str
    what: str

    def __str__(self):
        return f"{self.path}:{self.line}: {self.rule}: {self.what}"


# ---- reading C: as much as the rules need; the sources are clang-formatted ----

LEXEME = re.compile(r"""//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*'""", re.DOTALL)


def blank(text, keep_strings):
    """The text with comments (and strings) turned into spaces; lines stay where they are."""

    def replace(match):
        lexeme = match.group()
        if keep_strings and lexeme[0] == '"':
            return lexeme
        return re.sub(r"[^\n]", " ", lexeme)

    return LEXEME.sub(replace, text)


def functions(code):
    """(first line, number of lines) of every function body, its head included."""
    depth, head, started = 0, None, 0
    for number, line in enumerate(code.split("\n"), 1):
        if depth == 0:
            if not line.strip() or line.startswith("#"):
                head = None
            elif head is None:
                head = number
            if re.match(r"extern\s+\{", line) or line.startswith("}"):  # extern "C", whose string is blank here
                head = None
                continue
            if "{" in line:
                started = head
            elif line.rstrip().endswith(";"):
                head = None
        depth += line.count("{") - line.count("}")
        if depth == 0 and started:
            if line == "}":
                yield started, number - started + 1
            started, head = 0, None


# ---- rules of the tree ----


def find_included(root, path, name):
    """The file that an include in quotes means, relative to root, or None."""
    for folder in (path.parent, root / "src", root / "include", root / "tests", root):
        candidate = Path(os.path.normpath(folder / name))
        if candidate.is_file():
            return candidate.relative_to(root).as_posix()
    return None


def include_fault(source, target):
    """Why source (a path in the tree) may not include target; None when it may."""
    place, target_place = source.split("/"), target.split("/")
    if target == "include/postern.h" or place[0] == "tests":
        return None
    if place[0] in OUTSIDE:
        seen = target_place[:-1] == place[:-1] or target in OUTSIDE[place[0]]
        return None if seen else f"{place[0]}/ sees only postern.h, its own headers and what OUTSIDE names"
    if place[0] == "include" or target_place[0] != "src":
        return f"nothing in {place[0]}/ depends on {target}"
    module, target_module = place[1], target_place[1]
    if module != target_module and LAYER_OF.get(target_module, -1) >= LAYER_OF.get(module, -1):
        return f"{module} is not above {target_module} (see LAYERS)"
    return None


def check_includes(root, path, source, text):
    for match in re.finditer(r'^[ \t]*#[ \t]*include[ \t]*(["<])([^">]+)[">]', blank(text, True), re.MULTILINE):
        line, name = text.count("\n", 0, match.start()) + 1, match.group(2)
        target = find_included(root, path, name)
        if target is None:
            if match.group(1) == '"':
                yield Violation(source, line, "include", f"{name} is not in the tree")
            continue
        fault = include_fault(source, target)
        if fault:
            yield Violation(source, line, "include", f"{name}: {fault}")


def check_words(source, text):
    def hits(rule, pattern, where):
        for match in pattern.finditer(where):
            yield Violation(source, where.count("\n", 0, match.start()) + 1, rule, match.group().strip())

    if not source.startswith("tests/") and not source.startswith(ISA_PLACES):
        yield from hits("isa", ISA_WORD, blank(text, True))
    if source.startswith("src/"):
        code = blank(text, False)
        yield from hits("banned", BANNED, code)
        if not source.startswith(ALLOCATION_PLACES):
            yield from hits("allocation", ALLOCATION, code)


def check_size(source, text):
    n_lines = text.count("\n")
    if n_lines > MAX_FILE_LINES:
        yield Violation(source, n_lines, "size", f"{n_lines} lines; at most {MAX_FILE_LINES}")
    for first, n in functions(blank(text, False)):
        if n > MAX_FUNCTION_LINES:
            yield Violation(source, first, "size", f"a function of {n} lines; at most {MAX_FUNCTION_LINES}")


def check_place(source, text):
    if not text.startswith(SPDX + "\n"):
        yield Violation(source, 1, "licence", f"the first line is not {SPDX}")
    place = source.split("/")
    if place[0] == "src" and place[1] not in LAYER_OF:
        yield Violation(source, 1, "layer", f"src/{place[1]} is not in LAYERS")


def check_tree(root):
    root = Path(root).resolve()
    files = [p for folder in FOLDERS for p in sorted((root / folder).rglob("*")) if p.suffix in C_SUFFIXES]
    found = []
    for path in files:
        source, text = path.relative_to(root).as_posix(), path.read_text(encoding="utf-8")
        found += check_place(source, text)
        found += check_includes(root, path, source, text)
        found += check_words(source, text)
        found += check_size(source, text)
    return len(files), [v for v in found if (v.path, v.rule) not in ALLOWED]


def check_symbols(library):
    listing = subprocess.run(["nm", "-D", "--defined-only", library], capture_output=True, text=True, check=True).stdout
    names = [line.split()[-1] for line in listing.splitlines()]
    return len(names), [Violation(str(library), 0, "symbol", name) for name in names if not name.startswith("pn_")]


# ---- the rules' own test: one small tree that obeys, and one violation of each rule ----

GOOD = {
    "include/postern.h": "#ifdef __cplusplus\nextern \"C\" {\n#endif\nint pn_x(void);\n#ifdef __cplusplus\n}\n#endif\n",
    "src/base/mem.h": "void *pn_alloc(int n);\n",
    "src/base/mem.c": '#include "base/mem.h"\n\nvoid *pn_alloc(int n) {\n    return malloc(n);\n}\n',
    "src/text/a.c": '/* printf("no") */\n#include "base/mem.h"\n#include <postern.h>\nint a; // exit(1)\nchar *s = "abort()";\n',
    "src/engine/list.inc": "X(free_list)\n",
    "src/engine/e.c": '#include "engine/list.inc"\nvoid e(struct s *p) {\n    p->free(p);\n    snprintf(p, 1, "");\n}\n',
    "src/kernels/x86_avx2/k.c": "#include <immintrin.h>\n",
    "server/server.h": "int s;\n",
    "server/queue.h": "int q;\n",
    "server/routes.c": '#include "server.h"\n#include <postern.h>\n',
    "cli/main.c": '#include "cli.h"\n#include "server/server.h"\n#include <postern.h>\nint main(void) {\n    printf("x");\n    exit(0);\n}\n',
    "cli/cli.h": "int b;\n",
    "tests/unit/test_a.c": '#include "base/mem.h"\n',
}
LONG_FUNCTION = "int f(void)\n{\n" + "    g();\n" * 118 + "}\n"
BAD = (
    ("include", "src/base/b.c", '#include "text/t.h"\n'),
    ("include", "src/quant/q.c", '#include "text/t.h"\n'),
    ("include", "src/text/u.c", '#include "missing.h"\n'),
    ("include", "src/text/u.c", '#include "../../cli/cli.h"\n'),
    ("include", "cli/c.c", '#include "base/mem.h"\n'),
    ("include", "cli/c.c", "#include <base/mem.h>\n"),
    ("include", "examples/c.c", '#include "../cli/cli.h"\n'),
    ("include", "server/s.c", '#include "base/mem.h"\n'),
    ("include", "server/s.c", '#include "cli/cli.h"\n'),
    ("include", "cli/c.c", '#include "server/queue.h"\n'),
    ("include", "include/other.h", '#include "base/mem.h"\n'),
    ("layer", "src/misc/m.c", ""),
    ("licence", "src/text/u.c", None),
    ("isa", "src/ops/o.c", "#include <immintrin.h>\n"),
    ("isa", "src/ops/o.c", "#if defined(__AVX2__)\n#endif\n"),
    ("isa", "cli/c.c", "#ifdef __x86_64__\n#endif\n"),
    ("banned", "src/ops/o.c", 'void f(void) {\n    fprintf(stderr, "x");\n}\n'),
    ("banned", "src/ops/o.c", "void f(void) {\n    assert(1);\n}\n"),
    ("banned", "src/ops/o.c", "void f(void) {\n    exit (1);\n}\n"),
    ("banned", "src/ops/o.c", "void f(char *d, char *s) {\n    strcpy(d, s);\n}\n"),
    ("allocation", "src/ops/o.c", "void *f(void) {\n    return malloc(1);\n}\n"),
    ("allocation", "src/base/memory.c", "void f(void *p) {\n    free(p);\n}\n"),
    ("size", "src/ops/o.c", "int a;\n" * MAX_FILE_LINES),
    ("size", "src/ops/o.c", "int a;\n\n" + LONG_FUNCTION.replace("\n{", "\n{\n    {\n    }", 1)),
    ("size", "cli/c.c", LONG_FUNCTION.replace("int f(void)\n{", "struct s *f(int a,\n            int b) {")),
)


def write_tree(root, tree):
    for name, text in tree.items():
        path = Path(root, name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(("" if text is None else SPDX + "\n" + text) or "int a;\n", encoding="utf-8")


def rules_broken(tree):
    with tempfile.TemporaryDirectory() as root:
        write_tree(root, tree)
        return sorted({violation.rule for violation in check_tree(root)[1]})


def symbols_broken(source):
    with tempfile.TemporaryDirectory() as folder:
        library = Path(folder, "lib.so")
        compiler = os.environ.get("CC", "cc").split()
        subprocess.run([*compiler, "-shared", "-x", "c", "-", "-o", library], input=source, text=True, check=True)
        return [violation.what for violation in check_symbols(library)[1]]


def self_test():
    wrong = []

    def expect(what, found, expected):
        if found != expected:
            wrong.append(f"{what}: found {found}, expected {expected}")

    expect("a tree that obeys", rules_broken(GOOD), [])
    edge = {"src/ops/o.c": "int a;\n\n" + LONG_FUNCTION.replace("    g();\n", "", 1)}
    expect("a function of the greatest length", rules_broken(edge), [])
    for rule, name, text in BAD:
        tree = {"src/text/t.h": "int t;\n", **GOOD, name: text}
        expect(f"{rule} in {name}: {(text or '')[:40]!r}", rules_broken(tree), [rule])
    expect("symbols", symbols_broken("int pn_a; int b; static int c; int *pn_d(void) { return &c; }"), ["b"])
    for line in wrong:
        print("self-test:", line)
    print(f"self-test: {len(BAD) + 3} cases, {len(wrong)} wrong")
    return 1 if wrong else 0


def main(arguments):
    if arguments == ["--self-test"]:
        return self_test()
    if len(arguments) == 2 and arguments[0] == "--symbols":
        n, found = check_symbols(arguments[1])
    elif len(arguments) == 1 and not arguments[0].startswith("-"):
        n, found = check_tree(arguments[0])
    else:
        print(__doc__, file=sys.stderr)
        return 2
    for violation in found:
        print(violation)
    print(f"{n} checked, {len(found)} violations")
    return 1 if found or n == 0 else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
