"""assay sweep's test for a regression: what it says of simulated nights, and from a store.

    sweep_regression_test.py BUILD [--nights N] [TEST ...]
"""
import argparse
import os
import random
import subprocess
import sys
import tempfile
import unittest

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.realpath(__file__)))
from assay_sweep import regression, store  # noqa: E402

GIVEN = argparse.Namespace(build="", nights=60)
# Models' shares differ by about this from seed to seed (reports/results/sweeps.md: ladders of eight seeds).
MODEL_DEVIATION = 0.036
# The midpoint rule with 20,000 steps on (1 + x)^40: its error is 40 * 39 / 24 steps^-2 of the largest term,
# relative to a mean of 1/41 of it.
MIDPOINT_ERROR = 1e-4
# The printed digits of the tables of Student's distribution.
TABLE_ERROR = 2e-5



def program(*words):
    return subprocess.run([sys.executable, f"{GIVEN.build}/assay-sweep", *words], capture_output=True,
                          text=True)


def simulated(seed, series, night_seeds, drop=0.0):
    """Rows of one night: models that differ by their seed (MODEL_DEVIATION), needles that a seed decides."""
    rows = []
    for s, base in enumerate(series):
        for model in night_seeds:
            source = random.Random(f"{seed} {s} {model}")
            share = min(1.0, max(0.0, base + source.gauss(0, MODEL_DEVIATION)))
            bits = 0
            for _ in range(448):
                bits = 2 * bits + (source.random() < share - (drop if s == 0 else 0))
            rows.append({"cell": f"ladder len=4096 k=t{s} seed={model}", "right": bits.bit_count(),
                         "needles": 448, "bits": f"{bits:0112x}"})
    return rows


class Regression(unittest.TestCase):
    SERIES = [0.96, 0.7, 0.5] * 4

    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="sweep_test_")
        self.addCleanup(folder.cleanup)
        self.store = os.path.join(folder.name, "s.jsonl")

    def nights(self, count, drop=0.0, seed=1, replayed=True, good=8):
        detector = regression.Detector(simulated(seed, self.SERIES, range(1, 1 + good)))
        for night in range(count):
            seeds = [100 + night] + ([1 + night % 8] if replayed else [])
            found = detector.night(simulated(seed, self.SERIES, seeds, drop))
            yield [name for name, row in found.items() if row["reported"]]

    def test_the_unchanged_build_is_not_reported(self):
        reports = [r for seed in range(max(1, GIVEN.nights // 100))
                   for r in self.nights(min(GIVEN.nights, 100), seed=seed) if r]
        self.assertLessEqual(len(reports), 1)

    def test_a_loss_is_reported_in_the_first_night_that_replays_a_seed(self):
        for seed in range(20 if GIVEN.nights >= 400 else 4):
            self.assertEqual(next(self.nights(1, 0.08, seed)), ["ladder len=4096 k=t0"], seed)

    def test_a_loss_on_new_seeds_alone_takes_a_few_nights(self):
        reported = [i for i, r in enumerate(self.nights(12, 0.19, replayed=False, good=40)) if r]
        self.assertTrue(reported and reported[0] <= 6, reported)

    def test_the_functions_are_what_they_say(self):
        # A rectangle rule of 20,000 steps and the tables of Student's distribution.
        for lost, gained in ((0, 0), (9, 0), (3, 5), (40, 12)):
            steps = 20000
            sum_ = sum((1 + x) ** lost * (1 - x) ** gained
                       for x in ((i + 0.5) / steps for i in range(steps))) / steps
            self.assertLess(abs(regression.beta_tail(lost, gained) / sum_ - 1), MIDPOINT_ERROR)
        for freedom, t in ((1, 12.706), (10, 2.228), (30, 2.042)):
            self.assertLess(abs(regression.student_tail(t, freedom) - 0.025), TABLE_ERROR)
        # An e-value: the mean over a uniform p is at most 1.
        n = 200000
        self.assertLess(sum(regression.calibrated((i + 0.5) / n) for i in range(n)) / n, 1)

    def test_from_the_store_with_an_accepted_change(self):
        s = store.Store(self.store)
        for night, drop in enumerate((0, 0.2)):
            s.append({"run": f"n{night}", "started": str(night), "kind": "engine", "cells": []})
            for row in simulated(1, self.SERIES, range(1, 9), drop):
                s.append({**row, "kind": "engine", "verdict": "pass", "of": f"n{night}"})
            s.append({"end": "complete", "of": f"n{night}"})
        self.assertEqual(program("compare", "--store", self.store).returncode, 3)
        self.assertEqual(program("good", "n0", "--store", self.store).returncode, 0)
        done = program("compare", "--store", self.store)
        self.assertEqual(done.returncode, 1, done.stdout)
        self.assertIn("1 of 12 series are worse", done.stdout)
        self.assertEqual(program("accept", "--cells", "k=t0", "--reason", "4 bits less, on purpose",
                                 "--store", self.store).returncode, 0)
        done = program("compare", "--store", self.store)
        self.assertEqual(done.returncode, 0)
        self.assertIn("4 bits less, on purpose", done.stdout)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("build")
    parser.add_argument("--nights", type=int, default=GIVEN.nights)
    _, names = parser.parse_known_args(namespace=GIVEN)
    unittest.main(argv=[sys.argv[0], "-v", *names])
