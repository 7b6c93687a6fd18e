#!/usr/bin/env python3
"""Writes the golden vectors of this directory from implementations that share nothing with reference/formats.

    python3 -m venv venv && venv/bin/pip install gfloat==0.5.2 ml_dtypes==0.6.0 numpy mpmath==1.4.1
    # the latter builds a real ggml: libggml-base.so
    venv/bin/pip install gguf==0.19.0 llama-cpp-python==0.3.36
    venv/bin/python regenerate.py venv/lib/python3*/site-packages/llama_cpp/lib/libggml-base.so

Deterministic: a second run writes the same bytes. README.md says what each file holds and which source made
it."""
import csv
import ctypes
import math
import struct
import sys
from pathlib import Path

import gfloat
import gguf.quants
import ml_dtypes
import mpmath
import numpy as np
from gfloat.formats import (format_info_bfloat16, format_info_binary16, format_info_ocp_e2m1,
                            format_info_ocp_e2m3,
                            format_info_ocp_e3m2, format_info_ocp_e4m3, format_info_ocp_e5m2,
                            format_info_ocp_e8m0)
from gfloat.types import Domain, FormatInfo, RoundMode

HERE = Path(__file__).parent
# Of the norm: with 40 digits an exact zero of 32 sums is below 1e-36, and what a double could take for one
# below 2^-48.
ZERO = 1e-12


def fnuz(name, precision, bias):
    return FormatInfo(name, 8, precision, bias=bias, is_signed=True, domain=Domain.Finite, has_nz=False,
                      num_high_nans=0, has_subnormals=True, is_twos_complement=False)


# our name -> (gfloat's description, ml_dtypes' type)
SCALARS = {
    "e4m3fn": (format_info_ocp_e4m3, ml_dtypes.float8_e4m3fn),
    "e4m3fnuz": (fnuz("e4m3fnuz", 4, 8), ml_dtypes.float8_e4m3fnuz),
    "e5m2": (format_info_ocp_e5m2, ml_dtypes.float8_e5m2),
    "e5m2fnuz": (fnuz("e5m2fnuz", 3, 16), ml_dtypes.float8_e5m2fnuz),
    "e2m1": (format_info_ocp_e2m1, ml_dtypes.float4_e2m1fn),
    "e3m2": (format_info_ocp_e3m2, ml_dtypes.float6_e3m2fn),
    "e2m3": (format_info_ocp_e2m3, ml_dtypes.float6_e2m3fn),
    "e8m0": (format_info_ocp_e8m0, ml_dtypes.float8_e8m0fnu),
    "f16": (format_info_binary16, np.float16),
    "bf16": (format_info_bfloat16, ml_dtypes.bfloat16),
}
MODES = [RoundMode.TiesToEven, RoundMode.TiesToAway, RoundMode.TowardZero, RoundMode.TowardNegative]


def write(name, header, rows):
    with open(HERE / name, "w", newline="") as f:
        out = csv.writer(f, lineterminator="\n")
        out.writerow(header)
        out.writerows(rows)


def bits32(x):
    return f"{struct.unpack('<I', struct.pack('<f', x))[0]:08x}"


def text(x):
    """A value that strtod reads back exactly."""
    return "nan" if math.isnan(x) else "inf" if x == math.inf else "-inf" if x == -math.inf else float(x).hex()


def decoded(name, code):
    info, dtype = SCALARS[name]
    ours = gfloat.decode_float(info, code).fval
    raw = np.array([code], dtype=np.uint8 if np.dtype(dtype).itemsize == 1 else np.uint16)
    theirs = float(raw.view(dtype)[0])
    same = (math.isnan(ours) and math.isnan(theirs)) or (
        ours == theirs and math.copysign(1, ours) == math.copysign(1, theirs))
    assert same, (name, code, ours, theirs)  # the two sources must agree before either is believed
    return ours


def scalar_decode():
    rows = []
    for name, (info, _) in SCALARS.items():
        step = 1 if info.k <= 8 else 37  # 16-bit formats: every 37th code, all of them are tested another way
        rows += [(name, f"{code:x}", text(decoded(name, code))) for code in range(0, 1 << info.k, step)]
    write("scalar_decode.csv", ["format", "code", "value"], rows)


def f32_neighbours(x):
    x = np.float32(x)
    return [np.nextafter(x, np.float32(-np.inf)), x, np.nextafter(x, np.float32(np.inf))]


def inputs(name):
    """Every decision boundary (values and midpoints) of a narrow format with its two f32 neighbours, and
    extremes."""
    info, _ = SCALARS[name]
    rng = np.random.default_rng(1)
    wide = info.k > 8
    if wide:
        codes = rng.integers(0, 1 << info.k, 150)
        values = [decoded(name, int(c)) for c in codes] + [decoded(name, int(c) ^ 1) for c in codes]
        points = [v for v in values if math.isfinite(v)]
        points += [(a + b) / 2 for a, b in zip(values[:150], values[150:]) if math.isfinite(a + b)]
    else:
        points = sorted({v for v in (decoded(name, c) for c in range(1 << info.k)) if math.isfinite(v)})
        points += [(a + b) / 2 for a, b in zip(points, points[1:])]
    top = info.max
    points += [top * f for f in (1.015625, 1.03125, 1.0357142857142858, 1.0625, 1.125, 1.25, 2.0, 1e6)]
    points += [-p for p in points if p > 0] if info.is_signed else []
    points += [0.0, -0.0, 2.0**-149, -(2.0**-149), 2.0**-126, 1.7e38]
    seen = {}
    with np.errstate(over="ignore"):
        for p in points:
            for n in f32_neighbours(p):
                if np.isfinite(n) and (info.is_signed or n > 0):
                    seen[bits32(float(n))] = float(n)
    seen[bits32(math.inf)] = math.inf
    if info.is_signed:
        seen[bits32(-math.inf)] = -math.inf
    return seen


def gfloat_code(info, x, mode, saturate):
    try:
        return f"{gfloat.encode_float(info, gfloat.round_float(info, x, mode, saturate)):x}"
    except ValueError:
        return ""  # gfloat refuses to overflow in a format without Inf or NaN; ours saturates
    except AssertionError:
        return ""


def scalar_encode():
    rows = []
    for name, (info, dtype) in SCALARS.items():
        for bits, x in inputs(name).items():
            row = [name, bits]
            for saturate in (True, False):
                # README: below the smallest e8m0 there is no zero to round to; gfloat makes NaN, we the
                # smallest.
                below = name == "e8m0" and x < 2.0**-127
                row += ["" if below else gfloat_code(info, x, mode, saturate) for mode in MODES]
            code = np.array([x], dtype=np.float32).astype(dtype)
            code = int(code.view(np.uint8 if code.itemsize == 1 else np.uint16)[0])
            row.append("" if name == "e8m0" else f"{code:x}")  # README: ml_dtypes rounds e8m0 ties up
            rows.append(row)
    columns = [f"{o}_{m.name}" for o in ("saturate", "ieee") for m in MODES]
    write("scalar_encode.csv", ["format", "f32"] + columns + ["ml_dtypes"], rows)


def blocks():
    """32-element inputs: smooth, ties, zeros, subnormals, extremes, single spikes, signs of the absmax,
    powers of two."""
    rng = np.random.default_rng(2)
    f = np.float32
    made = [np.zeros(32, f), -np.zeros(32, f), np.ones(32, f), np.arange(32, dtype=f) - 16,
            np.arange(32, dtype=f) / 2,
            np.full(32, -3.5, f)]
    for spike in (1.0, -1.0, 6.0, 448.0, 65504.0, 1e-4, 2.0**-24, 1e30):
        block = np.zeros(32, f)
        block[7] = spike
        made.append(block)
    for divisor in (127, 8, 16, 15, 31, 7):  # ties at half codes
        block = (np.arange(32) - 15.5).astype(f)
        block[0] = -divisor
        made.append(block)
        made.append(-block)
    pair = rng.normal(size=32).astype(f)
    pair[3], pair[20] = 4.0, -4.0  # equal magnitudes: the first decides
    made.append(pair)
    made.append(np.where(np.arange(32) == 20, 4, np.where(np.arange(32) == 3, -4, pair)).astype(f))
    for k in (0, 3, 8, 20, -10):  # just below, at and above a power of two
        for n in f32_neighbours(2.0**k):
            block = (rng.uniform(-1, 1, 32) * 2.0**k * 0.99).astype(f)
            block[0] = n
            made.append(block)
    for scale in (1, 1e-3, 37, 1e4, 1e-7, 3e-6):
        made += [(rng.normal(size=32) * scale).astype(f) for _ in range(8)]
    made += [(rng.standard_cauchy(size=32)).astype(f) for _ in range(12)]
    made += [rng.integers(-7, 8, 32).astype(f) for _ in range(6)]
    made += [(rng.integers(-15, 16, 32) / 2).astype(f) for _ in range(6)]  # ties of e2m1 and friends
    made += [(rng.uniform(5, 6, 32)).astype(f) for _ in range(3)]  # far from zero: q4_1, q5_1 with a minimum
    return made


def hexes(array):
    return "".join(bits32(float(x)) for x in array)


class Ggml:
    TYPES = {"q4_0": 18, "q4_1": 20, "q5_0": 22, "q5_1": 24, "q8_0": 34, "iq4_nl": 18, "mxfp4_ggml": 17}

    def __init__(self, path):
        self.library = ctypes.CDLL(path)

    def quantise(self, name, x):
        x = np.ascontiguousarray(x, dtype=np.float32)
        out = (ctypes.c_uint8 * self.TYPES[name])()
        getattr(self.library, f"quantize_row_{name.removesuffix('_ggml')}_ref")(
            x.ctypes.data_as(ctypes.c_void_p), out, ctypes.c_int64(32))
        return bytes(out)

    def dequantise(self, name, raw):
        out = np.zeros(32, np.float32)
        getattr(self.library, f"dequantize_row_{name.removesuffix('_ggml')}")(
            raw, out.ctypes.data_as(ctypes.c_void_p), ctypes.c_int64(32))
        return out


def ggml_vectors(path):
    ggml = Ggml(path)
    made = blocks()
    write("blocks.csv", ["id", "f32x32"], [(i, hexes(b)) for i, b in enumerate(made)])
    rows = [(name, i, ggml.quantise(name, b).hex()) for name in Ggml.TYPES for i, b in enumerate(made)]
    write("ggml_encode.csv", ["format", "block", "bytes"], rows)
    rng = np.random.default_rng(3)
    rows = []
    for name, size in Ggml.TYPES.items():
        for i in range(60):
            raw = bytearray(rng.integers(0, 256, size, dtype=np.uint8).tobytes())
            if name == "mxfp4_ggml":
                raw[0] = min(i * 4, 0xFE)  # an exponent of 0xFF overflows ggml's f32 but not the real value
            elif i < 4:
                # zero, smallest, largest subnormal, max
                raw[0:2] = bytes.fromhex(("0000", "0100", "ff03", "ff7b")[i])
            elif (raw[1] & 0x7C) == 0x7C:
                raw[1] &= 0xBF  # Inf and NaN scales: tested apart
            if name in ("q4_1", "q5_1") and (raw[3] & 0x7C) == 0x7C:
                raw[3] &= 0xBF
            rows.append((name, bytes(raw).hex(), hexes(ggml.dequantise(name, bytes(raw)))))
    write("ggml_decode.csv", ["format", "bytes", "f32x32"], rows)


def q8_1_vectors(path):
    """q8_1 has no decoder in ggml, and no class in gguf: the bytes of its reference quantiser."""
    quantise = ctypes.CDLL(path).quantize_row_q8_1_ref
    quantise.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64]
    rows = []
    for i, block in enumerate(blocks()):
        x, raw = np.ascontiguousarray(block), np.zeros(36, np.uint8)
        quantise(x.ctypes.data, raw.ctypes.data, 32)
        rows.append((i, raw.tobytes().hex()))
    write("ggml_q8_1.csv", ["block", "bytes"], rows)


# name -> (gguf's type, where its f16 numbers are)
SUPER_BLOCKS = {"q2_K": ("Q2_K", (80, 82)), "q3_K": ("Q3_K", (108,)), "q4_K": ("Q4_K", (0, 2)),
                "q5_K": ("Q5_K", (0, 2)),
                "q6_K": ("Q6_K", (208,)), "iq4_xs": ("IQ4_XS", (0,))}


def gguf_vectors():
    """Random bytes and finite scales, at the edges of f16 in the first blocks, through gguf's dequantisers in
    numpy."""
    rng = np.random.default_rng(4)
    rows = []
    for name, (theirs, scales) in SUPER_BLOCKS.items():
        kind = gguf.GGMLQuantizationType[theirs]
        for i in range(10):
            raw = bytearray(rng.integers(0, 256, gguf.GGML_QUANT_SIZES[kind][1], dtype=np.uint8).tobytes())
            for at in scales:
                if i < 4:
                    raw[at:at + 2] = bytes.fromhex(("0000", "0100", "ff03", "ff7b")[i])
                elif (raw[at + 1] & 0x7C) == 0x7C:
                    raw[at + 1] &= 0xBF
            value = gguf.quants.dequantize(np.frombuffer(bytes(raw), np.uint8).reshape(1, -1), kind)
            rows.append((name, bytes(raw).hex(), hexes(value.astype(np.float32).ravel())))
    write("gguf_decode.csv", ["format", "bytes", "f32x256"], rows)


def mx_vectors():
    """OCP MX by gfloat: quantize_block's parts, with the amax rule of the MX specification."""
    from gfloat.block import compute_scale_amax, encode_block
    from gfloat.formats import format_info_mxfp4_e2m1, format_info_mxfp8_e4m3, format_info_mxfp8_e5m2
    rows = []
    for name, info in (("mxfp4", format_info_mxfp4_e2m1), ("mxfp8", format_info_mxfp8_e4m3),
                       ("mxfp8_e5m2", format_info_mxfp8_e5m2)):
        for i, block in enumerate(blocks()):
            wide = block.astype(np.float64)
            scale = float(compute_scale_amax(info.etype.emax, wide))
            codes = list(encode_block(info, scale, wide / scale))
            rows.append((name, i, f"{codes[0]:02x}", "".join(f"{c:02x}" for c in codes[1:])))
    write("mx_encode.csv", ["format", "block", "scale", "codes"], rows)


def nvfp4_vectors():
    """Matrices [rows, inner]: codes, linear and swizzled scales by numpy and ml_dtypes' casts."""
    rng = np.random.default_rng(4)
    rows = []
    for r, c in ((1, 16), (3, 32), (5, 80), (130, 48), (33, 128)):
        x = (rng.normal(size=(r, c)) * 10.0 ** rng.integers(-3, 3)).astype(np.float32)
        if r == 3:
            x[0, :16] = 0
            x[1, 16:] = 1e-9
        amax = np.float32(np.abs(x).max())
        glob = np.float32(np.float32(2688) / amax)
        blocks16 = x.reshape(r, c // 16, 16).astype(np.float64)
        scale = (np.abs(blocks16).max(axis=2) * float(glob) / 6).astype(ml_dtypes.float8_e4m3fn)
        wide = scale.astype(np.float64)[:, :, None]
        quotient = np.divide(blocks16 * float(glob), wide, out=np.zeros_like(blocks16), where=wide > 0)
        codes = np.clip(quotient, -6, 6).astype(ml_dtypes.float4_e2m1fn)
        # 128x4 tiles as strides: [tile row, 4 groups of 32, 32, tile column, 4] -> [tile row, tile column,
        # 32, group, 4]
        padded_rows, padded_columns = -(-r // 128) * 128, -(-(c // 16) // 4) * 4
        padded = np.zeros((padded_rows, padded_columns), np.uint8)
        padded[:r, :c // 16] = scale.view(np.uint8)
        tiles = padded.reshape(padded_rows // 128, 4, 32, padded_columns // 4, 4).transpose(0, 3, 2, 1, 4)
        value = codes.astype(np.float64) * wide / float(glob)
        rows.append((r, c, hexes(x.ravel()), bits32(float(glob)),
                     "".join(f"{int(v):x}" for v in codes.view(np.uint8).ravel()),
                     scale.view(np.uint8).tobytes().hex(), tiles.tobytes().hex() if r != 130 else "",
                     hexes(value.astype(np.float32).ravel()) if r <= 5 else ""))
        if r == 130:  # mostly padding: keep position and value of what is not zero
            flat = tiles.ravel()
            rows[-1] = rows[-1][:6] + (" ".join(f"{i}:{flat[i]:02x}" for i in np.nonzero(flat)[0]),
                                       rows[-1][7])
    write("nvfp4.csv", ["rows", "inner", "f32", "global", "codes", "linear", "swizzled", "value_f32"], rows)


def int4_vectors():
    """Matrices [rows, inner] in int4 with scales in bf16, and with two scales: codes one a byte, numpy and
    ml_dtypes' casts."""
    rng = np.random.default_rng(8)
    rows = []
    for r, c in ((1, 32), (3, 64), (4, 96)):
        x = (rng.normal(size=(r, c)) * 10.0 ** rng.integers(-3, 3)).astype(np.float32)
        x[0, :32] *= r != 3
        x[-1] = np.round(x[-1] / (unit := np.exp2(np.floor(np.log2(np.abs(x).max())) - 3))) * unit  # few bits: ties
        for name, size in (("int4_g32_bf16", 32), ("int4_ch_tensor", c), ("int4_g32_tensor", 32)):
            second, numbers = np.float32(1), x.reshape(r, c // size, size)
            if name != "int4_g32_bf16":
                second = np.float32(np.abs(x).max() / np.float32(448))
                fp8 = (
                    (numbers.astype(np.float64) / float(second))
                    .clip(-448, 448)
                    .astype(ml_dtypes.float8_e4m3fn)
                )
                numbers = fp8.astype(np.float32)
            scale = (np.abs(numbers).max(axis=2) / np.float32(7)).astype(np.float32)
            scale = scale.astype(ml_dtypes.bfloat16 if name == "int4_g32_bf16"
                                 else np.float32).astype(np.float32)
            scale[scale == 0] = 1
            codes = np.clip(np.rint(numbers.astype(np.float64) / scale.astype(np.float64)[:, :, None]), -7, 7)
            value = codes * scale.astype(np.float64)[:, :, None] * float(second)
            rows.append((name, r, c, hexes(x.ravel()), codes.astype(np.int8).tobytes().hex(),
                         hexes(scale.ravel()),
                         bits32(float(second)), hexes(value.astype(np.float32).ravel())))
    write("int4.csv", ["format", "rows", "inner", "f32", "codes", "scale", "scale_2", "value_f32"], rows)


def tq3_vectors():
    """Constants by mpmath (quadrature and root finding, not the fixed point of the C++); the rotation by a
    dense matrix."""
    mpmath.mp.dps = 40
    phi = mpmath.npdf
    def centroids(t):
        inner = mpmath.quad(lambda y: y * phi(y), [0, t]) / mpmath.quad(phi, [0, t])
        outer = mpmath.quad(lambda y: y * phi(y), [t, 4, 8, 20]) / mpmath.quad(phi, [t, 4, 8, 20])
        return inner, outer
    t = mpmath.findroot(lambda t: sum(centroids(t)) / 2 - t, 0.98)
    inner, outer = centroids(t)
    def spread(c, edges):
        return mpmath.quad(lambda y: abs(y - c) * phi(y), edges) / mpmath.quad(phi, edges)
    rows = [("threshold", t), ("centroid0", inner), ("centroid1", outer),
            ("spread0", spread(inner, [0, inner, t])),
            ("spread1", spread(outer, [t, outer, 4, 8, 20]))]
    write("tq3_constants.csv", ["name", "value"], [(n, mpmath.nstr(v, 30)) for n, v in rows])

    signs = np.array([int(s + "1") for s in "+-++--+-++-+-+--+--++-+--+++--+-"])
    h = np.array([[1]])
    for _ in range(5):
        h = np.kron(np.array([[1, 1], [1, -1]]), h)
    level = {}
    for index in range(4):
        c = np.float32(float([outer, inner, inner, outer][index])) * (1 if index >= 2 else -1)
        s = np.float32(float([rows[4][1], rows[3][1], rows[3][1], rows[4][1]][index]))
        for sign in (0, 1):
            level[True, index, sign] = float(c) + float(s) * (1 if sign else -1)
            level[False, index, sign] = float(c)
    out = []
    for i, block in enumerate(blocks()):
        x = [mpmath.mpf(float(v)) for v in block]
        y = [mpmath.fsum(int(h[a][b]) * int(signs[b]) * x[b] for b in range(32)) / mpmath.sqrt(32)
             for a in range(32)]
        norm = mpmath.sqrt(mpmath.fsum(v * v for v in y))
        for used in (True, False):
            raw = bytearray(14)
            if norm > 0:
                sigma = norm / mpmath.sqrt(32)
                total = mpmath.mpf(0)
                for j, v in enumerate(y):
                    m = abs(v) / sigma
                    # A rotated value of exactly zero has no sign to speak of: such blocks are left out below.
                    index = (2 if v > 0 else 1) + (0 if m <= t else 1 if v > 0 else -1)
                    c = inner if m <= t else outer
                    sign = 1 if v / sigma - (c if v > 0 else -c) > 0 else 0
                    raw[j // 4] |= index << (2 * (j % 4))
                    raw[8 + j // 8] |= sign << (j % 8)
                    total += mpmath.mpf(level[used, index, sign]) ** 2
                if any(abs(v) < ZERO * norm for v in y) or float(norm) > 1e5:
                    continue
                d = np.float16(float(norm / mpmath.sqrt(total)))
                raw[12:14] = d.tobytes()
            d = float(np.frombuffer(bytes(raw[12:14]), np.float16)[0])
            r = [d * level[used, raw[j // 4] >> (2 * (j % 4)) & 3, raw[8 + j // 8] >> (j % 8) & 1]
                 for j in range(32)]
            value = [float(int(signs[a]) * mpmath.fsum(int(h[a][b]) * mpmath.mpf(r[b]) for b in range(32)) /
                           mpmath.sqrt(32)) for a in range(32)]
            out.append(("tq3_0_c2s1" if used else "tq3_0_c2", i, bytes(raw).hex(),
                        " ".join(text(v) for v in value)
                        if i % 6 == 0 else ""))
    write("tq3.csv", ["format", "block", "bytes", "value"], out)


if __name__ == "__main__":
    scalar_decode()
    scalar_encode()
    ggml_vectors(sys.argv[1])
    q8_1_vectors(sys.argv[1])
    gguf_vectors()
    mx_vectors()
    nvfp4_vectors()
    int4_vectors()
    tq3_vectors()
