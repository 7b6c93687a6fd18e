"""Rotary embedding of flash-linear-attention: cos and sin from tables, an offset for each sequence of the batch."""
import theirs

theirs.use(triton=True)
theirs.package("fla.utils", get_multiprocessor_count=lambda _: 1)  # one tile as long as a device with few units has
import torch  # noqa: E402
from fla.modules import rotary  # noqa: E402

from assay_subjects import subject  # noqa: E402


@subject(op="rotary_batch", contract=theirs.interpreted("acc=f32"), path="rotary_embedding_kernel")
def rotary_batch(call, x, cos, sin, offset):
    return rotary.rotary_embedding_fwdbwd(x.contiguous(), cos.contiguous(), sin.contiguous(), offset.to(torch.int64),
                                          interleaved=call.text("pairs") == "interleaved")
