"""What lies between two runs of a study, torn: a message, exit 2 and no traceback; whole again, the same
command goes on.

    torn_test.py ASSAY
"""
import glob
import os
import subprocess
import sys
import tempfile
import unittest

from program_testing import ASSAY, HERE, Planted

TORN = ["", "{", "null", "[]", "{}", "7", '{"commit": "a"', "\0"]


class Torn(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="torn_test_")
        self.addCleanup(folder.cleanup)
        self.scratch = folder.name

    def refused(self, done, word):
        self.assertEqual(done.returncode, 2, done.stdout + done.stderr)
        self.assertIn(word, done.stderr)
        self.assertNotIn("Traceback", done.stderr)

    def test_a_state_of_bisect(self):
        planted = Planted(self.scratch, 3, commits=6)
        done, found = planted.search()
        self.assertIn(done.returncode, (0, 1), done.stderr)
        files = [f for f in glob.glob(f"{planted.state}/**/*.json", recursive=True) if "work" not in f]
        self.assertTrue(any(f.endswith("status.json") for f in files) and len(files) >= 4, files)
        first = [f for f in files
                 if f.endswith("status.json")][:1] + [f for f in files if not f.endswith("status.json")]
        refused = 0
        for file in first:
            with open(file) as f:
                whole = f.read()
            for text in TORN:
                with open(file, "w") as f:
                    f.write(text)
                done, _ = planted.search()
                if done.returncode in (0, 1):  # an answer of a search that is not needed again
                    self.assertNotIn("Traceback", done.stderr)
                    continue
                self.refused(done, "is torn, or none of ours")
                refused += 1
            with open(file, "w") as f:
                f.write(whole)
        self.assertGreaterEqual(refused, 3 * len(TORN))  # of a build, and of both ends
        self.assertEqual(planted.search()[1]["findings"], found["findings"])

    def test_a_store_of_sweeps(self):
        store = os.path.join(self.scratch, "s.jsonl")
        good = [sys.executable, f"{HERE}/assay-sweep", "good", "r1", "--store", store]
        schema, run = '{"schema": "assay-sweep-store", "version": 1}\n', '{"run": "r1", "kind": "kernel", "started": "1"}\n'
        for line in ("null", "[]", "7", '"cell"', '{"cell": 1}', '{"run": []}', '{"run": {"a": 1}}',
                     '{"end": "complete"}',
                     '{"cell": [], "of": "r1"}',
                     '{"cell": "a", "of": "r1", "right": 99999999999999999999999}', "{"):
            with open(store, "w") as f:
                f.write(schema + run + line + "\n")
            self.refused(subprocess.run(good, capture_output=True, text=True), store)
        with open(store, "w") as f:
            f.write(schema + run + '{"end": "complete", "of": "r1"}\n')
        done = subprocess.run(good, capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stderr)
        os.unlink(store)
        os.mkfifo(store)
        self.refused(subprocess.run(good, capture_output=True, text=True, timeout=60), "no ordinary file")
        for target in ("/dev/full", "/dev/zero", "/nowhere"):
            os.unlink(store)
            os.symlink(target, store)
            self.refused(subprocess.run(good, capture_output=True, text=True, timeout=60), "no ordinary file")


if __name__ == "__main__":
    del sys.argv[1:]
    unittest.main()
