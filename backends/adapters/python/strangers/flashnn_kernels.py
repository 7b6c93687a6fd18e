"""flashnn: norms, a dynamic quantiser, flash attention. pip install flashnn"""

from importlib.metadata import version

import torch

from assay_subjects import need, subject
from flashnn.triton_kernels.dynamic_quant import triton_dynamic_quantize
from flashnn.triton_kernels.flash_attn_v2 import triton_flash_attention_forward
from flashnn.triton_kernels.layer_norm import triton_layer_norm_forward
from flashnn.triton_kernels.rms_norm import triton_rmsnorm_forward
from stranger import dense, fused_attention, plain_attention

DESCRIPTION = f"flashnn {version('flashnn')}"


# 1 / sqrt(var + eps) by sqrt.approx and div.full.
@subject(op="rmsnorm", path="_rms_norm_kernel", contract="acc=f32 product=x_inv_gamma rsqrt_ulp=4")
def rms_norm(call, x, gamma):
    return triton_rmsnorm_forward(x, gamma, call.real("eps"))


@subject(op="layernorm", path="_layer_norm_kernel",
         contract="variance=two_pass acc=f32 product=x_inv_gamma rsqrt_ulp=4")
def layer_norm(call, x, gamma, beta):
    return triton_layer_norm_forward(x, gamma, beta, call.real("eps"))


def quantise_contract(call):
    dense(call, "x")
    need(call.text("to") == "int8_tok" and call.text("dtype") == "f32", "int8 with a scale per row, from f32")
    need(call.integer("cols") > 1, "more than one column: its number of warps is a half of them")
    return "scale=divide scale_ulp=2 code=any round=nearest_away"


@subject(op="quantize", path="_triton_dynamic_quantize_kernel", contract=quantise_contract)
def quantise(call, x):
    codes = torch.empty(x.shape, dtype=torch.int8, device=x.device)
    scale = torch.empty(x.shape[0], dtype=torch.float32, device=x.device)
    triton_dynamic_quantize(codes, x, scale)
    return {"y": codes, "y.scale": scale.reshape(call.outputs["y.scale"].shape)}


def attention_contract(call):
    plain_attention(call, "mask")
    need(call.text("mask") in ("none", "causal") and call.integer("q") == call.integer("len"),
         "as many rows as keys, causal or not")
    need(call.text("dtype") == "f16" and call.integer("d") in (16, 32, 64, 128)
         and call.integer("d") == call.integer("dv"),
         "f16, d of 16, 32, 64, 128")
    need(call.text("scale") == "0", "its own scale")
    return fused_attention(call)


@subject(op="attention", path="_triton_attn_fwd", contract=attention_contract)
def attention(call, q, k, v):
    return triton_flash_attention_forward(q, k, v, call.text("mask") == "causal")
