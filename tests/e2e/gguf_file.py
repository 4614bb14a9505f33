# SPDX-License-Identifier: Apache-2.0
"""GGUF files whole, read and written without the library under test; safetensors files, read."""

import json
import struct

from gguf_keys import _Reader

F32, F16 = 0, 1  # types of tensors
U32 = 4  # of a key


def u32(value):
    """A key's value as write takes it."""
    return struct.pack("<II", U32, value)


class GgufFile:
    """keys: name to the bytes of type and value; tensors: name to (type, dims, the bytes from its first one on)."""

    def __init__(self, path):
        self.data = path.read_bytes()
        reader = _Reader(self.data)
        reader.pos = 4
        _, n_tensors, n_keys = reader.scalar("I"), reader.scalar("Q"), reader.scalar("Q")
        self.keys, places = {}, {}
        alignment = 32
        for _ in range(n_keys):
            key, begin = reader.string().decode(), reader.pos
            value = reader.value(reader.scalar("I"))
            self.keys[key] = self.data[begin : reader.pos]
            if key == "general.alignment":
                alignment = value
        for _ in range(n_tensors):
            name = reader.string().decode()
            dims = [reader.scalar("Q") for _ in range(reader.scalar("I"))]
            places[name] = (reader.scalar("I"), dims, reader.scalar("Q"))
        begin = -(-reader.pos // alignment) * alignment
        self.tensors = {name: (kind, dims, self.data[begin + at :]) for name, (kind, dims, at) in places.items()}


def write_gguf(path, keys, tensors):
    """keys as in GgufFile; tensors: name to (type, dims, bytes)."""
    head = [b"GGUF", struct.pack("<IQQ", 3, len(tensors), len(keys))]
    for key, value in keys.items():
        head += [struct.pack("<Q", len(key)), key.encode(), value]
    data = b""
    for name, (kind, dims, values) in tensors.items():
        data += bytes(-len(data) % 32)
        head += [struct.pack("<Q", len(name)), name.encode(), struct.pack("<I", len(dims))]
        head += [struct.pack(f"<{len(dims)}QIQ", *dims, kind, len(data))]
        data += values
    head = b"".join(head)
    path.write_bytes(head + bytes(-len(head) % 32) + data)


def read_safetensors(path):
    """Name to (dtype, shape, bytes); that they lie without gaps is checked."""
    data = path.read_bytes()
    (n,) = struct.unpack_from("<Q", data)
    header = json.loads(data[8 : 8 + n])
    assert header.pop("__metadata__") == {"format": "pt"}
    end, tensors = 0, {}
    for name, tensor in sorted(header.items(), key=lambda item: item[1]["data_offsets"]):
        begin, after = tensor["data_offsets"]
        assert begin == end, name
        end = after
        tensors[name] = (tensor["dtype"], tensor["shape"], data[8 + n + begin : 8 + n + after])
    assert 8 + n + end == len(data) and (8 + n) % 8 == 0
    return tensors
