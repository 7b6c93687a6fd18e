"""A mixture of experts as a plain loop over PyTorch's products, for assay identify: no claim of a path."""
import torch
import torch.nn.functional as F

from assay_subjects import need, subject
from pytorch_units import torch_type


def contract(call):
    kind = call.text("a")
    need(kind == call.text("w") == call.text("w2") and kind in ("f32", "bf16"), "one type, f32 or bf16")
    return "acc=f32" + (" gate_up=bf16 expert_out=bf16" if kind == "bf16" else "")


@subject(op="moe", contract=contract)
def experts(call, x, w13, w2, topk_ids, topk_weights):
    inter = call.integer("inter")
    y = torch.zeros(x.shape, dtype=torch.float32)
    for expert in range(call.integer("experts")):
        tokens, slots = torch.where(topk_ids == expert)
        if tokens.numel() == 0:
            continue
        made = x[tokens] @ w13[expert].t()
        h = F.silu(made[:, :inter].float()) * made[:, inter:].float()
        out = (h.to(x.dtype) @ w2[expert].t()).float()
        y.index_add_(0, tokens, topk_weights[tokens, slots].unsqueeze(1) * out)
    return y.to(torch_type(call.text("dtype")))
