"""Scales and zero points of compressed-tensors, as its docstrings say them: int8, f32."""
import theirs

theirs.use("loguru", "tqdm", "transformers")


def deprecated(*_, **__):
    return lambda function: function


theirs.package("compressed_tensors.utils", Aliasable=type("Aliasable", (), {}), deprecated=deprecated)
theirs.package("compressed_tensors.utils.type", TorchDtype=object)
theirs.package("compressed_tensors.utils.helpers", deprecated=deprecated)
import torch  # noqa: E402
from compressed_tensors.quantization.quant_args import QuantizationArgs  # noqa: E402
from compressed_tensors.quantization.utils import helpers  # noqa: E402

from assay_subjects import subject  # noqa: E402

OPS = {"ct-3a88875f": "asymmetric_scale", "ct-2dd1b627": "token_scale", "ct-69e653c5": "global_scale"}


def of_this_pair(op):
    if OPS[theirs.PAIR] != op:
        return deprecated()
    return subject(op=op, contract="acc=f32", path=f"{op}_of_theirs")


@of_this_pair("asymmetric_scale")
def asymmetric_scale_of_theirs(call, x):
    args = QuantizationArgs(num_bits=8, type="int", symmetric=False)
    scale, zero = helpers.calculate_qparams(x.amin(1), x.amax(1), args)
    return {"scale": scale, "zero": zero}


@of_this_pair("token_scale")
def token_scale_of_theirs(call, x):
    args = QuantizationArgs(num_bits=8, type="int", symmetric=True, strategy="token", dynamic=True)
    scale, _ = helpers.compute_dynamic_scales_and_zp(x, args, torch.nn.Identity())
    return scale.reshape(x.shape[0], x.shape[1]) if scale.numel() == x.shape[0] * x.shape[1] else scale


@of_this_pair("global_scale")
def global_scale_of_theirs(call, x):
    return torch.cat([helpers.generate_gparam(row.min(), row.max()) for row in x])
