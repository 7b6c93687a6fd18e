"""PyTorch's compiler: functions through torch.compile, and flex_attention. pip install torch"""

import torch
import torch.nn.functional as F
from torch.nn.attention.flex_attention import create_block_mask, flex_attention

from assay_subjects import need, subject
from stranger import TRITON_SOFTMAX, fused_attention, plain_attention, plain_softmax

DESCRIPTION = f"Inductor of PyTorch {torch.__version__}"
torch._dynamo.config.cache_size_limit = 512
_softmax = torch.compile(lambda x: F.softmax(x, dim=-1), dynamic=True)
_layer_norm = torch.compile(lambda x, gamma, beta,
                            eps: F.layer_norm(x.float(), (x.shape[-1],), gamma, beta, eps).to(x.dtype),
                            dynamic=True)
_rms_norm = torch.compile(lambda x, gamma, eps: F.rms_norm(x.float(), (x.shape[-1],), gamma, eps).to(x.dtype),
                          dynamic=True)
_flex = torch.compile(flex_attention, dynamic=False)


def softmax_contract(call):
    plain_softmax(call)
    return TRITON_SOFTMAX + f" rescales={-(-call.integer('cols') // 64)}"


@subject(op="softmax", path="triton_*", contract=softmax_contract)
def softmax(call, x):
    return _softmax(x)


@subject(op="layernorm", path="triton_*", contract="variance=welford acc=f32")
def layer_norm(call, x, gamma, beta):
    return _layer_norm(x, gamma, beta, call.real("eps"))


@subject(op="rmsnorm", path="triton_*", contract="acc=f32")
def rms_norm(call, x, gamma):
    return _rms_norm(x, gamma, call.real("eps"))


def attention_contract(call):
    plain_attention(call, "mask")
    need(call.text("mask") in ("none", "causal"), "no and causal masks")
    need(call.integer("d") in (64, 128), "d of 64 or 128")
    return fused_attention(call, split=128)


@subject(op="attention", path="triton_*", contract=attention_contract)
def attention(call, q, k, v):
    rows, keys = q.shape[1], k.shape[1]
    mask = None
    if call.text("mask") == "causal":
        mask = create_block_mask(lambda b, h, i, j: j <= i + (keys - rows), None, None, rows, keys,
                                 device=q.device)
    out = _flex(q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2), block_mask=mask,
                scale=call.real("scale") or None,
                enable_gqa=call.integer("heads") != call.integer("kv_heads"))
    return out.transpose(1, 2)
