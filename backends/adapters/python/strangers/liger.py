"""liger-kernel: norms and softmax. pip install liger-kernel"""

from importlib.metadata import version

from assay_subjects import need, subject
from liger_kernel.ops.layer_norm import LigerLayerNormFunction
from liger_kernel.ops.rms_norm import LigerRMSNormFunction
from liger_kernel.ops.softmax import LigerSoftmaxFunction
from stranger import TRITON_SOFTMAX, plain_softmax

DESCRIPTION = f"liger-kernel {version('liger-kernel')}"


def rms_kernel(call):
    return "_rms_norm_forward_kernel" if call.integer("cols") > 256 or call.integer("rows") < 32768 else "_block_rms_norm_forward_kernel"


def softmax_contract(call):
    plain_softmax(call)
    need(call.integer("cols") <= 65536, "rows of at most 65536")
    return TRITON_SOFTMAX


@subject(op="softmax", contract=softmax_contract, path="_softmax_single_block_forward_kernel")
def softmax(call, x):
    return LigerSoftmaxFunction.apply(x)


# "llama": the normalised x is rounded to x's type in front of gamma; "gemma": all in f32.
@subject(op="rmsnorm", variant="llama", path=rms_kernel,
         contract=lambda call: f"acc=f32 product=x_inv_gamma mid={call.text('dtype')}")
def rms_norm_llama(call, x, gamma):
    return LigerRMSNormFunction.apply(x, gamma, call.real("eps"), 0.0, "llama", False, None).to(x.dtype)


@subject(op="rmsnorm", variant="gemma", path=rms_kernel, contract="acc=f32 product=x_inv_gamma out=f32")
def rms_norm_gemma(call, x, gamma):
    return LigerRMSNormFunction.apply(x, gamma, call.real("eps"), 0.0, "gemma", False, None).to(x.dtype)


@subject(op="layernorm", path="_layer_norm_forward_kernel",
         contract="variance=two_pass acc=f32 product=x_inv_gamma")
def layer_norm(call, x, gamma, beta):
    return LigerLayerNormFunction.apply(x, gamma, beta, call.real("eps"))
