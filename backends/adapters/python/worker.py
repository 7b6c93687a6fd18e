#!/usr/bin/env python3
"""The worker for subjects in Python: speaks harness/worker/protocol.md. The plug-in is a file that registers
functions by assay_subjects.subject. Options: a comma-separated list of FILE (in place of the plug-in),
device=cpu|cuda, and guards=: what surrounds a tensor on a device: no memory (the default), canary (poisoned
memory: a fault becomes a place), off (as it comes)."""

import contextlib
import ctypes
import importlib.util
import json
import os
import socket
import sys
import time
import traceback

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import assay_subjects  # noqa: E402
import cuda_graph  # noqa: E402
import evidence  # noqa: E402
import guarded_memory  # noqa: E402
from cuda_driver import Driver, DriverError  # noqa: E402
from host_memory import MEMORY, HostLimit, HostMemory  # noqa: E402

CONTROL = 3
OWN = os.getpid()
LINE = 8 << 20  # bytes of a reply
MANY = 8192  # launches of one run
OUT_OF_MEMORY = 2  # CUDA_ERROR_OUT_OF_MEMORY
OPTIONS = {"device": ("cpu", "cuda"), "guards": ("on", "canary", "off")}


def pick_device(wanted):
    """cuda where PyTorch has it, unless told otherwise. Without PyTorch: cpu."""
    if wanted == "cpu":
        return "cpu"
    try:
        import torch
        available = torch.cuda.is_available()
    except ImportError:
        available = False
    if wanted == "cuda" and not available:
        raise RuntimeError("device=cuda: PyTorch sees no CUDA device here")
    return "cuda" if available else "cpu"


def timed(compute):
    begin = time.perf_counter_ns()
    result = compute()
    return result, time.perf_counter_ns() - begin


def fault(error, guarded):
    """What a fault of the device says, and what would say more."""
    if error.code == 716:
        return f"{error.text} on the device: a function that demands more than an element's alignment declares alignment=16"
    if error.code == 700 and guarded is not None and not guarded.canary:
        return (f"{error.text} on the device: it reads or writes where no tensor is (past an end, in front, between rows "
                "far apart); with the option guards=canary, as in -b python:mine.py,guards=canary, what it writes is named")
    return f"{error.text} on the device"


def end_what_was_forked():
    """Where a subject forked, two processes come back out of it, on one memory and one channel: one stores
    and answers."""
    if os.getpid() != OWN:
        os._exit(0)


class Worker:
    def __init__(self):
        self.memory, self.device = HostMemory(), "cpu"
        self.guarded = self.driver = None
        # watches from before PyTorch is loaded
        self.witness = evidence.Witness(os.environ.get("ASSAY_WITNESS", ""))

    def hello(self, request):
        if request["protocol"] != "assay-worker" or request["version"] != 2:
            sys.exit(f"cannot speak {request['protocol']} version {request['version']}")
        return {"type": "hello", "protocol": "assay-worker", "version": 2, "guards": self.memory.guards}

    def open(self, request):
        file, chosen = request["plugin"], {"device": "", "guards": "on"}
        for option in filter(None, request["options"].split(",")):
            key, equals, value = option.partition("=")
            if not equals:
                file = option
            elif value in OPTIONS.get(key, ()):
                chosen[key] = value
            else:
                known = ", ".join(f"{k}={'|'.join(v)}" for k, v in OPTIONS.items())
                return {"type": "refused", "mistake": True,
                        "reason": f"option {option}; allowed: FILE, {known}"}
        try:
            self.device = assay_subjects.DEVICE = pick_device(chosen["device"])
            if self.device == "cpu" and chosen["guards"] != "on":
                raise assay_subjects.Mistake(f"guards={chosen['guards']} is of a device, and this run is on the CPU, where guards stay")
            guards = self.guard(chosen["guards"]) if self.device == "cuda" else ""
            sys.path.insert(0, os.path.dirname(os.path.abspath(file)))
            spec = importlib.util.spec_from_file_location(assay_subjects.PLUGIN, file)
            module = importlib.util.module_from_spec(spec)
            spec.loader.exec_module(module)
        except BaseException as error:  # a library that is missing, or sys.exit() in a script: reported, not a fault
            wrong = isinstance(error, (SyntaxError, NameError, assay_subjects.Mistake))
            return {"type": "refused", "mistake": wrong, "reason": f"{file}: {described(error)}"}
        if not assay_subjects.SUBJECTS:
            return {"type": "refused", "mistake": True,
                    "reason": f"{file} registers no subject; allowed: a file with a function under @subject"}
        description = getattr(module, "DESCRIPTION", os.path.basename(file))
        standing = guards + self.witness.standing() if self.device == "cuda" else ", watched by Python's profiler"
        return {"type": "opened", "name": os.path.splitext(os.path.basename(file))[0],
                "description": f"{description}, Python {sys.version.split()[0]}, {self.device}{standing}",
                "variants": assay_subjects.variants(self.device),
                "ops": sorted({s.op for s in assay_subjects.SUBJECTS})}

    def guard(self, guards):
        """Before anything is allocated: device memory is ours from here on. What the description says of
        it."""
        self.driver = Driver()
        if guards == "off":
            return ", guards off"
        self.guarded = guarded_memory.GuardedMemory(self.driver, canary=guards == "canary")
        import torch_memory
        kept = torch_memory.take_over(self.guarded)
        return f", guards around inputs and outputs alone ({kept})" if kept else ", guarded memory"

    def call(self, request, memory=None):
        call = assay_subjects.Call(request["call"], memory)
        subject = assay_subjects.select(call)
        call.device = subject.device or self.device
        return call, subject

    def declare(self, request):
        call, subject = self.call(request)
        alignment = subject.alignment(call)  # on a device it is guarded_memory's to keep
        more = {"alignment": alignment} if call.device == "cpu" and alignment != 1 else {}
        return {"type": "declared", **subject.declaration(call), **more}

    def run(self, request):
        call, subject = self.call(request)
        size, slots = request["memory_bytes"], request["slots"]
        if call.device != "cuda":
            call.memory = self.memory.guarded(size, slots)
            return self.on_the_host(call, subject)
        call.memory = self.memory.whole(size)
        base = ctypes.addressof(ctypes.c_char.from_buffer(call.memory))
        try:
            if self.guarded is not None:
                call.guarded = self.guarded
                self.guarded.place(call, slots, request.get("stack", -1), base, subject.alignment(call))
            return self.on_the_device(call, subject, base)
        except DriverError as error:
            if error.code == OUT_OF_MEMORY:
                raise HostLimit(f"on the device: {error}") from error
            if error.lost:
                raise guarded_memory.Violation("crash", fault(error, self.guarded)) from error
            raise
        finally:
            if self.guarded is not None:
                self.guarded.settle()

    def on_the_host(self, call, subject):
        path, arguments = subject.declaration(call)["path"], subject.arguments(call)
        assay_subjects.let_torch_compute()
        entered = evidence.Entered() if path else contextlib.nullcontext()
        result, wall_ns = timed(lambda: self.called(subject, call, arguments, entered))
        call.store(result)
        reply = {"type": "done", "notes": call.notes, "wall_ns": wall_ns, "kernels": call.kernels}
        return {**reply, "witness": entered.witness(path, call.kernels)} if path else reply

    def on_the_device(self, call, subject, base):
        subject.declaration(call)
        arguments, result = subject.arguments(call), None
        compute = lambda: self.called(subject, call, arguments, contextlib.nullcontext())
        if call.graph:
            result, compute = self.waited(lambda: cuda_graph.capture(subject.function, call, arguments, base))
        computed, wall_ns, seen = self.watched(compute)
        if seen is not None and seen.get("error") and self.guarded is not None:
            # More launches than a witness keeps: what was tuned in the first run is so in the second.
            call.kernels.clear()
            call.notes.clear()
            self.guarded.restore(base)
            computed, wall_ns, seen = self.watched(compute)
        reply = {"type": "done", "notes": call.notes, "wall_ns": wall_ns, "kernels": call.kernels}
        if seen is not None:
            reply["witness"] = seen
        elif self.witness.absence:
            call.note("witness_absent", self.witness.absence)
        self.waited(lambda: call.store(computed if computed is not None else result))
        if self.guarded is not None:
            self.guarded.collect(base)
        return reply

    def watched(self, compute):
        """(what it gives, its time, what the witness saw)."""
        self.synchronize()
        self.witness.collect()
        if self.guarded is not None:
            self.guarded.forget()
        computed, wall_ns = timed(lambda: self.waited(compute))
        seen = self.witness.collect()
        if seen is not None and self.guarded is not None:
            self.guarded.correct(seen)
        return computed, wall_ns, seen

    def waited(self, compute):
        """What `compute` gives, when the device is idle. A fault of the device is DriverError, whoever
        noticed it first."""
        try:
            result = compute()
        except Exception:
            self.synchronize()
            raise
        self.synchronize()
        if self.guarded is not None and self.guarded.exhausted:
            raise HostLimit("the device has no memory left for what the function asks for")
        return result

    def synchronize(self):
        if self.driver is not None:
            self.driver.synchronize()

    @staticmethod
    def called(subject, call, arguments, entered):
        folder = os.getcwd()
        try:
            with entered:
                return subject.function(call, **arguments)
        finally:
            end_what_was_forked()
            os.chdir(folder)  # the next call is to find what this one found

    def ping(self, request):
        return {"type": "pong"}

    def answer(self, request):
        try:
            if request["type"] not in ("hello", "open", "declare", "run", "ping"):
                raise ValueError(f"unknown request type {request['type']!r}")
            return getattr(self, request["type"])(request)
        except assay_subjects.Unsupported as reason:
            return {"type": "unsupported", "reason": str(reason)}
        except guarded_memory.Violation as found:
            return {"type": "failed", "finding": found.finding, "reason": str(found)}
        except HostLimit as reason:
            return {"type": "host_limit", "reason": str(reason)}
        except BaseException as error:  # whatever a kernel throws, sys.exit() too, is this call's failure, not the worker's end
            return {"type": "failed", "reason": described(error)}


def place_of(error):
    """" (mine.py:12 in my_softmax)": the last line of somebody else's that the error went through."""
    own = {os.path.abspath(__file__), os.path.abspath(assay_subjects.__file__)}
    for frame in reversed(traceback.extract_tb(error.__traceback__)):
        if os.path.abspath(frame.filename) not in own:
            return f" ({os.path.basename(frame.filename)}:{frame.lineno} in {frame.name})"
    return ""


def described(error):
    try:
        return f"{type(error).__name__}: {error}{place_of(error)}"
    except Exception:
        return f"{type(error).__name__}, whose text cannot be had"


def bounded(reply):
    """Of very many launches the first of each name: a reply may not be longer than LINE."""
    if len(reply.get("kernels", ())) > MANY:
        kept = list(dict.fromkeys(reply["kernels"]))[:MANY]
        reply["notes"].append(["kernels_left_out", str(len(reply["kernels"]) - len(kept))])
        reply["kernels"] = kept
    seen = reply.get("witness", {})
    if len(seen.get("kernels", ())) > MANY:
        kept = list({kernel["name"]: kernel for kernel in reversed(seen["kernels"])}.values())[::-1][:MANY]
        reply["notes"].append(["seen_left_out", str(len(seen["kernels"]) - len(kept))])
        reply["witness"] = {**seen, "kernels": kept}
    return reply


def line_of(request, reply):
    """Surrogates that stand alone (of a file name that is no text) have no UTF-8: they become '?'."""
    try:
        reply = bounded(reply)
        text = json.dumps({**reply, "id": request["id"]}, ensure_ascii=False, allow_nan=False)
    except Exception as error:  # a note that is no text
        reason = f"its reply cannot be sent: {described(error)}"
        text = json.dumps({"type": "failed", "reason": reason, "id": request["id"]})
    if len(text) > LINE // 2:
        reason = f"its reply cannot be sent: it is {len(text)} characters long"
        text = json.dumps({"type": "failed", "reason": reason, "id": request["id"]})
    return (text + "\n").encode("utf-8", "replace")


def take_plain_name():
    """Nothing of the name, the arguments and the environment says that this is a test. They are overwritten
    where /proc shows them."""
    name = os.environ.get("ASSAY_WORKER_NAME") or "engine"
    own = [key for key in os.environ if key.startswith("ASSAY_")]
    with open("/proc/self/stat") as file:
        fields = file.read().rpartition(")")[2].split()
    # arg_start to env_end: 48 to 51 of proc(5); qemu-user's /proc ends before them
    places = [int(field) for field in fields[45:49]]
    if len(places) == 4:
        first, last, first_variable, last_variable = places
        ctypes.memset(first, 0, last - first)
        ctypes.memmove(first, name.encode(), min(len(name.encode()), last - first))
        at = first_variable
        for entry in ctypes.string_at(first_variable, last_variable - first_variable).split(b"\0"):
            if entry.startswith(b"ASSAY_"):
                ctypes.memset(at, 0, len(entry))
            at += len(entry) + 1
    for key in own:
        del os.environ[key]
    ctypes.CDLL(None).prctl(15, name.encode())  # PR_SET_NAME
    sys.argv[:] = [name]


def main():
    os.set_inheritable(CONTROL, False)
    os.set_inheritable(MEMORY, False)
    control = socket.socket(fileno=CONTROL)
    worker = Worker()
    take_plain_name()
    for line in control.makefile("r", encoding="utf-8"):
        request = json.loads(line)
        worker.memory.request(request["id"])
        if request["type"] == "bye":
            break
        reply = line_of(request, worker.answer(request))
        end_what_was_forked()
        control.sendall(reply)
    sys.stdout.flush()
    os._exit(0)  # no destructors of libraries that may already be in disorder


if __name__ == "__main__":
    main()
