"""conch-triton-kernels: norm, quantisers, paged attention. pip install conch-triton-kernels"""

from importlib.metadata import version

import torch

from assay_subjects import need, subject
from conch.ops.attention.paged_attention import paged_attention
from conch.ops.normalization.rms_norm import rms_norm
from conch.ops.quantization.fp8 import scaled_fp8_quant
from conch.ops.quantization.int8 import scaled_int8_quant
from stranger import dense, plain_attention
from pytorch_units import unit

DESCRIPTION = f"conch-triton-kernels {version('conch-triton-kernels')}"


def norm_contract(call):
    dense(call, "x")
    return f"acc=f32 product=x_inv_gamma mid={call.text('dtype')}"


@subject(op="rmsnorm", path="_rms_norm_kernel", contract=norm_contract)
def norm(call, x, gamma):
    return rms_norm(x, gamma, call.real("eps")).to(x.dtype)


def scaled(call, x, largest, quantise):
    """One scale for the tensor, absmax / largest; the library multiplies by its reciprocal."""
    scale = (x.abs().amax().float() / torch.full((), largest, device=x.device)).reshape(1)
    scale = torch.where(scale == 0, torch.ones_like(scale), scale)
    codes, _ = quantise(x, scale)
    return {"y": codes, "y.scale": scale.reshape(call.outputs["y.scale"].shape)}


# The comment in the kernel says "Apply scaling factor, round, clamp, and cast to int8"; vLLM's kernel, whose
# place it takes, rounds to nearest even.
def int8_contract(rounding):
    def contract(call):
        dense(call, "x", "y")
        need(call.text("to") == "int8_tensor" and call.text("dtype") == "f32",
             "int8 with one scale, from f32")
        return f"scale=divide code=reciprocal round={rounding}"
    return contract


@subject(op="quantize", variant="int8", path="_static_scaled_int8_quant_kernel",
         contract=int8_contract("nearest_even"))
def int8(call, x):
    return scaled(call, x, 127.0, scaled_int8_quant)


@subject(op="quantize", variant="int8_truncating", path="_static_scaled_int8_quant_kernel",
         contract=int8_contract("toward_zero"))
def int8_truncating(call, x):
    """The same under the rounding that it really has: what is wrong with `int8` is this and nothing else."""
    return scaled(call, x, 127.0, scaled_int8_quant)


def fp8_contract(call):
    dense(call, "x", "y")
    need(call.text("to") == "e4m3fn_tensor" and call.text("dtype") == "f32",
         "e4m3fn with one scale, from f32")
    return "scale=divide code=reciprocal"


@subject(op="quantize", variant="fp8", path="_static_scaled_fp8_quant_kernel", contract=fp8_contract)
def fp8(call, x):
    return scaled(call, x, 448.0, scaled_fp8_quant)


def split_of(keys):
    return next((parts for most, parts in ((128, 1), (256, 2), (512, 4), (1024, 8), (2048, 16), (8192, 32))
                 if keys <= most), 64)


def paged_check(call):
    plain_attention(call, "page", "lengths", "softcap")
    need(call.integer("page") > 0 and call.integer("q") == 1, "paged attention is for one query row on pages")
    need(call.integer("page") >= 16 and (call.integer("page") & (call.integer("page") - 1)) == 0,
         "pages of 16, 32, 64, ... keys")
    pages = -(-call.integer("len") // call.integer("page"))
    return call.text("dtype"), split_of(pages * call.integer("page"))


# What the interface suggests: tensor-core products with f32 accumulators, a softmax in f32, splits merged in
# f32.
def paged_contract(call):
    kind, split = paged_check(call)
    return f"qk={unit(kind)} p={kind} pv={unit(kind)} tile={call.integer('page')} split={split} exp_ulp=2"


# What the source does: logits, maximum, weights, row sum and the output's accumulator are of the output's
# type, for each page. A number rounded to f16 is off by 2^-11 of itself, 4096 ulps of f32: an exponential by
# that and by what its own rounding adds, a quotient likewise.
def paged_as_written(call):
    kind, split = paged_check(call)
    need(kind == "f16", "of bf16 no accumulator is described")
    return (f"qk={unit(kind)} scores=f16 p=f16 pv=f16 rowsum=f16 tile={call.integer('page')} "
            f"split={split} exp_ulp=8200 tanh_ulp=8200 div_ulp=8200")


def paged(call, q, k, v):
    lengths = (call.torch("lengths") if call.text("lengths") == "ragged" else
               torch.full((q.shape[0],), call.integer("len"), dtype=torch.int32, device=q.device))
    scale = call.real("scale") or q.shape[-1] ** -0.5
    out = paged_attention(q[:, 0], k, v, call.torch("page_table"), lengths, scale=scale,
                          softcap=call.real("softcap"))
    return out.reshape(q.shape)


PAGED = "_paged_attention_compute_splits_kernel"
subject(op="attention", variant="paged", path=PAGED, contract=paged_contract)(paged)
subject(op="attention", variant="paged_as_written", path=PAGED, contract=paged_as_written)(paged)
