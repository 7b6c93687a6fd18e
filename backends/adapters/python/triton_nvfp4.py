"""A product with NVFP4 weights by way of FP8, in Triton: y = a b^T, a [m, k] bf16, b [n, k] nvfp4. Written
for assay.

The weights are dequantised to e4m3fn (e2m1 * block scale / global scale: the stored global scale is the
quantising one), clamped at 448, with no scale left; the activations are quantised to e4m3fn with one dynamic
scale, absmax / 448. Then FP8 tiles are multiplied on the matrix unit. On a CPU the same kernels run in
Triton's interpreter."""

import os

import torch

import assay_subjects
from assay_subjects import need, subject
from pytorch_units import torch_type, unit

if assay_subjects.DEVICE == "cpu":
    os.environ["TRITON_INTERPRET"] = "1"
import triton  # noqa: E402
import triton.language as tl  # noqa: E402

LARGEST = 448.0  # of e4m3fn
TILE_K = 128


@triton.jit
def nvfp4_to_e4m3fn_kernel(codes, block_scales, global_scale, out, pairs, PAIRS: tl.constexpr):
    """codes: two e2m1 codes to a byte, the earlier element in the low nibble; a block scale per 8 bytes."""
    at = tl.program_id(0) * PAIRS + tl.arange(0, PAIRS)
    inside = at < pairs
    byte = tl.load(codes + at, mask=inside, other=0).to(tl.int32)
    scale = tl.load(block_scales + at // 8, mask=inside, other=0.0).to(tl.float32)
    divisor = tl.load(global_scale)
    for half in tl.static_range(2):
        code = (byte >> (4 * half)) & 15
        magnitude = code & 7
        # e2m1: 0, 0.5, then (1 + m/2) 2^(e-1)
        exponent = (magnitude >> 1).to(tl.float32)
        normal = (1.0 + 0.5 * (magnitude & 1).to(tl.float32)) * tl.exp2(exponent - 1.0)
        value = tl.where(magnitude < 2, 0.5 * magnitude.to(tl.float32), normal)
        value = tl.where(code >= 8, -value, value)
        weight = tl.math.div_rn(value * scale, divisor)  # the product is exact, the quotient rounded once
        weight = tl.minimum(tl.maximum(weight, -448.0), 448.0)
        tl.store(out + 2 * at + half, weight.to(tl.float8e4nv), mask=inside)


@triton.jit
def bf16_to_e4m3fn_kernel(x, scale, out, count, SIZE: tl.constexpr):
    at = tl.program_id(0) * SIZE + tl.arange(0, SIZE)
    value = tl.math.div_rn(tl.load(x + at, mask=at < count, other=0.0).to(tl.float32), tl.load(scale))
    value = tl.minimum(tl.maximum(value, -448.0), 448.0)
    tl.store(out + at, value.to(tl.float8e4nv), mask=at < count)


@triton.jit
def fp8_product_kernel(a, b, scale, out, m, n, k, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr,
                       IMPRECISE: tl.constexpr):
    """out[m, n] = scale sum_k a[m, k] b[n, k]; IMPRECISE: products between promotions of the accumulator to
    f32, None: never."""
    row = tl.program_id(0) * M + tl.arange(0, M)
    col = tl.program_id(1) * N + tl.arange(0, N)
    acc = tl.full((M, N), 0.0, dtype=tl.float32)
    for start in range(0, k, K):
        at = start + tl.arange(0, K)
        left = tl.load(a + row[:, None] * k + at[None, :], mask=(row[:, None] < m) & (at[None, :] < k),
                       other=0.0)
        right = tl.load(b + col[None, :] * k + at[:, None], mask=(col[None, :] < n) & (at[:, None] < k),
                        other=0.0)
        acc = tl.dot(left, right, acc, max_num_imprecise_acc=IMPRECISE)
    acc = acc * tl.load(scale)
    tl.store(out + row[:, None] * n + col[None, :], acc.to(out.dtype.element_ty),
             mask=(row[:, None] < m) & (col[None, :] < n))


def product(call, a, b, b_block_scale, b_global_scale, imprecise):
    m, k, n = call.integer("m"), call.integer("k"), call.integer("n")
    a, b, b_block_scale = a.contiguous(), b.contiguous(), b_block_scale.contiguous()
    weights = torch.empty((n, k), dtype=torch.float8_e4m3fn, device=a.device)
    nvfp4_to_e4m3fn_kernel[(triton.cdiv(n * k // 2, 1024),)](b, b_block_scale, b_global_scale, weights,
                                                             n * k // 2,
                                                            PAIRS=1024)
    largest = a.abs().amax().float()
    scale = torch.where(largest == 0, torch.ones_like(largest), largest / LARGEST)
    codes = torch.empty((m, k), dtype=torch.float8_e4m3fn, device=a.device)
    bf16_to_e4m3fn_kernel[(triton.cdiv(m * k, 1024),)](a, scale, codes, m * k, SIZE=1024)
    y = torch.empty((m, n), dtype=torch_type(call.text("dtype")), device=a.device)
    tiles = (triton.cdiv(m, 64), triton.cdiv(n, 64))
    fp8_product_kernel[tiles](codes, weights, scale, y, m, n, k, M=64, N=64, K=TILE_K, IMPRECISE=imprecise)
    if call.device == "cuda":
        call.kernels += ["nvfp4_to_e4m3fn_kernel", "bf16_to_e4m3fn_kernel", "fp8_product_kernel"]
    return y


def contract(promote):
    def declared(call):
        need((call.text("a"), call.text("b")) == ("bf16", "nvfp4") and call.text("path") == "e4m3fn",
             "the Triton product takes a=bf16 b=nvfp4 path=e4m3fn")
        acc = "acc=f32" if call.device == "cpu" else f"acc={unit('fp8')} promote={promote} block=16 split=1"
        return acc + " dequant_roundings=1 epilogue_roundings=3"
    return declared


@subject(op="matmul", variant="triton_nvfp4", contract=contract(0), path="fp8_product_kernel")
def triton_nvfp4(call, a, b, b_block_scale, b_global_scale):
    """One accumulator of the FP8 unit for the whole of k."""
    return product(call, a, b, b_block_scale, b_global_scale, imprecise=None)


@subject(op="matmul", variant="triton_nvfp4_promoted", contract=contract(TILE_K // 32),
         path="fp8_product_kernel")
def triton_nvfp4_promoted(call, a, b, b_block_scale, b_global_scale):
    """Promoted to f32 after every 128 products."""
    return product(call, a, b, b_block_scale, b_global_scale, imprecise=TILE_K)
