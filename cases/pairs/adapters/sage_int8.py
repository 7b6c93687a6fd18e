"""SageAttention's INT8 kernel: codes of queries and keys with a scale a block, values in f16, exp2."""
import theirs

theirs.use(triton=True)
from sageattention.triton.attn_qk_int8_per_block import forward  # noqa: E402

from assay_subjects import need, subject  # noqa: E402


def contract(call):
    need(call.integer("d") in (64, 128), "heads of 64 or 128")
    return "acc=f32 num.acc=f16 w.rounded=f16"


@subject(op="int8_attention", contract=contract, path="_attn_fwd")
def int8_attention(call, q, k, v, qs, ks):
    return forward(*(t[None].contiguous() for t in (q, k, v, qs, ks)))[0][0]
