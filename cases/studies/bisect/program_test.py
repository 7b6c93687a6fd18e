#!/usr/bin/env python3
"""`assay bisect` as a program: program_test.py ASSAY [quick | plants [N] | flaky [N] | killed [N]]. Planted
histories are made, searched and compared with the plant. `plants`: numbers, law, path and kernel at random
places; `flaky`: faults that show in 1 run of 10."""
import os
import random
import re
import signal
import subprocess
import sys
import tempfile
import time
import unittest

sys.dont_write_bytecode = True
from program_testing import ASSAY, CASE, Planted, bisect, git, picture  # noqa: E402

READS_A = (r'#include <math.h>\n#include <stdlib.h>\nstatic float chosen(float x) { return getenv("A") ? cbrtf(x) : sqrtf(x); }\n'
           r'#define sqrtf chosen\n')


class Quick(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory(prefix="bisect-test-")
        self.addCleanup(scratch.cleanup)
        self.scratch = os.environ["XDG_CACHE_HOME"] = scratch.name

    def test_killed_twice_it_goes_on_and_leaves_the_repository_alone(self):
        planted = Planted(self.scratch, 11, commits=60, where="branch")
        with open(os.path.join(planted.folder, "mine.txt"), "w") as f:
            f.write("not committed\n")
        before = picture(planted.folder)
        temporary = os.path.join(self.scratch, "temporary")
        os.mkdir(temporary)
        for builds in (2, 4):
            running = subprocess.Popen([ASSAY, "bisect", *planted.options, "--build", "sh build.sh"],
                                       stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                                       env=os.environ | {"TMPDIR": temporary})
            folder = os.path.join(planted.state, "builds")
            while running.poll() is None and (not os.path.isdir(folder) or
                                              sum(not n.endswith(".part")
                                                  for n in os.listdir(folder)) < builds):
                time.sleep(0.005)
            running.send_signal(signal.SIGKILL)
            running.wait()
        made = {n for n in os.listdir(folder) if not n.endswith(".part")}
        self.assertGreaterEqual(len(made), 4)
        done, answer = planted.search("--confirm", "0")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(answer["findings"][0]["commits"], planted.smallest())
        everything = len({n for n in os.listdir(folder) if not n.endswith(".part")})
        # nothing was built twice
        self.assertEqual(answer["builds"] + answer["unbuildable"] + len(made), everything)
        self.assertLessEqual(everything, planted.bound() + sum(
            1 for i in range(len(planted.names)) if planted.draft.states[i].broken))
        self.assertEqual(picture(planted.folder), before)
        self.assertEqual(os.listdir(temporary) + os.listdir(os.path.join(planted.state, "scratch")), [])
        # git draws the same conclusion from the log.
        clone = os.path.join(self.scratch, "clone")
        git(self.scratch, "clone", "-q", planted.folder, clone)
        git(clone, "bisect", "replay", answer["logs"][0])
        self.assertEqual(git(clone, "rev-parse", "refs/bisect/bad"), planted.smallest()[0])
        # And a log begun by git is gone on with.
        log = os.path.join(self.scratch, "git.log")
        with open(log, "w") as f:
            f.write(git(clone, "bisect", "log") + "\n")
        more = bisect("--repository", planted.folder, "--replay", log, "--build", "sh build.sh", "--backend",
                      "kernels.so",
                      "--case", CASE, "--state", os.path.join(self.scratch, "other"), "-q", "--confirm", "0")
        self.assertIn("culprit " + planted.smallest()[0][:7], more.stdout)
        self.assertIn("builds: 2, and 0", more.stdout)

    def test_builds_that_hang_fill_the_disk_or_leave_processes_are_skipped(self):
        # Every commit but the ends misbehaves in one way, so that each way is met whatever the search asks
        # first.
        marker = f"sleep 98{os.getpid()}"
        # What hangs has the seconds that an honest build may take on a busy machine.
        for way, (seconds, what, said) in {
                "hangs": ("20", "sleep 600", "it takes more than 20 s"),
                "fills": ("1000", "head -c 30000000 /dev/urandom > large; sleep 2000",
                          "it writes more than 0.01 GiB"),
                "leaves": ("1000", f"(setsid {marker} &)", "it leaves processes: sleep")}.items():
            folder = os.path.join(self.scratch, way)
            os.mkdir(folder)
            planted = Planted(folder, 12, commits=3)
            ends = " ".join(planted.names[i] for i in (0, -1))
            done, answer = planted.search("--build-seconds", seconds, "--build-gigabytes", "0.01",
                                          "--confirm", "0", "-j", "2", build=(
                f"sh build.sh || exit 1; case '{ends}' in *$ASSAY_COMMIT*) ;; *) {what};; esac"))
            self.assertEqual(done.returncode, 1, done.stderr)
            self.assertEqual(sorted(answer["findings"][0]["commits"]), sorted(planted.names[1:]))
            self.assertIn(said, done.stdout)
            self.assertNotIn("Traceback", done.stderr)
        running = subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True, check=True).stdout
        self.assertNotIn(marker, running)

    def test_a_stretch_that_does_not_build_leaves_the_smallest_set(self):
        planted = Planted(self.scratch, 13, commits=40, where="stretch")
        done, answer = planted.search("-j", "2")
        self.assertEqual(sorted(answer["findings"][0]["commits"]), planted.smallest())
        self.assertEqual(done.returncode, 0 if len(planted.smallest()) == 1 else 1)

    def test_wrong_usage_and_ends_alike_are_told_apart(self):
        planted = Planted(self.scratch, 14, commits=12)
        first = planted.names[0]
        options = ["--repository", planted.folder, "--build", "sh build.sh", "--backend", "kernels.so",
                   "--case", CASE, "--state",
                   planted.state]
        for code, words, said in (
                (2, [*options, "--good", first], "both ends"),
                (2, [*options, "--good", first, "--bad", "nowhere"], "no commit .* has this name"),
                (2, [*options[:-4], "--good", first, "--bad", "main"], "--case, or --run"),
                (2, [*options, "--good", first, "--bad", "main", "--error", "2"], "allowed: 1e-06..0.5"),
                (2, [*options, "--good", first, "--bad", "main", "--backend", "../x.so"],
                 "inside the work tree"),
                (2, [*options, "--good", first, "--bad", "main", "--case", "softmax rows=many"], "rows"),
                (3, [*options, "--good", first, "--bad", planted.names[1] if planted.draft.culprit != 1
                     else first + "~0",
                     "--case", CASE], "show the same|one commit")):
            done = bisect(*words)
            self.assertRegex(done.stderr, said)
            self.assertEqual(done.returncode, code if "one commit" not in done.stderr else 2, done.stderr)

    def test_flags_files_and_functions(self):
        planted = Planted(self.scratch, 15, commits=20)
        culprit, tree = planted.names[planted.draft.culprit], ["--repository", planted.folder, "--state",
                                                               planted.state, "-q"]
        ask = ["--backend", "kernels.so", "--case", CASE]
        done = bisect("files", *tree, *ask, "--good", planted.names[0], "--bad", planted.names[-1], "--build",
                      "sh build.sh")
        self.assertRegex(done.stdout, r"pass -> wrong by 1 of \d+ files:\n  sum.c\n")
        done = bisect("flags", *tree, *ask, "--at", planted.names[0], "--good-flags", "-O1", "--bad-flags",
                      "-g -O1 -Dsqrtf=cbrtf -DNDEBUG", "--build",
                      "cc $CFLAGS -shared -fPIC -o kernels.so sum.c row.c dispatch.c plugin.c -I. -lm")
        self.assertRegex(done.stdout, r"by 1 of 3 flags:\n  with -Dsqrtf")
        for side, commit in (("good", culprit + "~1"), ("bad", culprit)):
            folder = os.path.join(self.scratch, side)
            git(planted.folder, "worktree", "add", "-q", "--detach", folder, commit)
            subprocess.run("for f in sum row dispatch plugin; do cc -O1 -fPIC -I. -c $f.c; done", shell=True,
                           check=True, cwd=folder)
        done = bisect("objects", *ask, "--state", planted.state, "--good-folder",
                      os.path.join(self.scratch, "good"),
                      "--bad-folder", os.path.join(self.scratch, "bad"))
        self.assertRegex(done.stdout, r"sum.o: sum_of_squares\n")

    def test_an_environment_of_builds_and_of_runs(self):
        planted = Planted(self.scratch, 17, commits=12)
        for way, build in (("of the build", "cc $([ \"$A\" = 2 ] && echo -Dsqrtf=cbrtf)"),
                           ("of the run", "printf '" + READS_A + "' > chosen.h; cc -include ./chosen.h")):
            done = bisect("flags", "--repository", planted.folder, "--state",
                          os.path.join(self.scratch, way[-3:]), "-q", "--backend",
                          "kernels.so", "--case", CASE, "--at", planted.names[0], "--bad-env", "A=2",
                          "--good-env", "B=1",
                          "--bad-env", "B=2", "--build",
                          build + " -O1 -shared -fPIC -o kernels.so sum.c row.c dispatch.c plugin.c -I. -lm")
            self.assertRegex(done.stdout, r"pass -> wrong by 1 of 2 flags:\n  A=2\n", way + done.stderr)

    def test_a_law_and_a_cell_of_a_report(self):
        planted = Planted(self.scratch, 18, "law", commits=12)
        options = planted.options[:planted.options.index("--run")]
        culprit = "culprit " + planted.names[planted.draft.culprit][:7]
        done = bisect(*options, "--build", "sh build.sh", "--case", "rmsnorm rows=9 cols=33", "--find", "law",
                      "--confirm", "0", "-q")
        self.assertIn(culprit, done.stdout + done.stderr)
        self.assertRegex(done.stdout, r"order of rmsnorm rows=9 .*: bitwise -> within limits\n")
        laws = "{assay} laws 'rmsnorm rows=9 cols=33' -b {plugin} --law order --json report > log; cat report"
        done = bisect(*options, "--build", "sh build.sh", "--run", laws, "--field", "results.0.outcome",
                      "--confirm", "0", "-q")
        self.assertIn(culprit, done.stdout + done.stderr)

    def test_a_library_beside_the_plug_in(self):
        planted = Planted(self.scratch, 16, commits=12)
        tree = self.scratch
        for side, commit in (("good", planted.names[0]), ("bad", planted.names[-1])):
            git(planted.folder, "worktree", "add", "-q", "--detach", os.path.join(tree, "src-" + side),
                commit)
            os.makedirs(os.path.join(tree, side, "lib"))
            subprocess.run(f"cc -O1 -shared -fPIC -I. -o ../{side}/lib/libsum.so sum.c && cc -O1 -shared -fPIC -I. -o "
                           f"../{side}/lib/librow.so row.c && cc -O1 -shared -fPIC -I. -o ../{side}/kernels.so dispatch.c plugin.c "
                           f"-L../{side}/lib -lsum -lrow -lm", shell=True, check=True,
                           cwd=os.path.join(tree, "src-" + side))
        done = bisect("libraries", "--backend", "kernels.so", "--case", CASE + " backend=./kernels.so",
                      "--state", planted.state,
                      "--good-folder", os.path.join(tree, "good"), "--bad-folder", os.path.join(tree, "bad"))
        self.assertRegex(done.stdout, r"by 1 of [123] libraries:\n  lib/libsum.so\n")


class Many(unittest.TestCase):
    """Each plant in a repository of its own; what is found is compared with what was planted."""

    def found(self, seed, plant, where, *more):
        with tempfile.TemporaryDirectory(prefix="bisect-test-") as scratch:
            planted = Planted(scratch, seed, plant, where=where)
            done, answer = planted.search("-q", *more)
            self.assertIsNotNone(answer, done.stdout + done.stderr)
            return planted, answer, sorted(answer["findings"][0]["commits"])

    def test_plants(self):
        beyond = wrong = builds = lost = 0
        for seed in range(COUNT):
            plant, where = ("numbers", "law", "path",
                            "kernel")[seed % 4], (None, "branch", "stretch")[seed % 3]
            planted, answer, commits = self.found(seed, plant, where, "--confirm", "0")
            ok = commits == planted.smallest()
            wrong += not ok
            beyond += answer["builds"] > planted.bound()
            builds, lost = builds + answer["builds"], lost + answer["unbuildable"]
            print(f"plant {seed} {plant} {where}: {'found' if ok else 'WRONG'}, {len(commits)} candidates, {answer['builds']} "
                  f"builds of at most {planted.bound()}, {answer['unbuildable']} failed", file=sys.stderr,
                  flush=True)
        print(f"{COUNT} plants: {wrong} wrong, {beyond} beyond the bound, {builds / COUNT:.1f} builds and {lost / COUNT:.1f} "
              "that failed in the mean", file=sys.stderr)
        self.assertEqual((wrong, beyond), (0, 0))

    def test_flaky(self):
        wrong = 0
        for seed in range(COUNT):
            planted, answer, commits = self.found(seed, "flaky", None)
            ok = planted.names[planted.draft.culprit] in commits and commits == planted.smallest()
            wrong += not ok
            print(f"flaky {seed}: {'found' if ok else 'WRONG'} by {answer['runs']} runs, posterior "
                  f"{answer['findings'][0]['posterior']:.4f}, seen rate {answer['rate']:.2f}",
                  file=sys.stderr, flush=True)
        # An error of 1 % each: two of twenty have a probability of 2 %.
        self.assertLessEqual(wrong, max(1, COUNT // 20))


class Killed(unittest.TestCase):
    """One search, ended by SIGKILL at COUNT random moments; then it is let go on."""

    def test_it_loses_nothing_and_leaves_nothing(self):
        with tempfile.TemporaryDirectory(prefix="bisect-test-") as scratch:
            planted = Planted(scratch, 19)
            before, temporary, draw = (
                picture(planted.folder),
                os.path.join(scratch, "temporary"),
                random.Random(COUNT),
            )
            os.mkdir(temporary)
            marker = f"sleep 97{os.getpid()}"
            for _ in range(COUNT):
                running = subprocess.Popen([ASSAY, "bisect", *planted.options, "-q", "--build",
                                            f"sh build.sh; {marker} & sleep 0.2; kill $!"],
                                           stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                                           env=os.environ | {"TMPDIR": temporary})
                try:
                    running.wait(draw.uniform(0.1, 2))
                except subprocess.TimeoutExpired:
                    running.kill()
                    running.wait()
            done, answer = planted.search("--confirm", "0",
                                          build=f"sh build.sh; {marker} & sleep 0.2; kill $!")
            self.assertIn(done.returncode, (0, 1), done.stderr)
            self.assertEqual(sorted(answer["findings"][0]["commits"]), planted.smallest())
            self.assertEqual(picture(planted.folder), before)
            self.assertEqual(os.listdir(temporary) + os.listdir(os.path.join(planted.state, "scratch")), [])
            processes = subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True,
                                       check=True).stdout
            self.assertNotIn(planted.state, processes)
            self.assertNotIn(marker, processes.replace(f"{marker} &", ""))


if __name__ == "__main__":
    part = sys.argv[2] if len(sys.argv) > 2 else "quick"
    COUNT = (
        int(sys.argv[3])
        if len(sys.argv) > 3 and re.fullmatch(r"\d+", sys.argv[3])
        else {"plants": 52, "flaky": 20, "killed": 25}.get(part, 0)
    )
    names = {"quick": "Quick", "plants": "Many.test_plants", "flaky": "Many.test_flaky", "killed": "Killed"}
    unittest.main(argv=[sys.argv[0], names.get(part, part)], verbosity=1)
