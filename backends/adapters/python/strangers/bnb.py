"""bitsandbytes: the LLM.int8() quantiser. pip install bitsandbytes"""

from importlib.metadata import version

import bitsandbytes.functional as bnb
import torch

from assay_subjects import need, subject
from stranger import dense

DESCRIPTION = f"bitsandbytes {version('bitsandbytes')}"


# codes: __float2int_rn(x * (127 / absmax)) (csrc/kernels.cu, kInt8VectorQuant); the statistic is absmax, its
# user divides by 127.
def contract(call):
    dense(call, "x")
    need(call.text("to") == "int8_tok" and call.text("dtype") == "f16", "int8 with a scale per row, from f16")
    return "scale=divide code=direct round=nearest_even"


@subject(op="quantize", contract=contract, path="kInt8VectorQuant", variant="int8")
def int8(call, x):
    codes, largest, _ = bnb.int8_vectorwise_quant(x)
    # by a number PyTorch would multiply with 1 / 127
    scale = largest.float() / torch.full_like(largest, 127.0, dtype=torch.float32)
    return {"y": codes, "y.scale": scale.reshape(call.outputs["y.scale"].shape)}
