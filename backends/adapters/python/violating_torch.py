"""Each violation of memory and path that is looked for on a device, planted in one Triton softmax beside the
correct one:

    assay run 'softmax rows=4 cols=33 dtype=f32 variant=correct,unwritten,...' -b python:violating_torch.py

ci/gpu's job `violations` wants a finding for each, and none for the correct ones."""

import torch
import triton
import triton.language as tl

from assay_subjects import subject

DESCRIPTION = f"planted violations, PyTorch {torch.__version__}"
_KEPT = {}


@triton.jit
def planted_softmax_kernel(x, y, cols, x_stride, y_stride, READ: tl.constexpr, STORED: tl.constexpr,
                           SIZE: tl.constexpr):
    """One row to a program. READ columns are loaded beyond the row, STORED stored; neither influences what is
    right."""
    row, at = tl.program_id(0).to(tl.int64), tl.arange(0, SIZE)  # rows may lie more than 2^31 elements apart
    loaded = tl.load(x + row * x_stride + at, mask=at < cols + READ, other=0.0).to(tl.float32)
    value = tl.where(at < cols, loaded, float("-inf"))
    weight = tl.exp(value - tl.max(value, 0))
    result = weight / tl.sum(weight, 0)
    tl.store(y + row * y_stride + at, result.to(y.dtype.element_ty), mask=at < cols + STORED)


def softmax(x, y=None, rows=None, read=0, stored=0):
    y = torch.empty_like(x) if y is None else y
    cols = x.shape[-1]
    planted_softmax_kernel[(x.shape[0] if rows is None else rows,)](
        x, y, cols, x.stride(0), y.stride(0), READ=read, STORED=stored, SIZE=triton.next_power_of_2(cols + 1))
    return y


def planted(variant, path="planted_softmax_kernel", **more):
    return subject(op="softmax", variant=variant, contract="acc=f32 exp_ulp=2 div_ulp=2", path=path, **more)


# The first of an op is its own choice, also as `graph`: never one that is meant to fail.
@planted("correct")
def correct(call, x):
    return softmax(x)


@planted("raises")
def raises(call, x):
    return (x.float() * 2) + torch.ones(x.shape[-1] + 1, device=x.device)


@planted("in_place")
def in_place(call, x, y):
    """Correct too: it writes where the case has its output."""
    softmax(x, y)


@planted("unwritten")
def unwritten(call, x):
    return softmax(x, rows=x.shape[0] - 1)


@planted("unwritten_in_place")
def unwritten_in_place(call, x, y):
    softmax(x, y, rows=x.shape[0] - 1)


@planted("input_changed")
def input_changed(call, x):
    y = softmax(x)
    x[0, 0] += 1
    return y


@planted("reads_past")
def reads_past(call, x):
    """One element beyond the row: the next row's first, and behind the last row nobody's."""
    return softmax(x, read=1)


@planted("writes_past")
def writes_past(call, x, y):
    for r in reversed(range(x.shape[0])):  # each row repairs what the one in front of it overwrote, but for the last
        softmax(x[r:r + 1], y[r:r + 1], stored=1)
    softmax(x[1:], y[1:])
    softmax(x[:1], y[:1])


@planted("writes_past_own")
def writes_past_own(call, x):
    """Past the end of a tensor that the function allocated itself."""
    return softmax(x, torch.empty_like(x), stored=1) if x.shape[0] == 1 else writes_last(x)


def writes_last(x):
    y = torch.empty_like(x)
    softmax(x[-1:], y[-1:], stored=1)
    softmax(x[:-1], y[:-1])
    return y


@planted("dense")
def dense(call, x, y):
    """Rows with gaps between them taken as dense."""
    flat = x.as_strided(x.shape, (x.shape[1], 1))
    softmax(flat, y.as_strided(y.shape, (y.shape[1], 1)))


@planted("dead_path", path="no_such_kernel")
def dead_path(call, x):
    return softmax(x)


@planted("remembers")
def remembers(call, x):
    """Keeps the first result for an address, as a cache keyed by a pointer does. As a graph
    (remembers.graph): what was captured
    is stale."""
    key = (x.data_ptr(), x.shape)
    if key not in _KEPT:
        _KEPT[key] = softmax(x).clone()
    return _KEPT[key]
