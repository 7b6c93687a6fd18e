"""F.scaled_dot_product_attention by each of its backends. `flash`, `cudnn`, `efficient` and `math` allow that
backend alone; `flash_first` asks for flash and lets PyTorch serve the call with another one when flash
cannot."""

import torch
import torch.nn.functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel

from assay_subjects import TORCH_TYPES, Unsupported, need, subject
from pytorch_units import WIDE, softmax_kernel, unit

FLASH, CUDNN = SDPBackend.FLASH_ATTENTION, SDPBackend.CUDNN_ATTENTION
EFFICIENT, MATH = SDPBackend.EFFICIENT_ATTENTION, SDPBackend.MATH
FLASH_ON_CPU, MATH_ON_CPU = "aten::_scaled_dot_product_flash_attention_for_cpu", "aten::_scaled_dot_product_attention_math"
FLASH_KERNELS = "pytorch_flash::flash_fwd_*"  # flash_fwd_kernel, or flash_fwd_splitkv_kernel for few rows
MOST_SPLITS = 128  # of flash's heuristic; cuDNN's kernel for one query row splits the keys too


def check(call):
    """What scaled_dot_product_attention has no argument for."""
    absent = {"page": "0", "lengths": "full", "softcap": "0", "sinks": "no", "alibi": "no", "rotate": "none"}
    for attribute, value in absent.items():
        need(call.text(attribute) == value,
             f"scaled_dot_product_attention has no {attribute}={call.text(attribute)}")
    for side in ("k", "v"):
        need(call.text(side) == call.text("dtype"),
             "scaled_dot_product_attention wants q, K and V of one type")


# Math: two products in f32 (16-bit inputs are converted first, exactly) with q and k each scaled by
# sqrt(scale), around a softmax in two passes; its weights are normalised in front of the second product.
MATH_CONTRACT = "qk=f32 p=f32 pv=f32 tile=4194304 exp_ulp=2"


# Fused kernels (f32 in the efficient one is three TF32 products, which no contract describes): 16-bit
# products with f32 accumulators on the matrix unit, an online softmax in f32 with exp2, weights cast to the
# type of V for the second product, their sum taken before the cast.
def fused(splits):
    def contract(call):
        check(call)
        kind = call.text("dtype")
        need(kind in WIDE, f"dtype={kind}: fused attention on matrix units wants f16 or bf16")
        return f"qk={unit(kind)} p={kind} pv={unit(kind)} tile=64 exp_ulp=2 split={splits} merge=once"
    return contract


# One after the other, from the first key on, tiles of so many keys: the limit then follows the rounding of
# every weight (0.3 to 0.4 % of an output where the order alone is unknown: 5 to 40 %). Any other tile, or the
# descending order, is refuted on 512 gaussian keys (reports/results/h200/README.md).
def in_tiles(keys):
    def contract(call):
        need(call.integer("q") > 1, "one query row may be computed in splits of the keys")
        need(call.text("mask") == "none", "tiles are known where every row sees every key")
        return fused(1)(call).replace("tile=64",
                                      f"tile={keys(call)} order=tiles scaling=scores tiles=aligned qk_block=16 pv_block=16")
    return contract


# The CPU's flash kernel: blocks of up to 512 keys, a vector exp of 20 ulp, weights in V's type.
def flash_contract(call):
    if call.device == "cuda":
        return fused(MOST_SPLITS)(call)
    check(call)
    return f"qk=f32 p={call.text('dtype')} pv=f32 tile=512 exp_ulp=20"


def math_contract(call):
    check(call)
    return MATH_CONTRACT


# PyTorch's own choice, and flash_first: claims what the widest of the kernels that may run keeps.
def any_contract(call):
    if call.text("dtype") in WIDE:
        return flash_contract(call)
    check(call)
    return MATH_CONTRACT if call.device == "cuda" else flash_contract(call)


def on_cuda(contract):
    def checked(call):
        need(call.device == "cuda", "this backend of scaled_dot_product_attention is for CUDA devices")
        return contract(call)
    return checked


def path(cuda, cpu):
    return lambda call: cuda if call.device == "cuda" else cpu


TRIED = {}  # a call and a backend of scaled_dot_product_attention, and what that came to: "" when it ran


def tried(contract, allowed):
    """What PyTorch refuses only when it is called is refused in declare() too: by a call on empty tensors of
    these shapes."""
    def declared(call):
        text = contract(call)
        key = (str(allowed), call.device, tuple(sorted(call.attributes.items())))
        if key not in TRIED:
            empty = lambda name, kind: torch.empty(call.tensor(name).shape, dtype=kind, device=call.device)
            tensors = [empty(name, getattr(torch, TORCH_TYPES[call.tensor(name).format]))
                       for name in ("q", "k", "v")]
            mask = empty("mask", torch.bool).fill_(True) if call.text("mask") == "random" else None
            try:
                attend(call, *tensors, allowed, mask=mask)
                TRIED[key] = ""
            except Unsupported as reason:
                TRIED[key] = str(reason)
        need(not TRIED[key], TRIED[key])
        return text
    return declared


def visible(call, device, mask=None):
    """The argument that hides keys: nothing, a bottom-right causal bias, or a mask of booleans."""
    rows, keys, kind = call.integer("q"), call.integer("len"), call.text("mask")
    if kind == "none" or (kind == "causal" and rows == 1):
        return {}
    if kind == "causal":
        if rows == keys:
            return {"is_causal": True}
        from torch.nn.attention.bias import causal_lower_right  # it loads torch.compile: seconds that other calls do not owe
        return {"attn_mask": causal_lower_right(rows, keys)}
    if kind == "random":
        return {"attn_mask": call.torch("mask").bool() if mask is None else mask}
    position = torch.arange(rows, device=device)[:, None] + keys - rows
    key = torch.arange(keys, device=device)[None, :]
    return {"attn_mask": (key <= position) & (key > position - call.integer("window"))}


def attend(call, q, k, v, allowed=None, mask=None):
    scale, grouped = call.real("scale"), call.integer("heads") != call.integer("kv_heads")
    if allowed == EFFICIENT and grouped:  # its kernels know no groups: every engine repeats the heads
        group, grouped = call.integer("heads") // call.integer("kv_heads"), False
        k, v = k.repeat_interleave(group, dim=2), v.repeat_interleave(group, dim=2)
    arguments = visible(call, q.device, mask)
    arguments["enable_gqa"] = grouped
    arguments["scale"] = None if scale == 0 else scale
    heads_first = [t.transpose(1, 2) for t in (q, k, v)]  # [batch, rows, heads, d] as stored
    if allowed is None:
        return F.scaled_dot_product_attention(*heads_first, **arguments).transpose(1, 2)
    with sdpa_kernel(allowed, set_priority=isinstance(allowed, list)):
        try:
            return F.scaled_dot_product_attention(*heads_first, **arguments).transpose(1, 2)
        except RuntimeError as error:  # PyTorch says so, loudly: not a fallback
            if "No available kernel" in str(error) or "No viable backend" in str(error):
                raise Unsupported(f"PyTorch has no {allowed} kernel for this call") from error
            raise


@subject(op="attention", contract=any_contract)
def attention(call, q, k, v):
    return attend(call, q, k, v)


@subject(op="attention", variant="flash", contract=tried(flash_contract, FLASH),
         path=path(FLASH_KERNELS, FLASH_ON_CPU))
def flash(call, q, k, v):
    return attend(call, q, k, v, FLASH)


@subject(op="attention", variant="flash_first", contract=any_contract,
         path=path(FLASH_KERNELS, FLASH_ON_CPU))
def flash_first(call, q, k, v):
    return attend(call, q, k, v, [FLASH, EFFICIENT, MATH])


@subject(op="attention", variant="cudnn", contract=tried(on_cuda(fused(MOST_SPLITS)), CUDNN),
         path="cudnn_generated_*")
def cudnn(call, q, k, v):
    return attend(call, q, k, v, CUDNN)


@subject(op="attention", variant="efficient", contract=tried(on_cuda(fused(1)), EFFICIENT),
         path="fmha_cutlassF_*")
def efficient(call, q, k, v):
    return attend(call, q, k, v, EFFICIENT)


@subject(op="attention", variant="math", contract=tried(math_contract, MATH),
         path=lambda call: MATH_ON_CPU if call.device == "cpu" else softmax_kernel(call.integer("len")))
def math(call, q, k, v):
    return attend(call, q, k, v, MATH)


@subject(op="attention", variant="cudnn_tiles", contract=tried(on_cuda(in_tiles(lambda call: 128)), CUDNN),
         path="cudnn_generated_*")
def cudnn_tiles(call, q, k, v):
    return attend(call, q, k, v, CUDNN)


@subject(op="attention", variant="efficient_tiles", path="fmha_cutlassF_*",
         contract=tried(on_cuda(in_tiles(lambda call: 64 if call.integer("d") <= 64 else 128)), EFFICIENT))
def efficient_tiles(call, q, k, v):
    return efficient(call, q, k, v)
