"""auto-round's block FP8, and the double quantisation of scales, both giving back numbers."""
import importlib

import theirs

theirs.use("transformers", "accelerate")
import torch  # noqa: E402

from assay_subjects import subject  # noqa: E402

if theirs.PAIR == "autoround-b78453cd":
    from auto_round.data_type.fp8 import quant_block_fp_sym  # noqa: E402

    @subject(op="block_fp8", contract="acc=f32 code.read=any", path="block_fp8_of_theirs")
    def block_fp8_of_theirs(call, x):
        block = call.integer("block")
        tiles = x.unflatten(0, (-1, block)).unflatten(2, (-1, block))
        low, high = tiles.amin((1, 3)), tiles.amax((1, 3))
        y, scale, _ = quant_block_fp_sym(x, group_size=(block, block), tensor_max=high, tensor_min=low)
        return {"scale": scale.float(), "y": y}
else:
    double_quant_tensor_sym = importlib.import_module("auto_round.data_type.gguf").double_quant_tensor_sym

    @subject(op="double_scales", contract="acc=f32", path="double_scales_of_theirs")
    def double_scales_of_theirs(call, x):
        y, scale = double_quant_tensor_sym(x.clone(), 6)
        return {"scale": scale.reshape(-1).to(torch.float32), "y": y}
