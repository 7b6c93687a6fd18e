#!/usr/bin/env python3
"""repro_run_test.py PROGRAM FAULTY_SOFTMAX: the scripts that `assay repro` makes of findings which take a run
to see: each sees what was found, without assay, and finds nothing in the correct kernel of the same plug-in."""
import os
import subprocess
import sys
import tempfile
import unittest

FAULTY = os.path.abspath(sys.argv.pop())
PROGRAM = os.path.abspath(sys.argv.pop())
CASE = "softmax rows=3 cols=8"
# A variant, its verdict, what the script says.
ROWS = [
    ("read_past", "leak", "killed by SIGSEGV\nonly where a tensor ends at an unmapped page"),
    ("overrun", "overrun", "writes byte 96 of y, which is no output's element"),
    ("unwritten", "unwritten", "8 of 24 units of y are never written, the first is unit 16"),
    ("other_bits", "nondeterministic", "other bits from call to call"),
    ("segfault", "crash", "killed by SIGSEGV"),
    ("hang", "hang", "no end after 1 s"),
    ("refuses", "failed", "out of luck"),
    ("silent_fallback", "fallback", "softmax_fast: not among what ran, as a witness recorded it"),
]
PLANTED = """
import ctypes
from assay_subjects import subject

@subject(op="softmax", contract="acc=f32", device="cpu")
def spoils(call):
    ctypes.memset(ctypes.addressof(ctypes.c_char.from_buffer(call.storage("x"))), 0, 4)
"""


class Runs(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.script = os.path.join(self.folder.name, "repro.py")

    def made(self, *arguments):
        command = [PROGRAM, "repro", "--timeout", "1", *arguments, "-o", self.script]
        return subprocess.run(command, capture_output=True, text=True)

    def shown(self, change=lambda text: text):
        with open(self.script, encoding="utf-8") as file:
            text = file.read()
        self.assertLessEqual(text.count("\n"), 60)
        self.assertNotIn("import assay", text)
        text = text.replace(" 10, 1, mmap.PAGESIZE", " 1, 1, mmap.PAGESIZE")  # seconds of a hang
        done = subprocess.run([sys.executable, "-I", "-c", change(text)], capture_output=True, text=True)
        return done.returncode, done.stdout + done.stderr

    def test_each_finding_is_seen_without_assay_and_the_correct_kernel_shows_none(self):
        for variant, verdict, says in ROWS:
            for layout in ("", " layout=gaps"):
                with self.subTest(variant + layout):
                    made = self.made(f"{CASE}{layout} variant={variant}", "-b", FAULTY)
                    self.assertEqual(made.returncode, 1, made.stdout + made.stderr)
                    code, text = self.shown()
                    self.assertEqual(code, 1, text)
                    if not layout:
                        self.assertIn(says, text)
                    with open(self.script, encoding="utf-8") as file:
                        self.assertIn(f'r"""softmax: {verdict}: ', file.read())
                    if verdict == "fallback":  # what was recorded stays so
                        continue
                    code, text = self.shown(lambda t: t.replace(f'"softmax", "{variant}"', '"softmax", "correct"'))
                    self.assertEqual((code, text), (0, "nothing found\n"))

    def test_a_kernel_of_python_has_a_place_for_its_call(self):
        subjects = os.path.join(self.folder.name, "spoils.py")
        with open(subjects, "w", encoding="utf-8") as file:
            file.write(PLANTED)
        made = self.made(CASE, "-b", subjects)
        self.assertEqual(made.returncode, 1, made.stdout + made.stderr)
        place = 'sys.exit("put the call of your library here; a tensor for it:")'
        code, text = self.shown()
        self.assertEqual(code, 1)
        self.assertIn("put the call of your library here", text)
        copy = 'c.memmove(at["y"], at["x"], 96)'
        writes = 'c.memset(at["x"], 0, 4)'
        with open(self.script, encoding="utf-8") as file:
            verdict = file.read().split('"""')[1].split(": ")[1]
        if verdict == "input_changed":
            code, text = self.shown(lambda t: t.replace(place, f"{copy}; {writes}; return None"))
            self.assertEqual((code, "writes byte 0 of x" in text), (1, True), text)
        code, text = self.shown(lambda t: t.replace(place, f"{copy}; return None"))
        self.assertEqual((code, text), (0, "nothing found\n"))

    def test_a_pass_and_what_no_run_shows_are_told(self):
        for arguments, code, word in (((f"{CASE} variant=correct", "-b", FAULTY), 3, "nothing to show"),
                                      ((f"{CASE} variant=bad_contract", "-b", FAULTY), 2, "no kernel ran"),
                                      ((f"{CASE} variant=worthless", "-b", FAULTY), 2, "distrust")):
            done = self.made(*arguments)
            self.assertEqual(done.returncode, code, done.stdout + done.stderr)
            self.assertIn(word, done.stderr)


unittest.main()
