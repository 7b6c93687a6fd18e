#!/usr/bin/env python3
"""contract_test.py PROGRAM: `assay contract` finds the arithmetic of kernels whose arithmetic is known, and what changed between two."""
import os
import signal
import subprocess
import sys
import tempfile
import time
import unittest

try:
    import numpy  # noqa: F401
except ImportError:
    print("no numpy here: skipped")
    sys.exit(77)


def catches(process, number):
    """Whether a program that was just started has come to where a signal is its own."""
    with open(f"/proc/{process.pid}/status") as status:
        caught = next((line.split()[1] for line in status if line.startswith("SigCgt:")), "0")
    return process.poll() is not None or bool(int(caught, 16) >> (number - 1) & 1)


PROGRAM = os.path.abspath(sys.argv.pop())
# Each declares less than it does, or more: what is declared is the search's first guess alone.
SUBJECT = """
import numpy
from assay_subjects import subject
f32 = numpy.float32


def bf16(x):  # to nearest, ties to even
    bits = numpy.asarray(x, f32).view(numpy.uint32)
    return ((bits + 0x7fff + (bits >> 16 & 1)) & 0xffff0000).view(f32)


@subject(op="softmax", contract="{declared}", device="cpu", arrays="numpy")
def softmax(call, x):
    e = numpy.exp((x - x.max(-1, keepdims=True)).astype(numpy.float64)).astype(f32)
    {softmax}
    return w


@subject(op="rmsnorm", contract="{declared}", device="cpu", arrays="numpy")
def rmsnorm(call, x, gamma):
    {rmsnorm}
    return y
"""
SOFTMAX = {
    "plain": "w = e / e.sum(-1, keepdims=True, dtype=f32)",
    "wide": "w = (e.astype(numpy.float64) / e.sum(-1, keepdims=True, dtype=numpy.float64)).astype(f32)",
    "rough exp": "e = (e * f32(1 + 2e-5)).astype(f32); e[x == x.max(-1, keepdims=True)] = 1; w = e / e.sum(-1, keepdims=True, dtype=f32)",
    "weights": "w = bf16(e) / e.sum(-1, keepdims=True, dtype=f32)",
    "out": "w = (e / e.sum(-1, keepdims=True, dtype=f32)).astype(numpy.float16).astype(f32)",
    "wrong": "w = e / (e.sum(-1, keepdims=True, dtype=f32) * f32(3))",
}
RMSNORM = {
    "plain": "y = x * (f32(1) / numpy.sqrt((x * x).mean(-1, keepdims=True, dtype=f32) + f32(call.real('eps')))) * gamma",
    "mid": "y = bf16(x * (f32(1) / numpy.sqrt((x * x).mean(-1, keepdims=True, dtype=f32) + f32(call.real('eps'))))) * gamma",
}


class Contract(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def subject(self, softmax="plain", rmsnorm="plain", declared=""):
        path = os.path.join(self.folder,
                            f"{softmax}_{rmsnorm}_{len(os.listdir(self.folder))}.py".replace(" ", "_"))
        with open(path, "w", encoding="utf-8") as file:
            file.write(SUBJECT.format(softmax=SOFTMAX[softmax], rmsnorm=RMSNORM[rmsnorm], declared=declared))
        return path

    def said(self, *arguments, code=0):
        done = subprocess.run([PROGRAM, "contract", *arguments, "--seeds", "2"], capture_output=True,
                              text=True)
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        return done.stdout

    def test_the_words_of_a_known_arithmetic_are_found_whatever_was_declared(self):
        for change, declared, word, ruled_out in (
                ({"softmax": "plain"}, "", "the defaults",
                 "acc=f32: beside the other words f64 is ruled out"),
                ({"softmax": "plain"}, "acc=bf16 exp_ulp=1000", "the defaults",
                 "acc=f32: beside the other words f64 is ruled out"),
                ({"softmax": "rough exp"}, "", "exp_ulp=128",
                 "exp_ulp=128: beside the other words 64 is ruled out"),
                ({"softmax": "weights"}, "", "weights=bf16", "weights=bf16: "),
                ({"softmax": "out"}, "", "out=f16", ""),
                ({"rmsnorm": "mid"}, "acc=f64", "mid=bf16", "")):
            op = next(iter(change))
            text = self.said(f"{op} rows=3 cols=40", "-b", self.subject(**change, declared=declared))
            proposed = next(line for line in text.splitlines() if line.startswith("  proposed "))
            self.assertEqual(proposed.split(maxsplit=1)[1], word, text)
            self.assertIn(ruled_out, text)

    def test_a_kernel_that_no_words_describe_is_told_so(self):
        text = self.said("softmax rows=3 cols=40", "-b", self.subject("wrong"), code=1)
        self.assertIn("no words of softmax were found to hold", text)

    def test_a_change_of_arithmetic_is_a_change_of_words_and_the_same_kernel_has_none(self):
        plain = self.subject()
        self.assertIn("0 words changed",
                      self.said("softmax rows=3 cols=40", "-b", plain, "-b", self.subject()))
        for after, word in (("weights", "weights: acc -> bf16"), ("out", "out: dtype -> f16"),
                            ("rough exp", "exp_ulp: 2 -> 128")):
            text = self.said("softmax rows=3 cols=40", "-b", plain, "-b", self.subject(after), code=1)
            self.assertIn(f"changed    {word}, shown by softmax rows=3 cols=40", text)
            self.assertIn("1 word changed", text)

    def test_a_search_that_is_stopped_claims_nothing(self):
        started = subprocess.Popen([PROGRAM, "contract", "softmax rows=64 cols=1000", "-b",
                                    self.subject("weights")], stdout=subprocess.PIPE, text=True)
        # whenever it is stopped, nothing is said of a search that did not end
        while not catches(started, signal.SIGTERM):
            time.sleep(0.01)
        started.send_signal(signal.SIGTERM)
        text, _ = started.communicate()
        self.assertEqual(started.returncode, 128 + signal.SIGTERM)
        self.assertNotIn("proposed   ", text)
        self.assertNotIn("no words", text)

    def test_what_is_no_question_is_refused(self):
        for arguments, word in ((["softmax"], "-b BACKEND proposes one"),
                                (["softmax rows=1 cols=4", "rmsnorm rows=1 cols=4", "-b", "cpu"],
                                 "of one op"),
                                (["softmax rows=1 cols=4 fault=nan_value", "-b", "cpu"], "without a fault")):
            done = subprocess.run([PROGRAM, "contract", *arguments], capture_output=True, text=True)
            self.assertEqual(done.returncode, 2)
            self.assertIn(word, done.stderr)


unittest.main()
