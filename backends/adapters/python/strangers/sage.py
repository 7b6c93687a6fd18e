"""SageAttention 1: attention with K and q quantised to INT8 per block of 64 keys and 128 rows. pip install
sageattention

No contract describes that quantisation, so the subject is for inputs that it represents exactly: all elements
of a block of one size (fill=constant, fill=equal_onehot with equal keys). On those its arithmetic is: integer
products, a softmax in f32 with exp2, weights cast to f16, each block's p.v summed in f16 and added in f32."""

from importlib.metadata import version

from assay_subjects import need, subject
from sageattention import sageattn
from stranger import plain_attention

DESCRIPTION = f"sageattention {version('sageattention')}"


def contract(call):
    plain_attention(call, "mask")
    need(call.text("dtype") == "f16" and call.integer("d") in (64, 128), "f16, d of 64 or 128")
    need(call.text("mask") == "none" or call.text("mask") == "causal"
         and call.integer("q") == call.integer("len"),
         "causal only with as many rows as keys")
    return "qk=f32 p=f16 pv=f16 promote=64 tile=64 exp_ulp=2"


@subject(op="attention", variant="smooth", path="_attn_fwd", contract=contract)
def smooth(call, q, k, v):
    """As installed: smooth_k is on."""
    return sageattn(q, k, v, tensor_layout="NHD", is_causal=call.text("mask") == "causal",
                    sm_scale=call.real("scale") or None)


@subject(op="attention", variant="plain", path="_attn_fwd", contract=contract)
def plain(call, q, k, v):
    return sageattn(q, k, v, tensor_layout="NHD", is_causal=call.text("mask") == "causal",
                    sm_scale=call.real("scale") or None,
                    smooth_k=False)
