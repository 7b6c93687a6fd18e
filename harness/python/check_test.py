#!/usr/bin/env python3
"""check_test.py PROGRAM: assay.check and @assay.cases, each with a kernel that keeps its contract and one that does not."""
import concurrent.futures
import os
import subprocess
import sys
import tempfile
import unittest

try:
    import numpy
except ImportError:
    print("no numpy here: skipped")
    sys.exit(77)
os.environ["ASSAY_PROGRAM"] = os.path.abspath(sys.argv.pop())
HERE = os.path.dirname(os.path.abspath(__file__))
sys.dont_write_bytecode = True
sys.path.insert(0, HERE)
import assay  # noqa: E402


def rmsnorm(x, gamma, eps):
    wide = x.astype(numpy.float64)
    return (wide * gamma / numpy.sqrt((wide * wide).mean(-1, keepdims=True) + eps)).astype(x.dtype)


class Foreign:
    """An array of another library, by the protocol alone."""

    def __init__(self, array):
        self.array = array

    def __array__(self, *_):
        return self.array


class Check(unittest.TestCase):
    def setUp(self):
        draw = numpy.random.default_rng(1)
        self.x = draw.standard_normal((2, 3, 40)).astype(numpy.float32)
        self.inputs = {"x": self.x, "gamma": draw.standard_normal(40).astype(numpy.float32)}
        self.y = rmsnorm(**self.inputs, eps=1e-5)

    def judged(self, y, **more):
        return assay.check(y, op="rmsnorm",
                           **{"inputs": self.inputs, "contract": "acc=f32", "eps": 1e-5, **more})

    def test_a_correct_kernel_passes_in_each_kind_of_array(self):
        for wrap in (lambda a: a, Foreign, lambda a: numpy.asfortranarray(a)):
            self.assertRegex(self.judged(wrap(self.y)),
                             r"(?s)^pass these tensors: rmsnorm .* judged 240 outputs\n")
        half = {"x": self.x.astype(numpy.float16), "gamma": self.inputs["gamma"].astype(numpy.float16)}
        self.assertIn("dtype=f16", self.judged(rmsnorm(half["x"], half["gamma"].astype(numpy.float32), 1e-5),
                                               inputs=half))

    def test_a_formula_of_the_test_is_an_op(self):
        formula = """op scaled_add              # y = x + scale b
sizes rows, cols
attribute scale real 0..100 = 2
in  x[rows,cols] dtype, b[cols] f32
out y[r,i] dtype = x[r,i] + scale * b[i]
"""
        x, b = self.x.reshape(6, 40), self.inputs["gamma"]
        y = x + numpy.float32(3) * b
        self.assertIn("pass these tensors: scaled_add",
                      assay.check(y, formula=formula, inputs={"x": x, "b": b}, scale=3))
        with self.assertRaises(assay.Finding) as found:
            assay.check(y * numpy.float32(1.0001), formula=formula, inputs={"x": x, "b": b}, scale=3)
        self.assertIn("scaled_add", str(found.exception))
        wrong = formula.replace("b[i]\n", "c[i]\n").replace("scaled_add", "misspelt_add")
        with self.assertRaisesRegex(ValueError, "line 5, column 37: 'c' is not known here"):
            assay.check(y, formula=wrong, inputs={"x": x, "b": b})
        self.assertRaisesRegex(ValueError, "one of op and formula", assay.check, y, inputs={"x": x})
        self.assertRaisesRegex(ValueError, "another formula", assay.check, y, formula=formula + "#",
                               inputs={"x": x})

    def test_a_wrong_element_another_eps_and_a_nan_are_findings_with_the_text_of_assay(self):
        wrong = self.y.copy()
        wrong[1, 2, 7] *= 1.001
        with self.assertRaises(assay.Finding) as found:
            self.judged(wrong)
        for word in ("FAIL", "y[5,7] of [6,40]", "1 of 240", "x limit", "acc=f32"):
            self.assertIn(word, str(found.exception))
        self.assertRaises(assay.Finding, self.judged, self.y, eps=1e-2)
        wrong[1, 2, 7] = numpy.nan
        self.assertRaises(assay.Finding, self.judged, wrong)

    def test_a_process_of_its_own_says_the_same_of_right_wrong_and_refused(self):
        wrong = self.y.copy()
        wrong[0, 0, 3] += 1
        for y, more in ((self.y, {}), (wrong, {}), (self.y, {"contract": "acc=f3"}),
                        (self.y, {"inputs": {"x": self.x}})):
            said = []
            for process in ("", "own"):
                try:
                    said.append(self.judged(y, process=process, **more))
                except (assay.Finding, ValueError) as failure:
                    said.append(str(failure).removeprefix("assay: "))
            lines = [text.splitlines() for text in said]
            self.assertEqual(lines[0], lines[1][: len(lines[0])])  # the program counts its files behind it
        self.assertRaisesRegex(ValueError, "allowed: 'own'", self.judged, self.y, process="mine")

    def test_many_threads_judge_at_once_and_the_threads_arithmetic_is_its_own(self):
        wrong = self.y.copy()
        wrong[0, 0, 3] += 1

        def finds(_):
            try:
                self.judged(self.y)
                self.judged(wrong)
            except assay.Finding:
                return True
        with concurrent.futures.ThreadPoolExecutor(8) as pool:
            self.assertTrue(all(pool.map(finds, range(64))))

    def test_arrays_of_another_byte_order_and_whole_numbers_are_what_they_say(self):
        swapped = {name: array.astype(array.dtype.newbyteorder(">")) for name, array in self.inputs.items()}
        self.judged(self.y.astype(">f4"), inputs=swapped)
        self.assertRaises(assay.Finding, self.judged, (self.y * numpy.float32(1.01)).astype(">f4"),
                          inputs=swapped)
        x = self.x.reshape(6, 40)
        assay.check([int(i) for i in x.argmax(-1)], op="argmax", inputs={"x": x})
        self.assertRaises(assay.Finding, assay.check, [0] * 6, op="argmax", inputs={"x": x})

    def test_one_formula_from_many_threads_is_one_op(self):
        formula = "op doubled_by_threads\nsizes rows, cols\nin  x[rows,cols] dtype\nout y[r,i] dtype = 2 * x[r,i]\n"
        x = self.x.reshape(6, 40)
        with concurrent.futures.ThreadPoolExecutor(16) as pool:
            list(pool.map(lambda _: assay.check(2 * x, formula=formula, inputs={"x": x}), range(64)))
        self.judged(self.y)

    def test_mistakes_are_value_errors_with_a_text(self):
        for more, word in (({"op": "q4_0"}, "assay list ops"), ({"op": 3}, "as a text"),
                           ({"contract": {"acc": "f32"}}, "a text, as in"),
                           ({"contract": "acc=f64\0foo"}, "a text, as in"), ({"inputs": [self.x]}, "a dict"),
                           ({"fill": "ramp"}, "fill=ramp")):
            with self.assertRaises(ValueError) as refused:
                assay.check(self.y, **{"op": "rmsnorm", "inputs": self.inputs, "contract": "acc=f32",
                                       "eps": 1e-5, **more})
            self.assertIn(word, str(refused.exception))
        for line in ("softmax rows", ""):
            self.assertRaises(ValueError, lambda line=line: assay.Case(line).inputs)

    def test_truths_are_what_check_judges_by(self):
        y, limit = assay.truth(op="rmsnorm", inputs=self.inputs, contract="acc=f32", eps=1e-5)["y"]
        self.assertEqual(y.shape, (6, 40))
        self.assertTrue((numpy.abs(self.y.reshape(6, 40) - y) <= limit).all())
        self.assertLess(limit.max(), 1e-4)
        outside = self.y.reshape(6, 40).copy()
        outside[2, 3] = y[2, 3] + 1.5 * limit[2, 3]
        with self.assertRaises(assay.Finding) as found:
            self.judged(outside)
        self.assertIn("y[2,3] of [6,40]", str(found.exception))
        self.assertRaisesRegex(ValueError, "gamma", assay.truth, op="rmsnorm", inputs={"x": self.x})

    def test_what_cannot_be_judged_is_refused_and_no_finding(self):
        for more, word in (({"inputs": {"z": self.x}}, "no tensor z"), ({"inputs": {"x": self.x}}, "gamma"),
                           ({"contract": "acc=f3"}, "acc"),
                           ({"inputs": {"x": self.x, "gamma": self.inputs["gamma"][:7]}}, "cols"),
                           ({"op": "no_such_op"}, "no_such_op")):
            with self.assertRaises(ValueError) as refused:
                assay.check(self.y, **{"op": "rmsnorm", "inputs": self.inputs, "contract": "acc=f32",
                                       "eps": 1e-5, **more})
            self.assertIn(word, str(refused.exception))

    def test_pytest_runs_a_test_once_per_case(self):
        try:
            import pytest  # noqa: F401
        except ImportError:
            self.skipTest("no pytest here")
        with tempfile.TemporaryDirectory() as folder:
            with open(os.path.join(folder, "test_softmax.py"), "w", encoding="utf-8") as file:
                file.write("""import assay, numpy
def softmax(x):
    e = numpy.exp(x.astype(numpy.float64) - x.max(-1, keepdims=True))
    return (e / e.sum(-1, keepdims=True)).astype(x.dtype)
@assay.cases("softmax rows=4 cols=33,1000 fill=gaussian,peaked")
def test_right(case):
    case.check(softmax(case.inputs["x"]), contract="acc=f32 exp_ulp=2")
@assay.cases("softmax rows=4 cols=33")
def test_wrong(case):
    case.check(1.01 * softmax(case.inputs["x"]), contract="acc=f32 exp_ulp=2")
""")
            done = subprocess.run([sys.executable, "-m", "pytest", "-p", "assay.pytest_plugin", "-p",
                                   "no:cacheprovider", folder], capture_output=True, text=True,
                                  env=dict(os.environ, PYTHONPATH=HERE))
        self.assertIn("1 failed, 4 passed", done.stdout)
        self.assertIn("x limit", done.stdout)
        self.assertRegex(done.stdout, r"(?m)^assay: \d+\.\d+\.\d+ .*, /")  # the header
        self.assertNotIn("def _judge", done.stdout)


unittest.main()
