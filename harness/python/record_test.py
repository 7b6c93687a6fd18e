#!/usr/bin/env python3
"""record_test.py PROGRAM: what assay.record writes of right and of wrong functions, and what it leaves alone.
Functions of PyTorch are recorded where there is one."""
import glob
import importlib.util
import os
import subprocess
import sys
import tempfile
import types
import unittest

try:
    import numpy
except ImportError:
    print("no numpy here: skipped")
    sys.exit(77)
PROGRAM = os.environ["ASSAY_PROGRAM"] = os.path.abspath(sys.argv.pop())
sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import assay  # noqa: E402

# A module of somebody's, with a norm that returns its output, and one that writes into an argument.
engine = types.ModuleType("assay_test_engine")
sys.modules["assay_test_engine"] = engine


def rms(x, gamma, eps):
    wide = x.astype(numpy.float64)
    return (wide * gamma / numpy.sqrt((wide * wide).mean(-1, keepdims=True) + eps)).astype(x.dtype)


def rms_into(out, x, gamma, eps=1e-6):
    out[...] = 1.01 * rms(x, gamma, eps)


engine.rms, engine.rms_into = rms, rms_into


def judged(folder):
    return subprocess.run([PROGRAM, "judge", *sorted(glob.glob(folder + "/*.safetensors"))],
                          capture_output=True, text=True)


class Record(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = os.path.join(folder.name, "dumps")
        self.x = numpy.random.default_rng(1).standard_normal((2, 20, 40)).astype(numpy.float32)
        self.gamma = numpy.ones(40, numpy.float32)
        self.right = assay.tap("assay_test_engine.rms", op="rmsnorm", inputs={"x": 0, "gamma": (1, "gamma")},
                               contract="rsqrt_ulp=5",
                               eps=lambda x, gamma, eps: eps)

    def test_a_right_function_is_green_and_one_that_writes_into_an_argument_wrongly_is_found(self):
        with assay.record(self.folder, self.right) as record:
            engine.rms(self.x, gamma=self.gamma, eps=1e-5)
        done = judged(self.folder)
        self.assertEqual((done.returncode, len(record.files)), (0, 1), done.stdout + done.stderr)
        self.assertIn("rmsnorm rows=40 cols=40 eps=1e-05", done.stdout)
        self.assertIn("rsqrt_ulp=5", done.stdout)
        out = numpy.zeros_like(self.x)
        wrong = assay.tap("assay_test_engine.rms_into", op="rmsnorm", inputs={"x": 1, "gamma": 2},
                          outputs={"y": 0}, eps=1e-6)
        with assay.record(self.folder + "2", wrong):
            engine.rms_into(out, self.x, self.gamma)
        self.assertEqual(judged(self.folder + "2").returncode, 1)

    def test_inputs_are_those_before_the_call_and_the_function_is_itself_again_afterwards(self):
        def in_place(x):
            x *= 0
            return x
        engine.in_place = in_place
        with assay.record(self.folder,
                          assay.tap("assay_test_engine.in_place", op="softmax", inputs={"x": 0})) as record:
            engine.in_place(self.x.copy())
        self.assertIs(engine.in_place, in_place)
        given = assay.tensors.read_planes(record.files[0])["x"].numpy()
        self.assertTrue((given == self.x.reshape(40, 40)).all())

    def test_every_other_call_drawn_rows_and_a_bound_in_bytes(self):
        with assay.record(self.folder, self.right, every=2, rows=5) as record:
            for _ in range(5):
                engine.rms(self.x, self.gamma, 1e-5)
        self.assertEqual((len(record.files), record.seen["assay_test_engine.rms"]), (3, 5))
        done = judged(self.folder)
        self.assertEqual(done.returncode, 0, done.stdout)
        self.assertIn("rows=5 cols=40", done.stdout)
        with assay.record(self.folder + "2", self.right, max_bytes=30_000) as record:
            for _ in range(4):
                engine.rms(self.x, self.gamma, 1e-5)
        self.assertEqual(len(record.files), 2)  # 12,960 bytes each
        self.assertIn("2 left out: assay_test_engine.rms: beyond max_bytes=30000", str(record))

    def test_what_is_no_case_does_not_end_the_model_and_is_said(self):
        with assay.record(self.folder, self.right) as record:
            self.assertEqual(engine.rms(self.x.astype(numpy.complex64).real.astype("U5").astype(numpy.float32), self.gamma, 1e-5).shape, self.x.shape)
            with self.assertRaises(TypeError):
                engine.rms(self.x)
            engine.rms(self.x.astype(numpy.longdouble), self.gamma, 1e-5)
        self.assertEqual(len(record.files), 1, str(record))
        self.assertIn("a tensor of type", str(record))
        for taps in (("torch.nn.functional.no_such",),
                     (assay.tap("assay_test_engine.nothing", op="softmax", inputs={}),)):
            with self.assertRaises(ValueError), assay.record(self.folder, *taps):
                pass

    def test_attention_has_the_tensors_that_its_attributes_ask_for(self):
        q, k, v = (numpy.random.default_rng(seed).standard_normal((1, 3, 2, 8)).astype(numpy.float32)
                   for seed in (1, 2, 3))
        s = numpy.einsum("bqhd,bkhd->bhqk", q.astype(float), k) / 8 ** 0.5
        w = numpy.exp(s - s.max(-1, keepdims=True))
        out = numpy.einsum("bhqk,bkhd->bqhd", w / w.sum(-1, keepdims=True), v).astype(numpy.float32)
        self.assertIn("len=3", assay.check(out, op="attention", inputs={"q": q, "k": k, "v": v}))
        with self.assertRaises(assay.Finding):
            assay.check(out[:, ::-1], op="attention", inputs={"q": q, "k": k, "v": v})

    @unittest.skipUnless(importlib.util.find_spec("torch"), "no PyTorch here")
    def test_known_functions_of_pytorch_inside_a_module(self):
        import torch
        from torch.nn import functional
        torch.manual_seed(1)

        class Block(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.norm, self.qkv = torch.nn.LayerNorm(32), torch.nn.Linear(32, 96, bias=False)

            def forward(self, x):
                q, k, v = self.qkv(self.norm(x)).view(1, 9, 3, 4, 8).permute(2, 0, 3, 1, 4)
                return x + functional.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(
                    1, 2
                ).reshape(1, 9, 32)

        model, x = torch.nn.Sequential(Block(), Block(), torch.nn.Linear(32, 32)), torch.randn(1, 9, 32)
        with torch.no_grad():
            want = model(x)
            with assay.record(self.folder, model[1], contracts={"attention": "exp_ulp=20"}) as inside:
                self.assertTrue(torch.equal(model(x), want))
            with assay.record(self.folder + "2", "torch.nn.functional.linear") as linear:
                model(x)
            with assay.record(self.folder + "3") as once:
                functional.softmax(x, dim=-1)  # which calls another one that is known
        self.assertEqual([os.path.basename(f).split("_")[1] for f in inside.files],
                         ["layernorm.safetensors", "matmul.safetensors", "attention.safetensors"])
        self.assertEqual(judged(self.folder).returncode, 0, judged(self.folder).stdout)
        self.assertEqual((len(linear.files), len(once.files)), (2, 1))
        self.assertIn("1 left out: torch.nn.functional.linear: with a bias", str(linear))

    def test_arrays_of_numpy_become_a_file_for_the_judge_and_a_zip_is_refused_with_the_way_to_it(self):
        os.makedirs(self.folder)
        dump = os.path.join(self.folder, "layer.npz")
        numpy.savez(dump, hidden=self.x[0], out=rms(self.x[0], self.gamma, 1e-5), gamma=self.gamma,
                    names=numpy.array(["a"]))
        case = ["--case", "rmsnorm rows=20 cols=40", "--map", "x=hidden,y=out"]
        refused = subprocess.run([PROGRAM, "judge", dump, *case], capture_output=True, text=True)
        self.assertEqual(refused.returncode, 2)
        self.assertIn("python3 -m assay.convert", refused.stderr)
        again = lambda: subprocess.run([sys.executable, "-m", "assay.convert", dump], capture_output=True,
                                       text=True,  # noqa: E731
                                       env=dict(os.environ,
                                                PYTHONPATH=os.path.dirname(os.path.abspath(__file__))))
        self.assertIn("left out: names", again().stdout)
        self.assertEqual(again().returncode, 2)  # nothing is replaced
        done = subprocess.run([PROGRAM, "judge", dump.replace(".npz", ".safetensors"), *case],
                              capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)


unittest.main()
