"""Subjects that do not run by the arithmetic or the path that they declare, to be caught, beside
pytorch_subjects.py's correct counterparts:

    assay run 'matmul m=64 n=64 k=16384 a=e4m3fn_tensor b=e4m3fn_tensor dtype=f32 fill=uniform
    variant=fast_as_promoted' \\
      -b python:mislabelled_subjects.py
"""

import torch

import pytorch_attention as attention
import pytorch_matmul as matmul
from assay_subjects import subject


@subject(op="matmul", variant="fast_as_promoted", contract=matmul.scaled_contract(4))
def fast_as_promoted(call, a, b, a_scale, b_scale):
    """FP8 with one accumulator for the whole of k, declared as promoted after every 128 products: wrong."""
    return matmul.scaled(call, a, b, a_scale, b_scale, fast=True)


@subject(op="attention", variant="math_as_flash", contract=attention.flash_contract,
         path=attention.FLASH_KERNELS)
def math_as_flash(call, q, k, v):
    """The math backend announced as flash: the numbers are good, the path is dead. Only a witness can tell:
    fallback."""
    return attention.attend(call, q, k, v, attention.MATH)


@subject(op="attention", variant="math_without_memory", contract=attention.math_contract,
         promises="temporary_bytes=0")
def math_without_memory(call, q, k, v):
    """The math backend, which converts K and V and keeps all logits, under a promise to need no memory:
    fallback, once the
    allocations can be seen (PYTORCH_NO_CUDA_MEMORY_CACHING=1)."""
    return attention.attend(call, q, k, v, attention.MATH)


@subject(op="attention", variant="flash_without_memory", contract=attention.flash_contract,
         path=attention.FLASH_KERNELS,
         promises="temporary_bytes=0")
def flash_without_memory(call, q, k, v):
    """Its counterpart, which keeps the promise for prefill: the output and one number per row."""
    return attention.attend(call, q, k, v, attention.FLASH)


@subject(op="softmax", variant="f16_as_f32", contract="acc=f32 exp_ulp=2 div_ulp=2")
def f16_as_f32(call, x):
    """Computed in f16, declared in f32: wrong."""
    return torch.softmax(x.half(), dim=-1).to(x.dtype)
