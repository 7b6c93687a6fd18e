#!/usr/bin/env python3
"""packers_test.py PROGRAM [TEST ...]: files that the real packages pack are green, and every weight in them
is the one that their own unpackers make of it. Needs packers.txt in the running Python, or in that of
$ASSAY_PACKERS; skipped where they are in neither."""
import contextlib
import importlib.util
import io
import json
import os
import sys
import tempfile
import unittest
import unittest.mock

HERE = os.path.dirname(os.path.realpath(__file__))
try:
    import compressed_tensors  # noqa: F401
    import numpy as np
    import torch
    from safetensors.torch import save_file

    gguf = importlib.import_module("gguf")  # PyPI's, no file of this tree
except ImportError as error:
    other = os.environ.get("ASSAY_PACKERS")
    if other and not os.environ.get("ASSAY_PACKERS_TRIED"):
        os.environ["ASSAY_PACKERS_TRIED"] = "1"
        os.execv(other, [other, os.path.abspath(__file__), *sys.argv[1:]])
    print(f"SKIP: {error}; packers.txt says how to have the packers")
    sys.exit(77)
os.environ["ASSAY_PROGRAM"] = os.path.abspath(sys.argv.pop(1))
sys.dont_write_bytecode = True
sys.path[:0] = [HERE, os.path.join(HERE, *[os.pardir] * 3, "harness", "python")]
import packing_testing as pack  # noqa: E402
from assay_checkpoint import checkpoint_command as command  # noqa: E402
from assay_checkpoint import layouts  # noqa: E402
from assay_checkpoint.files import Checkpoint  # noqa: E402
from assay_checkpoint.schemes import declared_by  # noqa: E402
from compressed_tensors.compressors import BaseCompressor  # noqa: E402
from compressed_tensors.compressors.nvfp4.helpers import unpack_fp4_from_uint8  # noqa: E402
from compressed_tensors.quantization import QuantizationArgs, QuantizationConfig, QuantizationScheme  # noqa: E402
from compressed_tensors.quantization.lifecycle.forward import dequantize  # noqa: E402
from compressed_tensors.quantization.utils import calculate_qparams  # noqa: E402

NAME = "model.layers.0.self_attn.o_proj"
# A product of a code and a scale, and for NVFP4 a quotient of scales before it, each rounded to f32 by who
# unpacks.
ROUNDINGS = 3 * 2.0 ** -24


class Scratch(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="packers_test_")
        self.addCleanup(folder.cleanup)
        self.at = folder.name
        self.w = torch.tensor(pack.modules()[NAME], dtype=torch.float32)

    def saved(self, name, tensors, config):
        path = os.path.join(self.at, name)
        os.makedirs(path)
        save_file({f"{NAME}.{role}": t.contiguous() for role, t in tensors.items()},
                  os.path.join(path, "model.safetensors"))
        with open(os.path.join(path, "config.json"), "w") as file:
            json.dump({"quantization_config": config}, file) if config else file.write("{}")
        return path

    def judged(self, path, *words):
        said = io.StringIO()
        with contextlib.redirect_stdout(said):
            code = command.main([path, "--json", *words])
        report = json.loads(said.getvalue())
        return code, [f for f in report["findings"] if not f["note"]], report

    def values(self, path):
        checkpoint = Checkpoint(path)
        roles = layouts.modules_of(checkpoint.tensors)[NAME]
        parts, found = layouts.read(NAME, roles, layouts.layout_of(roles),
                                    declared_by(checkpoint).of(NAME)[0])
        self.assertEqual(found, [])
        return parts.values(0, parts.shape[0])

    def agrees(self, path, theirs):
        ours = self.values(path)
        theirs = theirs.to(torch.float64).numpy()
        wrong = ~(np.abs(ours - theirs) <= ROUNDINGS * np.abs(ours))
        self.assertEqual(int(wrong.sum()), 0, f"{ours[wrong][:4]} is {theirs[wrong][:4]} to the unpacker")
        original = self.saved("original of " + os.path.basename(path), {"weight": self.w}, None)
        code, findings, report = self.judged(path, "--against", original)
        self.assertEqual((code, findings, report["compared"]), (0, [], 1))


class CompressedTensors(Scratch):
    FORMATS = {
        "int4 by 128": ("pack-quantized",
                        dict(num_bits=4, type="int", strategy="group", group_size=128, symmetric=True)),
        "int4 by 32, zero points": ("pack-quantized",
                                    dict(num_bits=4, type="int", strategy="group", group_size=32,
                                         symmetric=False)),
        "int8 packed": ("pack-quantized", dict(num_bits=8, type="int", strategy="channel", symmetric=True)),
        "int8": ("int-quantized", dict(num_bits=8, type="int", strategy="channel", symmetric=True)),
        "fp8 by channel": ("float-quantized",
                           dict(num_bits=8, type="float", strategy="channel", symmetric=True)),
        "fp8 by block": ("float-quantized",
                         dict(num_bits=8, type="float", strategy="block", block_structure=[128, 128],
                              symmetric=True)),
        "nvfp4": ("nvfp4-pack-quantized",
                  dict(num_bits=4, type="float", strategy="tensor_group", group_size=16, symmetric=True)),
        "mxfp4": ("mxfp4-pack-quantized",
                  dict(num_bits=4, type="float", strategy="group", group_size=32, symmetric=True)),
    }

    def scales(self, args, form):
        """The scales that an observer of the least and the largest gives, by the package's own rule."""
        w, whole = self.w, None
        if args.strategy == "block":
            by = w.reshape(2, 128, 2, 128).permute(0, 2, 1, 3).reshape(2, 2, -1)
        elif args.strategy == "channel":
            by = w.unsqueeze(1)
        else:
            by = w.reshape(w.shape[0], -1, args.group_size)
        if form.startswith("nvfp4"):
            whole = (448 * 6 / w.abs().max()).to(torch.float32).reshape(1)
        scale, zero = calculate_qparams(by.amin(-1), by.amax(-1), args, global_scale=whole)
        if form.startswith("mxfp4"):  # a power of two, as the file stores it
            scale = torch.exp2(torch.floor(torch.log2(by.abs().amax(-1))) - 2)
        state = {"weight": w, "weight_scale": scale.to(torch.float32),
                 "weight_zero_point": zero.to(torch.int8)}
        return state if whole is None else dict(state, weight_global_scale=whole)

    def test_every_format_is_what_its_own_unpacker_says(self):
        for name, (form, given) in self.FORMATS.items():
            with self.subTest(name):
                scheme = QuantizationScheme(targets=["Linear"], weights=QuantizationArgs(**given))
                compressor = BaseCompressor.get_value_from_registry(form)
                packed = compressor.compress(self.scales(scheme.weights, form), scheme)
                config = QuantizationConfig(config_groups={"group_0": scheme}, format=form,
                                            ignore=[]).model_dump(mode="json")
                config["quant_method"] = "compressed-tensors"
                path = self.saved(name, packed, config)
                if form.startswith("nvfp4"):  # its decompress rounds to bf16 on the way
                    codes = unpack_fp4_from_uint8(packed["weight_packed"], *self.w.shape, dtype=torch.float32)
                    theirs = dequantize(codes, packed["weight_scale"].float(), args=scheme.weights,
                                        dtype=torch.float32,
                                        global_scale=packed["weight_global_scale"])
                else:
                    theirs = compressor.decompress(dict(packed), scheme)["weight"]
                self.agrees(path, theirs)


def quarks_packing():
    """Its file alone: importing the package compiles an extension for minutes."""
    found = importlib.util.find_spec("quark")
    path = found and os.path.join(found.submodule_search_locations[0], "torch", "utils", "pack.py")
    if not path or not os.path.exists(path):
        return None
    spec = importlib.util.spec_from_file_location("quarks_packing", path)
    module = importlib.util.module_from_spec(spec)
    others = [f"quark.{name}" for name in ("torch", "torch.quantization", "torch.quantization.config",
                                           "torch.quantization.config.type",
                                           "torch.quantization.constants", "torch.quantization.utils",
                                           "torch.utils",
                                           "torch.utils.numerics")]
    with unittest.mock.patch.dict(sys.modules,
                                  {name: unittest.mock.MagicMock() for name in ["quark", *others]}):
        spec.loader.exec_module(module)
    return module.Pack_4_bits


class Others(Scratch):
    def test_quarks_words(self):
        Pack_4_bits = quarks_packing()
        if Pack_4_bits is None:
            self.skipTest("no amd-quark")
        codes, scale = pack.int4(pack.modules()[NAME], 128)
        for reorder in (True, False):
            for qscheme in ("per_group", "per_channel"):
                if qscheme == "per_channel":
                    codes, scale = pack.int4(pack.modules()[NAME], 256)
                packer = Pack_4_bits(qscheme, "int4")
                packed = packer.pack(torch.tensor(codes, dtype=torch.int32), reorder)
                config = pack.quark_config({"dtype": "int4", "qscheme": qscheme, "group_size": 128,
                                            "symmetric": True})
                config["exclude"], config["export"] = [], {"pack_method": "reorder" if reorder else "order"}
                scales = torch.tensor(scale, dtype=torch.float32)
                path = self.saved(f"{qscheme} {reorder}",
                                  {"weight": packed, "weight_scale": scales.T if qscheme == "per_group"
                                   else scales[:, 0]},
                                  config)
                theirs = packer.unpack(packed,
                                       reorder).to(torch.float64) * torch.tensor(scale).repeat_interleave(256 // scale.shape[1], 1)
                self.agrees(path, theirs)
                codes, scale = pack.int4(pack.modules()[NAME], 128)

    def test_modelopts_nvfp4(self):
        try:
            from modelopt.torch.quantization.qtensor import NVFP4QTensor
        except ImportError as error:
            self.skipTest(f"no nvidia-modelopt: {error}")
        tensor, scale, whole = NVFP4QTensor.quantize(self.w.clone(), 16)
        path = self.saved("modelopt",
                          {"weight": tensor._quantized_data, "weight_scale": scale.to(torch.float8_e4m3fn),
                           "weight_scale_2": whole},
                          {"quant_method": "modelopt", "quant_algo": "NVFP4", "ignore": []})
        self.agrees(path,
                    tensor.dequantize(torch.float32, scale=scale, double_scale=whole, block_sizes={-1: 16}))

    def test_ggufs_types(self):
        """gguf's numpy quantisers and its own dequantiser, to the bit."""
        w = pack.modules()[NAME].astype(np.float32)
        kinds = {}
        for kind in ("Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0", "BF16"):
            number = gguf.GGMLQuantizationType[kind]
            data = gguf.quants.quantize(w, number)
            kinds[kind] = (number, data, gguf.quants.dequantize(data, number))
        path = os.path.join(self.at, "all.gguf")
        writer = gguf.GGUFWriter(path, "llama")
        for kind, (number, data, _) in kinds.items():
            writer.add_tensor(f"{kind}.weight", data, raw_dtype=number)
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.write_tensors_to_file()
        writer.close()
        checkpoint = Checkpoint(path)
        for kind, (_, _, theirs) in kinds.items():
            stored = checkpoint.tensors[f"{kind}.weight"]
            np.testing.assert_array_equal(stored.numbers(), theirs.astype(np.float64), kind)
        code, findings, report = self.judged(path)
        self.assertEqual((code, findings, len([m for m in report["modules"] if m["judged"]])), (0, [], 5))


if __name__ == "__main__":
    unittest.main()
