# SPDX-License-Identifier: Apache-2.0
"""A slow reference of compression without calibration: weights to integers (src/quant/integer.h says how), and how each
format lays the integers out. Plain Python, each step rounded to float as C does it."""

import struct
from functools import lru_cache

LEAST_SCALE = 2.0**-23
GROUP_BYTES = {"INT4_SYM": 32, "INT4_ASYM": 40, "INT8_SYM": 32, "INT8_ASYM": 48}  # of 16 rows, in panels
KINDS = {"INT4_SYM": (4, False), "INT4_ASYM": (4, True), "INT8_SYM": (8, False), "INT8_ASYM": (8, True)}


def single(x):
    return struct.unpack("<f", struct.pack("<f", x))[0]


def half(x):
    return struct.unpack("<e", struct.pack("<e", x))[0]


def round_group(weights, bits, asym):
    """(scale, zero point, codes) of the weights that share them."""
    levels, least, greatest = 2**bits, min(weights), max(weights)
    if asym:
        exact = single(single(max(greatest, 0) - min(least, 0)) / (levels - 1))
    else:
        exact = (abs(least) if abs(least) >= greatest else -greatest) / (levels / 2)
    scale = half(LEAST_SCALE if abs(exact) < LEAST_SCALE else exact)
    zero = min(round(single(-min(least, 0) / scale)), levels - 1) if asym else 0
    middle = 0 if asym else levels // 2
    codes = [
        round(min(max(single(single(w / scale) + zero), -middle), levels - 1 - middle)) + middle for w in weights
    ]
    return scale, zero, codes


class Matrix:
    """Rows of codes; scales and zeros by row and group."""

    def __init__(self, kind, codes, scales, zeros):
        (self.bits, self.asym), self.codes, self.scales, self.zeros = KINDS[kind], codes, scales, zeros

    @classmethod
    def rounded(cls, kind, rows, group):
        """group: 0 for all of a row"""
        codes, scales, zeros = [], [], []
        for row in rows:
            n = group or len(row)
            groups = [round_group(row[i : i + n], *KINDS[kind]) for i in range(0, len(row), n)]
            codes.append([code for g in groups for code in g[2]])
            scales.append([g[0] for g in groups])
            zeros.append([g[1] for g in groups])
        return cls(kind, codes, scales, zeros)

    @classmethod
    def of_panels(cls, kind, data, n_row, n_col, group):
        """What panels() made."""
        bits, asym = KINDS[kind]
        group = group or n_col
        size = GROUP_BYTES[kind]
        panel_bytes = n_col * 2 * bits + n_col // group * size
        codes, scales, zeros = [], [], []
        for row in range(n_row):
            panel, r = data[row // 16 * panel_bytes :], row % 16
            places = [(c // 32 * 64 * bits + 4 * r + c % 4, c % 32 // 4) for c in range(n_col)]
            if bits == 8:
                codes.append([panel[at + 64 * v] for at, v in places])
            else:
                codes.append([panel[at + v % 4 * 64] >> v // 4 * 4 & 15 for at, v in places])
            groups = [panel[n_col * 2 * bits + g * size :][:size] for g in range(n_col // group)]
            scales.append([struct.unpack_from("<e", g, 2 * r)[0] for g in groups])
            if not asym:
                zeros.append([0] * len(groups))
            elif bits == 8:
                zeros.append([g[32 + r] for g in groups])
            else:
                zeros.append([g[32 + r % 8] >> r // 8 * 4 & 15 for g in groups])
        return cls(kind, codes, scales, zeros)

    def panels(self):
        """postern's own layout (src/quant/panel.h)."""
        out = b""
        n_col = len(self.codes[0])
        for first in range(0, len(self.codes), 16):
            rows = range(first, min(first + 16, len(self.codes)))
            for c in range(0, n_col, 32):
                vectors = [bytearray(64) for _ in range(8)]
                for r in rows:
                    for v in range(8):
                        vectors[v][4 * (r - first) : 4 * (r - first) + 4] = bytes(
                            self.codes[r][c + 4 * v : c + 4 * v + 4]
                        )
                if self.bits == 4:
                    vectors = [bytes(a | b << 4 for a, b in zip(vectors[j], vectors[j + 4])) for j in range(4)]
                out += b"".join(vectors)
            for g in range(len(self.scales[0])):
                out += struct.pack("<16e", *([self.scales[r][g] for r in rows] + [0] * (16 - len(rows))))
                zeros = [self.zeros[r][g] for r in rows] + [0] * (16 - len(rows))
                if self.asym:
                    out += bytes(zeros if self.bits == 8 else (a | b << 4 for a, b in zip(zeros[:8], zeros[8:])))
        return out

    def blocks(self):
        """Q4_0, Q4_1 or Q8_0."""
        out = []
        for codes, scales, zeros in zip(self.codes, self.scales, self.zeros):
            for g, (d, zero) in enumerate(zip(scales, zeros)):
                block = codes[32 * g : 32 * g + 32]
                out.append(struct.pack("<e", d))
                if self.asym:
                    out.append(struct.pack("<e", -(d * zero)))
                if self.bits == 4:
                    out.append(bytes(a | b << 4 for a, b in zip(block[:16], block[16:])))
                else:
                    out.append(struct.pack("32b", *(code - 128 for code in block)))
        return b"".join(out)

    def parts(self, order):
        """What compressed-tensors has of it, the rows in another order: the bytes of each part."""
        n_group = len(self.scales[0])
        words = []
        for row in order:
            for i in range(0, len(self.codes[row]), 32 // self.bits):
                codes = self.codes[row][i : i + 32 // self.bits]
                words.append(sum(code << self.bits * k for k, code in enumerate(codes)))
        parts = {
            "weight_packed": struct.pack(f"<{len(words)}I", *words),
            "weight_scale": b"".join(struct.pack(f"<{n_group}e", *self.scales[row]) for row in order),
            "weight_shape": struct.pack("<2q", len(order), len(self.codes[0])),
        }
        if self.asym:
            zeros = []
            for i in range(0, len(order), 32 // self.bits):
                rows = order[i : i + 32 // self.bits]
                zeros += [sum(self.zeros[r][g] << self.bits * k for k, r in enumerate(rows)) for g in range(n_group)]
            parts["weight_zero_point"] = struct.pack(f"<{len(zeros)}I", *zeros)
        return parts


def parse_type(name):
    """Kind and group of a type's name, or (None, 0)."""
    if name in ("Q4_0", "Q4_1", "Q8_0"):
        return {"Q4_0": "INT4_SYM", "Q4_1": "INT4_ASYM", "Q8_0": "INT8_SYM"}[name], 32
    if not name.startswith("INT"):
        return None, 0
    bits, asym, group = name.split("_")[:3]
    return f"{bits}_{asym}", 0 if group == "CH" else int(group[1:])


class Reference:
    """The matrices of a model, rounded when they are asked for, once for all formats."""

    def __init__(self, matrices):
        self.matrices = matrices  # name to rows

    @lru_cache(maxsize=None)
    def rounded(self, name, kind, group):
        return Matrix.rounded(kind, self.matrices[name], group)

    @lru_cache(maxsize=None)
    def panels(self, name, kind, group):
        return self.rounded(name, kind, group).panels()
