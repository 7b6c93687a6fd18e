"""Of the pairs (op, format) that ggml's CPU backend implements, by its own tables of routines, those that a run executed.

    assay run -b ggml -q --json run.json; pairs.py PACKAGE run.json

PACKAGE: the folder of include/ggml.h, and of the libraries in lib or lib64: libggml in the site-packages of libggml-python.
"""
import collections
import ctypes
import json
import os
import re
import sys

OURS = {"mxfp4": "mxfp4_ggml"}  # another name here; ggml's nvfp4 is another layout than ours
THEIRS = {"nvfp4": "nvfp4_ggml"}


class Traits(ctypes.Structure):  # ggml_type_traits
    _fields_ = [("name", ctypes.c_char_p), ("block", ctypes.c_int64), ("interleave", ctypes.c_int64),
                ("size", ctypes.c_size_t),
                ("quantized", ctypes.c_bool), ("decode", ctypes.c_void_p), ("encode", ctypes.c_void_p)]


class TraitsOfCpu(ctypes.Structure):  # ggml_type_traits_cpu
    _fields_ = [("encode", ctypes.c_void_p), ("product", ctypes.c_void_p), ("partner", ctypes.c_int),
                ("rows", ctypes.c_int64)]


def implemented(package):
    with open(os.path.join(package, "include", "ggml.h"), encoding="utf-8") as header:
        types = int(re.search(r"GGML_TYPE_COUNT\s*=\s*(\d+)", header.read())[1])
    folder = next(f for f in (os.path.join(package, lib) for lib in ("lib", "lib64")) if os.path.isdir(f))
    base = ctypes.CDLL(os.path.join(folder, "libggml-base.so"), ctypes.RTLD_GLOBAL)
    cpu = ctypes.CDLL(os.path.join(folder, "libggml-cpu.so"))
    base.ggml_get_type_traits.restype = ctypes.POINTER(Traits)
    cpu.ggml_get_type_traits_cpu.restype = ctypes.POINTER(TraitsOfCpu)
    pairs = {("softmax", "f32"), ("layernorm", "f32"), ("rmsnorm", "f32")}
    for number in range(types):
        traits, of_cpu = base.ggml_get_type_traits(number).contents, cpu.ggml_get_type_traits_cpu(number).contents
        name = (traits.name or b"").decode()
        name = OURS.get(name, THEIRS.get(name, name))
        if (traits.encode or of_cpu.encode) and name != "f32":
            pairs.add(("quantize", name))
        if traits.decode and name != "f32":
            pairs.add(("dequantize", name))
        if of_cpu.product and cpu.ggml_get_type_traits_cpu(of_cpu.partner).contents.encode:
            pairs |= {("matmul", name), ("attention, K", name)}
        if name == "f32" or (traits.decode and traits.quantized) or name in ("f16", "bf16"):
            pairs.add(("attention, V", name))
    return pairs


def executed(path):
    pairs = set()
    with open(path, encoding="utf-8") as file:
        results = json.load(file)["results"]
    for result in results:
        if result["verdict"] in ("unsupported", "impossible", "too_big"):
            continue
        op, *words = result["case"].split()
        values = dict(word.split("=", 1) for word in words)
        if op == "attention":
            both = values.get("kv", "f16")
            pairs |= {("attention, K", values.get("k", both)), ("attention, V", values.get("v", both))}
        elif op == "matmul":
            pairs.add((op, values.get("b", values.get("a", "bf16"))))
        else:
            pairs.add((op, values.get("to") or values.get("from") or values.get("dtype", "f32")))
    return pairs


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    has, ran = implemented(sys.argv[1]), executed(sys.argv[2])
    known = {name for _, name in ran}  # formats that the run met at all
    for title, pairs in (("formats that this run met", {p for p in has if p[1] in known}),
                         ("all types of ggml", has)):
        print(f"{title}: {len(pairs & ran)} of {len(pairs)} pairs executed, {100 * len(pairs & ran) / len(pairs):.0f} %")
    missing = collections.defaultdict(list)
    for op, name in sorted(has - ran):
        missing[op].append(name)
    for op, names in missing.items():
        print(f"  not executed: {op}: {' '.join(names)}")


if __name__ == "__main__":
    main()
