"""Softmax in Triton's interpreter, on the CPU: it takes the storages of its tensors and copies them, as some
libraries do. One that is correct, and the violations that such a kernel can have, to be found; README.md,
Memory.

    assay run 'softmax rows=4 cols=33 layout=dense,gaps variant=correct,...' -b
    python:interpreted_subjects.py"""

import os

os.environ["TRITON_INTERPRET"] = "1"
import torch  # noqa: E402
import triton  # noqa: E402
import triton.language as tl  # noqa: E402

from assay_subjects import subject  # noqa: E402


@triton.jit
def softmax_kernel(x, y, x_stride, y_stride, cols, beyond, behind, SIZE: tl.constexpr):
    """One row. `beyond`, `behind`: columns past the end of a row that are read as if they were of it, and
    written."""
    row, at = tl.program_id(0).to(tl.int64), tl.arange(0, SIZE)
    values = tl.load(x + row * x_stride + at, mask=at < cols + beyond, other=float("-inf"))
    weights = tl.exp(values - tl.max(values, axis=0))
    tl.store(y + row * y_stride + at, weights / tl.sum(weights, axis=0), mask=at < cols + behind)


def planted(variant, beyond=0, behind=0, copied=False):
    @subject(op="softmax", variant=variant, contract="acc=f32 exp_ulp=1", device="cpu")
    def softmax(call, x, y):
        """`copied`: into a tensor of its own first."""
        source = x.clone() if copied else x
        rows, cols = x.shape
        size = triton.next_power_of_2(cols + 1)
        softmax_kernel[(rows,)](source, y, source.stride(0), y.stride(0), cols, beyond, behind, SIZE=size)


planted("correct")
planted("of_a_copy", copied=True)
planted("reads_past", beyond=1)
planted("writes_past", behind=1)
