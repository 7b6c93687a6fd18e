#!/usr/bin/env python3
"""A worker in Python, written from protocol.md: the op `twice`, y = 2 x, with x and y [rows, cols] f32."""

import json
import mmap
import os
import socket
import struct
import sys
import time

CONTROL, MEMORY = 3, 4


def twice(memory, x, y):
    """Strides are in bytes; the innermost axis is dense."""
    rows, cols = x["shape"]
    row = struct.Struct(f"<{cols}f")
    for r in range(rows):
        values = row.unpack_from(memory, x["offset"] + r * x["stride"][0])
        row.pack_into(memory, y["offset"] + r * y["stride"][0], *(2 * v for v in values))


class Unsupported(Exception):
    pass


class HostLimit(Exception):
    pass


class Worker:
    def __init__(self):
        self.memory = None

    def hello(self, request):
        if request["protocol"] != "assay-worker" or request["version"] != 2:
            sys.exit(f"cannot speak {request['protocol']} version {request['version']}")
        return {"type": "hello", "protocol": "assay-worker", "version": 2}

    def open(self, request):
        return {"type": "opened", "name": "example", "description": f"Python {sys.version.split()[0]}",
                "variants": []}

    def check(self, call):
        if call["op"] != "twice":
            raise Unsupported(f"op {call['op']}: only twice is here")

    def declare(self, request):
        self.check(request["call"])
        return {"type": "declared", "contract": "out=f32", "path": "struct.pack",
                "promises": "deterministic=yes"}

    def run(self, request):
        call = request["call"]
        self.check(call)
        if self.memory is None:  # of one length for the whole life of this process
            try:
                self.memory = mmap.mmap(MEMORY, request["memory_bytes"], mmap.MAP_SHARED)
            except OSError as error:
                raise HostLimit(f"{request['memory_bytes']} bytes of shared memory: {error}") from error
        begin = time.perf_counter_ns()
        twice(self.memory, call["inputs"][0], call["outputs"][0])
        end = time.perf_counter_ns()
        return {"type": "done", "kernels": ["struct.pack"], "notes": [], "wall_ns": end - begin}

    def ping(self, request):
        return {"type": "pong"}

    def answer(self, request):
        try:
            if request["type"] not in ("hello", "open", "declare", "run", "ping"):
                raise ValueError(f"unknown request type {request['type']!r}")
            return getattr(self, request["type"])(request)
        except Unsupported as reason:
            return {"type": "unsupported", "reason": str(reason)}
        except HostLimit as reason:
            return {"type": "host_limit", "reason": str(reason)}
        except Exception as error:  # whatever a kernel throws is this call's failure, not the worker's end
            return {"type": "failed", "reason": f"{type(error).__name__}: {error}"}


def main():
    os.set_inheritable(CONTROL, False)
    os.set_inheritable(MEMORY, False)
    control = socket.socket(fileno=CONTROL)
    worker = Worker()
    for line in control.makefile("r", encoding="utf-8"):
        request = json.loads(line)
        if request["type"] == "bye":
            break
        reply = {**worker.answer(request), "id": request["id"]}
        control.sendall((json.dumps(reply) + "\n").encode())


if __name__ == "__main__":
    main()
