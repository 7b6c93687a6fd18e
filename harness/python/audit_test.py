#!/usr/bin/env python3
"""audit_test.py: what `pytest --assay-audit` finds of planted comparisons, blind and sharp, and what it
leaves as it is. Those of PyTorch and of xdist where these are installed."""
import importlib.util
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
sys.dont_write_bytecode = True
sys.path.insert(0, HERE)
has = {name: importlib.util.find_spec(name) is not None for name in ("numpy", "pytest", "torch", "xdist")}
if not (has["numpy"] and has["pytest"]):
    print("no numpy or no pytest here: skipped")
    sys.exit(77)
from assay.audit import report, sites, store  # noqa: E402

BLINDER = 7  # docs/audit.md
DRAW = """
import numpy as np
import pytest

def draw(rows=32, cols=64, scale=1.0):
    return (scale * np.random.default_rng(rows * cols).standard_normal((rows, cols))).astype(np.float32)
"""
ROWS = {"tile_rows", "tile_cols", "rows_shifted", "row_sign", "rows_swapped", "last_row", "last_element",
        "element", "scale"}


class Suite(unittest.TestCase):
    """A suite in a folder of its own, and pytest on it."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        self.environment = dict(os.environ, PYTHONPATH=HERE, PYTHONDONTWRITEBYTECODE="1")
        self.environment.pop("PYTEST_ADDOPTS", None)

    def put(self, name, text):
        with open(os.path.join(self.folder, name), "w", encoding="utf-8") as file:
            file.write(text)

    def command(self, *words):
        return [sys.executable, "-m", "pytest", "-p", "assay.pytest_plugin", "-p", "no:cacheprovider", *words]

    def pytest(self, *words):
        return self.ran(*self.command(*words))

    def ran(self, *command):
        return subprocess.run(command, capture_output=True, text=True, cwd=self.folder, env=self.environment,
                              timeout=300)

    def killed_once(self, reached, *words):
        """pytest on the suite, killed as soon as so many files named reached* are there."""
        process = subprocess.Popen(self.command("--assay-audit=audit.json", "--assay-audit-every=0", *words),
                                   cwd=self.folder, env=self.environment, stdout=subprocess.DEVNULL,
                                   stderr=subprocess.DEVNULL, start_new_session=True)
        until = time.monotonic() + 100
        while time.monotonic() < until:
            if sum("reached" in name for name in os.listdir(self.folder)) >= reached:
                break
            time.sleep(0.1)
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()

    def audited(self, *words, code=0):
        done = self.pytest("--assay-audit=audit.json", "--assay-audit-budget=0", *words)
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        self.said = done.stdout
        audit = store.read(os.path.join(self.folder, "audit.json"))
        self.assertEqual(audit["errors"], {}, done.stdout)
        return audit

    def by_test(self, audit):
        found = {}
        for site in audit["sites"]:
            found.setdefault(site["function"], []).append(site)
        return found

    def outcomes(self, *words):
        done = self.pytest("-rA", "-q", *words)
        found = re.findall(r"^(PASSED|FAILED|ERROR|SKIPPED|XFAIL|XPASS) (\S+)", done.stdout, re.M)
        return sorted(set(found)), done


class Numpy(Suite):
    def test_planted_blind_places_are_found_and_sharp_ones_are_not_accused(self):
        self.put("helper.py", """import numpy


def check(a, b):
    numpy.testing.assert_allclose(a, b, rtol=1, atol=0)
""")
        self.put("test_planted.py", DRAW + """
from helper import check
from numpy.testing import assert_allclose, assert_almost_equal as almost

def test_zeros():
    assert_allclose(draw(scale=1e-4), draw(scale=1e-4), atol=0.05, rtol=0.5)
def test_relative():
    check(draw(), draw())
    check(draw(8, 8), draw(8, 8))
def test_share():
    assert np.isclose(draw(), draw()).mean() > 0.9
def test_allclose():
    assert np.allclose(draw(), draw(), atol=3)
def test_reference_first():
    ref_out, out = draw(), draw()
    np.testing.assert_allclose(ref_out, out, rtol=1.5)
def test_sharp():
    assert_allclose(draw(), draw(), rtol=1e-5)
    assert np.allclose(draw(), draw())
    almost(draw(), draw(), decimal=5)
    assert np.isclose(draw(), draw()).all()
    np.testing.assert_allclose(2.5, 2.5)
    np.testing.assert_allclose([1.5, 2.5], (1.5, 2.5))
def test_exact():
    np.testing.assert_array_equal(draw(), draw())
    np.testing.assert_equal({"a": [draw()]}, {"a": [draw()]})
    assert np.array_equal(draw(), draw())
    np.testing.assert_allclose(np.arange(9), np.arange(9), rtol=1e-7)
def test_held_against_zeros():
    np.testing.assert_allclose(draw() - draw(), np.zeros((32, 64)), atol=1e-3)
def test_rounding_where_the_reference_is_zero():
    np.testing.assert_allclose([1e-15, 1, 2e-15, 3e-15], [0, 1, 0, 0], atol=1e-10)
def test_small_ends():
    window = np.hanning(64).astype(np.float64)
    np.testing.assert_allclose(window, window, atol=1e-7)
""")
        audit = self.audited()
        found = self.by_test(audit)
        passed = {name: set(store.passes(mine[0])) for name, mine in found.items()}
        self.assertEqual(passed["test_zeros"], {"all_zero"} | ROWS)
        self.assertEqual([store.grade(s) for s in found["test_zeros"]], ["blind"])
        # rtol=1 of numpy is of the second side: |0 - b| <= |b|.
        self.assertEqual(len(found["test_relative"]), 2)
        for site in found["test_relative"]:
            self.assertIn("all_zero", store.passes(site))
            self.assertEqual((site["helper"]["function"], site["helper"]["line"]), ("check", 5))
            self.assertIn("rtol=1", str(report.why(site)))
        self.assertLessEqual({"row_nan", "row_sign", "last_row"}, passed["test_share"])
        self.assertNotIn("all_zero", passed["test_share"])
        self.assertIn("compare each row by itself", str(report.why(found["test_share"][0])))
        self.assertEqual(store.grade(found["test_allclose"][0]), "dull")
        self.assertEqual(found["test_reference_first"][0]["side"], "first")
        # The second was changed: |ref - 0| <= 1.5 * 0 does not hold.
        self.assertNotIn("all_zero", passed["test_reference_first"])
        self.assertEqual([store.grade(s) for s in found["test_sharp"]], ["sharp"] * 6)
        self.assertEqual([store.state(s) for s in found["test_sharp"]], ["tolerant"] * 6)
        self.assertEqual([store.state(s) for s in found["test_exact"]], ["exact"] * 4)
        self.assertEqual([store.state(s) for s in found["test_held_against_zeros"]], ["zeros"])
        self.assertEqual(passed["test_small_ends"], set())  # its last element is 0 and shows nothing
        self.assertEqual(found["test_small_ends"][0]["changes"]["last_element"][:2], [0, 0])
        self.assertEqual(passed["test_rounding_where_the_reference_is_zero"], set())
        zeros = found["test_zeros"][0]
        self.assertEqual((zeros["tolerances"], zeros["hits"]), ([{"rtol": 0.5, "atol": 0.05}], 1))
        order = report.ranked(audit)
        self.assertEqual(sorted(order, key=store.blindness, reverse=True), order)
        self.assertIn("test_zeros", order[0]["function"] + order[1]["function"] + order[2]["function"])
        self.assertIn("atol=0.05 is above the largest |expected|", self.said)

    def test_outcomes_are_the_same_whatever_a_suite_does(self):
        self.put("pytest.ini", """[pytest]
assay_audit_helpers =
    own
    writes
    drawing 0 1
    exits
    Base.check
    nowhere
""")
        self.put("test_hostile.py", DRAW + """
import random, signal, sys, threading, time, unittest, warnings

class Strange:
    reads = 0
    def __eq__(self, other):
        Strange.reads += 1
        return True
    def __array__(self, *_, **__):
        Strange.reads += 1
        return draw()
    def __float__(self):
        raise KeyError("no number")

class Below(np.ndarray):
    pass

def own(a, b, tolerance):
    print("compared")
    warnings.warn("compared")
    error = abs(a - b).max()
    b *= 2                      # writes into what it is given
    if not error <= tolerance:
        pytest.fail("apart")

def writes(a, b):
    a *= 2
    assert abs(a / 2 - b).max() == 0

def drawing(a, b):
    assert np.random.random() >= 0 and random.random() >= 0
    return float(abs(a - b).max())

def exits(a, b):
    if abs(a - b).max() > 0:
        sys.exit(3)

class Base:
    def check(self, a, b, tolerance=1e-3):
        assert abs(a - b).max() <= tolerance, self.none.of.this

@pytest.fixture
def torn():
    yield
    np.testing.assert_allclose(draw(), draw(), atol=9)
@pytest.fixture
def torn_badly():
    yield
    np.testing.assert_allclose(draw(), 1 + draw())
@pytest.fixture
def begun_badly():
    np.testing.assert_allclose(draw(), 1 + draw())

def test_passes(torn):
    np.testing.assert_allclose(draw(), draw())
def test_fails():
    np.testing.assert_allclose(draw(), 1 + draw())
def test_fails_later():
    np.testing.assert_allclose(draw(), draw())
    assert not np.allclose(draw(), draw())
def test_is_false_and_that_is_right():
    assert not np.allclose(draw(), 1 + draw())
    with pytest.raises(AssertionError):
        np.testing.assert_allclose(draw(), 1 + draw())
def test_ends_badly(torn_badly):
    pass
def test_begins_badly(begun_badly):
    pass
@pytest.mark.xfail(strict=True)
def test_is_expected_to_fail():
    np.testing.assert_allclose(draw(), 1 + draw())
def test_skips():
    np.testing.assert_allclose(draw(), draw())
    pytest.skip("enough")
def test_strange_objects_are_not_read():
    np.testing.assert_equal(Strange(), Strange())
    reads = Strange.reads
    np.testing.assert_equal(Strange(), Strange())
    assert Strange.reads == 2 * reads
    np.testing.assert_equal("text", "text")
    np.testing.assert_equal(None, None)
    np.testing.assert_equal([["a", 1.5], {"b": (draw(), "c")}], [["a", 1.5], {"b": (draw(), "c")}])
    np.testing.assert_array_equal(np.array(["a", None], object), np.array(["a", None], object))
    np.testing.assert_array_equal(draw().view(Below), draw())
def test_tolerances_of_any_kind():
    with pytest.raises(TypeError):  # numpy's message cannot be made
        np.testing.assert_allclose(draw(), draw(), rtol=np.full((32, 64), 1e-3), atol=np.array([1e-3] * 64))
    assert np.allclose(draw(), draw(), np.full((32, 64), 1e-3), atol=draw() * 0)
    with pytest.raises(TypeError):
        np.testing.assert_allclose(draw(), draw(), rtol=Strange())
    np.testing.assert_allclose(draw(), draw(), rtol=np.array(1e-3), atol=np.float32(1e-3))
def test_arguments_that_do_not_fit():
    with pytest.raises(TypeError):
        np.testing.assert_allclose(draw())
    with pytest.raises(TypeError):
        np.allclose(draw(), b=draw(), c=2)
    assert np.allclose(a=draw(), b=draw())
def test_own_comparison_is_called_once_as_far_as_the_test_sees(capsys):
    a, b = draw(), draw()
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        own(a, b, 1e-3)
    assert (b == 2 * a).all() and (a == draw()).all()
    writes(a, draw())
    assert (a == b).all()
    assert len(told) == 1 and capsys.readouterr().out == "compared\\n"
def test_random_numbers_go_on():
    np.random.seed(3), random.seed(3)
    drawing(draw(), draw())
    after = np.random.random(), random.random()
    np.random.seed(3), random.seed(3)
    np.random.random(), random.random()
    assert after == (np.random.random(), random.random())
def test_own_comparison_that_exits():
    exits(draw(), draw())
class TestMethods(Base):
    def test_method(self):
        self.check(draw(), draw())
        self.check(draw(), draw(), tolerance=9)
class TestCase(unittest.TestCase):
    def test_in_a_case(self):
        np.testing.assert_allclose(draw(), draw(), atol=9)
    def test_fails_in_a_case(self):
        np.testing.assert_allclose(draw(), 1 + draw())
    def tearDown(self):
        np.testing.assert_allclose(draw(), draw(), atol=9)
def test_threads():
    failed = []
    def work():
        try:
            for _ in range(20):
                np.testing.assert_allclose(draw(), draw(), atol=9)
        except BaseException as why:
            failed.append(why)
    threads = [threading.Thread(target=work) for _ in range(8)]
    [t.start() for t in threads], [t.join() for t in threads]
    assert not failed and not threading.active_count() > 1
@pytest.mark.filterwarnings("error")
def test_warnings_are_errors():
    np.testing.assert_allclose(draw(), draw(), rtol=1e-3)
    with np.errstate(all="raise"):
        assert np.allclose(draw(), draw(), rtol=1e-3)
    with pytest.warns(UserWarning):
        warnings.warn("here")
def test_time_limit_of_its_own():
    class Late(Exception):
        pass
    def late(*_):
        raise Late
    signal.signal(signal.SIGALRM, late)
    with pytest.raises(Late):
        signal.setitimer(signal.ITIMER_REAL, 0.2)
        while True:
            np.testing.assert_allclose(draw(8, 8), draw(8, 8))
    signal.setitimer(signal.ITIMER_REAL, 0)
def test_measure(record_property):
    share = np.isclose(draw(), draw()).mean()
    record_property("share", share)
    worst = max(0.5, share)
    assert worst == 1.0 and isinstance(share, np.floating) and share + 1 == 2 and f"{share:.2f}" == "1.00"
    close = np.isclose(draw(), draw())
    assert (~close).sum() == 0 and close[0].all() and isinstance(close, np.ndarray) and close.dtype == bool
    assert np.all(close) and np.concatenate([close, close]).all() and (close & close).all()
def test_generated(pytestconfig):
    exec("np.testing.assert_allclose(draw(), draw(), atol=9)")
    eval("np.testing.assert_allclose(draw(), draw(), atol=9)")
    list(map(np.testing.assert_allclose, [draw()], [draw()]))
def test_no_elements_and_too_odd_ones():
    np.testing.assert_allclose(np.zeros((0, 3)), np.zeros((0, 3)))
    np.testing.assert_allclose(np.array(2.0), 2.0)
    np.testing.assert_allclose(np.full(5, np.nan), np.full(5, np.nan))
    np.testing.assert_allclose(np.full(5, np.inf), np.full(5, np.inf))
    np.testing.assert_allclose(draw() * 1e-45, draw() * 1e-45)
    np.testing.assert_allclose(draw().astype(np.complex64) * 1j, draw() * 1j)
    np.testing.assert_allclose(np.ma.masked_array(draw(), draw() > 0), draw())
    np.testing.assert_array_equal(np.zeros(3, [("a", int)]), np.zeros(3, [("a", int)]))
    overlapping = np.lib.stride_tricks.as_strided(draw(), (8, 8), (0, 4))
    np.testing.assert_allclose(overlapping, np.broadcast_to(draw()[0, :8], (8, 8)))
    x = draw(); x.flags.writeable = False
    np.testing.assert_allclose(x, x)
""")
        before, plain = self.outcomes()
        after, audited = self.outcomes("--assay-audit=audit.json", "--assay-audit-budget=0")
        self.assertEqual(before, after, audited.stdout)
        self.assertEqual(audited.returncode, plain.returncode)
        for kind, count in (("PASSED", 17), ("FAILED", 3), ("ERROR", 2)):
            self.assertGreaterEqual(sum(k == kind for k, _ in after), count, after)
        audit = store.read(os.path.join(self.folder, "audit.json"))
        self.assertEqual(audit["errors"], {"assay_audit_helpers: no module has nowhere": 1}, audited.stdout)
        found = self.by_test(audit)
        self.assertEqual([s["kind"] for s in found["TestMethods::test_method"]], ["check", "check"])
        self.assertNotIn("all_zero", store.passes(found["TestMethods::test_method"][0]))
        self.assertIn("all_zero", store.passes(found["TestMethods::test_method"][1]))
        own, writes = found["test_own_comparison_is_called_once_as_far_as_the_test_sees"]
        self.assertEqual((store.state(own), store.grade(own)), ("not asked", "sharp"), own)
        self.assertEqual(store.state(writes), "not asked")
        self.assertEqual(list(writes["left"]), ["it does not hold when it is asked again with the same"])
        self.assertEqual(found["work"][0]["hits"], 64)  # of one line in one test
        self.assertGreaterEqual(audit["unseen"], 160 - 64)
        self.assertIn("all_zero", store.passes(found["work"][0]))
        self.assertIn("all_zero", store.passes(found["torn"][0]))
        self.assertIn("all_zero", store.passes(found["tearDown"][0]))
        self.assertEqual(found["torn_badly"] if "torn_badly" in found else [], [])  # what fails is not asked

    def test_a_crash_of_the_audit_is_counted_and_told_and_fails_no_test(self):
        self.put("conftest.py", """
import assay.audit.changes, assay.audit.sites, assay.audit.store
def crash(*_, **__):
    raise RuntimeError("planted")
assay.audit.changes.Changed.make = crash
""")
        self.put("test_one.py", DRAW + "def test_one():\n    np.testing.assert_allclose(draw(), draw())\n")
        done = self.pytest("--assay-audit=audit.json")
        self.assertEqual(done.returncode, 0, done.stdout)
        self.assertIn("the audit itself failed, 1 times: numpy.testing.assert_allclose: RuntimeError: pl",
                      done.stdout)
        self.put("conftest.py", """
import assay.audit.report, assay.audit.store
def crash(*_, **__):
    raise RuntimeError("planted")
assay.audit.store.write = assay.audit.report.lines = crash
""")
        done = self.pytest("--assay-audit=audit.json")
        self.assertEqual(done.returncode, 0, done.stdout)
        self.assertIn("1 passed", done.stdout)

    def test_parameter_sets_are_drawn_and_hits_in_a_test_too(self):
        self.put("test_many.py", DRAW + """
def assert_spelt_out_close(a, b):
    assert abs(a - b).max() < 1
def assert_close_by_numpy(a, b):
    np.testing.assert_allclose(a, b)
def test_spelt_out():
    assert_spelt_out_close(draw(), draw())
    assert_close_by_numpy(draw(), draw())
@pytest.mark.parametrize("n", range(40))
def test_many(n):
    for _ in range(10):
        np.testing.assert_allclose(draw(), draw(), atol=9 * (n == 39))
""")
        site = self.by_test(self.audited())["test_many"][0]
        self.assertEqual((site["hits"], site["asked"], len(site["tests"])), (400, 24, 8))
        self.assertIn("no comparison was seen, and which assay_audit_helpers could name: "
                      "test_many.assert_spelt_out_close\n", self.said)
        site = self.by_test(self.audited("--assay-audit-each=2"))["test_many"][0]
        self.assertEqual(site["asked"], 6)
        self.assertEqual(sorted(site["tests"]), ["test_many.py::test_many[0]", "test_many.py::test_many[20]"])

    def test_the_gate_is_shut_by_what_got_blinder_alone(self):
        exact = "    np.testing.assert_array_equal(draw(), draw())\n"
        blind = "    np.testing.assert_allclose(draw(), draw(), atol=9)\n"
        sharp = DRAW + "\ndef test_one():\n" + blind.replace("atol=9", "rtol=1e-5") + exact
        self.put("test_gate.py", sharp)
        self.audited()
        os.rename(os.path.join(self.folder, "audit.json"), os.path.join(self.folder, "earlier.json"))
        against = ["--assay-audit-against=earlier.json"]
        for text, code, word in (
                (sharp, 0, "0 blinder, 0 sharper"),
                (sharp.replace("def test_one", "X = 1\n\n\ndef test_one"), 0, "0 blinder, 0 sharper, 0 new"),
                (sharp.replace("rtol=1e-5", "rtol=1e-6, atol=0"), 0, "0 blinder"),
                (sharp.replace("rtol=1e-5", "rtol=0, atol=9"), BLINDER, "BLINDER test_gate.py:9: now passes"),
                (sharp.replace(exact, blind), BLINDER, "1 blinder"),
                (sharp.replace(exact, blind + exact), 0, "new and blind: test_gate.py:10"),
                (sharp.replace(exact, ""), 0, "1 gone"),
                (sharp + "    assert False\n", 1, "0 blinder")):
            self.put("test_gate.py", text)
            done = self.pytest(*against)
            self.assertEqual(done.returncode, code, text + done.stdout)
            self.assertIn(word, done.stdout)
            self.assertEqual("exit status 7" in done.stdout, code == BLINDER)
        # The other way: what was blind and no longer is.
        self.put("test_gate.py", sharp.replace("rtol=1e-5", "atol=9"))
        self.audited()
        os.rename(os.path.join(self.folder, "audit.json"), os.path.join(self.folder, "blind.json"))
        self.put("test_gate.py", sharp)
        done = self.pytest("--assay-audit-against=blind.json")
        self.assertEqual(done.returncode, 0, done.stdout)
        self.assertIn("1 sharper", done.stdout)
        # By the command, of two files.
        for files, code in ((("blind.json", "earlier.json"), 0), (("earlier.json", "blind.json"), BLINDER),
                            (("earlier.json",), 2), (("earlier.json", "test_gate.py"), 2)):
            done = self.ran(sys.executable, "-m", "assay.audit", "against", *files)
            self.assertEqual(done.returncode, code, done.stdout + done.stderr)

    def test_what_cannot_be_read_or_written_is_refused_before_any_test(self):
        self.put("test_one.py", "def test_one():\n    pass\n")
        self.put("other.json", "{}")
        for words in (["--assay-audit-against=none.json"], ["--assay-audit-against=other.json"],
                      ["--assay-audit=no/such/folder.json"], ["--assay-audit=page.html"],
                      ["--assay-audit=a.json", "-o", "assay_audit_helpers=a b"]):
            done = self.pytest(*words)
            self.assertEqual(done.returncode, 4, done.stdout)
            self.assertNotIn("passed", done.stdout)

    def test_a_suite_that_is_killed_leaves_its_report(self):
        self.put("test_killed.py", DRAW + """
import time
def test_first():
    np.testing.assert_allclose(draw(), draw(), atol=9)
def test_second():
    open("reached", "w").close()
    time.sleep(120)
""")
        self.killed_once(1)
        site, = store.read(os.path.join(self.folder, "audit.json"))["sites"]
        self.assertEqual(store.grade(site), "blind")

    def test_nothing_is_imported_that_the_suite_does_not_import(self):
        self.put("test_none.py", """
import sys
def test_none():
    assert not {"numpy", "torch", "jax"} & set(sys.modules)
""")
        self.put("test_zlate.py", """
def test_late():
    import numpy
    numpy.testing.assert_allclose(numpy.ones(5), numpy.ones(5), atol=9)
""")
        site, = self.audited()["sites"]
        self.assertEqual(store.grade(site), "blind")
        done = self.ran(sys.executable, "-c", "import assay.pytest_plugin, sys; "
                        "print([m for m in sys.modules if 'audit' in m])")
        self.assertEqual(done.stdout.strip(), "[]", done.stderr)

    def test_functions_are_themselves_again_afterwards(self):
        self.put("test_one.py", DRAW + "def test_one():\n    np.testing.assert_allclose(draw(), draw())\n")
        done = subprocess.run([sys.executable, "-c", """
import numpy, numpy.testing, pytest, sys
before = numpy.testing.assert_allclose, numpy.allclose, numpy.isclose, list(sys.meta_path)
pytest.main(["-q", "-p", "assay.pytest_plugin", "-p", "no:cacheprovider", "--assay-audit=audit.json"])
assert before == (numpy.testing.assert_allclose, numpy.allclose, numpy.isclose, list(sys.meta_path))
"""], capture_output=True, text=True, cwd=self.folder, env=self.environment)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    def test_the_page_holds_all_and_a_strangers_text_stays_text(self):
        self.put("test_page.py", DRAW + """
def test_page():
    np.testing.assert_allclose(draw(), draw(), atol=9, err_msg='</script><b>')
""")
        self.audited()
        with open(os.path.join(self.folder, "audit.html"), encoding="utf-8") as file:
            text = file.read()
        start = text.index("const DATA = ") + len("const DATA = ")
        data, _ = json.JSONDecoder().raw_decode(text[start:])
        self.assertEqual([s["grade"] for s in data["sites"]], ["blind"])
        self.assertEqual(text.count("</script>"), 1)
        self.assertNotRegex(text, r"(?:src|href)=")

    @unittest.skipUnless(has["xdist"], "no xdist here")
    def test_workers_of_xdist_are_added_up(self):
        self.put("test_workers.py", DRAW + """
@pytest.mark.parametrize("n", range(8))
def test_many(n):
    np.testing.assert_allclose(draw(), draw(), atol=9)
def test_fails():
    np.testing.assert_allclose(draw(), draw())
    assert False
def error(a, b):
    return float(abs(a - b).max())
def test_measure(record_property):
    worst = error(draw(), draw())
    record_property("worst", worst)
    assert worst < 1e-6
""")
        self.put("pytest.ini", "[pytest]\nassay_audit_helpers = error\n")
        audit = self.audited("-n", "2", code=1)
        self.assertIn("9 passed", self.said)
        site = self.by_test(audit)["test_many"][0]
        self.assertEqual((site["hits"], site["asked"], store.grade(site)), (8, 8, "blind"))
        self.assertEqual(audit["processes"], 2)
        self.assertEqual([n for n in os.listdir(self.folder) if ".gw" in n], [])
        done = self.pytest("-n", "2", "--assay-audit-against=audit.json", "-k", "many")
        self.assertEqual(done.returncode, 0, done.stdout)
        self.assertIn("0 blinder, 0 sharper", done.stdout)

    @unittest.skipUnless(has["xdist"], "no xdist here")
    def test_parts_of_a_killed_session_are_added_up_by_the_command(self):
        self.put("test_many.py", DRAW + """
import os, time
@pytest.mark.parametrize("n", range(8))
def test_many(n):
    np.testing.assert_allclose(draw(), draw(), atol=9)
    if n > 3:
        open(f"reached{n}", "w").close()
        time.sleep(120)
""")
        self.killed_once(2, "-n", "2")
        parts = sorted(n for n in os.listdir(self.folder) if ".gw" in n and n.endswith(("gw0", "gw1")))
        self.assertTrue(parts)
        done = self.ran(sys.executable, "-m", "assay.audit", "add", *parts, "-o", "whole.json")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        site, = store.read(os.path.join(self.folder, "whole.json"))["sites"]
        self.assertGreaterEqual(site["hits"], 1)
        self.assertTrue(os.path.exists(os.path.join(self.folder, "whole.html")))


@unittest.skipUnless(has["torch"], "no PyTorch here")
class Torch(Suite):
    DRAW = """
import pytest, torch
from torch.testing import assert_close
def draw(rows=32, cols=64, scale=1.0, dtype=torch.float32):
    return (scale * torch.randn(rows, cols, generator=torch.Generator().manual_seed(rows * cols))).to(dtype)
"""

    def test_planted_blind_places_are_found_and_sharp_ones_are_not_accused(self):
        self.put("pytest.ini", "[pytest]\nassay_audit_helpers =\n    snr out reference\n    verbose_close\n")
        self.put("test_planted.py", self.DRAW + """
def snr(reference, out):
    return float(20 * torch.log10(reference.norm() / (reference - out).norm()))
def verbose_close(a, b, rtol):
    bad = (a - b).abs() > rtol * b.abs()
    if bad.any():
        raise AssertionError(f"{int(bad.sum())} apart")
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_gradients(dtype):
    assert_close(draw(scale=1e-4, dtype=dtype), draw(scale=1e-4, dtype=dtype), atol=0.05, rtol=0.5)
def test_containers():
    assert_close({"a": [draw(), 2.5]}, {"a": [draw(), 2.5]}, atol=9, rtol=0, msg=lambda text: 1 / 0)
def test_snr():
    assert snr(draw(), draw() + 1e-4) > 10
def test_share():
    close = torch.isclose(draw(), draw())
    assert (close == 0).sum().item() <= close.numel() * 0.1
def test_cosine():
    assert torch.nn.functional.cosine_similarity(draw().flatten(), draw().flatten(), dim=0) > 0.9
def test_own():
    verbose_close(draw(), draw(), rtol=2)
def test_passes_nan():
    verbose_close(draw(), draw(), rtol=1e-5)
def test_sharp():
    assert_close(draw(), draw())
    assert torch.allclose(draw(), draw())
    assert draw().allclose(draw())
    assert torch.isclose(draw(), draw()).all()
    assert_close(draw(dtype=torch.float64).requires_grad_(), draw(dtype=torch.float64))
def test_exact():
    assert torch.equal(draw(), draw())
    assert_close(torch.arange(9), torch.arange(9))
def test_held_against_zeros():
    assert_close(draw() - draw(), torch.zeros(32, 64))
""")
        found = self.by_test(self.audited())
        passed = {name: set(store.passes(mine[0])) for name, mine in found.items()}
        self.assertEqual(passed["test_gradients"], {"all_zero"} | ROWS)
        self.assertEqual(found["test_gradients"][0]["asked"], 3)
        self.assertIn("all_zero", passed["test_containers"])
        self.assertEqual(found["test_snr"][0]["kind"], "snr")
        self.assertNotIn("all_zero", passed["test_snr"])
        self.assertIn("last_row", passed["test_snr"])
        self.assertEqual(passed["test_share"] & {"row_nan", "row_sign"}, {"row_nan", "row_sign"})
        self.assertIn("scale", passed["test_cosine"])
        self.assertIn("all_zero", passed["test_own"])
        self.assertEqual([store.grade(s) for s in found["test_sharp"]], ["sharp"] * 5)
        self.assertEqual(passed["test_passes_nan"], {"row_nan"})  # of NaN nothing is greater than a limit
        self.assertEqual([store.state(s) for s in found["test_exact"]], ["exact"] * 2)
        self.assertEqual([store.state(s) for s in found["test_held_against_zeros"]], ["zeros"])

    def test_outcomes_are_the_same_whatever_a_suite_does(self):
        self.put("test_hostile.py", self.DRAW + """
import threading, warnings
from torch.utils._python_dispatch import TorchDispatchMode
from torch.overrides import TorchFunctionMode
class Count(TorchDispatchMode):
    def __init__(self):
        super().__init__()
        self.count = 0
    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        self.count += 1
        return function(*args, **(kwargs or {}))
class CountCalls(TorchFunctionMode):
    count = 0
    def __torch_function__(self, function, types, args=(), kwargs=None):
        CountCalls.count += 1
        return function(*args, **(kwargs or {}))
class Sub(torch.Tensor):
    pass
def test_modes_see_the_test_alone():
    with Count() as once:
        torch._C._VariableFunctions.allclose(draw(), draw())
    with Count() as again:
        torch.allclose(draw(), draw())
    assert once.count == again.count
    with CountCalls():
        torch.allclose(draw(), draw())
    assert CountCalls.count < 20
    torch.vmap(lambda x: torch.isclose(x, x))(draw())
    with torch.device("cpu"):
        assert_close(draw(), draw())
def test_tolerance_is_a_tensor():
    assert torch.allclose(draw(), draw(), rtol=float(torch.tensor(1e-3)))
    for rtol in (torch.tensor(1e-3), torch.tensor([1e-3, 1e-3])):
        try:
            assert_close(draw(), draw(), rtol=rtol, atol=rtol)
        except Exception as why:
            assert "planted" not in str(why)
def test_random_numbers_go_on():
    torch.manual_seed(3)
    want = torch.rand(5)
    torch.manual_seed(3)
    assert_close(draw(), draw())
    assert torch.equal(torch.rand(5), want)
def test_gradients_go_on():  # under a mode that the audit changes for itself
    x = draw().requires_grad_()
    y = draw()
    similarity = torch.nn.functional.cosine_similarity(x, y)
    similarity.sum().backward()
    assert x.grad is not None and torch.is_grad_enabled()
    total = torch.zeros(32)
    total += torch.nn.functional.cosine_similarity(y, y)
    buffer = torch.zeros(32)
    buffer.copy_(torch.nn.functional.cosine_similarity(y, y))
    buffer[0] = torch.nn.functional.cosine_similarity(y[0], y[0], dim=0)
    torch.testing.assert_close(total, torch.ones(32))
    torch.testing.assert_close(buffer, torch.ones(32))
def test_inference_mode():
    with torch.inference_mode():
        assert_close(draw(), draw())
def test_subclasses_and_layouts():
    x = draw().as_subclass(Sub)
    assert_close(x, x)
    assert_close(draw().to_sparse(), draw().to_sparse())
    assert_close(draw(dtype=torch.float8_e4m3fn).float(), draw(dtype=torch.float8_e4m3fn).float())
    assert_close(torch.zeros(0, 4), torch.zeros(0, 4))
    assert_close(draw().to(torch.complex64), draw().to(torch.complex64))
    assert_close(torch.tensor(2.5), torch.tensor(2.5))
    assert_close(torch.eye(3) > 0, torch.eye(3) > 0)
    assert_close("text", "text") if False else None
    assert_close(torch.nn.Parameter(draw()), torch.nn.Parameter(draw()))
    assert_close(draw().expand(4, 32, 64), draw().expand(4, 32, 64))
    assert_close(draw().t(), draw().t())
    assert_close(torch.empty(3, device="meta"), torch.empty(3, device="meta"))
def test_compiled():
    double = torch.compile(lambda a, b: torch.isclose(a, b).float().sum(), fullgraph=True, backend="eager")
    assert double(draw(), draw()) == 2048
def test_threads():
    failed = []
    def work():
        try:
            for _ in range(10):
                assert_close(draw(), draw(), atol=9, rtol=0)
        except BaseException as why:
            failed.append(why)
    threads = [threading.Thread(target=work) for _ in range(4)]
    [t.start() for t in threads], [t.join() for t in threads]
    assert not failed
def test_fails():
    assert_close(draw(), draw() + 1)
def test_fails_by_a_measure():
    assert torch.isclose(draw(), draw()).float().mean() > 2
def test_fails_with_a_message():
    with pytest.raises(AssertionError, match="told 1"):
        assert_close(draw(), draw() + 1, msg=lambda text: "told 1")
@pytest.fixture
def torn():
    yield
    assert_close(draw(), draw(), rtol=1, atol=float(torch.tensor(1.0)))
def test_torn(torn):
    pass
""")
        before, plain = self.outcomes()
        after, audited = self.outcomes("--assay-audit=audit.json", "--assay-audit-budget=0")
        self.assertEqual(before, after, plain.stdout + audited.stdout)
        self.assertEqual(audited.returncode, plain.returncode)
        audit = store.read(os.path.join(self.folder, "audit.json"))
        self.assertEqual(audit["errors"], {}, audited.stdout)
        found = self.by_test(audit)
        self.assertIn("all_zero", store.passes(found["torn"][0]))
        self.assertIn("all_zero", store.passes(found["work"][0]))
        # Its truth was no comparison that passed.
        self.assertEqual(found["test_fails_by_a_measure"][0]["changes"], {})

    def test_a_reference_that_rounds_more_than_what_it_judges_is_told(self):
        self.put("test_reference.py", self.DRAW + """
def norm(x):
    return x * torch.rsqrt((x * x).mean(-1, keepdim=True) + 1e-5)
def test_rounds_more():
    x = draw(dtype=torch.bfloat16)
    out, ref = norm(x.float()).bfloat16(), norm(x)
    assert_close(out, ref, atol=0.1, rtol=0.1)
def test_rounds_less():
    x = draw(dtype=torch.bfloat16)
    ref, out = norm(x.float()).bfloat16(), norm(x)
    assert_close(out, ref, atol=0.1, rtol=0.1)
def test_in_place_and_views_and_backward():
    x = draw().requires_grad_()
    norm(x).square().mul(2).sum().backward()
    y = torch.zeros(4, 64, dtype=torch.float16)
    y[1:3].add_(x.detach()[:2].half()).mul_(0.1)
    want = torch.zeros(4, 64)
    want[1:3] = x.detach()[:2].half().float() * 0.1
    assert_close(want.half(), y, atol=0.1, rtol=0.1)
    assert torch.isfinite(x.grad).all()
def test_random():
    torch.manual_seed(5)
    first = torch.randn(3)
    torch.manual_seed(5)
    assert torch.equal(first, torch.randn(3))
def test_fails():
    assert_close(draw(), draw() + 1)
""")
        found = self.by_test(self.audited("--assay-audit-reference", code=1))
        self.assertIn("1 failed, 4 passed", self.said)
        of = {name: mine[0]["reference"] for name, mine in found.items()}
        self.assertEqual((of["test_rounds_more"]["judged"], of["test_rounds_more"]["further"]), (1, 1))
        self.assertGreater(of["test_rounds_more"]["worst"], 1)
        self.assertEqual((of["test_rounds_less"]["judged"], of["test_rounds_less"]["further"]), (1, 0))
        self.assertIn("further off than what they judge: 1", self.said)


class Words(unittest.TestCase):
    def test_the_reference_is_the_side_that_is_named_so(self):
        for text, side in (
                ("assert_close(out, ref)", "second"), ("assert_close(ref_out, out)", "first"),
                ("assert_close(y_torch, y)", "first"), ("assert_close(a, b)", ""),
                ("assert_close(expected.to(torch.float32), out.to(torch.float32))", "first"),
                ("assert_close(out, torch.stack(rows))", ""),
                ("np.testing.assert_allclose(actual=got, desired=want)", "second"),
                ("torch.allclose(golden['y'], y, atol=1e-2)", "first"), ("ref.allclose(y)", "first"),
                ("check(naive(x), fast(x))", "first"), ("assert_close(preference, x)", ""),
                ("not a call", ""), ("f(", ""), ("assert_close(out.cpu().numpy(), expected)", "second")):
            self.assertEqual(sites.sides(text), side, text)

    def test_places_are_matched_by_text_and_then_by_order(self):
        def one(line, code, kind="k"):
            return {"file": "t", "function": "f", "helper": None, "line": line, "code": code, "kind": kind}
        before = {"sites": [one(1, "close(a, atol=1e-3)"), one(2, "close(b)"), one(3, "close(c)")]}
        after = {"sites": [one(5, "close(new)"), one(6, "close(a, atol=9)"), one(7, "close(b)")]}
        found = [(a and a["line"], b and b["line"]) for a, b in store.pairs(before, after)]
        self.assertEqual(sorted(found, key=str), sorted([(2, 7), (1, 6), (3, 5)], key=str))


unittest.main()
