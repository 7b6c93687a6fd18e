"""F.softmax, F.layer_norm, F.rms_norm, argmax."""

import torch
import torch.nn.functional as F

from assay_subjects import need, subject
from pytorch_units import softmax_kernel, torch_type


def softmax_contract(call):
    for attribute, value in (("mask", "none"), ("sinks", "no"), ("softcap", "0"), ("temperature", "1")):
        need(call.text(attribute) == value, f"F.softmax has no {attribute}={call.text(attribute)}")
    return "acc=f32 exp_ulp=2 div_ulp=2"


@subject(op="softmax", contract=softmax_contract,
         path=lambda call: "aten::softmax" if call.device == "cpu" else softmax_kernel(call.integer("cols")))
def softmax(call, x):
    return F.softmax(x, dim=-1)


# gamma and beta are f32. On CUDA PyTorch wants them in x's type, and so under autocast it computes layer_norm
# of 16-bit x in f32: that is what runs here, and the result is rounded to f32 first.
def norm_dtype(call):
    return "f32" if call.device == "cuda" else call.text("dtype")


def norm_order(call):
    """The most additions on one term's way, on CUDA: a thread's own updates and the merges, empty lanes
    included. On a CPU
    the chunks of 16 vectors are merged by a stack of partial moments, whose order follows from the threads:
    any.

    vectorized_layer_norm_kernel: 128 threads read 4 numbers at a time; 5 levels of a warp, 2 over the 4
    warps.
    RowwiseMomentsCUDAKernel: at least 256 threads read one number at a time; 5 levels of a warp, 5 over the
    warps.
    """
    if call.device == "cpu":
        return "order=any"
    cols = call.integer("cols")
    depth = 4 * -(-cols // 512) + 6 if cols % 4 == 0 else -(-cols // 256) + 9
    return f"order=depth:{depth} div_ulp=0.5 product=x_inv_gamma"


@subject(op="layernorm", contract=lambda call: f"variance=welford acc=f32 {norm_order(call)} out=f32",
         path=lambda call: "aten::layer_norm" if call.device == "cpu" else layer_norm_kernel(call))
def layernorm(call, x, gamma, beta):
    y = F.layer_norm(x.to(torch_type(norm_dtype(call))), (x.shape[-1],), gamma, beta, call.real("eps"))
    return y.to(x.dtype)


def layer_norm_kernel(call):
    """Rows that 4 f32 divide are read as vectors; the moments of others are computed by a kernel of their
    own."""
    return "vectorized_layer_norm_kernel*" if call.integer("cols") % 4 == 0 else "RowwiseMomentsCUDAKernel*"


@subject(op="rmsnorm", contract=lambda call: f"acc=f32 {norm_order(call)} out=f32",
         path=lambda call: "aten::rms_norm" if call.device == "cpu" else layer_norm_kernel(call))
def rmsnorm(call, x, gamma):
    y = F.rms_norm(x.to(torch_type(norm_dtype(call))), (x.shape[-1],), gamma, call.real("eps"))
    return y.to(x.dtype)


@subject(op="argmax", contract="nan=wins", path=lambda call: "aten::argmax" if call.device == "cpu"
         else "reduce_kernel*")
def argmax(call, x):
    """A NaN is the maximum to PyTorch, and the first of several; there is no index that reports one."""
    need(call.text("checked") == "no", "torch.argmax has no checked=yes")
    return torch.argmax(x, dim=-1).to(torch.int32)
