#!/usr/bin/env python3
"""watch_test.py PROGRAM [trials | overhead]: what assay.watch finds of planted faults, and that it accuses
nothing else. The judge, the sampling and the report by recorded calls, without PyTorch; whole models where
there is one."""
import importlib.util
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
import unittest

try:
    import numpy
except ImportError:
    print("no numpy here: skipped")
    sys.exit(77)
MEASURED = sys.argv.pop() if sys.argv[-1] in ("trials", "overhead") else ""
PROGRAM = os.environ["ASSAY_PROGRAM"] = os.path.abspath(sys.argv.pop())
HERE = os.path.dirname(os.path.abspath(__file__))
sys.dont_write_bytecode = True
sys.path.insert(0, HERE)
import assay  # noqa: E402
from assay.watching import report  # noqa: E402
from assay.watching.calls import Call, saturated  # noqa: E402
from assay.watching.judge import Judge, against  # noqa: E402
from assay.watching.steps import IN_TURN, Steps  # noqa: E402

has_torch = importlib.util.find_spec("torch") is not None
draw = numpy.random.default_rng(1)


def recorded(step, place, x, y):
    return Call(step, place, "aten::_softmax", [("softmax", {}, {"x": x}, y, "")], "", [x], [y])


def softmax(x):
    e = numpy.exp(x.astype(float) - x.max(-1, keepdims=True))
    return (e / e.sum(-1, keepdims=True)).astype(numpy.float32)


class Recorded(unittest.TestCase):
    """The judge of calls, on arrays of numpy."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        self.x = [draw.standard_normal((4, 33)).astype(numpy.float32) for _ in range(3)]

    def judged(self, *calls, **more):
        judge = Judge(self.folder, **more)
        for call in calls:
            judge.judge(call)
        self.assertEqual(dict(judge.errors), {})
        return judge

    def test_a_wrong_call_is_named_first_with_a_file_that_judge_and_explain_take_and_right_ones_are_green(self):
        calls = [recorded(0, f"layers.{i}", x, softmax(x)) for i, x in enumerate(self.x)]
        self.assertEqual((self.judged(*calls).findings, self.judged(*calls).count), ([], 3))
        calls[1].cases[0][3][2, 5] *= 1.02
        judge = self.judged(*calls)
        self.assertEqual([f["place"] for f in judge.findings], ["layers.1"])
        self.assertEqual(judge.first["at"], 1)
        self.assertGreater(judge.first["worst"], 1)
        self.assertIn("acc=f32 exp_ulp=2", judge.first["contract"])
        done = subprocess.run([PROGRAM, "judge", judge.first["file"]], capture_output=True, text=True)
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertIn("y[2,5]", done.stdout)
        done = subprocess.run([PROGRAM, "explain", judge.first["file"], "-b", "cpu"], capture_output=True,
                              text=True)
        self.assertNotIn(done.returncode, (2, 125), done.stderr)

    def test_a_nan_is_wrong_where_it_is_born_and_passed_on_behind(self):
        y = softmax(self.x[0])
        y[0, 0] = numpy.nan
        judge = self.judged(recorded(0, "a", self.x[0], y),
                            Call(0, "b", "aten::cos", (), "not mapped", [y], [numpy.cos(y)]))
        self.assertEqual([(b["place"], b["created"], b["count"]) for b in judge.births],
                         [("a", True, 1), ("b", False, 1)])
        self.assertEqual([f["place"] for f in judge.findings], ["a"])

    def test_an_output_that_came_before_of_other_inputs_is_told(self):
        old = softmax(self.x[0])
        judge = self.judged(recorded(0, "a", self.x[0], old), recorded(1, "a", self.x[1], old))
        self.assertEqual((judge.first["step"], judge.first["equals"]), (1, {"step": 0, "place": "a"}))
        unmapped = [Call(i, "b", "aten::cos", (), "not mapped", [x], [old]) for i, x in enumerate(self.x[:2])]
        self.assertEqual([row["step"] for row in self.judged(*unmapped).stale], [1])
        constant = [Call(i, "b", "aten::cos", (), "not mapped", [x], [0 * old])
                    for i, x in enumerate(self.x[:2])]
        self.assertEqual(self.judged(*constant).stale, [])

    def test_what_is_not_judged_is_counted_with_its_reason_and_nothing_judged_is_no_green(self):
        written = recorded(0, "w", self.x[0], softmax(self.x[0]))
        written.changed = lambda: True
        judge = self.judged(Call(0, "b", "aten::cos", (), "not mapped", [self.x[0]], [self.x[0]]), written,
                            Call(0, "c", "f", [("softmax", {}, {"z": self.x[0]}, self.x[0], "")], "",
                                 [self.x[0]], [self.x[0]]))
        self.assertEqual(sum(judge.unjudged.values()) + sum(judge.errors.values()), 3, judge.unjudged)
        self.assertIn("aten::cos: not mapped", judge.unjudged)
        self.assertEqual(report.code({"findings": judge.findings, "judged": judge.count}), report.NOTHING)

    def test_an_error_of_its_own_ends_nothing_and_is_counted(self):
        judge = Judge(self.folder)
        judge.judge(Call(0, "b", "f", (), "", [object()], [self.x[0]]))
        self.assertEqual(sum(judge.errors.values()), 1)

    def test_shares_at_the_end_of_a_type_and_beyond(self):
        x = numpy.float32([1, 7e4, 1e6, 65504])
        self.assertEqual(saturated(x, x.clip(-65504, 65504).astype(numpy.float16)), (0.5, 0.0))
        with numpy.errstate(over="ignore"):
            self.assertEqual(saturated(x, x.astype(numpy.float16)), (0.0, 0.5))

    def test_two_runs_part_at_the_first_call_whose_bits_differ(self):
        def told(*ys):
            judge = self.judged(*(recorded(0, f"layers.{i}", x, y)
                                  for i, (x, y) in enumerate(zip(self.x, ys))))
            return {"told": {str(step): rows for step, rows in judge.steps.items()}}
        right = [softmax(x) for x in self.x]
        other = [y.copy() for y in right]
        other[1][0, 0] = numpy.nextafter(other[1][0, 0], numpy.float32(1))
        self.assertIsNone(against(told(*right), told(*right))["parts"])
        found = against(told(*other), told(*right))
        self.assertEqual((found["now"]["place"], found["parts"], found["compared"]),
                         ("layers.1", "the same inputs, other outputs", 2))
        self.assertEqual(found["now"]["verdict"], "pass")
        self.assertEqual(against(told(right[0]), told(*right))["parts"], "a call that the other run has not")


class Sampling(unittest.TestCase):
    def run_of(self, count, plain, watched, **more):
        steps = Steps(**more)
        taken = 0.0
        for _ in range(count):
            seconds = watched if steps.begin(64) else plain
            taken += seconds
            steps.end(seconds)
        return steps, taken

    def test_n_follows_from_steps_measured_in_turn_and_keeps_the_share(self):
        steps, taken = self.run_of(2000, 0.010, 0.0169)
        self.assertEqual(steps.as_json()["kinds"][0]["every"], 14)  # 0.69 / 0.05 = 13.8
        self.assertLessEqual(taken / (2000 * 0.010), 1.05 + 4 * 0.7 / 2000)  # and those that measured
        cheap, _ = self.run_of(100, 0.010, 0.010)
        self.assertEqual(cheap.watched, 100 - IN_TURN // 2)

    def test_a_given_n_is_kept_and_a_step_called_for_is_watched(self):
        steps, _ = self.run_of(100, 1, 2, every=10)
        self.assertEqual(steps.watched, 10)
        before = steps.watched
        steps.begin(64)
        steps.end(1)
        steps.call("NaN")
        self.assertTrue(steps.begin(64))
        self.assertGreater(steps.watched, before)


class Command(unittest.TestCase):
    def assay(self, *words, **more):
        return subprocess.run([PROGRAM, "watch", *words], capture_output=True, text=True, cwd=more.pop("cwd"),
                              timeout=300, **more)

    def test_what_is_no_use_is_refused_with_what_is_allowed(self):
        with tempfile.TemporaryDirectory() as folder:
            for words, said in (((), "no command"), (("--", "no_such_program"), "is no program"),
                                (("--share", "0", "--", "true"), "above 0"),
                                (("--contract", "matmul", "--", "true"), "OP:WORDS"),
                                (("--folder", ".", "--", "true"), "is there already"),
                                (("--against", "nothing", "--", "true"), "nothing"),
                                (("--every", "0", "--", "true"), "from 1 on")):
                done = self.assay(*words, cwd=folder)
                self.assertEqual((done.returncode, said in done.stderr), (2, True), done.stdout + done.stderr)
            done = self.assay("--", sys.executable, "-c", "print(1)", cwd=folder)
            self.assertEqual((done.returncode, done.stdout.splitlines()[0], done.stderr), (3, "1", ""))
            self.assertIn("nothing was judged", done.stdout)
            self.assertEqual(self.assay("--", sys.executable, "-c", "raise SystemExit(7)",
                                        cwd=folder).returncode, 125)

    @unittest.skipUnless(has_torch, "no PyTorch here")
    def test_the_example_of_its_help_runs_as_it_stands(self):
        with tempfile.TemporaryDirectory() as folder:
            said = self.assay("--help", cwd=folder).stdout
            example = said[said.index("assay watch -- "):said.index("\n  assay watch --folder after")]
            path = os.pathsep.join((os.path.dirname(PROGRAM), os.path.dirname(sys.executable),
                                    os.environ["PATH"]))
            done = subprocess.run(["bash", "-c", example], capture_output=True, text=True, cwd=folder,
                                  env=dict(os.environ, PATH=path))
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
            self.assertIn("all green of what was judged", done.stdout)
            found = os.listdir(os.path.join(folder, "assay-watch"))
            with open(os.path.join(folder, "assay-watch", found[0], "watch.json"), encoding="utf-8") as file:
                self.assertEqual(set(json.load(file)["ops"]), {"linear", "swiglu"})


@unittest.skipUnless(has_torch, "no PyTorch here")
class Models(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def watched(self, model, **more):
        import watch_model
        with assay.watch(model, more.pop("folder", self.folder), every=2, **more) as watch:
            self.tokens = watch_model.generate(model)
        self.assertEqual(watch.report["errors"], {}, str(watch))
        return watch

    def test_a_healthy_model_is_green_three_times_and_computes_what_it_computes_unwatched(self):
        import torch
        import watch_model
        for seed, dtype in ((1, torch.float32), (2, torch.bfloat16), (3, torch.float32)):
            model = watch_model.made(seed, dtype)
            want, call = watch_model.generate(model), torch.nn.Module.__call__
            watch = self.watched(model)
            self.assertEqual((watch.report["findings"], self.tokens), ([], want), str(watch))
            self.assertIs(torch.nn.Module.__call__, call)
            judged = {"attention", "add", "embedding", "linear", "matmul", "mul", "rmsnorm", "rope_table",
                      "swiglu"}
            self.assertLessEqual(judged, set(watch.report["ops"]), str(watch))
            self.assertIn("aten::cos: not mapped", watch.report["not_judged"])

    def test_each_planted_fault_is_named_first_and_nothing_else_is_accused(self):
        import watch_model
        for kind in watch_model.PLANTS:
            with self.subTest(kind):
                self.assertEqual(found(kind, 1, 1)[0], [])

    def test_what_is_compiled_is_told_as_unseen_and_no_green(self):
        import torch
        model = torch.compile(torch.nn.Linear(8, 8), backend="eager")
        with assay.watch(model, every=1) as watch, torch.no_grad():
            model(torch.ones(2, 8))
        self.assertEqual(report.code(watch.report), report.NOTHING)
        self.assertIn("compiled", str(watch))

    def test_a_nan_in_the_result_watches_the_next_step(self):
        import torch
        model = torch.nn.Linear(8, 8)
        with assay.watch(model, every=1000) as watch, torch.no_grad():
            for value in (1, 1, float("nan"), float("nan"), 1):
                model(torch.full((2, 8), float(value)))
        self.assertEqual(watch.report["steps"]["why"],
                         {"the first of its kind": 1, "NaN or Inf in the result of the step before": 1})

    def test_two_runs_part_where_another_kernel_ran(self):
        import watch_model
        model = watch_model.made()
        self.watched(model, folder=self.folder + "/one")
        self.assertIsNone(self.watched(model, against=self.folder + "/one").report["against"]["parts"])
        with watch_model.planted("fallback", model, 2) as (place, _):
            found = self.watched(model, against=self.folder + "/one").report["against"]
        self.assertEqual((found["now"]["place"], found["now"]["verdict"], found["before"]["verdict"]),
                         (place, "wrong", "pass"))


def found(kind, seed, layer):
    """(what is not as it is to be, seconds) of a planted fault."""
    import torch
    import watch_model
    model = watch_model.made(seed, torch.bfloat16 if kind == "skipped rounding" else torch.float32)
    begun = time.perf_counter()
    with watch_model.planted(kind, model, layer) as named:
        with assay.watch(model, every=1) as watch:
            watch_model.generate(model)
    rows = [(f["place"], f["name"]) for f in watch.report["findings"]]
    wrong = [row for row in rows if row != named] or ([] if rows else ["nothing was found"])
    return wrong + sorted(watch.report["errors"]), time.perf_counter() - begun


def trials():
    import watch_model
    print("| fault | trials | named first, nothing else accused | longest |\n|---|--:|--:|--:|")
    for kind in watch_model.PLANTS:
        results = [found(kind, seed, seed % 3) for seed in range(4)]
        print(f"| {kind} | {len(results)} | {sum(not wrong for wrong, _ in results)} | {max(s for _, s in results):.1f} s |")
        for wrong, _ in results:
            if wrong:
                print(f"  {wrong[:3]}", file=sys.stderr)


def overhead():
    """Decoding with and without the watch in turn, in one process."""
    import watch_model
    model = watch_model.made()
    plain, watched, rates = [], [], []
    watch_model.generate(model, 20)
    for _ in range(2):
        begun = time.process_time()
        watch_model.generate(model, 200)
        plain.append(time.process_time() - begun)
        watch = assay.watch(model).start()
        begun = time.process_time()
        watch_model.generate(model, 200)
        watched.append(time.process_time() - begun)
        watch.finish()
        rates.append(watch.report["steps"]["kinds"][0]["every"])
    one, other = statistics.median(plain), statistics.median(watched)
    print(f"200 steps: {one:.2f} s unwatched, {other:.2f} s watched ({100 * (other / one - 1):.1f} % more), n = {rates}; "
          f"{[round(x, 2) for x in plain]} {[round(x, 2) for x in watched]}; judging {watch.judging:.1f} s behind it; {watch.report['judged']} cases")


if MEASURED:
    sys.exit({"trials": trials, "overhead": overhead}[MEASURED]())
unittest.main()
