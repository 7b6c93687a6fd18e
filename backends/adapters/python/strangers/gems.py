"""flag-gems: PyTorch's operators in Triton. pip install flag-gems"""

from importlib.metadata import version

import flag_gems
import torch

from assay_subjects import need, subject
from stranger import TRITON_SOFTMAX, fused_attention, plain_attention, plain_softmax
from pytorch_units import WIDE, unit

DESCRIPTION = f"flag-gems {version('flag-gems')}"


def softmax_contract(call):
    plain_softmax(call)
    return TRITON_SOFTMAX + f" rescales={-(-call.integer('cols') // 64)}"


@subject(op="softmax", path="softmax_kernel_inner", contract=softmax_contract)
def softmax(call, x):
    return flag_gems.ops.softmax(x, -1)


@subject(op="rmsnorm", path="rms_norm*", contract="acc=f32 product=x_inv_gamma rsqrt_ulp=4")
def rms_norm(call, x, gamma):
    return flag_gems.ops.rms_norm(x, (x.shape[-1],), gamma, call.real("eps"))


@subject(op="layernorm", path="layer_norm*", contract="variance=welford acc=f32 rsqrt_ulp=4")
def layer_norm(call, x, gamma, beta):
    return flag_gems.ops.layer_norm(x, (x.shape[-1],), gamma, beta, call.real("eps"))[0]


@subject(op="argmax", path="argmax_kernel*", contract="nan=wins")
def argmax(call, x):
    need(call.text("checked") == "no", "no checked=yes")
    return flag_gems.ops.argmax(x, -1).to(torch.int32)


def mm_contract(call):
    kind = call.text("a")
    need(kind == call.text("b") == call.text("dtype") and kind in WIDE, "one 16-bit type")
    need(call.text("path") in ("auto", kind), f"it multiplies {kind}")
    return f"acc={unit(kind)}"


@subject(op="matmul", path="mm*", contract=mm_contract)
def mm(call, a, b):
    return flag_gems.ops.mm(a, b.t())


def attention_contract(call):
    plain_attention(call, "mask")
    need(call.text("mask") == "none" or call.text("mask") == "causal"
         and call.integer("q") == call.integer("len"),
         "causal only with as many rows as keys")
    need(call.integer("d") in (64, 128), "d of 64 or 128")
    return fused_attention(call)


@subject(op="attention", path="_attn_fwd", contract=attention_contract)
def attention(call, q, k, v):
    heads_first = [t.transpose(1, 2) for t in (q, k, v)]
    return flag_gems.ops.scaled_dot_product_attention(
        *heads_first, is_causal=call.text("mask") == "causal", scale=call.real("scale") or None,
        enable_gqa=call.integer("heads") != call.integer("kv_heads")).transpose(1, 2)
