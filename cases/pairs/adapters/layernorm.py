"""layernorm of unsloth: an autograd function over rows, statistics in f32."""
import theirs

theirs.use("unsloth_zoo", triton=True)
import triton  # noqa: E402

theirs.package("unsloth.kernels.utils", calculate_settings=lambda cols: (triton.next_power_of_2(cols), 4))
from unsloth.kernels.layernorm import Fast_Layernorm  # noqa: E402

from assay_subjects import need, subject  # noqa: E402


def contract(call):
    need(call.integer("cols") <= 65536, "rows of at most 65536")
    return "variance=two_pass acc=f32 product=x_inv_gamma"


@subject(op="layernorm", contract=theirs.interpreted(contract), path="layernorm_forward")
def layernorm(call, x, gamma, beta):
    return Fast_Layernorm.apply(x, gamma, beta, call.real("eps"))
