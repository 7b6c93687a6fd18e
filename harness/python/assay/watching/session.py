"""assay.watch: a model's steps, some of them watched, and what is said of them at the end."""
import collections
import contextlib
import os
import sys
import threading
import time
import traceback

from assay.watching import report
from assay.watching.judge import Judge
from assay.watching.steps import Steps
from assay.watching.tape import LOCAL, Hooks, Tape, is_float, mode_class, storage_of, tensors_in

JUMP = 8.0  # times the largest |x| of the model's results so far: a reason to watch the next step, and no verdict
SETTLED = 4  # steps behind which a jump is one


class Watch:
    """In a with statement, or start() and finish(). See watch()."""

    def __init__(self, model, folder, share, every, contracts, keep, memory, against):
        self.model, self.folder, self.memory, self.before = model, folder, memory, against
        self.steps, self.judge = Steps(share, every), Judge(folder, contracts, keep)
        self.left, self.unseen, self.errors = collections.Counter(), collections.Counter(), collections.Counter()
        self.calls, self.bytes, self.pauses, self.models = [], 0, 0.0, collections.Counter()
        self.judging, self.result, self.report = 0.0, None, None
        self._hooks, self._lock, self._known = None, threading.Lock(), {}
        self._most, self._well = 0.0, True

    def __enter__(self):
        return self.start()

    def __exit__(self, *_):
        self.finish()

    def __str__(self):
        return "\n".join(report.lines(self.report)) if self.report else "assay.watch: not finished"

    def start(self):
        self._hooks = Hooks(self._outermost, self.model)
        self._hooks.install()
        return self

    def finish(self):
        """Takes everything off the model, and judges what is left. Returns the report."""
        if self._hooks is not None:
            self._hooks.uninstall()
            self._hooks = None
            self._judge()
        self.report = report.of(self)
        if self.folder is not None:
            report.write(self.folder, self.report)
        return self.report

    @contextlib.contextmanager
    def guarded(self, what):
        """Nothing that goes wrong in here reaches the model: it is counted."""
        before, LOCAL.busy = LOCAL.busy, True
        try:
            yield
        except Exception as why:  # noqa: BLE001
            last = traceback.extract_tb(why.__traceback__)[-1]
            self.errors[f"{what}: {type(why).__name__}: {why} ({os.path.basename(last.filename)}:{last.lineno})"] += 1
        finally:
            LOCAL.busy = before

    # A call of a module that is within no other one.

    def _outermost(self, module, call, arguments, keywords):
        if not self._lock.acquire(blocking=False):  # a step of another thread is in progress
            self.left["a step beside another thread's"] += 1
            return call()
        return self._step(module, call, arguments, keywords)

    def _step(self, module, call, arguments, keywords):
        tape = None
        try:
            with self.guarded("a step begins"):
                self.models[type(module).__name__] += 1
                if self.steps.begin(self._size(arguments, keywords)):
                    tape = self._tape(module)
            begun = time.perf_counter()
            if tape is None:
                result = call()
            else:
                result = self._watched(module, call, arguments, keywords, tape)
            with self.guarded("a step ends"):
                self.steps.end(time.perf_counter() - begun)
                self._look(result)
                if tape is not None:
                    self.calls += tape.calls
                    self.bytes += tape.bytes
                    if self.bytes > self.memory:
                        paused = time.perf_counter()
                        self._judge()
                        self.pauses += time.perf_counter() - paused
            return result
        finally:
            self._lock.release()

    def _watched(self, module, call, arguments, keywords, tape):
        mode = mode_class()()
        before, LOCAL.tape = LOCAL.tape, tape
        try:
            with mode:
                return tape.module(module, call, arguments, keywords)
        finally:
            LOCAL.tape = before

    def _size(self, arguments, keywords):
        return next((x.numel() for x in tensors_in((arguments, keywords))), 1)

    def _tape(self, model):
        places = self._known.get(id(model))
        if places is None or places[0] is not model:
            names = {id(m): name or type(model).__name__ for name, m in model.named_modules()}
            places = self._known[id(model)] = model, names
            self._hooks.functions_of(model)
        weights = {storage_of(x) for x in (*model.parameters(), *model.buffers())}
        return Tape(self, self.steps.count - 1, places[1], weights)

    def _look(self, result):
        """Calls for the next step where the model's result has its first NaN or Inf, or jumps."""
        found = next((x for x in tensors_in(result) if is_float(x) and x.numel()), None)
        if found is None:
            return
        import torch
        low, high = (float(x) for x in torch.aminmax(found.detach()))
        most = max(abs(low), abs(high))
        well = most < float("inf")
        if self._well and not well:
            self.steps.call("NaN or Inf in the result of the step before")
        elif well and self.steps.count > SETTLED and self._most > 0 and most > JUMP * self._most:
            self.steps.call("a jump of the result of the step before")
        self._well = well
        if well:
            self._most = max(self._most, most)

    def _judge(self):
        begun, calls = time.perf_counter(), self.calls
        self.calls, self.bytes = [], 0
        calls.reverse()
        with self.guarded("judging"):
            while calls:
                self.judge.judge(calls.pop())  # which frees what it holds
        self.judging += time.perf_counter() - begun


def watch(model=None, folder=None, *, share=0.05, every=None, contracts=None, keep=False, memory=1 << 30,
          against=None):
    """In a with statement: steps of `model` (calls of it; None: of every module that is called within no
    other) are watched, and
    each operator of a watched step is judged by its proven limit. `share`: watching takes at most this part
    of the steps' own time,
    so that every n-th step is watched; `every` gives n. What is copied is judged at the end, or when it has
    `memory` bytes.
    `folder`: for the report, and a case file of each finding (`keep`: of every call that is judged).
    `contracts`: op -> the
    arithmetic that its kernels keep, where it is not that of PyTorch's on a CPU. `against`: the report (a
    file, or its folder) of
    another run, and where the two part is said. Behind it .report is what was found, and str() says it."""
    if not 0 < share <= 1:
        raise ValueError(f"share={share}: allowed are numbers above 0, to 1")
    if every is not None and every < 1:
        raise ValueError(f"every={every}: allowed are whole numbers from 1 on")
    if model is not None and not isinstance(model, sys.modules["torch"].nn.Module if "torch" in sys.modules
                                            else ()):
        raise ValueError(f"model is a torch.nn.Module or None, not {type(model).__name__}")
    return Watch(model, None if folder is None else os.fspath(folder), share, every, contracts, keep, memory,
                 None if against is None else report.read(os.fspath(against)))
