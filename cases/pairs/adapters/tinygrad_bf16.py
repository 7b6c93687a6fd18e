"""tinygrad's rounding of Python's numbers to bfloat16."""
import struct

import theirs

theirs.use()
from tinygrad.dtype import float_to_bf16  # noqa: E402

from assay_subjects import need, subject  # noqa: E402


def contract(call):
    need(call.text("dtype") == "f32" and call.text("to") == "bf16", "f32 to bf16")
    return "overflow=ieee"


@subject(op="quantize", contract=contract, path="float_to_bf16")
def quantize(call):
    for given, made in zip(call.rows("x"), call.rows("y")):
        for i, value in enumerate(given.cast("f")):
            made[2 * i:2 * i + 2] = struct.pack("f", float_to_bf16(value))[2:]
