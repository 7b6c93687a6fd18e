#!/usr/bin/python3
"""packing_testing.py FOLDER: small checkpoints written byte by byte from the public definitions of their
formats, for the tests, the page docs/checkpoints.md and the walk. Nothing here is used by the program:
whatever is packed here and unpacked there agrees because both keep to the definition.

Weights are drawn as trained ones lie: normal, a wider tail, some outliers; two layers of a small Llama.
"""
import json
import os
import struct
import sys

import numpy as np

HIDDEN, WIDE, LAYERS = 256, 128, 2
SIZES = {"self_attn.q_proj": (128, HIDDEN), "self_attn.k_proj": (64, HIDDEN),
         "self_attn.v_proj": (64, HIDDEN),
         "self_attn.o_proj": (HIDDEN, HIDDEN), "mlp.gate_proj": (WIDE, HIDDEN), "mlp.up_proj": (WIDE, HIDDEN),
         "mlp.down_proj": (HIDDEN, WIDE)}
E2M1 = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6])
TYPES = {"F32": np.dtype("<f4"), "F16": np.dtype("<f2"), "I32": np.dtype("<i4"), "I64": np.dtype("<i8"),
         "I8": np.dtype("i1"),
         "U8": np.dtype("u1"), "BF16": np.dtype("<u2"), "F8_E4M3": np.dtype("u1"), "U32": np.dtype("<u4")}


def drawn(shape, seed):
    """Of bf16's numbers, so that the original in bf16 is exact."""
    draw = np.random.default_rng(seed)
    w = draw.standard_t(6, shape) * 0.8 / np.sqrt(shape[-1])
    return of_bf16(bf16(w))


def modules():
    """name -> matrix of every module that gets quantised."""
    found = {}
    for layer in range(LAYERS):
        for place, (name, shape) in enumerate(SIZES.items()):
            found[f"model.layers.{layer}.{name}"] = drawn(shape, 100 * layer + place)
    return found


def plain():
    """name -> (type, array) of what stays as it is."""
    found = {"model.embed_tokens.weight": ("BF16", bf16(drawn((128, HIDDEN), 7))),
             "model.norm.weight": ("BF16", bf16(np.ones(HIDDEN))),
             "lm_head.weight": ("BF16", bf16(drawn((128, HIDDEN), 8)))}
    for layer in range(LAYERS):
        for norm in ("input_layernorm", "post_attention_layernorm"):
            found[f"model.layers.{layer}.{norm}.weight"] = ("BF16", bf16(np.ones(HIDDEN)))
    return found


def bf16(x):
    bits = np.asarray(x, np.float32).view(np.uint32).astype(np.uint64)
    return ((bits + 0x7FFF + (bits >> np.uint64(16) & np.uint64(1))) >> np.uint64(16)).astype(np.uint16)


def of_bf16(bits):
    return (bits.astype(np.uint32) << np.uint32(16)).view(np.float32).astype(np.float64)


def _e4m3_numbers():
    code = np.arange(127)
    return np.where(code < 8, code * 2.0 ** -9, (8 + code % 8) * 2.0 ** (code // 8 - 10))


def e4m3(x):
    """Codes of the nearest e4m3fn, saturating; ties to the even code."""
    numbers = _e4m3_numbers()
    size = np.minimum(np.abs(x), 448)
    high = np.clip(np.searchsorted(numbers, size), 1, 126)
    low = high - 1
    nearer = np.abs(numbers[high] - size) - np.abs(size - numbers[low])
    code = np.where((nearer < 0) | ((nearer == 0) & (high % 2 == 0)), high, low)
    code = np.where(size >= 448, 126, code)
    return (code | np.where(np.signbit(x), 128, 0)).astype(np.uint8)


def of_e4m3(codes):
    sign = np.where(codes & 128, -1.0, 1.0)
    return sign * np.append(_e4m3_numbers(), np.nan)[codes & 127]


def e2m1(x):
    size = np.minimum(np.abs(x), 6)
    code = np.searchsorted((E2M1[1:] + E2M1[:-1]) / 2, size, side="left")
    return (code | np.where(np.signbit(x) & (code > 0), 8, 0)).astype(np.uint8)


def grouped_absmax(w, group):
    return np.abs(w.reshape(w.shape[0], -1, group)).max(axis=2)


def spread(scales, group):
    return np.repeat(scales, group, axis=1)


def nibbles(codes):
    """Two to a byte, the earlier in the low nibble."""
    return (codes[..., 0::2] | codes[..., 1::2] << 4).astype(np.uint8)


def words(codes, bits, order=range(8)):
    """Along the last axis, from the low bits on: the element order[i] in place i."""
    per = 32 // bits
    codes = codes.reshape(*codes.shape[:-1], -1, per).astype(np.uint32)
    order = list(order)[:per]
    return sum(codes[..., element] << np.uint32(bits * place)
               for place, element in enumerate(order)).astype(np.uint32).view(np.int32)


AWQ = (0, 2, 4, 6, 1, 3, 5, 7)


def int4(w, group, rounding=np.rint, shrink=1.0):
    """(codes -8..7, scales in bf16's numbers) under absmax / 7."""
    scale = of_bf16(bf16(np.maximum(grouped_absmax(w, group) * shrink / 7, 1e-9)))
    return np.clip(rounding(w / spread(scale, group)), -7 if shrink == 1 else -8, 7).astype(np.int64), scale


def asymmetric(w, group, bits=4):
    """(codes 0..top, scales in f16's numbers, zero points)."""
    top = (1 << bits) - 1
    high = np.maximum(w.reshape(w.shape[0], -1, group).max(axis=2), 0)
    low = np.minimum(w.reshape(w.shape[0], -1, group).min(axis=2), 0)
    scale = ((high - low) / top).astype(np.float16).astype(np.float64)
    zero = np.clip(np.rint(-low / scale), 0, top)
    return np.clip(np.rint(w / spread(scale, group)) + spread(zero, group), 0,
                   top).astype(np.int64), scale, zero.astype(np.int64)


def compressed_int4(name, w, group=128, **how):
    codes, scale = int4(w, group, **how)
    return {f"{name}.weight_packed": ("I32", words(codes + 8, 4)),
            f"{name}.weight_scale": ("BF16", bf16(scale)),
            f"{name}.weight_shape": ("I64", np.array(w.shape))}


def compressed_int4_zeros(name, w, group=128):
    codes, scale, zero = asymmetric(w, group)
    return {f"{name}.weight_packed": ("I32", words(codes, 4)), f"{name}.weight_scale": ("F16", scale),
            f"{name}.weight_zero_point": ("I32", words(zero.T, 4).T),
            f"{name}.weight_shape": ("I64", np.array(w.shape))}


def compressed_int8(name, w):
    scale = of_bf16(bf16(np.abs(w).max(axis=1, keepdims=True) / 127))
    return {f"{name}.weight": ("I8", np.clip(np.rint(w / scale), -127, 127)),
            f"{name}.weight_scale": ("BF16", bf16(scale))}


def fp8(name, w, rows, columns, scale_name="weight_scale"):
    """rows, columns: of a block that shares a scale (0: all)."""
    rows, columns = rows or w.shape[0], columns or w.shape[1]
    up, along = -(-w.shape[0] // rows), -(-w.shape[1] // columns)
    scale = np.array([[np.abs(w[i * rows:(i + 1) * rows, j * columns:(j + 1) * columns]).max() / 448
                       for j in range(along)]
                      for i in range(up)]).astype(np.float32)
    whole = np.repeat(np.repeat(scale, rows, axis=0), columns, axis=1)[:w.shape[0], :w.shape[1]]
    return {f"{name}.weight": ("F8_E4M3", e4m3(w / whole)),
            f"{name}.{scale_name}": ("F32", scale.reshape(()) if scale.size == 1 else scale)}


def nvfp4(name, w, divide):
    """compressed-tensors (divide) calls it weight_packed and weight_global_scale, ModelOpt weight and
    weight_scale_2."""
    whole = np.float32(448 * 6 / np.abs(w).max())
    block = e4m3(grouped_absmax(w, 16) * whole / 6)
    codes = e2m1(w * whole / spread(np.maximum(of_e4m3(block), 2.0 ** -9), 16))
    if divide:
        return {f"{name}.weight_packed": ("U8", nibbles(codes)), f"{name}.weight_scale": ("F8_E4M3", block),
                f"{name}.weight_global_scale": ("F32", np.array([whole]))}
    return {f"{name}.weight": ("U8", nibbles(codes)), f"{name}.weight_scale": ("F8_E4M3", block),
            f"{name}.weight_scale_2": ("F32", np.array(1 / whole, np.float32))}


def mxfp4(name, w, codes_name="weight"):
    exponent = np.floor(np.log2(np.maximum(grouped_absmax(w, 32), 1e-30))) - 2
    codes = e2m1(w / spread(2.0 ** exponent, 32))
    return {f"{name}.{codes_name}": ("U8", nibbles(codes)), f"{name}.weight_scale": ("U8", exponent + 127)}


def compensated(w, group=128, shared=1.0):
    """int4 codes and scales of GPTQ: the error of each column is made up for in later ones, by the inverse
    Hessian of inputs with eight
    shared directions."""
    width, draw = w.shape[1], np.random.default_rng(5)
    x = draw.normal(size=(4 * width, width)) + draw.normal(size=(4 * width,
                                                                 8)) @ draw.normal(size=(8, width)) * shared
    hessian = x.T @ x
    upper = np.linalg.cholesky(np.linalg.inv(hessian + np.eye(width) * np.trace(hessian) / width / 100)).T
    w, codes, scales = w.copy(), np.zeros(w.shape, np.int64), []
    for first in range(0, width, group):
        scales.append(of_bf16(bf16(np.abs(w[:, first:first + group]).max(axis=1) / 7)))
        for j in range(first, first + group):
            codes[:, j] = np.clip(np.rint(w[:, j] / scales[-1]), -7, 7)
            w[:, j + 1:] -= np.outer((w[:, j] - codes[:, j] * scales[-1]) / upper[j, j], upper[j, j + 1:])
    return codes, np.array(scales).T


def awq(name, w, group=128):
    codes, scale, zero = asymmetric(w, group)
    return {f"{name}.qweight": ("I32", words(codes.T, 4, AWQ)),
            f"{name}.qzeros": ("I32", words(zero.T, 4, AWQ)),
            f"{name}.scales": ("F16", scale.T)}


def gptq(name, w, group=128, v1=True, symmetric=True):
    if symmetric:
        codes, scale = int4(w, group)
        codes, zero = codes + 8, np.full(scale.shape, 8)
    else:
        codes, scale, zero = asymmetric(w, group)
    stored = (zero - (1 if v1 else 0)) & 15
    return {f"{name}.qweight": ("I32", words(codes, 4).T), f"{name}.qzeros": ("I32", words(stored.T, 4)),
            f"{name}.scales": ("F16", scale.T), f"{name}.g_idx": ("I32", np.arange(w.shape[1]) // group)}


def quark(name, w, order=AWQ):
    """W4A8: FP8 by one scale, its int4 by a scale for each output channel."""
    whole = np.float32(np.abs(w).max() / 448)
    in_fp8 = of_e4m3(e4m3(w / whole))
    scale = (np.abs(in_fp8).max(axis=1) / 7).astype(np.float32)
    codes = np.clip(np.rint(in_fp8 / scale[:, None]), -7, 7).astype(np.int64) & 15
    return {f"{name}.weight": ("I32", words(codes, 4, order)),
            f"{name}.weight_scale": ("F32", np.array(whole)),
            f"{name}.weight_scale_2": ("F32", scale)}


def quark_groups(name, w, group=128, order=AWQ):
    """By group Quark turns weights round: [inputs, outputs / 8], scales [groups, outputs]."""
    codes, scale = int4(w, group)
    return {f"{name}.weight": ("I32", words((codes & 15).T, 4, order)),
            f"{name}.weight_scale": ("F32", scale.T)}


def modelopt_w4a8(name, w, group=128):
    whole = np.float32(np.abs(w).max() / 448)
    codes, scale = int4(w, group)
    codes = codes & 15
    return {f"{name}.weight": ("U8", codes[0::2] | codes[1::2] << 4),
            f"{name}.weight_scale": ("F32", scale / whole),
            f"{name}.weight_scale_2": ("F32", np.array(whole))}


COMPRESSED = {"num_bits": 4, "type": "int", "symmetric": True, "strategy": "group", "group_size": 128}


def compressed_config(form, **weights):
    return {"quant_method": "compressed-tensors", "format": form, "ignore": ["lm_head"],
            "config_groups": {"group_0": {"targets": ["Linear"], "weights": dict(COMPRESSED, **weights)}}}


QUARK_W4A8 = [{"dtype": "fp8_e4m3", "qscheme": "per_tensor"},
              {"dtype": "int4", "qscheme": "per_channel", "symmetric": True, "ch_axis": 0}]


def quark_config(weight):
    return {"quant_method": "quark", "global_quant_config": {"weight": weight}, "exclude": ["lm_head"],
            "export": {"pack_method": "reorder"}}


# scheme -> (quantization_config, packer): correct files of each.
SCHEMES = {
    "pack-quantized": (compressed_config("pack-quantized"), compressed_int4),
    "pack-quantized asymmetric": (compressed_config("pack-quantized", symmetric=False),
                                  compressed_int4_zeros),
    "int-quantized": (compressed_config("int-quantized", num_bits=8, strategy="channel", group_size=None),
                      compressed_int8),
    "float-quantized channel": (compressed_config("float-quantized", num_bits=8, type="float",
                                                  strategy="channel"),
                                lambda name, w: fp8(name, w, 1, 0)),
    "fp8 tensor": ({"quant_method": "fp8", "activation_scheme": "dynamic"}, lambda name,
                   w: fp8(name, w, 0, 0)),
    "fp8 block": ({"quant_method": "fp8", "fmt": "e4m3", "weight_block_size": [128, 128]},
                  lambda name, w: fp8(name, w, 128, 128, "weight_scale_inv")),
    "nvfp4 compressed": (compressed_config("nvfp4-pack-quantized", type="float", strategy="tensor_group",
                                           group_size=16),
                         lambda name, w: nvfp4(name, w, True)),
    "nvfp4 modelopt": ({"quant_method": "modelopt", "quant_algo": "NVFP4", "ignore": ["lm_head"]},
                       lambda name, w: nvfp4(name, w, False)),
    "mxfp4 compressed": (compressed_config("mxfp4-pack-quantized", type="float", strategy="group",
                                           group_size=32),
                         lambda name, w: mxfp4(name, w, "weight_packed")),
    "mxfp4 quark": (quark_config({"dtype": "fp4", "qscheme": "per_group", "group_size": 32}), mxfp4),
    "awq": ({"quant_method": "awq", "bits": 4, "group_size": 128, "zero_point": True, "version": "gemm"},
            awq),
    "gptq": ({"quant_method": "gptq", "bits": 4, "group_size": 128, "sym": True, "desc_act": False}, gptq),
    "gptq v2": ({"quant_method": "gptq", "bits": 4, "group_size": 128, "sym": True,
                 "checkpoint_format": "gptq_v2"},
                lambda name, w: gptq(name, w, v1=False)),
    "gptq asymmetric": ({"quant_method": "gptq", "bits": 4, "group_size": 128, "sym": False},
                        lambda name, w: gptq(name, w, symmetric=False)),
    "quark w4a8": (quark_config(QUARK_W4A8), quark),
    "quark groups": (quark_config({"dtype": "int4", "qscheme": "per_group", "group_size": 128,
                                   "symmetric": True}), quark_groups),
    "modelopt w4a8": ({"quant_method": "modelopt", "quant_algo": "W4A8_AWQ", "group_size": 128,
                       "ignore": ["lm_head"]}, modelopt_w4a8),
}


def safetensors(path, tensors):
    header, at, body = {}, 0, []
    for name, (kind, array) in tensors.items():
        data = np.ascontiguousarray(np.asarray(array), TYPES[kind]).tobytes()
        header[name] = {"dtype": kind, "shape": list(np.shape(array)), "data_offsets": [at, at + len(data)]}
        at += len(data)
        body.append(data)
    text = json.dumps(header).encode()
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text + b"".join(body))


def folder(path, config, tensors, shards=1):
    """A checkpoint: config.json, tensors in one file or in some with an index."""
    os.makedirs(path, exist_ok=True)
    with open(os.path.join(path, "config.json"), "w") as file:
        json.dump({"model_type": "llama", **({"quantization_config": config} if config else {})}, file)
    names = list(tensors)
    if shards == 1:
        safetensors(os.path.join(path, "model.safetensors"), tensors)
        return path
    index = {}
    for shard in range(shards):
        file = f"model-{shard + 1:05}-of-{shards:05}.safetensors"
        safetensors(os.path.join(path, file), {name: tensors[name] for name in names[shard::shards]})
        index.update({name: file for name in names[shard::shards]})
    with open(os.path.join(path, "model.safetensors.index.json"), "w") as file:
        json.dump({"metadata": {}, "weight_map": index}, file)
    return path


def quantised(pack):
    """All tensors of a checkpoint whose modules are packed by `pack`."""
    tensors = dict(plain())
    for name, w in modules().items():
        tensors.update(pack(name, w))
    return tensors


def originals():
    return dict(plain(), **{f"{name}.weight": ("BF16", bf16(w)) for name, w in modules().items()})


def shown(path):
    """Right and wrong files of one model, beside its original."""
    folder(os.path.join(path, "original"), None, originals())
    for name, scheme in (("moe_int4", "quark w4a8"), ("nvfp4", "nvfp4 modelopt"), ("int4", "pack-quantized")):
        folder(os.path.join(path, name), SCHEMES[scheme][0], quantised(SCHEMES[scheme][1]), shards=2)
    folder(os.path.join(path, "moe_int4_skipped"), quark_config(QUARK_W4A8[1]), quantised(quark))
    wrong = quantised(SCHEMES["nvfp4 modelopt"][1])
    for name in modules():
        kind, scale = wrong[f"{name}.weight_scale_2"]
        wrong[f"{name}.weight_scale_2"] = (kind, 1 / scale)
    folder(os.path.join(path, "nvfp4_inverted"), SCHEMES["nvfp4 modelopt"][0], wrong)
    folder(os.path.join(path, "int4_truncated"), SCHEMES["pack-quantized"][0],
           quantised(lambda name, w: compressed_int4(name, w, rounding=np.trunc)))


if __name__ == "__main__":
    shown(sys.argv[1])
