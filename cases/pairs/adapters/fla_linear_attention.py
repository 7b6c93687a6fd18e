"""Linear attention in chunks of 64 tokens, normalised, of flash-linear-attention: PyTorch."""
import theirs

theirs.use()
from fla.ops.linear_attn.naive import naive_chunk_linear_attn  # noqa: E402

from assay_subjects import subject  # noqa: E402


@subject(op="linear_attention", contract="acc=f32", path="linear_attention_of_theirs")
def linear_attention_of_theirs(call, q, k, v):
    normalise = call.text("normalise") == "yes"
    return naive_chunk_linear_attn(q[None], k[None], v[None], scale=call.real("scale"),
                                   normalize=normalise)[0]
