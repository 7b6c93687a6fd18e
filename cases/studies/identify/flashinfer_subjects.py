"""FlashInfer's decode of one request, for assay identify: no claim of a path, nor of a limit.

FlashInfer is headers alone; this builds what is called, for an H100 or H200, beside this file or where
FLASHINFER_DECODE says:

    nvcc -std=c++17 -O3 -use_fast_math -arch=sm_90a --shared -Xcompiler -fPIC --cudart static \\
         -I flashinfer/include flashinfer_decode.cu -o flashinfer_decode.so
"""
import ctypes
import os

import torch
from assay_subjects import Unsupported, need, subject

LIBRARY = os.environ.get("FLASHINFER_DECODE",
                         os.path.join(os.path.dirname(os.path.abspath(__file__)), "flashinfer_decode.so"))
# Parts of a split, of heads of d columns and a logarithm each.
MOST_PARTS = 4096


def contract(call):
    absent = {"q": "1", "page": "0", "lengths": "full", "softcap": "0", "sinks": "no", "alibi": "no",
              "rotate": "none",
              "mask": "none", "batch": "1"}
    for name, value in absent.items():
        need(call.text(name) == value, f"decode of one request has no {name}={call.text(name)}")
    need(call.text("dtype") in ("f16", "bf16"), "q in f16 or bf16")
    need(call.text("k") == call.text("v") and call.text("k") in (call.text("dtype"), "e4m3fn"),
         "K and V as q, or e4m3fn")
    need(call.integer("d") == call.integer("dv") and call.integer("d") in (64, 128), "d=64 or 128")
    need(call.integer("heads") // call.integer("kv_heads") in (1, 2, 3, 4, 8),
         "1, 2, 3, 4 or 8 heads to one of K and V")
    return "qk=f32 p=f32 pv=f32 tile=1 exp_ulp=4 split=512"


def decode(call, q, k, v, parts):
    library = ctypes.CDLL(LIBRARY)
    heads, d, kv_heads = call.integer("heads"), call.integer("d"), call.integer("kv_heads")
    out = torch.empty_like(q)
    room = torch.empty(MOST_PARTS * heads * (d + 2), dtype=q.dtype, device=q.device) if parts else None
    pointer = ctypes.c_void_p
    error = library.flashinfer_decode(
        int(q.dtype == torch.bfloat16), int(call.text("k") == "e4m3fn"), d, pointer(q.data_ptr()),
        pointer(k.data_ptr()),
        pointer(v.data_ptr()), pointer(out.data_ptr()), pointer(room.data_ptr() if parts else None),
        call.integer("len"), heads,
        kv_heads, ctypes.c_float(call.real("scale") or d ** -0.5))
    if error:
        raise Unsupported(f"flashinfer_decode: error {error}")
    torch.cuda.synchronize()
    return out


@subject(op="attention", variant="decode", contract=contract)
def whole(call, q, k, v):
    return decode(call, q, k, v, False)


# With a workspace, more than 256 keys are split: into parts of 256, or longer ones where a device's
# multiprocessors would not hold all blocks at once. Each part is stored in q's format with the logarithm of
# its sum to base two (merge=log2 of a schedule).
@subject(op="attention", variant="decode_in_parts", contract=contract)
def in_parts(call, q, k, v):
    return decode(call, q, k, v, True)
