"""torch.mm with f32 results and torch._scaled_mm with f32 results, for assay identify: no claim of a path."""
import torch
from assay_subjects import need, subject
from pytorch_units import torch_type, unit

torch.backends.cuda.matmul.allow_fp16_reduced_precision_reduction = False
torch.backends.cuda.matmul.allow_bf16_reduced_precision_reduction = False


def mm_contract(call):
    kind = call.text("a")
    need(kind == call.text("b") and kind in ("f32", "f16", "bf16"), "one type")
    return "acc=" + (unit(kind) if kind != "f32" and torch.cuda.is_available() else "f32")


@subject(op="matmul", variant="mm", contract=mm_contract)
def mm(call, a, b):
    torch.backends.cuda.matmul.allow_tf32 = False
    out = torch_type(call.text("dtype"))
    return torch.mm(a, b.t()) if out == a.dtype else torch.mm(a, b.t(), out_dtype=out)


@subject(op="matmul", variant="tf32", contract="acc=hopper_tf32")
def mm_tf32(call, a, b):
    torch.backends.cuda.matmul.allow_tf32 = True
    return torch.mm(a, b.t())


@subject(op="matmul", variant="int8", contract="acc=i32 epilogue_roundings=3", alignment=16)
def int8_mm(call, a, b, a_scale, b_scale):
    need(call.integer("m") > 16, "torch._int_mm wants more than 16 rows")
    return torch._int_mm(a, b.t()).float() * a_scale.reshape(-1, 1) * b_scale.reshape(1, -1)


def scaled(call, a, b, a_scale, b_scale, fast):
    if call.text("a") == "e4m3fn_tok":
        a_scale, b_scale = a_scale.reshape(-1, 1), b_scale.reshape(1, -1)
    else:
        a_scale, b_scale = a_scale.reshape(()), b_scale.reshape(())
    return torch._scaled_mm(a, b.t(), a_scale, b_scale, out_dtype=torch_type(call.text("dtype")),
                            use_fast_accum=fast)


@subject(op="matmul", variant="slow", contract="acc=hopper_fp8 promote=4", alignment=16)
def scaled_slow(call, a, b, a_scale, b_scale):
    return scaled(call, a, b, a_scale, b_scale, False)


@subject(op="matmul", variant="fast", contract="acc=hopper_fp8", alignment=16)
def scaled_fast(call, a, b, a_scale, b_scale):
    return scaled(call, a, b, a_scale, b_scale, True)
