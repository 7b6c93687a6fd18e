#!/usr/bin/env python3
"""opening_test.py PROGRAM: a library that takes long to load is loaded once for a short run, whatever the number
of jobs, and for a suite that is made; a long run loads it for each job, and a worker that was asked what it
takes makes its findings again in a new process."""
import os
import subprocess
import sys
import tempfile
import time
import unittest

PROGRAM = os.path.abspath(sys.argv.pop())
LOADED = """
import os, time
from assay_subjects import subject
with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "loaded"), "a") as file:
    file.write("once\\n")
time.sleep(2)
asked = []

def seconds_of_this_process():
    with open("/proc/uptime") as uptime, open("/proc/self/stat") as stat:
        started = float(stat.read().rsplit(")", 1)[1].split()[19]) / os.sysconf("SC_CLK_TCK")
        return float(uptime.read().split()[0]) - started

loading = seconds_of_this_process()

@subject(op="softmax", contract=lambda call: asked.append(1) or "acc=f32", device="cpu",
         takes="mask=none sinks=no softcap=0 temperature=1 dtype=f32")
def softmax(call):
    import math
    time.sleep({share} * loading)
    rows, cols, x = call.integer("rows"), call.integer("cols"), call.floats("x")
    result = []
    for r in range(rows):
        row = [math.exp(v - max(x[r * cols:(r + 1) * cols])) for v in x[r * cols:(r + 1) * cols]]
        result += [v / math.fsum(row) for v in row]
    return [v * ({factor}) for v in result]
"""
CASES = "softmax rows=2 cols=3,4,5,6,7,8,9,10"


class Opening(unittest.TestCase):
    def loads(self, *arguments, share=0, factor="1"):
        with tempfile.TemporaryDirectory() as folder:
            with open(os.path.join(folder, "mine.py"), "w", encoding="utf-8") as file:
                file.write(LOADED.replace("{share}", str(share)).replace("{factor}", factor))
            begin = time.monotonic()
            done = subprocess.run([PROGRAM, "run", *arguments, "-b", os.path.join(folder, "mine.py")],
                                  capture_output=True, text=True)
            print(f"{arguments}: {time.monotonic() - begin:.1f} s")
            with open(os.path.join(folder, "loaded"), encoding="utf-8") as file:
                return len(file.readlines()), done

    def test_a_short_run_loads_once_whatever_its_jobs(self):
        loads, done = self.loads("-j", "8", CASES)
        self.assertEqual((loads, done.returncode), (1, 0), done.stdout + done.stderr)

    def test_a_long_run_loads_for_each_job(self):
        loads, done = self.loads("-j", "3", CASES, share=0.5)  # two runs of each case: as long as the loading
        self.assertEqual((loads, done.returncode), (3, 0), done.stdout + done.stderr)

    def test_a_suite_that_is_made_is_judged_by_the_worker_that_was_asked(self):
        loads, done = self.loads("-j", "1", "--budget", "1")
        self.assertEqual((loads, done.returncode), (1, 0), done.stdout + done.stderr)

    def test_what_was_asked_before_is_no_finding_of_a_case(self):
        # Wrong only where it was asked more than one case: a new process is right.
        loads, done = self.loads("-j", "1", "--budget", "1", factor="1.01 if len(asked) > 20 else 1")
        self.assertGreater(loads, 1)
        self.assertIn("disturbed by an earlier call", done.stdout)
        self.assertIn("its process had been asked what it takes", done.stdout)


unittest.main()
