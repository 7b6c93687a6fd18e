#!/usr/bin/env python3
"""The worker for subjects in Python: speaks harness/worker/protocol.md. The plug-in is a file that registers functions by
assay_subjects.subject. Options: a comma-separated list of FILE (in place of the plug-in) and device=cpu|cuda."""

import ctypes
import importlib.util
import json
import mmap
import os
import socket
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import assay_subjects  # noqa: E402

CONTROL, MEMORY = 3, 4


class Witness:
    """The library that ASSAY_WITNESS names: what it saw goes into the reply."""

    def __init__(self, path):
        self.collect_text, self.absence = None, ""
        if not path:
            return
        try:
            library = ctypes.CDLL(path)
            opened, collect = library.assay_witness_open, library.assay_witness_collect
        except (OSError, AttributeError) as error:
            self.absence = str(error)
            return
        opened.restype = collect.restype = ctypes.c_char_p
        reason = opened()
        if reason is None:
            self.collect_text = collect
        else:
            self.absence = reason.decode(errors="replace")

    def standing(self):
        return ", watched" if self.collect_text else f", not watched: {self.absence}" if self.absence else ""

    def collect(self):
        return json.loads(self.collect_text().decode(errors="replace")) if self.collect_text else None


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


def synchronize(device):
    """PyTorch's queue. A function that uses a device without PyTorch waits for it itself."""
    if device == "cuda" and "torch" in sys.modules:
        sys.modules["torch"].cuda.synchronize()


class HostLimit(Exception):
    """This machine cannot map the memory: nobody's fault."""


class Worker:
    def __init__(self):
        self.memory, self.device = None, "cpu"
        self.witness = Witness(os.environ.get("ASSAY_WITNESS", ""))  # watches from before PyTorch is loaded

    def hello(self, request):
        if request["protocol"] != "assay-worker" or request["version"] != 2:
            sys.exit(f"cannot speak {request['protocol']} version {request['version']}")
        return {"type": "hello", "protocol": "assay-worker", "version": 2}

    def open(self, request):
        file, wanted = request["plugin"], ""
        for option in filter(None, request["options"].split(",")):
            key, equals, value = option.partition("=")
            if not equals:
                file = option
            elif key == "device" and value in ("cpu", "cuda"):
                wanted = value
            else:
                return {"type": "refused", "reason": f"option {option}: FILE and device=cpu|cuda are known"}
        try:
            self.device = assay_subjects.DEVICE = pick_device(wanted)
            sys.path.insert(0, os.path.dirname(os.path.abspath(file)))
            spec = importlib.util.spec_from_file_location(assay_subjects.PLUGIN, file)
            module = importlib.util.module_from_spec(spec)
            spec.loader.exec_module(module)
        except Exception as error:  # a library that is missing is reported, not a fault
            return {"type": "refused", "reason": f"{file}: {type(error).__name__}: {error}"}
        if not assay_subjects.SUBJECTS:
            return {"type": "refused", "reason": f"{file} registers no subject"}
        description = getattr(module, "DESCRIPTION", os.path.basename(file))
        standing = self.witness.standing() if self.device == "cuda" else ""
        return {"type": "opened", "name": os.path.splitext(os.path.basename(file))[0],
                "description": f"{description}, Python {sys.version.split()[0]}, {self.device}{standing}",
                "variants": assay_subjects.variants()}

    def call(self, request, memory=None):
        call = assay_subjects.Call(request["call"], memory)
        subject = assay_subjects.select(call)
        call.device = subject.device or self.device
        return call, subject

    def declare(self, request):
        call, subject = self.call(request)
        return {"type": "declared", **subject.declaration(call)}

    def run(self, request):
        if self.memory is None or self.memory.closed:  # of one length for the whole life of this process
            try:
                self.memory = mmap.mmap(MEMORY, request["memory_bytes"], mmap.MAP_SHARED)
            except OSError as error:
                raise HostLimit(f"{request['memory_bytes']} bytes of shared memory: {error}") from error
        call, subject = self.call(request, self.memory)
        path = subject.declaration(call)["path"]
        arguments = subject.arguments(call)
        watched = call.device == "cuda" and self.witness.collect_text is not None
        synchronize(call.device)
        if watched:
            self.witness.collect()
        begin = time.perf_counter_ns()
        folder = os.getcwd()
        try:
            result = subject.function(call, **arguments)
            synchronize(call.device)
            end = time.perf_counter_ns()
        finally:
            os.chdir(folder)  # the next call is to find what this one found
        reply = {"type": "done", "notes": call.notes, "wall_ns": end - begin}
        if watched:
            reply["witness"] = self.witness.collect()
        elif call.device == "cuda" and self.witness.absence:
            call.note("witness_absent", self.witness.absence)
        reply["kernels"] = call.kernels or ([path] if path else [])
        call.store(result)
        return reply

    def ping(self, request):
        return {"type": "pong"}

    def answer(self, request):
        try:
            if request["type"] not in ("hello", "open", "declare", "run", "ping"):
                raise ValueError(f"unknown request type {request['type']!r}")
            return getattr(self, request["type"])(request)
        except assay_subjects.Unsupported as reason:
            return {"type": "unsupported", "reason": str(reason)}
        except HostLimit as reason:
            return {"type": "host_limit", "reason": str(reason)}
        except Exception as error:  # whatever a kernel throws is this call's failure, not the worker's end
            return {"type": "failed", "reason": described(error)}


def described(error):
    try:
        return f"{type(error).__name__}: {error}"
    except Exception:
        return f"{type(error).__name__}, whose text cannot be had"


def line_of(request, reply):
    """Surrogates that stand alone (of a file name that is no text) have no UTF-8: they become '?'."""
    try:
        text = json.dumps({**reply, "id": request["id"]}, ensure_ascii=False, allow_nan=False)
    except Exception as error:  # a note that is no text
        reason = f"its reply cannot be sent: {described(error)}"
        text = json.dumps({"type": "failed", "reason": reason, "id": request["id"]})
    return (text + "\n").encode("utf-8", "replace")


def main():
    os.set_inheritable(CONTROL, False)
    os.set_inheritable(MEMORY, False)
    control = socket.socket(fileno=CONTROL)
    worker = Worker()
    for line in control.makefile("r", encoding="utf-8"):
        request = json.loads(line)
        if request["type"] == "bye":
            break
        control.sendall(line_of(request, worker.answer(request)))
    sys.stdout.flush()
    os._exit(0)  # no destructors of libraries that may already be in disorder


if __name__ == "__main__":
    main()
