# SPDX-License-Identifier: Apache-2.0
"""The metadata of a GGUF file, read without the library under test."""

import mmap
import struct

U32, I32, F32, BOOL, STRING, ARRAY = 4, 5, 6, 7, 8, 9
SCALARS = {0: "B", 1: "b", 2: "H", 3: "h", U32: "I", I32: "i", F32: "f", BOOL: "?", 10: "Q", 11: "q", 12: "d"}


class _Reader:
    def __init__(self, data):
        self.data, self.pos = data, 0

    def scalar(self, code):
        (value,) = struct.unpack_from("<" + code, self.data, self.pos)
        self.pos += struct.calcsize("<" + code)
        return value

    def string(self):
        n = self.scalar("Q")
        self.pos += n
        return self.data[self.pos - n : self.pos]

    def value(self, kind):
        if kind == STRING:
            return self.string()
        if kind != ARRAY:
            return self.scalar(SCALARS[kind])
        kind, n = self.scalar("I"), self.scalar("Q")
        if kind in (STRING, ARRAY):
            return [self.value(kind) for _ in range(n)]
        code = f"<{n}{SCALARS[kind]}"
        values = struct.unpack_from(code, self.data, self.pos)
        self.pos += struct.calcsize(code)
        return list(values)


def read_keys(path):
    """All keys with their values; strings as bytes, since pieces of a vocabulary need not be UTF-8."""
    with open(path, "rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
        reader = _Reader(data)
        assert data[:4] == b"GGUF", path
        reader.pos = 4
        version, _, n_keys = reader.scalar("I"), reader.scalar("Q"), reader.scalar("Q")
        assert version in (2, 3), version
        keys = {}
        for _ in range(n_keys):
            key = reader.string().decode()
            keys[key] = reader.value(reader.scalar("I"))
        return keys
