#!/usr/bin/env python3
"""`assay hunt` with a history: hunt_test.py ASSAY [quick | nightly]. From a red cell of `assay run`, from a
broken law and from a kernel that became slower to the planted commit."""
import os
import subprocess
import sys
import tempfile
import unittest

sys.dont_write_bytecode = True
from program_testing import ASSAY, CASE, CASES, Planted, bisect, git  # noqa: E402


class Quick(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory(prefix="hunt-test-")
        self.addCleanup(scratch.cleanup)
        self.scratch = os.environ["XDG_CACHE_HOME"] = scratch.name

    def test_a_broken_law_ends_at_the_planted_commit(self):
        planted = Planted(self.scratch, 20, "law", commits=60)
        tree, found = os.path.join(self.scratch, "tree"), os.path.join(self.scratch, "found")
        # the first one keeps what it promises
        for commit, code in ((planted.names[-1], 1), (planted.names[0], 0)):
            if not os.path.isdir(tree):
                git(planted.folder, "worktree", "add", "-q", "--detach", tree, commit)
            git(tree, "checkout", "-q", commit)
            subprocess.run(["sh", "build.sh"], check=True, cwd=tree)
            hunted = subprocess.run([ASSAY, "hunt", "rmsnorm rows=40 cols=33", "--laws", "-b",
                                     os.path.join(tree, "kernels.so"), "-o",
                                     f"{found}{code}", "--repository", planted.folder, "--good",
                                     planted.names[0], "--bad",
                                     planted.names[-1], "--build", "sh build.sh", "--plugin", "kernels.so"],
                                     capture_output=True,
                                    text=True)
            self.assertEqual(hunted.returncode, code, hunted.stdout + hunted.stderr)
        with open(f"{found}1/finding-1.md") as f:
            what, since = f.read().split("## Since when")
        self.assertIn("order rmsnorm rows=40", what)
        self.assertIn("--find 'law:order'", since)  # the law that is broken alone
        for i, commit in enumerate(planted.names):
            self.assertEqual(f"\n  {commit[:7]} " in since or f"culprit {commit[:7]} " in since,
                             commit in planted.smallest(), i)
        self.assertEqual(os.listdir(f"{found}0"), [])


class Nightly(unittest.TestCase):
    def test_a_kernel_that_became_slower_ends_at_the_planted_commit(self):
        with tempfile.TemporaryDirectory(prefix="hunt-test-") as scratch:
            planted = Planted(scratch, 3, "speed", commits=60)
            done, answer = planted.search("-q")
            self.assertIn(done.returncode, (0, 1), done.stderr)
            self.assertEqual(sorted(answer["findings"][0]["commits"]), planted.smallest())
            # Its correct counterpart: two commits before the plant whose loops are unrolled alike.
            states = planted.draft.states
            last = max(i for i in range(planted.draft.culprit) if states[i].unroll == states[0].unroll and
                       not states[i].broken)
            alike = bisect(*planted.options[:2], "--good", planted.names[0], "--bad", planted.names[last],
                           *planted.options[6:], "--build", "sh build.sh", "--state",
                           os.path.join(scratch, "other"), "-q")
            self.assertEqual(alike.returncode, 3, alike.stdout + alike.stderr)

    def test_a_hunt_shrinks_attributes_and_finds_the_planted_commit(self):
        for seed, plant in enumerate(("numbers", "path")):
            with tempfile.TemporaryDirectory(prefix="hunt-test-") as scratch:
                os.environ["XDG_CACHE_HOME"] = scratch
                planted = Planted(scratch, seed, plant)
                bad, found = os.path.join(scratch, "bad"), os.path.join(scratch, "found")
                git(planted.folder, "worktree", "add", "-q", "--detach", bad, planted.names[-1])
                subprocess.run(["sh", "build.sh"], check=True, cwd=bad)
                plugin = os.path.join(bad, "kernels.so")
                self.assertEqual(subprocess.run([ASSAY, "run", CASE, "-b", plugin, "-q"],
                                                capture_output=True).returncode, 1)
                words = ["hunt", CASE, "-b", plugin, "-o", found, "--budget", "10"]
                history = ["--repository", planted.folder, "--good", planted.names[0], "--bad",
                           planted.names[-1], "--build",
                           "sh build.sh", "--plugin", "kernels.so"]
                hunted = subprocess.run([ASSAY, *words, *history, "--bisect-budget", "1"],
                                        capture_output=True, text=True, cwd=scratch)
                self.assertEqual(hunted.returncode, 1, hunted.stderr)
                with open(os.path.join(found, "finding-1.md")) as f:
                    self.assertIn("its time is over", f.read())
                hunted = subprocess.run([ASSAY, *words, *history], capture_output=True, text=True,
                                        cwd=scratch)
                self.assertEqual(hunted.returncode, 1, hunted.stderr)
                with open(os.path.join(found, "finding-1.md")) as f:
                    text = f.read()
                for commit in planted.smallest():
                    self.assertIn(commit[:10], text.split("## Since when")[1])
                stage = {"numbers": "moments", "path": "dispatch"}[plant]
                self.assertIn("stage     " + stage, text)
                with open(os.path.join(found, "finding-1.html")) as f:
                    page = f.read()
                for part in ("What was found", "The smallest that still fails", "Which stage", "Since when",
                             "How to repeat it"):
                    self.assertIn(part, page)
                again = subprocess.run([ASSAY, "run", os.path.join(found, "finding-1.safetensors"), "-q"],
                                       capture_output=True)
                self.assertEqual(again.returncode, 1)
                # The correct counterpart: the first commit has nothing to hunt.
                git(bad, "checkout", "-q", planted.names[0])
                subprocess.run(["sh", "build.sh"], check=True, cwd=bad)
                clean = subprocess.run([ASSAY, "hunt", CASE, "-b", plugin, "-o",
                                        os.path.join(scratch, "none"), *history],
                                       capture_output=True, text=True, cwd=scratch)
                self.assertEqual(clean.returncode, 0, clean.stdout + clean.stderr)


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], (sys.argv[2] if len(sys.argv) > 2 else "quick").capitalize()],
                  verbosity=1)
