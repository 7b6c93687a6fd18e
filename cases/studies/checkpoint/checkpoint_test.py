#!/usr/bin/env python3
"""checkpoint_test.py PROGRAM [TEST ...]: correct checkpoints of every scheme are green with their original
beside them; each planted defect is found and named; what is damaged is refused in words."""
import contextlib
import io
import json
import os
import struct
import subprocess
import sys
import tempfile
import unittest

try:
    import numpy as np
except ImportError:
    print("no numpy here: skipped")
    sys.exit(77)
PROGRAM = os.environ["ASSAY_PROGRAM"] = os.path.abspath(sys.argv.pop(1))
HERE = os.path.dirname(os.path.realpath(__file__))
sys.dont_write_bytecode = True
sys.path[:0] = [HERE, os.path.join(HERE, *[os.pardir] * 3, "harness", "python")]
import packing_testing as pack  # noqa: E402
from assay import library  # noqa: E402
from assay.tensors import Plane  # noqa: E402
from assay_checkpoint import checkpoint_command as command  # noqa: E402
from assay_checkpoint import findings, layouts  # noqa: E402
from assay_checkpoint.files import Checkpoint  # noqa: E402
from assay_checkpoint.schemes import declared_by  # noqa: E402

Q = "model.layers.0.self_attn.o_proj"  # the square one


class Scratch(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="checkpoint_test_")
        self.addCleanup(folder.cleanup)
        self.at = folder.name

    def path(self, name):
        return os.path.join(self.at, name)

    def judged(self, path, *words):
        """(exit code, kinds of findings, the whole report)."""
        said = io.StringIO()
        with contextlib.redirect_stdout(said):
            code = command.main([path, "--json", *words])
        report = json.loads(said.getvalue())
        return code, {f["kind"] for f in report["findings"] if not f["note"]}, report

    def small(self, scheme, change=None, config=None, against=False, modules=(Q,), **how):
        """A checkpoint of a few modules; `change(tensors)` plants. Judged with or without its original."""
        given, packer = pack.SCHEMES[scheme]
        tensors = {}
        for name in modules:
            tensors.update(packer(name, pack.modules()[name], **how))
        if change:
            change(tensors)
        given = json.loads(json.dumps(given))
        for key in ("ignore", "exclude"):
            given.pop(key, None)  # nothing else is there
        path = pack.folder(self.path("planted"), config(given) or given if config else given, tensors)
        words = []
        if against:
            original = {f"{name}.weight": ("BF16", pack.bf16(pack.modules()[name])) for name in modules}
            words = ["--against", pack.folder(self.path("original"), None, original)]
        return self.judged(path, *words)

    def finds(self, kind, word, scheme, change=None, **how):
        """The defect is found, and its counterpart is not."""
        code, kinds, report = self.small(scheme, change, **how)
        self.assertEqual((code, kinds), (1, {kind}), report["findings"])
        self.assertTrue(any(word in f["what"] + f["where"] for f in report["findings"] if f["kind"] == kind),
                        report["findings"])
        how.pop("config", None)
        code, kinds, report = self.small(scheme, **how)
        self.assertEqual((code, kinds), (0, set()), report["findings"])


class Correct(Scratch):
    def test_what_is_no_ordinary_file_is_neither_waited_for_nor_read_without_an_end(self):
        os.mkfifo(self.path("p.safetensors"))
        os.mkfifo(self.path("p.gguf"))
        os.symlink("/dev/zero", self.path("z.gguf"))
        os.symlink("/dev/zero", self.path("z.safetensors"))
        os.symlink("nowhere", self.path("dead.gguf"))
        for name in ("p.safetensors", "p.gguf", "z.gguf", "z.safetensors", "dead.gguf"):
            done = subprocess.run([PROGRAM, "checkpoint", self.path(name)], capture_output=True, text=True, timeout=60)
            self.assertEqual(done.returncode, 2, f"{name}: {done.stdout}{done.stderr}")
            self.assertIn(name, done.stderr)
            self.assertNotIn("Traceback", done.stderr)

    def test_every_scheme_is_green_beside_its_original(self):
        original = pack.folder(self.path("original"), None, pack.originals())
        for name, (config, packer) in pack.SCHEMES.items():
            with self.subTest(name):
                path = pack.folder(self.path(name), config, pack.quantised(packer), shards=2)
                code, kinds, report = self.judged(path, "--against", original)
                self.assertEqual((code, kinds, report["not_understood"]), (0, set(), []), report["findings"])
                self.assertEqual(report["compared"], len(pack.modules()))
                self.assertEqual([f for f in report["findings"] if f["kind"] == "error"], [])
                for module in report["modules"]:
                    if module["judged"]:  # int8 loses about 1 %, e4m3fn 3, four bits 8 to 18: none is nothing, or everything
                        self.assertLess(0.003, module["error"])
                        self.assertLess(module["error"], 0.2)
                        self.assertLessEqual(module["best"], module["error"])

    def test_values_are_those_of_the_whole_formats_codec(self):
        """Parts are multiplied here; the formats that assay has whole say the same."""
        w = pack.modules()[Q]
        for scheme, form, planes in (
                ("nvfp4 compressed", "nvfp4",
                 {"": "weight_packed", ".block_scale": "weight_scale",
                  ".global_scale": "weight_global_scale"}),
                ("mxfp4 quark", "mxfp4", {"": "weight", ".scale": "weight_scale"}),
                ("float-quantized channel", "e4m3fn_row", {"": "weight", ".scale": "weight_scale"}),
                ("fp8 tensor", "e4m3fn_tensor", {"": "weight", ".scale": "weight_scale"})):
            with self.subTest(scheme):
                config, packer = pack.SCHEMES[scheme]
                tensors = packer(Q, w)
                checkpoint = Checkpoint(pack.folder(self.path(scheme), config, tensors))
                roles = layouts.modules_of(checkpoint.tensors)[Q]
                declared, _ = declared_by(checkpoint).of(Q)
                parts, found = layouts.read(Q, roles, layouts.layout_of(roles), declared)
                self.assertEqual(found, [])
                given = {suffix: np.ascontiguousarray(roles[role].bytes) for suffix, role in planes.items()}
                whole = library.decode(form, w.shape,
                                       {s: Plane("uint8", (b.size,), memoryview(b))
                                        for s, b in given.items()})
                np.testing.assert_array_equal(parts.values(0, w.shape[0]), whole)
                np.testing.assert_array_equal(parts.values(33, 50), whole[33:50])

    def test_two_scales_of_int4_are_the_codecs(self):
        w = pack.modules()[Q]
        for order in (pack.AWQ, range(8)):
            config = pack.quark_config(pack.QUARK_W4A8)
            config["export"]["pack_method"] = "reorder" if order is pack.AWQ else "order"
            tensors = pack.quark(Q, w, order)
            checkpoint = Checkpoint(pack.folder(self.path("q"), config, tensors))
            parts, _ = layouts.read(Q, layouts.modules_of(checkpoint.tensors)[Q], "quark words",
                                    declared_by(checkpoint).of(Q)[0])
            codes = np.ascontiguousarray(pack.nibbles(parts.codes_of(0, w.shape[0])))
            planes = {"": codes, ".scale": np.asarray(tensors[f"{Q}.weight_scale_2"][1]),
                      ".scale_2": np.asarray(tensors[f"{Q}.weight_scale"][1]).reshape(1)}
            planes = {s: np.ascontiguousarray(a).view(np.uint8).reshape(-1) for s, a in planes.items()}
            whole = library.decode("int4_ch_tensor", w.shape,
                                   {s: Plane("uint8", (a.size,), memoryview(a)) for s, a in planes.items()})
            np.testing.assert_array_equal(parts.values(0, w.shape[0]), whole)

    def test_a_few_rows_say_the_same(self):
        for scheme in ("pack-quantized", "fp8 block", "fp8 tensor", "awq", "nvfp4 modelopt"):
            config, packer = pack.SCHEMES[scheme]
            path = pack.folder(self.path(scheme), config, pack.quantised(packer))
            original = pack.folder(self.path("original"), None, pack.originals())
            code, kinds, report = self.judged(path, "--against", original, "--sample", "48")
            self.assertEqual((code, kinds), (0, set()), report["findings"])


class Metadata(Scratch):
    def test_a_dict_where_two_steps_are_expected(self):
        def one(config):
            config["global_quant_config"]["weight"] = pack.QUARK_W4A8[1]
        self.finds("metadata", "W4A8 will be skipped", "quark w4a8", config=one)

    def test_texts_and_dicts_in_place_of_lists(self):
        def targets(config):
            config["config_groups"]["group_0"]["targets"] = "Linear"
        self.finds("metadata", "a list of names is expected", "pack-quantized", config=targets)

        def ignore(config):
            config["ignore"] = {"lm_head": True}
        self.finds("metadata", "it is a dict, and a list of names", "pack-quantized", config=ignore)

        def block(config):
            config["weight_block_size"] = 128
        self.finds("metadata", "a list of two is expected", "fp8 block", config=block)

    def test_patterns_that_fit_nothing_or_too_much(self):
        def nothing(config):
            config["ignore"] = ["re:.*router$"]
        self.finds("pattern", "fits no module", "pack-quantized", config=nothing)

        def too_much(config):
            config["ignore"] = ["re:.*proj"]
        self.finds("pattern", "leaves it out, and its bytes are quantised", "pack-quantized", config=too_much)

        def wild(config):
            config["ignore"] = ["*self_attn*"]
        self.finds("pattern", "leaves it out", "nvfp4 modelopt", config=wild)

        def broken(config):
            config["ignore"] = ["re:(lm_head"]
        code, kinds, _ = self.small("pack-quantized", config=broken)
        self.assertEqual((code, "metadata" in kinds), (1, True))

    def test_a_module_left_plain_without_a_word(self):
        names = [f"model.layers.{layer}.self_attn.o_proj" for layer in range(2)]

        def plain(tensors):
            for role in ("weight_packed", "weight_scale", "weight_shape"):
                del tensors[f"{names[1]}.{role}"]
            tensors[f"{names[1]}.weight"] = ("BF16", pack.bf16(pack.modules()[names[1]]))
        self.finds("pattern", "plain numbers", "pack-quantized", plain, modules=names)

    def test_fused_modules_of_two_kinds(self):
        names = [f"model.layers.0.self_attn.{role}_proj" for role in "qkv"]

        def plain(tensors):
            for role in ("weight_packed", "weight_scale", "weight_shape"):
                del tensors[f"{names[2]}.{role}"]
            tensors[f"{names[2]}.weight"] = ("BF16", pack.bf16(pack.modules()[names[2]]))

        def ignore(config):
            config["ignore"] = [names[2]]
        self.finds("fused", "stored unlike", "pack-quantized", plain, modules=names, config=ignore)

    def test_another_scheme_than_declared(self):
        def other(config):
            return pack.SCHEMES["int-quantized"][0] | {"ignore": []}
        self.finds("scheme", "the bytes are words", "pack-quantized", config=other)

        def none(config):
            return {"quant_method": "gptq", "bits": 4, "group_size": 128, "sym": True}
        self.finds("scheme", "the bytes are fp8", "fp8 block", config=none)

    def test_symmetric_with_zero_points_and_without(self):
        def symmetric(config):
            config["config_groups"]["group_0"]["weights"]["symmetric"] = True
        self.finds("zero_point", "symmetric", "pack-quantized asymmetric", config=symmetric)

        def sym(config):
            config["sym"] = True
        self.finds("zero_point", "symmetric", "gptq asymmetric", config=sym)

        def asymmetric(config):
            config["config_groups"]["group_0"]["weights"]["symmetric"] = False
        self.finds("missing", "no zero points", "pack-quantized", config=asymmetric)

    def test_another_group_size(self):
        def group(config):
            config["config_groups"]["group_0"]["weights"]["group_size"] = 64
        self.finds("group", "a scale per 64", "pack-quantized", config=group)

        def ragged(config):
            config["config_groups"]["group_0"]["weights"]["group_size"] = 96
        self.finds("group", "does not divide rows of 256", "pack-quantized", config=ragged)

    def test_an_index_that_lies(self):
        config, packer = pack.SCHEMES["pack-quantized"]
        path = pack.folder(self.path("indexed"), config, pack.quantised(packer), shards=2)
        self.assertEqual(self.judged(path)[0], 0)
        at = os.path.join(path, "model.safetensors.index.json")
        with open(at) as file:
            index = json.load(file)
        gone = index["weight_map"].pop(f"{Q}.weight_scale")
        index["weight_map"]["model.layers.9.mlp.up_proj.weight"] = gone
        with open(at, "w") as file:
            json.dump(index, file)
        code, kinds, report = self.judged(path)
        self.assertEqual((code, kinds), (1, {"index"}), report["findings"])


class Tensors(Scratch):
    def test_missing_scales(self):
        for scheme, role in (("pack-quantized", "weight_scale"), ("fp8 block", "weight_scale_inv"),
                             ("nvfp4 compressed", "weight_global_scale"),
                             ("nvfp4 modelopt", "weight_scale_2")):
            self.finds("missing", role, scheme, lambda t, role=role: t.pop(f"{Q}.{role}"))

    def test_the_other_name_of_the_scale(self):
        def renamed(tensors):
            tensors[f"{Q}.weight_scale"] = tensors.pop(f"{Q}.weight_scale_inv")
        self.finds("missing", "looks for weight_scale_inv", "fp8 block", renamed)

    def test_swapped_names(self):
        def swap(first, second):
            def change(tensors):
                one, two = f"{Q}.{first}", f"{Q}.{second}"
                tensors[one], tensors[two] = tensors[two], tensors[one]
            return change
        for scheme in ("quark w4a8", "nvfp4 modelopt", "modelopt w4a8"):
            self.finds("swapped", "weight_scale", scheme, swap("weight_scale", "weight_scale_2"))

    def test_types_and_shapes(self):
        def wide(tensors):
            tensors[f"{Q}.weight_scale"] = ("I32", np.ones((256, 2)))
        self.finds("dtype", "I32", "pack-quantized", wide)

        def short(tensors):
            kind, scale = tensors[f"{Q}.weight_scale"]
            tensors[f"{Q}.weight_scale"] = (kind, scale[:100])
        self.finds("shape", "[100,2]", "pack-quantized", short)

        def along(tensors):
            tensors[f"{Q}.weight_scale"] = ("F32", np.ones((1, 256)))
        self.finds("axis", "wrong axis", "float-quantized channel", along)

        def turned(tensors):
            kind, scale = tensors[f"{Q}.weight_scale"]
            tensors[f"{Q}.weight_scale"] = (kind, scale.T)
        self.finds("axis", "transposed", "pack-quantized", turned)

        def real(tensors):
            tensors[f"{Q}.weight_shape"] = ("I64", np.array([512, 256]))
        self.finds("shape", "[512, 256]", "pack-quantized", real)

    def test_scales_that_are_none(self):
        for value, word in ((np.nan, "NaN"), (np.inf, "infinite"), (-0.01, "negative"), (0.0, "lost")):
            def put(tensors, value=value):
                kind, scale = tensors[f"{Q}.weight_scale"]
                scale = pack.of_bf16(scale)
                scale[7, 1] = value
                tensors[f"{Q}.weight_scale"] = (kind, pack.bf16(scale) if value == value else np.where(
                    np.isnan(scale), 0x7FC0, pack.bf16(np.nan_to_num(scale))))
            self.finds("scale", word, "pack-quantized", put)

        def activation(tensors):
            tensors[f"{Q}.input_scale"] = ("F32", np.array(0.0))
        self.finds("scale", "no scale", "nvfp4 modelopt", activation)

        def exponent(tensors):
            tensors[f"{Q}.weight_scale"][1][3, 2] = 255
        self.finds("scale", "NaN", "mxfp4 quark", exponent)

    def test_a_zero_scale_over_zeros_is_none(self):
        def put(tensors):
            kind, codes = tensors[f"{Q}.weight"]
            kind_of_scale, scale = tensors[f"{Q}.weight_scale"]
            codes[7], scale[7] = 0, 0
            tensors[f"{Q}.weight"], tensors[f"{Q}.weight_scale"] = (kind, codes), (kind_of_scale, scale)
        code, kinds, report = self.small("int-quantized", put)
        self.assertEqual((code, kinds), (0, set()), report["findings"])

    def test_subnormal_scales_are_a_note(self):
        def put(tensors):
            tensors[f"{Q}.scales"] = ("F16", np.asarray(tensors[f"{Q}.scales"][1]) * 2.0 ** -9)
        code, _, report = self.small("awq", put)
        self.assertEqual(code, 0)
        self.assertTrue(any("subnormal in f16" in f["what"] for f in report["findings"]))

    def test_nan_codes_and_constants(self):
        def nan(tensors):
            tensors[f"{Q}.weight"][1][5, 5] = 0x7F
        self.finds("code", "NaN", "fp8 block", nan)

        def constant(tensors):
            tensors[f"{Q}.weight"][1][:] = 0x38
        self.finds("code", "one and the same", "fp8 block", constant)

    def test_inverted_global_scales(self):
        for scheme, role in (("nvfp4 compressed", "weight_global_scale"),
                             ("nvfp4 modelopt", "weight_scale_2")):
            def invert(tensors, role=role):
                kind, scale = tensors[f"{Q}.{role}"]
                tensors[f"{Q}.{role}"] = (kind, 1 / scale)
            self.finds("global", "stored inverted", scheme, invert)

    def test_inverted_in_every_module(self):
        names = [f"model.layers.{layer}.self_attn.o_proj" for layer in range(2)]

        def invert(tensors):
            for name in names:
                kind, scale = tensors[f"{name}.weight_global_scale"]
                tensors[f"{name}.weight_global_scale"] = (kind, 1 / scale)
        self.finds("global", "stored inverted", "nvfp4 compressed", invert, modules=names)

    def test_inverted_block_scales_are_out_of_range(self):
        def invert(tensors):
            kind, scale = tensors[f"{Q}.weight_scale_inv"]
            tensors[f"{Q}.weight_scale_inv"] = (kind, 1 / scale)
        self.finds("range", "the largest weight", "fp8 block", invert)

    def test_saturated_codes(self):
        w = pack.modules()[Q]

        def shrunk(tensors):
            tensors.update(pack.compressed_int4(Q, w, shrink=0.3))
        self.finds("saturated", "at the ends", "pack-quantized", shrunk)

    def test_plain_numbers_that_are_none(self):
        def norm(tensors):
            tensors["model.norm.weight"] = ("F32", np.array([1, np.nan, 1]))
        self.finds("plain", "NaN", "pack-quantized", norm)

    def test_zero_points_beyond_the_codes(self):
        def beyond(tensors):  # GPTQ's first version adds 1: 15 becomes 16, the one place beyond that it admits; 0 is 1
            tensors[f"{Q}.weight_zero_point"] = ("I8", np.full((256, 1), 100))
            tensors[f"{Q}.weight_scale"] = (tensors[f"{Q}.weight_scale"][0], tensors[f"{Q}.weight_scale"][1])
        code, kinds, report = self.small("int-quantized", beyond)
        self.assertEqual((code, kinds), (1, {"zero_point"}), report["findings"])


class Against(Scratch):
    """What only the original shows; each file is green without it."""

    def finds_beside(self, kind, word, scheme, change=None, **how):
        self.finds(kind, word, scheme, change, against=True, **how)
        code, kinds, report = self.small(scheme, change, **how)
        self.assertNotIn(kind, kinds, report["findings"])

    def test_wrong_rounding_is_named(self):
        w = pack.modules()[Q]
        for rounding, word in ((np.trunc, "toward zero"), (np.floor, "rounded down"),
                               (lambda q: np.sign(q) * np.ceil(np.abs(q)), "away")):
            self.finds_beside("rounding", word, "pack-quantized", lambda t,
                              r=rounding: t.update(pack.compressed_int4(Q, w, rounding=r)))

    def test_truncated_floats(self):
        w = pack.modules()[Q]

        def cut(tensors):
            tensors.update(pack.fp8(Q, w, 1, 0))
            scale = tensors[f"{Q}.weight_scale"][1]
            quotient = w / scale
            codes = pack.e4m3(quotient)
            over = np.abs(pack.of_e4m3(codes)) > np.abs(quotient)
            tensors[f"{Q}.weight"] = ("F8_E4M3", np.where(over, codes - 1, codes))
        self.finds_beside("rounding", "toward zero", "float-quantized channel", cut)

    def test_clipped_outliers(self):
        w = pack.modules()[Q].copy()
        w[::16, ::32] *= 40  # of every group a few

        def write(clip):
            def change(tensors):
                absmax = np.sort(np.abs(w.reshape(256, 2, 128)), axis=2)
                scale = pack.of_bf16(pack.bf16(np.maximum(absmax[:, :, -8 if clip else -1] / 7, 1e-9)))
                codes = np.clip(np.rint(w / pack.spread(scale, 128)), -8, 7).astype(np.int64)
                tensors.update({f"{Q}.weight_packed": ("I32", pack.words(codes + 8, 4)),
                                f"{Q}.weight_scale": ("BF16", pack.bf16(scale))})
            return change
        original = pack.folder(self.path("with outliers"), None, {f"{Q}.weight": ("F32", w)})
        for clip, expected in ((True, {"clipped"}), (False, set())):
            self.small("pack-quantized", write(clip))
            _, kinds, report = self.judged(self.path("planted"), "--against", original)
            self.assertEqual(kinds, expected, report["findings"])

    def test_nibbles_and_words_in_another_order(self):
        def other(tensors):
            kind, codes = tensors[f"{Q}.weight_packed"]
            tensors[f"{Q}.weight_packed"] = (kind, (codes >> 4 | codes << 4) & 0xFF)
        self.finds_beside("order", "nibbles of a byte", "mxfp4 compressed", other)
        w = pack.modules()[Q]
        self.finds_beside("order", "words of eight", "awq",
                          lambda t: t.update({f"{Q}.qweight": ("I32", pack.words(
            pack.asymmetric(w, 128)[0].T, 4))}))
        self.finds_beside("order", "AWQ's order", "pack-quantized",
                          lambda t: t.update({f"{Q}.weight_packed": ("I32", pack.words(
            pack.int4(w, 128)[0] + 8, 4, pack.AWQ))}))

    def test_quarks_order_by_the_metadata(self):
        def plain(config):
            config["export"]["pack_method"] = "order"
        self.finds("order", "AWQ's order", "quark w4a8", config=plain, against=True)

    def test_transposed_groups_and_the_other_axis(self):
        def groups(tensors):
            kind, scale = tensors[f"{Q}.weight_scale"]
            tensors[f"{Q}.weight_scale"] = (kind, np.asarray(scale).T.reshape(scale.shape))
        self.finds_beside("axis", "transposed", "pack-quantized", groups)
        w = pack.modules()[Q]

        def columns(tensors):
            scale = (np.abs(w * self.spread).max(axis=0) / 127).astype(np.float32)
            tensors[f"{Q}.weight"] = ("I8", np.clip(np.rint(w * self.spread / scale), -127, 127))
            tensors[f"{Q}.weight_scale"] = ("F32", scale[:, None])
        self.spread = 2.0 ** (np.arange(256) % 5)  # channels of different sizes, as trained ones are
        original = pack.folder(self.path("spread"), None, {f"{Q}.weight": ("F32", w * self.spread)})
        self.small("int-quantized", columns)
        _, kinds, report = self.judged(self.path("planted"), "--against", original)
        self.assertEqual(kinds, {"axis"}, report["findings"])
        self.assertTrue(any("per input channel" in f["what"] for f in report["findings"]))

    def test_shifted_zero_points(self):
        def v2(config):
            config["checkpoint_format"] = "gptq_v2"
        self.finds("zero_point", "off by", "gptq asymmetric", config=v2, against=True)

    def test_inverted_beside_the_original(self):
        def invert(tensors):
            kind, scale = tensors[f"{Q}.weight_global_scale"]
            tensors[f"{Q}.weight_global_scale"] = (kind, 1 / scale)
        code, kinds, report = self.small("nvfp4 compressed", invert, against=True)
        self.assertEqual((code, kinds), (1, {"global"}), report["findings"])

    def test_one_factor(self):
        def half(tensors):  # e4m3fnuz's bias is one more
            kind, scale = tensors[f"{Q}.weight_scale"]
            tensors[f"{Q}.weight_scale"] = (kind, scale * np.float32(2))
        self.finds_beside("factor", "2^-1", "float-quantized channel", half)

    def test_channels_that_were_smoothed_are_a_note(self):
        w = pack.modules()[Q]
        factors = np.exp(np.random.default_rng(3).normal(0, 0.7, 256))
        code, kinds, report = self.small("awq", lambda t: t.update(pack.awq(Q, w * factors)), against=True)
        self.assertEqual((code, kinds), (0, set()), report["findings"])
        self.assertTrue(any("input channels are scaled" in f["what"] for f in report["findings"]))

    def test_a_quantiser_that_makes_up_for_errors_is_no_finding(self):
        codes, scale = pack.compensated(pack.modules()[Q])
        plain, _ = pack.int4(pack.modules()[Q], 128)
        self.assertGreater(np.count_nonzero(codes != plain), codes.size // 10)
        code, kinds, report = self.small("pack-quantized", lambda t: t.update({
            f"{Q}.weight_packed": ("I32", pack.words(codes + 8, 4)),
            f"{Q}.weight_scale": ("BF16", pack.bf16(scale))}), against=True)
        self.assertEqual((code, kinds, report["findings"]), (0, set(), []))

    def test_another_layers_weights(self):
        other = pack.modules()["model.layers.1.self_attn.o_proj"]
        self.finds_beside("error", "no cause is found", "pack-quantized",
                          lambda t: t.update(pack.compressed_int4(Q, other)))

    def test_an_original_of_another_shape(self):
        path = pack.folder(self.path("short"), None, {f"{Q}.weight": ("F32", np.ones((8, 8)))})
        self.small("pack-quantized")
        self.assertEqual(self.judged(self.path("planted"), "--against", path)[1], {"shape"})


class Gguf(Scratch):
    """q8_0 and q4_0 written by hand; the quantiser is ggml's reference."""

    def write(self, name, tensors):
        head = [b"GGUF", struct.pack("<IQQ", 3, len(tensors), 1)]
        head.append(struct.pack("<Q", 20) + b"general.architecture" + struct.pack("<IQ", 8, 5) + b"llama")
        body, at = [], 0
        for tensor, kind, shape, data in tensors:
            head.append(struct.pack("<Q", len(tensor)) + tensor.encode() + struct.pack("<I", len(shape))
                        + b"".join(struct.pack("<Q", n) for n in shape[::-1]) + struct.pack("<IQ", kind, at))
            data += b"\0" * (-len(data) % 32)
            body.append(data)
            at += len(data)
        whole = b"".join(head)
        path = self.path(name + ".gguf")
        with open(path, "wb") as file:
            file.write(whole + b"\0" * (-len(whole) % 32) + b"".join(body))
        return path

    @staticmethod
    def q4_0(w, neighbours=False, by=1.0):
        x = w.reshape(-1, 32)
        most = x[np.arange(len(x)), np.abs(x).argmax(axis=1)]
        d = (most / -8).astype(np.float16)
        codes = np.clip(np.trunc(x / d.astype(np.float64)[:, None] + 8.5), 0, 15).astype(np.uint8)
        low, high = (codes[:, 0::2], codes[:, 1::2]) if neighbours else (codes[:, :16], codes[:, 16:])
        d = (d * np.float16(by)).astype(np.float16)
        return b"".join(s.tobytes() + q.tobytes() for s, q in zip(d, (low | high << 4).astype(np.uint8)))

    def test_right_and_wrong(self):
        w = pack.modules()[Q]
        name = "blk.0.attn_output.weight"
        original = self.write("f32", [(name, 0, w.shape, w.astype("<f4").tobytes())])
        for kind, data, expected in (
                ("right", self.q4_0(w), set()), ("neighbours", self.q4_0(w, neighbours=True), {"order"}),
                ("double", self.q4_0(w, by=2), {"factor"}),
                ("nan", b"\xff\x7f" + self.q4_0(w)[2:], {"scale"})):
            path = self.write(kind, [(name, 2, w.shape, data)])
            code, kinds, report = self.judged(path, "--against", original)
            self.assertEqual((code, kinds), (1 if expected else 0, expected), report["findings"])

    def test_types_that_are_not_known_are_named(self):
        path = self.write("iq", [("blk.0.ffn_up.weight", 16, (1, 256), bytes(66))])
        code, kinds, report = self.judged(path)
        self.assertEqual((code, kinds, len(report["not_understood"])), (3, set(), 1))
        self.assertEqual(self.judged(path, "--strict")[0], 1)

    def test_cut_off(self):
        w = pack.modules()[Q]
        path = self.write("cut", [("x.weight", 2, w.shape, self.q4_0(w)[:-4000])])
        self.assertRegex(refusal(path), "cut off: x.weight ends at byte")


def refusal(*words):
    said = io.StringIO()
    with contextlib.redirect_stderr(said):
        assert command.main(list(words)) == 2
    return said.getvalue()


class Refused(Scratch):
    def test_what_is_no_checkpoint(self):
        self.assertIn("there is no such file", refusal(self.path("none")))
        os.mkdir(self.path("empty"))
        self.assertIn("no .safetensors and no .gguf", refusal(self.path("empty")))
        path = self.path("x.safetensors")
        for data, word in ((b"\1", "cut off"), (struct.pack("<Q", 1 << 40), "cut off"),
                           (struct.pack("<Q", 2) + b"[]", "header"),
                           (struct.pack("<Q", 4) + b"{}  x", "end at byte 12"),
                           (struct.pack("<Q", 58)
                            + b'{"w":{"dtype":"F32","shape":[2,2],"data_offsets":[0,8]}}   '[:58] + bytes(8),
                            "16 bytes")):
            with open(path, "wb") as file:
                file.write(data)
            self.assertIn(word, refusal(path))
        config, packer = pack.SCHEMES["pack-quantized"]
        folder = pack.folder(self.path("bad"), config, packer(Q, pack.modules()[Q]))
        with open(os.path.join(folder, "config.json"), "w") as file:
            file.write("{")
        self.assertIn("no JSON", refusal(folder))

    def test_an_original_without_the_names(self):
        config, packer = pack.SCHEMES["pack-quantized"]
        folder = pack.folder(self.path("good"), config, packer(Q, pack.modules()[Q]))
        other = pack.folder(self.path("other"), None, {"x.weight": ("F32", np.ones((2, 2)))})
        self.assertIn("none of the tensors", refusal(folder, "--against", other))

    def test_what_is_not_understood_is_counted(self):
        config = {"quant_method": "bitsandbytes", "load_in_4bit": True}
        folder = pack.folder(self.path("bnb"), config,
                             {f"{Q}.weight": ("U8", np.zeros((64, 1))), "x.norm.weight": ("F32", np.ones(4))})
        code, kinds, report = self.judged(folder)
        self.assertEqual((code, kinds), (3, set()))
        self.assertEqual([row["name"] for row in report["not_understood"]], ["metadata", Q])
        self.assertEqual(self.judged(folder, "--strict")[0], 1)


class Program(Scratch):
    def run_(self, *words):
        return subprocess.run([PROGRAM, "checkpoint", *words], capture_output=True, text=True,
                              env=dict(os.environ, PATH=os.path.dirname(sys.executable) + os.pathsep
                                       + os.environ["PATH"]))

    def test_the_program_says_it_in_words(self):
        config, packer = pack.SCHEMES["nvfp4 modelopt"]
        tensors = pack.quantised(packer)
        path = pack.folder(self.path("right"), config, tensors)
        done = self.run_(path)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("ModelOpt NVFP4: e2m1, a scale per 16 of a row, and one of the tensor", done.stdout)
        self.assertRegex(done.stdout,
                         r"14 quantised modules, [\d,]+ weights judged in [\d.]+ s: nothing wrong\n$")
        kind, scale = tensors[f"{Q}.weight_scale_2"]
        tensors[f"{Q}.weight_scale_2"] = (kind, 1 / scale)
        done = self.run_(pack.folder(self.path("wrong"), config, tensors))
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertIn("it is stored inverted", done.stdout)
        self.assertEqual(self.run_(self.path("none")).returncode, 2)

    def test_every_kind_of_finding_is_in_its_list(self):
        source = ""
        for name in os.listdir(os.path.join(HERE, "assay_checkpoint")):
            if name.endswith(".py"):
                with open(os.path.join(HERE, "assay_checkpoint", name)) as file:
                    source += file.read()
        for kind in findings.KINDS:
            self.assertIn(f'"{kind}"', source.replace(f'    "{kind}":', ""),
                          f"{kind} is told and never found")


if __name__ == "__main__":
    unittest.main()
