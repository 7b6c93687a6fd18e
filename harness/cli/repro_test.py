#!/usr/bin/env python3
"""repro_test.py PROGRAM: the scripts of `assay repro` show what was found, in at most 60 lines, without
assay; and their definitions, which share nothing with the reference, lie in the interval that the reference
gives: a kernel that returns them is inside."""
import os
import subprocess
import sys
import tempfile
import unittest

PROGRAM = os.path.abspath(sys.argv.pop())
# Kernels that are wrong everywhere.
SUBJECTS = """
from assay_subjects import subject


def wrong(count):
    return lambda call, **_: [0.37] * count(call)


def of(*names):
    def count(call):
        product = 1
        for name in names:
            product *= call.integer(name)
        return product
    return count


def numbers(call, **_):
    sizes = {}
    for name, tensor in call.outputs.items():
        sizes[name] = [0 if tensor.format == "int32" else 0.37]
        for extent in tensor.shape:
            sizes[name] = sizes[name] * extent
    return sizes


for op in FORMULAS:
    subject(op=op, contract="", device="cpu")(numbers)
ANY = {"softmax": "acc=f32", "logsumexp": "acc=f32", "rmsnorm": "acc=f32", "layernorm": "acc=f32", "matmul": "acc=f32", "attention": ""}
SIZES = {"softmax": ("rows", "cols"), "logsumexp": ("rows",), "rmsnorm": ("rows", "cols"), "layernorm": ("rows", "cols"),
         "matmul": ("m", "n"), "attention": ("batch", "q", "heads", "dv")}
for op, contract in ANY.items():
    subject(op=op, contract=lambda call, contract=contract: contract, device="cpu")(wrong(of(*SIZES[op])))
"""
LINES = ["softmax rows=3 cols=7", "softmax rows=3 cols=7 mask=causal sinks=yes",
         "softmax rows=8 cols=9 mask=random softcap=3",
         "softmax rows=2 cols=5 temperature=0.7 fill=deep", "logsumexp rows=2 cols=9",
         "rmsnorm rows=2 cols=9 eps=1e-3",
         "layernorm rows=2 cols=9", "layernorm rows=2 cols=9 fill=offset",
         "matmul m=2 n=3 k=40 a=f32 b=f32 dtype=f32", "matmul m=2 n=3 k=64 a=bf16 b=q4_0 dtype=f32 path=f32",
         "matmul m=2 n=3 k=64 a=e4m3fn_tok b=e4m3fn_ch dtype=f32 path=f32",
         "attention heads=2 d=8 len=11 dtype=f32",
         "attention heads=4 kv_heads=2 d=8 dv=4 len=11 q=5 mask=causal sinks=yes softcap=2 dtype=f32",
         "attention batch=3 heads=2 d=32 len=24 q=4 mask=window window=3 page=4 lengths=ragged alibi=yes kv=q8_0 dtype=f32",
         "attention batch=2 heads=2 d=8 len=9 q=3 mask=random scale=0.2 k=bf16 v=f32 dtype=f32"]
# Ops that are formulas: gathers, segments, masks, ranks, recurrences, earlier outputs as they were stored,
# words of attributes.
FORMULAS = [line + " dtype=f32" for line in (
            "add_rmsnorm rows=4 cols=33", "conv1d channels=3 tokens=5 width=4",
            "cross_entropy rows=3 cols=17", "embedding tokens=4 vocabulary=7 cols=5",
            "gated_delta tokens=3 heads=2 dk=8 dv=8", "geglu rows=4 cols=33",
            "kda tokens=3 heads=2 dk=4 dv=4", "lora tokens=3 k=9 rank=2 n=5 adapters=2",
            "mamba2 tokens=5 heads=2 groups=1 p=4 n=8", "merge_states tokens=3 heads=2 d=8",
            "min_p rows=2 cols=9",
            "paged_decode batch=2 heads=2 kv_heads=1 d=8 pages=5 page=4 slots=3",
            "rope tokens=4 heads=2 d=64", "rope_yarn tokens=4 heads=2 d=64",
            "route_topk tokens=4 experts=16",
            "sparse_attention tokens=2 heads=2 d=8 keys=9 topk=5", "swiglu_clamped rows=4 cols=33")]


def assay(*arguments):
    return subprocess.run([PROGRAM, *arguments], capture_output=True, text=True)


class Repro(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.subjects, self.script = (os.path.join(self.folder.name, name)
                                      for name in ("everywhere.py", "repro.py"))
        with open(self.subjects, "w", encoding="utf-8") as file:
            file.write(f"FORMULAS = {[line.split()[0] for line in FORMULAS]}\n" + SUBJECTS)

    def run_script(self, change=lambda text: text):
        with open(self.script, encoding="utf-8") as file:
            text = file.read()
        done = subprocess.run([sys.executable, "-I", "-c", change(text)], capture_output=True, text=True)
        self.assertEqual(done.stderr, "")
        return done, text

    def test_what_was_found_is_shown_and_the_definition_is_inside(self):
        for line in LINES + FORMULAS:
            with self.subTest(line):
                made = assay("repro", line, "-b", self.subjects, "-o", self.script)
                self.assertEqual(made.returncode, 1, made.stdout + made.stderr)
                shown, text = self.run_script()
                self.assertEqual(shown.returncode, 1, shown.stdout)
                self.assertRegex(shown.stdout, r"got (0.37\d*|0|0.0), allowed .*\noutside")
                self.assertLessEqual(text.count("\n"), 60)
                self.assertNotIn("import assay", text)
                right, _ = self.run_script(
                    lambda t: t.replace(", kernel()", ", None").replace(
                        "\nprint(f",
                        "\ngot = struct.unpack('f', struct.pack('f', float(value)))[0]\nprint(f",
                        1,
                    )
                )
                self.assertEqual((right.returncode, right.stdout.splitlines()[-1]), (0, "inside"),
                                 line + "\n" + right.stdout)

    def test_a_definition_without_the_roundings_that_are_declared_says_so(self):
        made = assay("repro", "matmul m=2 n=3 k=256 a=bf16 b=q8_0 dtype=f32", "-b", self.subjects, "-o",
                     self.script)
        self.assertEqual(made.returncode, 1, made.stderr)
        shown, text = self.run_script()
        self.assertIn("what is declared rounds in between", shown.stdout)
        self.assertLessEqual(text.count("\n"), 60)

    def test_a_result_that_is_no_number_is_outside(self):
        made = assay("repro", "softmax rows=1 cols=96 fill=extreme backend=museum variant=max_of_first_warp",
                     "-o", self.script)
        self.assertEqual(made.returncode, 1, made.stderr)
        shown, _ = self.run_script()
        self.assertRegex(shown.stdout, "exact 1.0.*, got nan, allowed 0.99.*\noutside\n")

    def test_what_a_script_cannot_show_is_refused_with_the_reason(self):
        for line, code, word in (
                ("softmax rows=2 cols=5 backend=cpu", 3, "nothing to show"),
                ("softmax rows=1000000 cols=1000000 backend=cpu", 2, "it needs "),
                ("attention heads=2 d=64 len=400 kv_heads=2 dtype=f32 backend=" + self.subjects, 2,
                 "assay shrink"),
                ("attention heads=2 d=32 len=16 rotate=qkv k=q8_0 v=tq3_0_c2 dtype=f32 backend="
                 + self.subjects, 2, "rotate=qkv"),
                ("wht rows=2 cols=64 fault=none backend=cpu", 3, "nothing to show")):
            done = assay("repro", line)
            self.assertEqual(done.returncode, code, line + done.stdout + done.stderr)
            self.assertIn(word, done.stderr, line)
            self.assertEqual(done.stdout, "")


unittest.main()
