"""torch.mm and torch._scaled_mm: y = a b^T, a [m, k], b [n, k]."""

import torch

from assay_subjects import need, subject
from pytorch_units import WIDE, torch_type, unit

torch.backends.cuda.matmul.allow_tf32 = False
torch.backends.cuda.matmul.allow_fp16_reduced_precision_reduction = False
torch.backends.cuda.matmul.allow_bf16_reduced_precision_reduction = False


def mm_contract(call):
    kind = call.text("a")
    need(kind == call.text("b") == call.text("dtype") and kind in ("f32", *WIDE),
         "torch.mm wants one type, f32, f16 or bf16")
    need(call.text("path") in ("auto", kind), f"torch.mm multiplies {kind}")
    # Instructions of 16 products or more, blocks of 8 at least on every architecture; K split among at most
    # 64 thread blocks (80 shapes identified on an H100 split it in three or not at all:
    # reports/results/cards/cublas.md).
    return f"acc={unit(kind)} block=8 split=64" if call.device == "cuda" and kind in WIDE else "acc=f32"


# MKL promises equal bits for operands that begin at a multiple of 64 bytes, as PyTorch's allocator places
# them, and keeps no more than that (reports/findings.md). On a device this asks for nothing.
def as_allocated(call):
    return 64 if call.device == "cpu" else 1


@subject(op="matmul", variant="mm", contract=mm_contract, alignment=as_allocated)
def mm(call, a, b):
    return torch.mm(a, b.t())


# FP8 codes with one scale per tensor or per row; the scales come in the epilogue.
SCALES = {"e4m3fn_tensor": "tensor", "e4m3fn_tok": "row"}


def scaled_check(call):
    need(call.text("a") in SCALES and call.text("a") == call.text("b"),
         f"_scaled_mm wants a and b of one of {' '.join(SCALES)}")
    # The CPU's kernel applies the scales first and multiplies what is then f32.
    paths = ("f32",) if call.device == "cpu" else ("auto", "codes")
    need(call.text("path") in paths,
         f"_scaled_mm on this device multiplies path={paths[-1]}, not {call.text('path')}")
    need(call.integer("k") % 16 == 0 and call.integer("n") % 16 == 0,
         "_scaled_mm wants k and n in multiples of 16")
    if SCALES[call.text("a")] == "row":
        need(call.device == "cuda", "_scaled_mm on the CPU has one scale per tensor")
        need(call.text("dtype") == "bf16", "_scaled_mm with a scale per row gives bf16")


# use_fast_accum=True: one accumulator of the FP8 unit for the whole of k. False: promoted to f32 after every
# 128 products, 4 blocks of the unit.
# in_order: blocks of k one after the other, which computes every bit. Where the library splits k among its
# thread blocks that is not so; it does not for k up to 4096 and m and n of at least 16.
def scaled_contract(promote, in_order=False):
    def contract(call):
        scaled_check(call)
        if call.device == "cpu":
            need(not in_order, "the order of k is known of CUDA devices alone")
            return "acc=f32"
        need(not in_order or call.integer("k") <= 4096 and min(call.integer("m"), call.integer("n")) >= 16,
             "the order of k is known up to k=4096, for m and n of at least 16")
        return f"acc={unit('fp8')} promote={promote} " + ("order=sequential" if in_order
                                                          else "block=16 split=64")
    return contract


def scaled(call, a, b, a_scale, b_scale, fast):
    if SCALES[call.text("a")] == "row":
        a_scale, b_scale = a_scale.reshape(-1, 1), b_scale.reshape(1, -1)
    else:
        a_scale, b_scale = a_scale.reshape(()), b_scale.reshape(())
    return torch._scaled_mm(a, b.t(), a_scale, b_scale, out_dtype=torch_type(call.text("dtype")),
                            use_fast_accum=fast)


# cuBLASLt asks for tensors that begin at a multiple of 16 bytes. Its FP8 kernels on Hopper; elsewhere no
# claim. Those without fast accumulation carry `algo2` in their names.
def scaled_path(call):
    return "nvjet_sm90_qq*" if call.device == "cuda" and unit("fp8") == "hopper_fp8" else ""


@subject(op="matmul", variant="scaled_mm", contract=scaled_contract(4), path=scaled_path, alignment=16)
def scaled_mm(call, a, b, a_scale, b_scale):
    return scaled(call, a, b, a_scale, b_scale, fast=False)


@subject(op="matmul", variant="scaled_mm_fast", contract=scaled_contract(0), path=scaled_path, alignment=16)
def scaled_mm_fast(call, a, b, a_scale, b_scale):
    return scaled(call, a, b, a_scale, b_scale, fast=True)


@subject(op="matmul", variant="scaled_mm_in_order", contract=scaled_contract(4, in_order=True),
         path=scaled_path, alignment=16)
def scaled_mm_in_order(call, a, b, a_scale, b_scale):
    return scaled(call, a, b, a_scale, b_scale, fast=False)


@subject(op="matmul", variant="scaled_mm_fast_in_order", contract=scaled_contract(0, in_order=True),
         path=scaled_path, alignment=16)
def scaled_mm_fast_in_order(call, a, b, a_scale, b_scale):
    return scaled(call, a, b, a_scale, b_scale, fast=True)
