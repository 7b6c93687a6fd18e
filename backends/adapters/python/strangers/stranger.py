"""What subjects for installed libraries have in common: what a library has no argument for, and how its
contract is written.

A contract is read off the library's source, not fitted to what it computes. Triton 3.6, which most of them
are written in: tl.exp is ex2.approx of x times log2(e) rounded to f32 (exp=base2), `/` of f32 is div.full (2
ulp), tl.dot of 16-bit operands is the tensor core with an f32 accumulator."""

from assay_subjects import need
from pytorch_units import WIDE, unit

# Rows: a reduction in f32 of a whole row by the lanes of one program, in an order that the compiler chooses.
TRITON_SOFTMAX = "acc=f32 exp=base2 exp_ulp=2 div_ulp=2 ftz=yes"


def dense(call, *names):
    """The library asserts that these are contiguous."""
    for name in names:
        t = call.tensor(name)
        bytes_inside = t.row_bytes
        for extent, stride in zip(reversed(t.shape[:-1]), reversed(t.stride[:-1])):
            need(extent == 1 or stride == bytes_inside, f"{name} must be contiguous, the library asserts")
            bytes_inside *= extent


def plain(call, **absent):
    """What an op can be asked and the library has no argument for."""
    for attribute, value in absent.items():
        need(call.text(attribute) == value, f"no {attribute}={call.text(attribute)}")


def plain_softmax(call):
    plain(call, mask="none", sinks="no", softcap="0", temperature="1")


def plain_attention(call, *more):
    plain(call, **{name: value for name, value in (
        ("page", "0"), ("lengths", "full"), ("softcap", "0"), ("sinks", "no"), ("alibi", "no"),
        ("rotate", "none"),
        ("mask", "none")) if name not in more})
    need(call.text("k") == call.text("dtype") == call.text("v") and call.text("dtype") in WIDE,
         "q, K and V of one 16-bit type")


def fused_attention(call, split=1, tile=64, more=""):
    kind = call.text("dtype")
    return f"qk={unit(kind)} p={kind} pv={unit(kind)} tile={tile} split={split} exp_ulp=2 {more}".strip()
