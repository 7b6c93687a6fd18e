"""Triton's dot for assay identify, with no claim of a path: y = a b^T by tiles of TILE_K, chained through one
accumulator in f32. On a CPU the same kernels run in Triton's interpreter (not in bf16, which it reads as
integers); its sums are NumPy's.

    variant=k32, k64, k128     columns of a tile: bf16, f16, f32 (as tf32) and e4m3fn with a scale of each
    tensor
    variant=k128_exact32       FP8 whose sums leave the unit after 32 columns (max_num_imprecise_acc)
    variant=k64_split4         K in 4 slices of whole tiles, added in order by a second kernel
"""
import os

import torch

import assay_subjects
from assay_subjects import need, subject
from pytorch_units import torch_type, unit

if assay_subjects.DEVICE == "cpu":
    os.environ["TRITON_INTERPRET"] = "1"
import triton  # noqa: E402
import triton.language as tl  # noqa: E402

TILE = 64


@triton.jit
def dot_kernel(a, b, y, m, n, k, scale, slice_k, a_stride, b_stride, y_stride, TILE_M: tl.constexpr,
               TILE_N: tl.constexpr, TILE_K: tl.constexpr,
               IMPRECISE: tl.constexpr):
    """y [slices, m, n] f32: one program for a tile of y and a slice of K."""
    rows, columns = (
        tl.program_id(0) * TILE_M + tl.arange(0, TILE_M),
        tl.program_id(1) * TILE_N + tl.arange(0, TILE_N),
    )
    begin = tl.program_id(2) * slice_k
    total = tl.zeros((TILE_M, TILE_N), tl.float32)
    for first in range(begin, min(begin + slice_k, k), TILE_K):
        at = first + tl.arange(0, TILE_K)
        left = tl.load(a + rows[:, None] * a_stride + at[None, :],
                       mask=(rows[:, None] < m) & (at[None, :] < k), other=0.0)
        right = tl.load(b + columns[None, :] * b_stride + at[:, None],
                        mask=(columns[None, :] < n) & (at[:, None] < k), other=0.0)
        total = tl.dot(left, right, total, max_num_imprecise_acc=IMPRECISE)
    place = tl.program_id(2) * m * y_stride + rows[:, None] * y_stride + columns[None, :]
    tl.store(y + place, total * tl.load(scale), mask=(rows[:, None] < m) & (columns[None, :] < n))


@triton.jit
def add_slices_kernel(parts, y, count, SLICES: tl.constexpr, SIZE: tl.constexpr):
    """y = the slices' sums, first to last."""
    at = tl.program_id(0) * SIZE + tl.arange(0, SIZE)
    total = tl.load(parts + at, mask=at < count, other=0.0)
    for part in tl.static_range(1, SLICES):
        total += tl.load(parts + part * count + at, mask=at < count, other=0.0)
    tl.store(y + at, total, mask=at < count)


def product(a, b, scale, tile_k, slices=1, imprecise=None):
    (m, k), n = a.shape, b.shape[0]
    tiles = triton.cdiv(k, tile_k)
    slice_k = triton.cdiv(tiles, slices) * tile_k
    parts = torch.empty((slices, m, n), dtype=torch.float32, device=a.device)
    dot_kernel[(triton.cdiv(m, TILE), triton.cdiv(n, TILE), slices)](
        a, b, parts, m, n, k, scale, slice_k, a.stride(0), b.stride(0), n, TILE_M=TILE, TILE_N=TILE,
        TILE_K=tile_k, IMPRECISE=imprecise)
    if slices == 1:
        return parts[0]
    y = torch.empty((m, n), dtype=torch.float32, device=a.device)
    add_slices_kernel[(triton.cdiv(m * n, 1024),)](parts, y, m * n, SLICES=slices, SIZE=1024)
    return y


def contract(call):
    kind = call.text("a")
    need(kind == call.text("b") and kind in ("f32", "f16", "bf16", "e4m3fn_tensor"),
         "one type: f32, f16, bf16 or e4m3fn_tensor")
    need(call.text("dtype") == "f32", "y in f32")
    if not torch.cuda.is_available():
        return "acc=f32"
    return "acc=" + ("hopper_tf32" if kind == "f32" else "hopper_fp8" if kind == "e4m3fn_tensor"
                     else unit(kind))


def dot(variant, **how):
    @subject(op="matmul", variant=variant, contract=contract, alignment=16)
    def of_variant(call, a, b, a_scale=None, b_scale=None):
        scale = torch.ones((),
                           device=a.device) if a_scale is None else a_scale.reshape(()) * b_scale.reshape(())
        return product(a, b, scale, **how).to(torch_type(call.text("dtype")))


dot("k32", tile_k=32)
dot("k64", tile_k=64)
dot("k128", tile_k=128)
dot("k128_exact32", tile_k=128, imprecise=32)
dot("k64_split4", tile_k=64, slices=4)
