"""assay sweep as a user runs it, its store under kill -9, and its engine against a server that answers as
told.

    sweep_program_test.py BUILD [--kills N] [TEST ...]
"""
import argparse
import hashlib
import json
import os
import random
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
import unittest

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.realpath(__file__)))
from assay_sweep import digest, line, store  # noqa: E402

GIVEN = argparse.Namespace(build="", kills=8, nights=60)
CELLS = ["qk len=256 needles=56 d=32 k=f16,q8_0,q4_0 seed=1,2,3,4 backend=cpu"]


def program(*words, **settings):
    return subprocess.run([sys.executable, f"{GIVEN.build}/assay-sweep", *words], capture_output=True,
                          text=True, **settings)


def results(path):
    rows = {}
    for _, found in store.Store(path).lines():
        if "cell" in found:
            assert (found["of"], found["cell"]) not in rows, f"measured twice: {found['cell']}"
            rows[found["of"], found["cell"]] = store.measured(found)
    return {cell: row for (_, cell), row in rows.items()}


class Scratch(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="sweep_test_")
        self.addCleanup(folder.cleanup)
        self.folder, self.store = folder.name, os.path.join(folder.name, "s.jsonl")


class Kernel(Scratch):
    def test_a_run_stores_prints_and_draws(self):
        html = os.path.join(self.folder, "p.html")
        done = program("kernel", *CELLS, "--store", self.store, "--html", html)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("12 cells", done.stdout)
        self.assertRegex(done.stderr, r"\[12/12, 100 % of the cost, 0 s left of \d+\]")
        rows = results(self.store)
        self.assertEqual(len(rows), 12)
        share = {k: sum(r["right"] for c, r in rows.items() if line.words(c)[1].get("k", "f16") == k)
                 for k in ("f16", "q8_0", "q4_0")}
        self.assertGreater(share["f16"], share["q8_0"])
        self.assertGreater(share["q8_0"], share["q4_0"])
        with open(html, encoding="utf-8") as file:
            text = file.read()
        self.assertNotRegex(text, r"(src|href)\s*=")  # one file that needs nothing else
        data = json.loads(re.search(r"const DATA = (.*);\n", text)[1])
        self.assertEqual(len(data["cells"]), 12)
        # The line that a cell leads to repeats it.
        repeat = data["cells"][5]
        again = program(*re.sub("^assay sweep ", "", repeat["repro"]).split(" ", 1)[:1],
                        repeat["cell"], "--store", self.store + "2", "-q")
        self.assertEqual(again.returncode, 0, again.stderr)
        self.assertEqual(results(self.store + "2"), {repeat["cell"]: rows[repeat["cell"]]})

    def test_a_red_cell_is_kept_and_hunted(self):
        kept = os.path.join(self.folder, "kept")
        cells = "pv len=256 mean=0.5 variant=rescale_skipped,rescale_skipped.correct backend=museum"
        done = program("kernel", cells, "--store", self.store, "-q", "--keep", kept)
        self.assertEqual(done.returncode, 1, done.stderr)
        (file,) = os.listdir(kept)  # the correct counterpart leaves none
        found = os.path.join(self.folder, "found")
        hunted = subprocess.run([f"{GIVEN.build}/assay", "hunt", os.path.join(kept, file), "-o", found,
                                 "--budget", "5"],
                                capture_output=True, text=True)
        self.assertEqual(hunted.returncode, 1, hunted.stderr)
        self.assertIn("stage     rescale", hunted.stdout)
        self.assertIn("finding-1.safetensors", os.listdir(found))

    def test_what_is_wrong_is_said_and_ends_with_2(self):
        for words, said in [(["kernel"], "no cells"), (["kernel", "qk len=8 backend=cpu"], "16..4194304"),
                            (["kernel", "qk len=64 needles=8"], "names no backend"),
                            (["kernel", "qk lenn=64", "-b", "cpu"], "lenn"),
                            (["kernel", *CELLS, "--budget", "soon"], "30s, 90m or 2h"),
                            (["kernel", "--resume"], "there is no store"),
                            (["kernel", *CELLS, "-b", "cpu", "--store", "/nowhere/s"], "cannot be written"),
                            (["engine", "ladder len=4096"], "no engine"),
                            (["engine", "ladder", "--engine", "http://x"], "len= must be given"),
                            (["engine", "ladder len=4096 k=q9", "--engine", "http://x"], "allowed: f32 f16"),
                            (["engine", "ladder len=4096", "--engine", "vim"], "llama-server"),
                            (["compare"], "there is no store")]:
            done = program(*words, *([] if "--store" in words else ["--store", self.store]))
            self.assertEqual(done.returncode, 2, (words, done.stdout, done.stderr))
            self.assertIn(said, done.stderr, words)
        with open(self.store, "w") as file:
            file.write('{"something": "else"}\n')
        self.assertIn("is no store", program("runs", "--store", self.store).stderr)

    def test_a_backend_that_crashes_costs_its_own_cell(self):
        done = program("kernel", "qk len=64 needles=8 d=32 backend=cpu",
                       "qk len=64 needles=8 d=32 backend=cpu variant=nonesuch",
                       "--store", self.store, "-q")
        verdicts = sorted(row["verdict"] for row in results(self.store).values())
        self.assertEqual(verdicts[0], "pass", done.stdout)
        self.assertEqual(len(verdicts), 2)

    def test_a_budget_takes_the_informative_cells_and_says_so_beforehand(self):
        program("kernel", *CELLS, "--store", self.store, "-q")
        took = sum(found["total_seconds"] for _, found in store.Store(self.store).lines() if "cell" in found)
        planned = program("plan", "kernel", *CELLS, "--store", self.store, "--budget", f"{took / 2:.9f}s")
        self.assertRegex(planned.stdout, r"\d+ cells, 0 s of \d+ s")
        chosen = [text for text in planned.stdout.splitlines() if " qk " in text]
        self.assertTrue(0 < len(chosen) < 12, planned.stdout)
        done = program("kernel", *CELLS, "--store", self.store, "-q", "--budget", f"{took / 2:.9f}s")
        measured, left_out = map(int,
                                 re.search(r"(\d+) cells, (\d+) left out for the budget",
                                           done.stdout).groups())
        self.assertTrue(measured > 0 and measured + left_out == 12, done.stdout)
        self.assertEqual(store.Store(self.store).runs()[-1]["ended"], "complete")

    def test_killed_at_random_moments_resumed_complete_and_identical(self):
        whole = os.path.join(self.folder, "whole.jsonl")
        start = time.monotonic()
        self.assertEqual(program("kernel", *CELLS, "--store", whole, "-q").returncode, 0)
        took = time.monotonic() - start
        source, command = random.Random(), ["kernel", *CELLS, "--store", self.store, "-q"]
        for _ in range(GIVEN.kills):
            with subprocess.Popen([sys.executable, f"{GIVEN.build}/assay-sweep", *command],
                                  stdout=subprocess.DEVNULL,
                                  stderr=subprocess.DEVNULL) as process:
                time.sleep(source.uniform(0.05, took))
                process.send_signal(signal.SIGKILL)
            runs = store.Store(self.store).runs() if os.path.exists(self.store) else []
            if runs and runs[-1]["ended"] == "complete":
                os.unlink(self.store)  # it was faster: the next one begins anew
                command = ["kernel", *CELLS, "--store", self.store, "-q"]
            elif runs:
                command = ["kernel", "--resume", "--store", self.store, "-q"]
        done = program(*command)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(results(self.store), results(whole))
        self.assertEqual(store.Store(self.store).runs()[-1]["ended"], "complete")


class TheStore(Scratch):
    def fill(self, count):
        s = store.Store(self.store)
        s.append({"run": "r", "started": "1", "kind": "kernel",
                  "cells": [f"qk len={i} seed=1" for i in range(count)]})
        for i in range(count):
            s.append({"cell": f"qk len={i} seed=1", "verdict": "pass", "right": i, "needles": count,
                      "of": "r"})
        return s

    def test_a_line_that_was_cut_is_dropped_and_written_over(self):
        self.fill(3)
        with open(self.store, "rb+") as file:
            file.truncate(os.path.getsize(self.store) - 7)
        s = store.Store(self.store)
        self.assertEqual(len(s.cells("r")), 2)
        s.append({"cell": "qk len=9 seed=1", "verdict": "pass", "of": "r"})
        self.assertEqual(sorted(s.cells("r")), ["qk len=0 seed=1", "qk len=1 seed=1", "qk len=9 seed=1"])

    def test_a_damaged_line_is_named_and_never_skipped(self):
        self.fill(3)
        with open(self.store, "rb") as file:
            text = file.read().split(b"\n")
        text[2] = b"{"
        with open(self.store, "wb") as file:
            file.write(b"\n".join(text))
        with self.assertRaisesRegex(store.StoreError, "is no JSON"):
            store.Store(self.store).runs()

    def test_the_index_is_made_again_from_the_record(self):
        before = self.fill(5).cells("r")
        for damage in (b"", b"no database at all, " * 300):
            with open(self.store + ".sqlite", "wb") as file:
                file.write(damage)
            self.assertEqual(store.Store(self.store).cells("r"), before)
        os.unlink(self.store + ".sqlite")
        self.assertEqual(store.Store(self.store).cells("r"), before)

    def test_the_index_of_another_record_at_the_same_path_is_made_again(self):
        s = self.fill(3)
        self.assertEqual(len(s.runs()), 1)
        os.truncate(self.store, 0)  # the same file, with other content, and longer
        other = store.Store(self.store)
        other.append({"run": "other", "started": "2", "kind": "kernel", "cells": ["qk len=1 seed=1"] * 400})
        self.assertEqual([run["run"] for run in store.Store(self.store).runs()], ["other"])

    def test_writers_side_by_side_lose_nothing(self):
        self.fill(1)

        def write(who):
            s = store.Store(self.store)
            for i in range(40):
                s.append({"cell": f"pv len={i} seed={who}", "verdict": "pass", "of": "r", "pad": "x" * 3000})
        threads = [threading.Thread(target=write, args=(who,)) for who in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(len(store.Store(self.store).cells("r")), 161)


class Models(unittest.TestCase):
    def test_a_model_is_hashed_once_until_it_changes(self):
        original, read = digest.of_file, []
        digest.of_file = lambda path: read.append(path) or original(path)
        try:
            with tempfile.TemporaryDirectory() as folder:
                path = folder + "/m"
                for content, times in ((b"x" * (digest.BLOCK + 1), 1), (b"another", 2)):
                    with open(path, "wb") as file:
                        file.write(content)
                    for _ in range(3):
                        self.assertEqual(digest.of_model(path), hashlib.sha256(content).hexdigest())
                    self.assertEqual(len(read), times)
        finally:
            digest.of_file = original
        self.assertEqual(digest.of_model(None), "")


class Merge(Scratch):
    def test_shards_are_merged_once_and_two_results_of_one_cell_are_refused(self):
        folder = os.path.join(self.folder, "jobs")
        done = program("kernel", *CELLS, "--slurm", folder, "--minutes", "0.002", "--throttle", "2",
                       "--store", self.store)
        self.assertEqual(done.returncode, 0, done.stderr)
        with open(folder + "/job.sbatch") as file:
            tasks = int(re.search(r"--array=0-(\d+)%2", file.read())[1]) + 1
        self.assertGreater(tasks, 1)
        for task in range(tasks):
            for _ in range(2):  # a task that is submitted again measures nothing again
                done = subprocess.run(["sh", folder + "/job.sbatch"],
                                      env={**os.environ, "SLURM_ARRAY_TASK_ID": str(task)},
                                      capture_output=True, text=True)
                self.assertEqual(done.returncode, 0, done.stderr)
        shards = [f"{folder}/shard-{i}.jsonl" for i in range(tasks)]
        for added in ("12 cells added", "0 cells added"):
            done = program("merge", "--store", self.store, *shards)
            self.assertIn(added, done.stdout, done.stderr)
        self.assertEqual(program("kernel", *CELLS, "--store", self.store + "2", "-q").returncode, 0)
        self.assertEqual(results(self.store), results(self.store + "2"))
        with open(shards[0]) as file:
            text = file.read()
        with open(shards[0], "w") as file:
            file.write(re.sub(r'"right":(\d+)', lambda m: f'"right":{int(m[1]) - 1}', text, count=1))
        before = os.path.getsize(self.store)
        done = program("merge", "--store", self.store, *shards)
        self.assertEqual(done.returncode, 2)
        self.assertIn("two different results of one cell", done.stderr)
        self.assertEqual(os.path.getsize(self.store), before)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("build")
    parser.add_argument("--kills", type=int, default=GIVEN.kills)
    _, names = parser.parse_known_args(namespace=GIVEN)
    unittest.main(argv=[sys.argv[0], "-v", *names])
