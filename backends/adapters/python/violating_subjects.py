"""Each violation of memory and path that is looked for, planted in one plain softmax, beside the correct one
(variant correct):

    assay run 'softmax rows=4 cols=33 layout=dense,gaps variant=correct,unwritten,...' -b
    python:violating_subjects.py

On the CPU, without any library; violating_torch.py is the same on a device."""

import math
import struct

from assay_subjects import subject

F32 = 4


def softmax(call, rows=None, beyond=0.0):
    x, y = call.rows("x"), call.rows("y")
    for source, target in list(zip(x, y))[:rows]:
        values = struct.unpack(f"<{len(source) // F32}f", source)
        weights = [math.exp(v - max(values)) for v in values]
        total = math.fsum(weights) + beyond
        struct.pack_into(f"<{len(values)}f", target, 0, *[w / total for w in weights])


def planted(variant, path="", alignment=1):
    return subject(op="softmax", variant=variant, contract="acc=f64 exp_ulp=1 out=f32", path=path,
                   device="cpu",
                   alignment=alignment)


@planted("correct", path="correct")
def correct(call):
    softmax(call)


@planted("unwritten")
def unwritten(call):
    softmax(call, rows=-1)


@planted("input_changed")
def input_changed(call):
    softmax(call)
    struct.pack_into("<f", call.rows("x")[0], 0, 0.25)


def behind(call, name):
    """Where the element past the last one of a tensor would be. A plane on the left has room behind it, one
    on the right none
    but in front."""
    t = call.tensor(name)
    return t.offset + t.extent


@planted("reads_past")
def reads_past(call):
    at = behind(call, "x")
    number = struct.unpack("<f", call.memory[at:at + F32])[0]
    softmax(call, beyond=abs(number) if math.isfinite(number) else 0.0)


@planted("reads_past_aligned", alignment=64)
def reads_past_aligned(call):
    reads_past(call)


@planted("by_address")
def by_address(call):
    """Its bits depend on where in 64 bytes a tensor begins: of a library that promises equal bits for aligned
    ones alone."""
    softmax(call, beyond=1e-6 * (call.tensor("x").offset % 64))


@planted("by_address_aligned", alignment=64)
def by_address_aligned(call):
    by_address(call)


@planted("writes_past")
def writes_past(call):
    softmax(call)
    at = behind(call, "y")
    call.memory[at:at + F32] = struct.pack("<f", 0.25)


@planted("dense")
def dense(call):
    """Rows with gaps between them taken as dense."""
    for name in ("x", "y"):
        t = call.tensor(name)
        t.stride = (t.row_bytes, F32)
    softmax(call)


@planted("dead_path", path="no_such_kernel")
def dead_path(call):
    softmax(call)
