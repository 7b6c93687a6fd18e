"""A block format's decoder in plain Python (q4_K of ggml), for a subject that reads rows of bytes: blocks of
256 elements."""

import struct

from assay_subjects import need, subject


def q4_k(call):
    need(call.text("from") == "q4_K" and call.text("dtype") == "f32", "from=q4_K dtype=f32")
    return "mid=f32"


def scale_and_minimum(packed, group):
    """6 bits each, of eight groups in 12 bytes."""
    if group < 4:
        return packed[group] & 63, packed[group + 4] & 63
    return (packed[group + 4] & 15 | (packed[group - 4] >> 6) << 4,
            packed[group + 4] >> 4 | (packed[group] >> 6) << 4)


@subject(op="dequantize", contract=q4_k, device="cpu")
def dequantize(call):
    result = []
    for row in call.rows("x"):
        for at in range(0, len(row), 144):
            block = bytes(row[at:at + 144])
            d, least = struct.unpack("<2e", block[:4])
            for group in range(8):
                scale, minimum = scale_and_minimum(block[4:16], group)
                codes = block[16 + 32 * (group // 2):48 + 32 * (group // 2)]
                result += [d * scale * (code >> 4 * (group % 2) & 15) - least * minimum for code in codes]
    return result
