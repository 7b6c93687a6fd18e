#!/usr/bin/env python3
"""The searches without builds: search_test.py [PLANTS]. Graphs with merges at random; each answer is computed from the plant."""
import math
import os
import random
import shutil
import sys
import tempfile
import unittest
import unittest.mock
from concurrent.futures import ThreadPoolExecutor

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from assay_bisect.bayes import Bayes  # noqa: E402
from assay_bisect.delta import smallest  # noqa: E402
from assay_bisect.halving import NEW, OLD, UNTESTABLE, Halving  # noqa: E402
from assay_bisect.history import History, intervals, members  # noqa: E402
from assay_bisect.log import read_log  # noqa: E402
from assay_bisect.noisy import CALIBRATION, chance  # noqa: E402
from assay_bisect.problems import Usage  # noqa: E402
from assay_bisect.repository import Repository, git  # noqa: E402
from graphs_testing import random_history, random_stretches  # noqa: E402

PLANTS = 60
ERROR = 0.01  # the error probability that is asked of the Bayesian search


def halve(history, culprit, broken):
    """(candidates left, commits asked that answered, commits found untestable), the new end among those
    asked."""
    search = Halving(history)
    search.answer(len(history) - 1, NEW)
    asked, lost = 1, 0
    while (commit := search.choose()) is not None:
        if commit in broken:
            search.answer(commit, UNTESTABLE)
            lost += 1
        else:
            search.answer(commit, NEW if history.ancestors[commit] >> culprit & 1 else OLD)
            asked += 1
    return search.culprits(), asked, lost


def hunt(history, culprit, rate, draw, before=False):
    """What a Bayesian search ends with: (hypotheses, runs)."""
    search, built, runs = Bayes(history, error=ERROR), set(), 0
    while not search.done():
        commit, most = search.choose(built, 3.0)
        shows = before or (commit < len(history) and history.ancestors[commit] >> culprit & 1)
        total = found = 0
        while total < most and not found:
            total += 1
            found = int(bool(shows) and draw.random() < rate)
        search.observe(commit, total, found)
        built.add(commit)
        runs += total
    return search.answer()[0], runs


class Sets(unittest.TestCase):
    def test_ancestors_of_a_merge_are_those_of_both_sides(self):
        history = History("abcd", {"a": ["old"], "b": ["a"], "c": ["a"], "d": ["b", "c"]})
        self.assertEqual([list(members(bits)) for bits in history.ancestors],
                         [[0], [0, 1], [0, 2], [0, 1, 2, 3]])

    def test_a_parent_behind_its_child_is_refused(self):
        with self.assertRaises(ValueError):
            History("ab", {"a": ["b"], "b": []})

    def test_intervals_hold_the_bits_that_are_set(self):
        draw = random.Random(1)
        for _ in range(200):
            bits = draw.getrandbits(40) & draw.getrandbits(40)
            self.assertEqual([i for first, end in intervals(bits) for i in range(first, end)],
                             list(members(bits)))


class Certain(unittest.TestCase):
    def test_every_culprit_is_found_within_the_bound_where_all_can_be_tested(self):
        beyond = 0
        for seed in range(PLANTS):
            draw = random.Random(seed)
            history = random_history(draw, draw.choice([1, 2, 3, 30, 100, 200]))
            culprit = draw.randrange(len(history))
            left, asked, _ = halve(history, culprit, set())
            self.assertEqual(left, [culprit])
            # the new end is among those asked; and the old one
            over = asked + 1 - (math.ceil(math.log2(len(history))) + 2)
            self.assertLessEqual(over, 1)
            beyond += over > 0
        # Branches that stand beside each other cannot always be halved: 12 of 3,000 such histories take a
        # build more.
        self.assertLessEqual(beyond, max(1, PLANTS // 100))

    def test_a_history_without_merges_never_takes_more(self):
        for count in (1, 2, 3, 7, 8, 9, 100):
            names = [str(i) for i in range(count)]
            history = History(names, {name: [str(int(name) - 1)] for name in names})
            for culprit in range(count):
                left, asked, _ = halve(history, culprit, set())
                self.assertEqual(left, [culprit])
                self.assertLessEqual(asked + 1, math.ceil(math.log2(count)) + 2)

    def test_what_remains_of_a_stretch_is_the_smallest_set(self):
        beyond = 0
        for seed in range(PLANTS):
            draw = random.Random(seed)
            history = random_history(draw, draw.choice([30, 100, 200]))
            broken = random_stretches(draw, len(history))
            culprit = draw.randrange(len(history))
            left, asked, _ = halve(history, culprit, broken)
            testable = [c for c in range(len(history)) if c not in broken]
            answers = lambda h: [history.ancestors[c] >> h & 1 for c in testable]  # noqa: B023, E731
            self.assertEqual(left, [h for h in range(len(history)) if answers(h) == answers(culprit)])
            beyond += asked + 1 > math.ceil(math.log2(len(history))) + 2
        # Uneven halves cost a build more in 19 of 3,000 such histories.
        self.assertLessEqual(beyond, max(1, PLANTS // 100))

    def test_answers_wanted_side_by_side_are_those_of_both_outcomes(self):
        history = random_history(random.Random(7), 64)
        search = Halving(history)
        search.answer(len(history) - 1, NEW)
        first = search.choose()
        wanted = search.wanted(3)
        self.assertEqual(wanted[0], first)
        for outcome in (NEW, OLD):
            after = search.copy()
            after.answer(first, outcome)
            self.assertIn(after.choose(), wanted)


class Likely(unittest.TestCase):
    def test_a_fault_in_one_run_of_ten_is_found(self):
        wrong = 0
        for seed in range(PLANTS):
            draw = random.Random(1000 + seed)
            history = random_history(draw, 200 if PLANTS > 1000 else 40)
            culprit = draw.randrange(len(history))
            wrong += hunt(history, culprit, 0.1, draw)[0] != [culprit]
        print(f"wrong: {wrong} of {PLANTS}", file=sys.stderr)
        # As many as an error of 1 % each gives with probability 99.9 %: its mean and three deviations, and
        # one.
        self.assertLessEqual(wrong, ERROR * PLANTS + 3 * math.sqrt(ERROR * PLANTS) + 1)
        if PLANTS >= 3000:
            self.assertLess(wrong, ERROR * PLANTS)

    def test_a_fault_that_the_old_end_has_is_no_commit_s(self):
        history = random_history(random.Random(3), 20)
        found, _ = hunt(history, 5, 0.5, random.Random(4), before=True)
        self.assertEqual(found, [len(history)])

    def test_what_no_testable_commit_tells_apart_is_named_together(self):
        history = History("abcd", {"a": ["old"], "b": ["a"], "c": ["b"], "d": ["c"]})
        search = Bayes(history, untestable=0b0110)  # b and c do not build
        for commit, found in ((3, 1), (0, 0)):
            search.observe(commit, 60, 60 * found)
        search.observe(4, 60, 0)
        self.assertEqual(search.answer()[0], [1, 2, 3])
        self.assertTrue(search.done())


class Ends(unittest.TestCase):
    def test_the_chance_that_ends_alike_lie_so_far_apart(self):
        self.assertEqual(chance(range(5), range(5, 10)), 2 / 252)
        self.assertEqual(chance(range(5, 10), range(5)), 2 / 252)
        self.assertEqual(chance([0, 1, 2, 3, 5], [4, 6, 7, 8, 9]), 4 / 252)
        self.assertEqual(chance([1] * 5, [1] * 5), 1)
        draw = random.Random(6)
        for n, share in CALIBRATION:
            limit = share * ERROR
            red = sum(chance([draw.random() for _ in range(n)], [draw.random() for _ in range(n)]) <= limit
                      for _ in range(2000))
            # Six deviations of the count above its mean.
            self.assertLessEqual(red, 2000 * limit + 6 * math.sqrt(2000 * limit))


class Delta(unittest.TestCase):
    def test_the_part_that_matters_remains(self):
        for needed in ({3}, {0, 9}, {2, 5, 11}):
            self.assertEqual(set(smallest(range(12), lambda part, needed=needed: needed <= set(part))),
                             needed)

    def test_a_part_that_cannot_be_tested_is_no_answer(self):
        shows = lambda part: None if 4 in part and 5 not in part else {5} <= set(part)  # noqa: E731
        self.assertEqual(smallest(range(8), shows), [5])


class Logs(unittest.TestCase):
    def read(self, text):
        with tempfile.NamedTemporaryFile("w", suffix=".log") as f:
            f.write(text)
            f.flush()
            return read_log(f.name)

    def test_words_of_git_and_own_words_are_read(self):
        self.assertEqual(self.read("git bisect start '--term-new=fixed' '--term-old=broken'\n# x\ngit bisect broken aa\n"
                                   "git bisect fixed bb\ngit bisect skip cc\n"),
                                   [("aa", OLD), ("bb", NEW), ("cc", "skip")])

    def test_another_line_is_refused_with_its_number(self):
        with self.assertRaisesRegex(Usage, "line 2"):
            self.read("git bisect start\nmake\n")


class Trees(unittest.TestCase):
    def test_they_are_made_one_at_a_time(self):
        """`git worktree add` dies where it reads the half-made entry of another: this git notes who meets
        another one."""
        with tempfile.TemporaryDirectory() as scratch:
            with open(f"{scratch}/git", "w") as f:
                f.write(f"""#!/bin/sh
case " $* " in *" worktree add "*) ;; *) exec {shutil.which("git")} "$@" ;; esac
mkdir {scratch}/busy || echo met >> {scratch}/met
sleep 0.1
{shutil.which("git")} "$@"; code=$?
rmdir {scratch}/busy
exit $code
""")
            os.chmod(f"{scratch}/git", 0o755)
            name = ["-c", "user.name=a", "-c", "user.email=a@b"]
            git("/", "init", "-q", f"{scratch}/source")
            git(f"{scratch}/source", *name, "commit", "-q", "--allow-empty", "-m", "x")
            repository = Repository(f"{scratch}/source")
            repository.borrow(f"{scratch}/state")
            path = {"PATH": f"{scratch}:{os.environ['PATH']}"}
            head = git(f"{scratch}/source", "rev-parse", "HEAD").strip()
            with unittest.mock.patch.dict(os.environ, path), ThreadPoolExecutor(4) as pool:
                made = [pool.submit(repository.check_out, head, f"{scratch}/{i}") for i in range(4)]
                for i, each in enumerate(made):
                    each.result()
                    self.assertEqual(git(f"{scratch}/{i}", "rev-parse", "HEAD").strip(), head)
            self.assertFalse(os.path.exists(f"{scratch}/met"))


if __name__ == "__main__":
    if len(sys.argv) > 1 and sys.argv[1].isdigit():
        PLANTS = int(sys.argv.pop(1))
    unittest.main(verbosity=1)
