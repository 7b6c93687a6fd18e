"""Kimi delta attention, token by token, of flash-linear-attention."""
import theirs

theirs.use(triton=True)
from fla.ops.kda.fused_recurrent import fused_recurrent_kda_fwd  # noqa: E402

from assay_subjects import need, subject  # noqa: E402


def contract(call):
    need(call.integer("dk") <= 256, "at most 256 channels of keys")
    need(call.text("dtype") == "f32", "f32: the scale stands behind the sum here, and theirs in front of it")
    need(call.integer("tokens") * call.integer("heads") <= 512,
         "more steps than the interpreter does in its time")
    return "acc=f32"


@subject(op="kda", contract=theirs.interpreted(contract), path="fused_recurrent_kda_fwd_kernel")
def kda(call, q, k, v, g, beta, S0):
    given = (t[None] for t in (q, k, v, g, beta))
    o, last = fused_recurrent_kda_fwd(*given, initial_state=S0[None].clone(), scale=1.0,
                                      output_final_state=True)
    return {"o": o[0] * call.real("scale"), "last": last[0]}
