"""The audit itself: at a comparison that passed, the comparison again with each changed result. Nothing in
here may reach the test."""
import collections
import contextlib
import os
import random
import signal
import sys
import threading
import time
import warnings

from assay.audit import changes, sites, store
from assay.audit.changes import CHANGES, Unchangeable

MOST_ASKED = 24  # hits of a site that are asked
MOST_ASKED_IN_A_TEST = 3  # of these in one test: the first, second and fourth
OFTEN = 64  # calls of one line in a test behind which further ones are no longer looked at
FREE = 1.0  # seconds that a process may spend whatever the budget: short suites are asked too


class Local(threading.local):
    busy = False  # within a comparison that is hooked, or within the audit
    asking = False  # within a comparison that is asked again: what it would say is not needed


LOCAL = Local()


def interrupted(why):
    """Whether an exception is not the comparison's: Ctrl-C or a time limit's."""
    if isinstance(why, KeyboardInterrupt):
        return True
    trace = why.__traceback__
    while trace is not None:
        if "pytest_timeout" in trace.tb_frame.f_code.co_filename:
            return True
        trace = trace.tb_next
    return False


class _AlarmLater:
    """A time limit that a test set by SIGALRM goes off behind the audit, where the test would have been."""
    def __enter__(self):
        self.late = self.handler = None
        if threading.current_thread() is threading.main_thread() and hasattr(signal, "SIGALRM"):
            handler = signal.getsignal(signal.SIGALRM)
            if callable(handler):
                self.handler = handler
                signal.signal(signal.SIGALRM, self._note)

    def _note(self, *_):
        self.late = True

    def __exit__(self, *_):
        if self.handler is not None:
            signal.signal(signal.SIGALRM, self.handler)
            if self.late:
                signal.raise_signal(signal.SIGALRM)


class Audit:
    """Of one process. `share`: of the session's own time at most this much is spent (None: no limit).
    `again`: tests that an earlier audit asked in, which are asked again whatever is drawn and spent."""
    def __init__(self, root, share=0.25, each=8, path=None, about=None, again=(), every=20.0, reference=None):
        self.root, self.share, self.each, self.path, self.every = root, share, each, path, every
        self.about, self.again = about or {}, set(again)
        self.reference = reference  # what judges a test's reference by its own formula, or None
        # Processor time, of which a busy machine takes nothing away; that of the last write by the clock.
        self.begun, self.written = time.process_time(), time.monotonic()
        self.pid, self.spent, self.depth = os.getpid(), 0.0, 0
        self.sites, self.errors, self.places = {}, collections.Counter(), {}
        self.calls, self.unseen = {}, 0
        self.candidates = {}  # functions of the suite that may compare: name -> with its module
        # (site, change, passed, test) of truths that are a comparison's only if their test passes.
        self.pending = []
        self.test, self.path_of_test, self.name_of_test, self.chosen, self.drawn = "", None, None, True, None

    # Of the session.

    def draw(self, tests):
        """Of each test function's parameter sets `each` are asked, spread over them. tests: (function, test)
        in their order."""
        found = collections.defaultdict(list)
        for function, test in tests:
            found[function].append(test)
        self.drawn = set()
        for mine in found.values():
            asked = [t for t in mine if t in self.again]
            rest = [t for t in mine if t not in self.again]
            left = max(0, self.each - len(asked)) if self.each else len(rest)
            self.drawn.update(
                asked, rest if len(rest) <= left else [rest[i * len(rest) // left] for i in range(left)])

    def enter(self, test, path, name, function):
        self.test, self.path_of_test, self.name_of_test, self.function_of_test = test, path, name, function
        self.calls = {}
        self.chosen = self.drawn is None or test in self.drawn

    def often(self, frame):
        """Whether this line has compared so often in this test that what more there is need not be looked at;
        counts it."""
        key = (frame.f_code, frame.f_lasti)
        count = self.calls.get(key, 0) + 1
        self.calls[key] = count
        if count <= OFTEN:
            return False
        self.unseen += 1
        return True

    def leave(self, passed):
        """The end of a part of a test."""
        pending, self.pending = self.pending, []
        for site, change, held, test in pending:
            if passed:
                site.note(change, held, test)
            else:
                site.leave("its test did not pass")

    def guarded(self, what):
        """A context in which nothing is raised that is not Ctrl-C's or a time limit's; its time is the
        audit's."""
        return _Guarded(self, what)

    def error(self, what, why):
        self.errors[f"{what}: {type(why).__name__}: {store.text(why, 100)}".split("\n")[0]] += 1

    def as_json(self):
        return {
            "assay": store.FORMAT, **self.about, "seconds": round(time.process_time() - self.begun, 3),
            "audit_seconds": round(self.spent, 3), "processes": 1,
            "unseen": self.unseen, "candidates": self._silent(), "errors": dict(self.errors),
            "sites": [site.as_json() for site in list(self.sites.values())]
        }

    def _silent(self):
        """The functions that may compare and in which no comparison was seen."""
        seen = {site.helper["function"] for site in list(self.sites.values()) if site.helper}
        seen |= {name for site in list(self.sites.values()) for name in (site.kind, site.function)}
        return sorted(full for name, full in list(self.candidates.items()) if name not in seen)

    def save(self, now=True):
        """To the file, if it is time; a process that was forked from this one has no file."""
        late = time.monotonic() - self.written >= self.every
        if self.path is None or os.getpid() != self.pid or not (now or late):
            return
        self.written = time.monotonic()
        with self.guarded("the report could not be written"):
            store.write(self.path, self.as_json())

    # Of one comparison.

    def site(self, kind):
        outer, inner = sites.frames(self.path_of_test, self.name_of_test, 2)
        if inner is None:
            raise Unchangeable("no frame of a test")
        key = (outer.f_code, outer.f_lasti, inner.f_code, inner.f_lasti, kind)
        place = self.places.get(key)
        if place is None:
            file = self._named(outer.f_code.co_filename)
            helper = None
            if inner is not outer:
                helper = {
                    "file": self._named(inner.f_code.co_filename), "line": inner.f_lineno,
                    "function": inner.f_code.co_name, "code": sites.text_of(inner)[:400]
                }
            function = outer.f_code.co_name
            if function == self.name_of_test:
                function = self.function_of_test
            place = (kind, file, outer.f_lineno, helper and (helper["file"], helper["line"]))
            if place not in self.sites:
                site = store.Site(kind, file, outer.f_lineno, function, sites.text_of(outer)[:400], helper)
                side = sites.sides(sites.text_of(inner)) or (helper and sites.sides(site.code)) or ""
                site.side = side
                self.sites[place] = site
            self.places[key] = place
        return self.sites[place]

    def _named(self, path):
        try:
            near = os.path.relpath(path, self.root)
            return path if near.startswith(os.pardir) else near.replace(os.sep, "/")
        except ValueError:
            return path

    def wanted(self, site):
        """Whether this hit is asked; also counts it."""
        count = site.begin(self.test)
        if site.asked >= MOST_ASKED and self.test not in self.again:
            return False
        first = site.asked == 0
        drawn = self.chosen and count in [1 << i for i in range(MOST_ASKED_IN_A_TEST)]
        if not (first or drawn):
            return False
        if self.spare() * (1.0 if first else 0.5) < self.spent:
            site.held_back += first
            return False
        return True

    def spare(self):
        """The seconds that may be spent by now."""
        if self.share is None or self.test in self.again:
            return float("inf")
        return max(FREE, self.share * (time.process_time() - self.begun - self.spent))

    def compared(self, kind, sides, again, known=None, fixed=None, exact=False, careful=False, values=None):
        """A comparison that passed. sides: (first, second); again(side, value): the same comparison with
        another value there, which returns whether it holds, or raises. known: {'rtol':, 'atol':} as far as
        they are; fixed: the side under test where it is known; careful: somebody's own function, which may
        write, draw or change what it is given. values: instead of `again`, of a comparison whose threshold
        comes later, what is called with (site, {change: value})."""
        with self.guarded(kind):
            site = self.site(kind)
            if not self.wanted(site):
                return
            side = fixed if fixed is not None else (1 if site.side == "first" else 0)
            try:
                why = in_the_way(sides[side]) or in_the_way(sides[1 - side])
                if why:
                    raise Unchangeable(why)
                actual, back = changes.readable(sides[side])
                expected = changes.readable(sides[1 - side])[0]
                with quiet(careful):
                    self._ask(site, side, actual, back, expected, again, known, exact, careful, values)
            except Unchangeable as why:
                site.leave(why)

    def _ask(self, site, side, actual, back, expected, again, known, exact, careful, values):
        known = {
            name: value for name, value in ((n, store.number(v)) for n, v in (known or {}).items())
            if value is not None
        }
        scale = changes.top(expected)
        site.remember("tolerances", known)
        site.remember("types", f"{actual.dtype} and {expected.dtype}".replace("torch.", ""))
        whole = changes.number_kind(actual) == "i" and changes.number_kind(expected) == "i"
        slack = known["atol"] + known["rtol"] * scale if {"atol", "rtol"} <= known.keys() else None
        if exact or slack == 0 or (whole and slack is not None and slack < 1):
            site.asked += 1
            site.exact += 1
            return
        if not scale > 0:
            site.asked += 1
            site.zeros += 1
            return
        changed = changes.Changed(actual, expected)
        site.asked += 1
        self._measure(site, actual, expected, scale, known)
        if self.reference is not None:
            self.reference(site, actual, expected)
        if careful and values is None and self._holds(site, lambda: again(side, back(actual))) is not True:
            raise Unchangeable("it does not hold when it is asked again with the same")
        found, begun, spare = {}, time.process_time(), self.spare() - self.spent
        for name in changed.names():
            if time.process_time() - begun > spare:
                site.leave("what a hit may cost was spent by the first changes")
                break
            value = changed.make(name)
            if value is None:
                site.note(name, None, self.test)
            elif values is not None:
                found[name] = back(value)
            else:
                passed = self._holds(site, lambda: again(side, back(value)))
                if passed is not None:
                    site.note(name, passed, self.test)
        if values is not None:
            values(site, found)

    def _measure(self, site, actual, expected, scale, known):
        middle = changes.median(expected)
        error = store.number(changes.largest_error(actual, expected) or 0)
        site.error = max(site.error or 0.0, error or 0.0)
        absolute = known.get("atol")
        ratio = store.number(absolute / middle) if absolute is not None and middle > 0 else None
        if site.worst is None or (ratio or 0) > (site.worst["ratio"] or 0):
            site.worst = {
                "ratio": ratio, "atol": absolute, "rtol": known.get("rtol"), "median": store.number(middle),
                "most": store.number(scale), "shape": [int(n) for n in actual.shape], "test": self.test
            }

    def _holds(self, site, call):
        """Whether the comparison holds; None where it could not be asked."""
        asking, LOCAL.asking = LOCAL.asking, True
        try:
            result = call()
            return True if result is None else bool(result)
        except AssertionError:
            return False
        except BaseException as why:  # noqa: BLE001  it may end by pytest.fail, or as its author likes
            if interrupted(why):
                raise
            if type(why).__name__ in ("ErrorMeta", "Failed"):
                return False
            site.leave(f"{type(why).__name__}: {store.text(why, 80)}".split("\n")[0])
            return None
        finally:
            LOCAL.asking = asking


class _Guarded:
    def __init__(self, audit, what):
        self.audit, self.what, self.alarm = audit, what, _AlarmLater()

    def __enter__(self):
        self.begun, self.busy = time.process_time(), LOCAL.busy
        LOCAL.busy = True
        self.alarm.__enter__()

    def __exit__(self, kind, why, trace):
        LOCAL.busy = self.busy
        kept = why is not None and interrupted(why)
        if why is not None and not kept:
            try:
                self.audit.error(self.what, why)
            except Exception:  # noqa: BLE001  an exception whose text raises
                self.audit.errors[self.what] += 1
        if not self.busy:
            self.audit.spent += time.process_time() - self.begun
        self.alarm.__exit__()
        return not kept


def in_the_way(x):
    """Why a tensor's comparison is not asked again here: what is traced, captured, or watched by a mode of
    the test's own."""
    if not changes.is_torch(x):
        return ""
    import torch
    if is_traced():
        return "traced or captured"
    dispatch = getattr(torch._C, "_len_torch_dispatch_stack", lambda: 0)()
    function = getattr(torch._C, "_len_torch_function_stack", lambda: 0)()
    if dispatch:
        get = torch._C._get_dispatch_stack_at
        if any(not getattr(get(i), "assay_audit", False) for i in range(dispatch)):
            return "within a dispatch mode of the test"
    if function:
        get = torch._C._get_function_stack_at
        if any(type(get(i)).__name__ != "DeviceContext" for i in range(function)):
            return "within a function mode of the test"
    functorch = getattr(torch._C, "_functorch", None)
    if functorch is not None and getattr(functorch, "peek_interpreter_stack", lambda: None)() is not None:
        return "within vmap or grad of functions"
    return ""


def is_traced():
    torch = sys.modules.get("torch")
    if torch is None or not hasattr(torch, "compiler"):
        return False
    if torch.compiler.is_compiling() or torch.jit.is_tracing() or torch.jit.is_scripting():
        return True
    return torch.cuda.is_initialized() and torch.cuda.is_current_stream_capturing()


@contextlib.contextmanager
def quiet(careful):
    """What asking again leaves untouched: warnings and numpy's error state, gradients, and of somebody's own
    function the random numbers and what is printed and logged. What is the whole process's is left alone
    where other threads are running."""
    numpy, torch = sys.modules.get("numpy"), sys.modules.get("torch")
    with contextlib.ExitStack() as stack:
        if numpy is not None and hasattr(numpy, "errstate"):
            stack.enter_context(numpy.errstate(all="ignore"))
        if torch is not None and hasattr(torch, "no_grad"):
            stack.enter_context(torch.no_grad())
        alone = threading.active_count() == 1
        if alone:
            stack.enter_context(warnings.catch_warnings())
            warnings.simplefilter("ignore")
        if careful and alone:
            null = stack.enter_context(open(os.devnull, "w", encoding="utf-8"))
            stack.enter_context(contextlib.redirect_stdout(null))
            stack.enter_context(contextlib.redirect_stderr(null))
            stack.callback(random.setstate, random.getstate())
            if numpy is not None and hasattr(numpy, "random"):
                stack.callback(numpy.random.set_state, numpy.random.get_state())
            if torch is not None and hasattr(torch, "random"):
                stack.callback(torch.random.set_rng_state, torch.random.get_rng_state())
                if torch.cuda.is_initialized():
                    stack.callback(torch.cuda.set_rng_state_all, torch.cuda.get_rng_state_all())
            import logging
            stack.callback(logging.disable, logging.root.manager.disable)
            logging.disable(logging.CRITICAL)
        yield


__all__ = ["Audit", "CHANGES", "LOCAL", "in_the_way", "is_traced", "quiet"]
