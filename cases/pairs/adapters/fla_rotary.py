"""Rotary embedding of flash-linear-attention: cos and sin from tables, an offset for each sequence."""
import theirs

theirs.use(triton=True)
theirs.package("fla.utils", get_multiprocessor_count=lambda _: 1)  # tiles as long as on a small device
import torch  # noqa: E402
from fla.modules import rotary  # noqa: E402

from assay_subjects import subject  # noqa: E402


@subject(op="rotary_batch", contract=theirs.interpreted("acc=f32"), path="rotary_embedding_kernel")
def rotary_batch(call, x, cos, sin, offset):
    given = [t.contiguous() for t in (x, cos, sin)]
    return rotary.rotary_embedding_fwdbwd(*given, offset.to(torch.int64),
                                          interleaved=call.text("pairs") == "interleaved")
