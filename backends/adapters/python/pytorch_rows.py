"""F.softmax, F.layer_norm, F.rms_norm."""

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


# gamma and beta are f32. On CUDA PyTorch wants them in x's type, and so under autocast it computes layer_norm of 16-bit x
# in f32: that is what runs here, and the result is rounded to f32 first.
def norm_dtype(call):
    return "f32" if call.device == "cuda" else call.text("dtype")


@subject(op="layernorm", contract="variance=welford acc=f32 out=f32",
         path=lambda call: "aten::layer_norm" if call.device == "cpu" else layer_norm_kernel(call))
def layernorm(call, x, gamma, beta):
    y = F.layer_norm(x.to(torch_type(norm_dtype(call))), (x.shape[-1],), gamma, beta, call.real("eps"))
    return y.to(x.dtype)


def layer_norm_kernel(call):
    """Rows that 4 f32 divide are read as vectors; the moments of others are computed by a kernel of their own."""
    return "vectorized_layer_norm_kernel*" if call.integer("cols") % 4 == 0 else "RowwiseMomentsCUDAKernel*"


@subject(op="rmsnorm", contract="acc=f32 out=f32",
         path=lambda call: "aten::rms_norm" if call.device == "cpu" else layer_norm_kernel(call))
def rmsnorm(call, x, gamma):
    y = F.rms_norm(x.to(torch_type(norm_dtype(call))), (x.shape[-1],), gamma, call.real("eps"))
    return y.to(x.dtype)
