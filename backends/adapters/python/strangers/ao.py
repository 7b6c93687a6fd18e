"""torchao: float8 quantisers. pip install torchao"""

from importlib.metadata import version

import torch

from assay_subjects import need, subject
from torchao.quantization.quant_primitives import _choose_scale_float8, _quantize_affine_float8

DESCRIPTION = f"torchao {version('torchao')}"
BLOCKS = {"e4m3fn_tensor": lambda x: list(x.shape), "e4m3fn_tok": lambda x: [1, x.shape[-1]]}


# max_abs / 448 and a tensor of scales: on a CUDA device PyTorch divides by a Python number by multiplying
# with its reciprocal in f32, and by a tensor truly.
def contract(call):
    need(call.text("to") in BLOCKS and call.text("dtype") == "f32",
         "e4m3fn with a scale per tensor or row, from f32")
    return "scale=reciprocal code=divide round=nearest_even"


@subject(op="quantize", contract=contract, variant="float8")
def float8(call, x):
    scale = _choose_scale_float8(x, BLOCKS[call.text("to")](x))
    codes = _quantize_affine_float8(x, scale, torch.float8_e4m3fn)
    return {"y": codes, "y.scale": scale.reshape(call.outputs["y.scale"].shape)}
