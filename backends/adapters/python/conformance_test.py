#!/usr/bin/env python3
"""worker.py spoken to as the assay program does, with subjects that need python3 alone: each message of
protocol.md, the witness, and the refusals. Then that PyTorch's subjects load, where PyTorch is: skipped (77)
with the reason where not.

    conformance_test.py protocol FAKE_WITNESS|none | pytorch | memory
"""

import json
import os
import platform
import socket
import struct
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
SUBJECTS = '''
from assay_subjects import subject, need
@subject(op="twice", variant="good", contract="out=f32", path="twice", device="cpu")
def twice(call):
    call.note("rows", call.integer("rows"))
    return [2 * x for x in call.floats("x")]
@subject(op="twice", variant="dead", contract="out=f32", path="no_such_kernel", device="cpu")
def dead(call):
    return [2 * x for x in call.floats("x")]
@subject(op="twice", variant="throws", contract=lambda call: "out=f32", device="cpu")
def throws(call):
    raise ValueError("no memory for the tile")
@subject(op="twice", variant="too_many", contract="out=f32", device="cpu")
def too_many(call):
    return [2 * x for x in call.floats("x")] + [1.0] * 100
@subject(op="twice", variant="too_few", contract="out=f32", device="cpu")
def too_few(call):
    return [1.0]
@subject(op="twice", variant="other_output", contract="out=f32", device="cpu")
def other_output(call):
    return {"z": [1.0]}
@subject(op="twice", variant="two_outputs", contract="out=f32", device="cpu")
def two_outputs(call):
    return call.floats("x"), call.floats("x")
@subject(op="twice", variant="rows", contract="out=f32", device="cpu")
def rows(call):
    return [[1.0] * 3] * 2
@subject(op="twice", variant="choosy", contract="out=f32", device="cpu", takes="d=32,64")
def choosy(call):
    return call.floats("x")
@subject(op="twice", variant="says_so", contract="out=f32", path="fast", device="cpu")
def says_so(call):
    call.kernels.append("fast")
    return [2 * x for x in call.floats("x")]
@subject(op="twice", variant="compiled", contract="out=f32", path="sqrt", device="cpu")
def compiled(call):
    import math
    return [2 * math.sqrt(x * x) for x in call.floats("x")]
@subject(op="twice", variant="exits", contract="out=f32", device="cpu")
def exits(call):
    raise SystemExit(3)
subject(op="twice", variant="generates", contract="out=f32", device="cpu")(lambda call: (x for x in ()))
subject(op="twice", variant="misnames", contract="out=f32", device="cpu")(lambda call, X: X)
subject(op="twice", variant="aligned", contract="out=f32", alignment=lambda call: 64, device="cpu")(twice)
subject(op="twice", variant="odd", contract="out=f32", alignment=48, device="cpu")(twice)
@subject(op="twice", variant="refuses", contract=lambda call: need(False, "d=96"), device="cpu")
def refuses(call):
    pass
@subject(op="twice", variant="device", contract="out=f32", path="twice_kernel", device="cuda")
def on_device(call):
    return [2 * x for x in call.floats("x")]
'''
# Whether PyTorch has learnt what the processor can do: the table of its library cpuinfo, all zero before.
LEARNT = '''
import ctypes, os, torch
def learnt():
    library = ctypes.CDLL(os.path.join(os.path.dirname(torch.__file__), "lib", "libtorch_cpu.so"))
    return any(bytes((ctypes.c_ubyte * 8).in_dll(library, "cpuinfo_isa")))
'''
LEARNT_SUBJECT = LEARNT + '''
from assay_subjects import subject
@subject(op="twice", contract="out=f32", device="cpu")
def twice(call, x):
    call.note("learnt", learnt())
    return x + x
'''
X, Y, BYTES, ROWS, COLS, STRIDE = 4096, 8192, 16384, 2, 3, 20


class Client:
    """One worker with an open control socket and a memory file of BYTES."""

    def __init__(self, environment=None):
        self.memory = os.memfd_create("memory")
        os.truncate(self.memory, BYTES)
        ours, theirs = socket.socketpair()
        program = ("import os, sys; os.dup2(int(sys.argv[1]), 3); os.dup2(int(sys.argv[2]), 4);"
                   "os.execv(sys.executable, [sys.executable, sys.argv[3]])")
        self.process = subprocess.Popen(
            [sys.executable, "-c", program, str(theirs.fileno()), str(self.memory),
             os.path.join(HERE, "worker.py")],
            pass_fds=(theirs.fileno(), self.memory),
            env={**os.environ, "ASSAY_WITNESS": "", **(environment or {})})
        theirs.close()
        self.control = ours
        self.lines = ours.makefile("r", encoding="utf-8")
        self.id = 100

    def ask(self, **request):
        self.id += 1
        self.control.sendall((json.dumps({**request, "id": self.id}) + "\n").encode())
        reply = json.loads(self.lines.readline())
        same(reply.pop("id"), self.id)
        return reply

    def bye(self):
        self.control.sendall(b'{"type":"bye","id":1}\n')
        return self.process.wait(timeout=30)


def same(got, want):
    if got != want:
        raise SystemExit(f"got  {got}\nwant {want}")


def names(witness):
    return [kernel["name"] for kernel in witness["kernels"]]


def call(variant, offsets=True, stride=None):
    def tensor(name, offset):
        t = {"name": name, "format": "f32", "shape": [ROWS, COLS], "stride": [stride or STRIDE, 4]}
        return {**t, "offset": offset} if offsets else t
    return {"op": "twice", "variant": variant, "attributes": [["rows", str(ROWS)]],
            "inputs": [tensor("x", X)],
            "outputs": [tensor("y", Y)]}


def protocol(fake_witness):
    with tempfile.NamedTemporaryFile("w", suffix=".py") as plugin:
        plugin.write(SUBJECTS)
        plugin.flush()
        opened = open_worker(plugin.name, {})
        poison = b"\xa5" * BYTES
        os.pwrite(opened.memory, poison, 0)
        for r in range(ROWS):
            os.pwrite(opened.memory, struct.pack("<3f", *(10 * r + c for c in range(COLS))), X + r * STRIDE)
        before = os.pread(opened.memory, BYTES, 0)
        run = {"type": "run", "memory_bytes": BYTES, "slots": [[4096, 4096, "w"], [8192, 4096, "w"]]}

        declared = opened.ask(type="declare", call=call("", offsets=False))
        same(declared, {"type": "declared", "contract": "out=f32", "path": "twice",
                        "promises": "deterministic=yes"})
        for stride in (4 * COLS, 4 * COLS + 64):
            same(opened.ask(type="declare", call=call("aligned", False, stride))["alignment"], 64)
        same(opened.ask(type="declare", call=call("aligned", False, 4 * COLS + 4)),
             {"type": "unsupported", "reason": "x: rows 16 bytes apart, and an alignment of 64 is demanded"})
        same(opened.ask(type="declare", call=call("odd", False)),
             {"type": "failed", "reason": "ValueError: alignment=48: a power of two is allowed"})
        same(opened.ask(type="declare", call=call("refuses", False)),
             {"type": "unsupported", "reason": "d=96"})
        same(opened.ask(type="declare", call={**call("", False), "op": "thrice"}),
             {"type": "unsupported", "reason": "no subject of op thrice; here: twice"})
        done = opened.ask(**run, call=call("good"))
        wall = done.pop("wall_ns")
        witness = done.pop("witness")
        same(done, {"type": "done", "kernels": [], "notes": [["rows", str(ROWS)]]})
        same("twice" in witness["unwatched"], True)  # a function of Python was entered: its author's word
        same("twice" in names(witness), False)
        same(wall >= 0, True)
        after = os.pread(opened.memory, BYTES, 0)
        for r in range(ROWS):
            at = Y + r * STRIDE
            same(struct.unpack("<3f", after[at:at + 12]), tuple(2.0 * (10 * r + c) for c in range(COLS)))
            before = before[:at] + after[at:at + 12] + before[at + 12:]
        same(after == before, True)  # nothing but the elements of y was touched
        dead = opened.ask(**run, call=call("dead"))  # what was declared is no evidence
        same(("no_such_kernel" in dead["witness"]["unwatched"], "dead" in dead["witness"]["unwatched"]),
             (False, True))
        said = opened.ask(**run, call=call("says_so"))
        same((said["kernels"], "fast" in names(said["witness"]), "fast" in said["witness"]["unwatched"]),
             (["fast"], False, True))
        # a compiled routine was seen
        same("sqrt" in names(opened.ask(**run, call=call("compiled"))["witness"]), True)
        def at(function):  # the line that raises, in the file of the function's own
            lines = open(plugin.name).read().splitlines()
            begin = next(i for i, line in enumerate(lines) if line.startswith(f"def {function}("))
            line = next(i for i in range(begin, len(lines)) if "raise" in lines[i]) + 1
            return f" ({os.path.basename(plugin.name)}:{line} in {function})"
        for variant, reason in (("exits", "SystemExit: 3" + at("exits")),
                                ("misnames", "TypeError: <lambda>(X): twice has x, y"),
                                ("generates",
                                 "TypeError: y: a flat list of numbers, a numpy array or a PyTorch "
                                 "tensor is returned, not generator")):
            same(opened.ask(**run, call=call(variant)), {"type": "failed", "reason": reason})
        for variant, reason in (("too_many", "y has 6 elements, and 106 were returned"),
                                ("too_few", "y has 6 elements, and 1 were returned"),
                                ("other_output", "z is no output of twice: y")):
            same(opened.ask(**run, call=call(variant)), {"type": "failed", "reason": f"ValueError: {reason}"})
        for variant, reason in (("two_outputs", "twice has 1 output, y, and 2 values were returned for y"),
                                ("rows", "y: a flat list of 6 numbers is returned, not a list of 2 lists")):
            same(opened.ask(**run, call=call(variant)), {"type": "failed", "reason": f"TypeError: {reason}"})
        same(opened.ask(type="declare", call={**call("choosy", False), "attributes": [["d", "96"]]}),
             {"type": "unsupported", "reason": "d=96: choosy takes d=32,64"})
        same(opened.ask(type="declare", call={**call("choosy", False), "attributes": [["d", "64"]]})["type"],
             "declared")
        same(opened.ask(**run, call=call("throws")),
             {"type": "failed", "reason": "ValueError: no memory for the tile" + at("throws")})
        same(opened.ask(type="dance")["type"], "failed")
        same(opened.ask(type="ping"), {"type": "pong"})
        same(opened.bye(), 0)

        vast = open_worker(plugin.name, {})
        os.truncate(vast.memory, 1 << 50)  # more than any process can map
        same(vast.ask(**{**run, "memory_bytes": 1 << 50}, call=call("good"))["type"], "host_limit")
        same(vast.bye(), 0)

        unwatched = open_worker(plugin.name, {})
        same(unwatched.ask(**run, call=call("device"))["kernels"], [])  # nobody saw it
        unwatched.bye()
        for variant, seen in (("device", ["twice_kernel<float>"]), ("throws", None)):
            if fake_witness == "none":
                continue
            watched = open_worker(plugin.name,
                                  {"ASSAY_WITNESS": fake_witness, "FAKE_WITNESS": "twice_kernel<float>"})
            done = watched.ask(**run, call=call(variant))
            same(names(done["witness"]) if "witness" in done else None, seen)
            watched.bye()
        # a decorator that was copied with its variant
        with tempfile.NamedTemporaryFile("w", suffix=".py") as copied:
            copied.write(SUBJECTS + SUBJECTS[SUBJECTS.index("@"):].replace("def twice(", "def twice_again("))
            copied.flush()
            client = Client()
            client.ask(type="hello", protocol="assay-worker", version=2)
            refused = client.ask(type="open", plugin=copied.name, options="")
            same((refused["type"], "registered twice, as twice and twice_again" in refused["reason"]),
                 ("refused", True))
            client.bye()
        for options, reason in (("colour=red",) * 2, ("guards=none",) * 2,
                                ("device=cpu,guards=off", "guards stay"), ("device=cuda",) * 2,
                                ("/no/such.py",) * 2):
            client = Client()
            client.ask(type="hello", protocol="assay-worker", version=2)
            refused = client.ask(type="open", plugin=plugin.name, options=options)
            if options == "device=cuda" and refused["type"] == "opened":  # this machine has one
                continue
            same((refused["type"], reason in refused["reason"]), ("refused", True))
            client.bye()


def formats():
    """Numbers of plain Python become f16 and bf16 as exact arithmetic rounds them."""
    sys.path.insert(0, HERE)
    import assay_subjects
    import bisect
    import math
    from fractions import Fraction

    def nearest(value, values, overflow):  # of numbers in their order, the codes that stand at their places
        exact = Fraction(abs(value))
        above = bisect.bisect_left(values, abs(value))  # the nearest is this or the one below
        far = [(abs(exact - Fraction(values[code])), code % 2, code)
               for code in (above - 1, above) if 0 <= code < len(values)]
        return len(values) if exact >= overflow else min(far)[2]

    for name, digits, least in (("bf16", 7, -133), ("f16", 10, -24)):
        read, write = assay_subjects.FLOATS[name]
        values = read(struct.pack("<2000H", *range(2000)))  # subnormals, and normal ones beyond them
        drawn = [math.ldexp(n, least - 3) for n in range(0, 4000, 7)]
        drawn += [v * (1 + s * 2.0 ** -50) for v in drawn for s in (-1, 1)]
        for v in drawn:
            if v < values[-1]:
                same(struct.unpack("<H", write([-v]))[0], 0x8000 | nearest(v, values, Fraction(values[-1])))
        largest = 2.0 ** (128 if name == "bf16" else 16)
        edge = largest * (1 - 2.0 ** (-digits - 2))
        same((read(write([edge]))[0], read(write([-1e300]))[0]), (math.inf, -math.inf))
        same(read(write([math.nextafter(edge, 0)]))[0], largest * (1 - 2.0 ** (-digits - 1)))
        same(math.isnan(read(write([math.nan]))[0]), True)


def memory():
    """What guarded device memory is computed from: no device is needed."""
    sys.path.insert(0, HERE)
    import ctypes
    import assay_subjects
    import cuda_graph
    import guarded_memory
    import regions

    granule = 2 << 20
    same(regions.in_granules([(granule - 1, 2)], granule), ((0, 2 * granule),))
    same(regions.in_granules([(0, 4096), (8192, 4096), (3 * granule, 1)], granule),
         ((0, granule), (3 * granule, granule)))

    def tensor(name, offset, shape=(2, 3), stride=(12, 4)):
        return assay_subjects.Tensor({"name": name, "format": "f32", "shape": shape, "stride": stride,
                                      "offset": offset})

    guarded_memory.PAGE = 4096  # of these slots, on every machine
    right = [tensor("x", 8192 - 24), tensor("empty", 16384, (0, 3)), tensor("y", 40960 - 24)]
    far = tensor("z", 65536, stride=(1 << 20, 4))
    slots = [[4096, 4096, "r"], [12288, 4096, "r"], [36864, 4096, "w"], [65536, 8192, "w"],
             [65536 + (1 << 20) - 8192, 12288, "w"]]
    owned = guarded_memory.slots_of([*right, far], slots)
    same({name: len(parts) for name, parts in owned.items()}, {"x": 1, "empty": 1, "y": 1, "z": 2})
    same(guarded_memory.on_the_left([right[0], right[2]], owned), False)
    left = [tensor("x", 4096), tensor("y", 36864)]
    same(guarded_memory.on_the_left(left, guarded_memory.slots_of(left, [slots[0], slots[2]])), True)
    whole = [tensor("x", 4096, (4, 256), (1024, 4))]  # a page: both of its ends are the slot's
    same(guarded_memory.on_the_left(whole, guarded_memory.slots_of(whole, [slots[0]])), False)

    poison = (ctypes.c_ubyte * 100)(*[0x5A] * 100)
    same(guarded_memory.first_other(poison, 0x5A), -1)
    poison[99] = 0
    same(guarded_memory.first_other(poison, 0x5A), 99)
    same(guarded_memory.first_other((ctypes.c_ubyte * 0)(), 0x5A), -1)

    from storage_test import storages
    storages(assay_subjects)

    # What a framework frees is heard of later, by whoever asks for memory next.
    import host_memory
    import torch_memory
    allocator = guarded_memory.GuardedMemory(None)
    heard = []
    allocator.release = heard.append
    free = torch_memory._release_for(allocator)
    if os.path.exists(host_memory.LIBRARY):
        free(ctypes.c_void_p(4096), ctypes.c_ssize_t(1), 0, None)
        free(ctypes.c_void_p(8192), ctypes.c_ssize_t(1), 0, None)
        same(heard, [])
        allocator._hear()
        same(sorted(heard), [4096, 8192])
        allocator._hear()
        same(len(heard), 2)

    # The decoy of a graph's capture: other rows, of one row other elements; and the same indices.
    rows = bytes(range(24))
    same(cuda_graph.decoy(tensor("x", 0), rows), [(0, rows[12:]), (12, rows[:12])])
    same(cuda_graph.decoy(tensor("x", 0, (3,), (4,)), rows), [(0, rows[8:12] + rows[4:8] + rows[:4])])
    same([cuda_graph.of_variant(name) for name in ("graph", "flash.graph", "flash")],
         [("", True), ("flash", True), ("flash", False)])


def open_worker(plugin, environment):
    client = Client(environment)
    same(client.ask(type="hello", protocol="assay-worker", version=2)["type"], "hello")
    opened = client.ask(type="open", plugin=plugin, options="")
    same(opened["type"], "opened")
    same(opened["variants"], [f"twice:{variant}" for variant in (
        "good", "dead", "throws", "too_many", "too_few", "other_output", "two_outputs", "rows",
        "choosy", "says_so", "compiled",
        "exits", "generates", "misnames", "aligned", "odd", "refuses", "device")])
    return client


def pytorch():
    try:
        import torch
    except ImportError as error:
        print(f"skipped: {error}")
        sys.exit(77)
    client = Client()
    client.ask(type="hello", protocol="assay-worker", version=2)
    opened = client.ask(type="open", plugin=os.path.join(HERE, "pytorch_subjects.py"), options="device=cpu")
    same(opened["type"], "opened")
    for variant in ("attention:flash", "attention:math", "matmul:scaled_mm", "matmul:scaled_mm_fast",
                    "matmul:triton_nvfp4"):
        same(variant in opened["variants"], True)
    same(torch.__version__ in opened["description"], True)
    client.bye()

    if platform.machine() == "x86_64":
        before_and_after = LEARNT + "print(learnt()); torch.zeros(2).add_(1); print(learnt())"
        fresh = subprocess.run([sys.executable, "-c", before_and_after], capture_output=True, text=True,
                               check=True)
        before, after = fresh.stdout.split()  # PyTorch 2.11: False, True. 2.15 leaves that table empty
        same(before, "False")
        with tempfile.NamedTemporaryFile("w", suffix=".py") as plugin:
            plugin.write(LEARNT_SUBJECT)
            plugin.flush()
            client = Client()
            client.ask(type="hello", protocol="assay-worker", version=2)
            same(client.ask(type="open", plugin=plugin.name, options="device=cpu")["type"], "opened")
            first = client.ask(type="run", memory_bytes=BYTES, slots=[[4096, 4096, "w"], [8192, 4096, "w"]],
                               call=call(""))
            same((first["type"], first.get("notes")), ("done", [["learnt", after]]))
            client.bye()

    sys.path.insert(0, HERE)
    import assay_subjects
    memory = memoryview(bytearray(BYTES))
    memory[X + 4:X + 8] = struct.pack("<f", 7.0)
    of_the_call = assay_subjects.Call(call("good"), memory)
    x, y = of_the_call.torch("x"), of_the_call.torch("y")
    same((x.storage_offset(), x.untyped_storage().nbytes(), x.stride(), x[0, 1].item()),
         (0, STRIDE + 4 * COLS, (STRIDE // 4, 1), 7.0))
    same((y.data_ptr() - x.data_ptr(), x is of_the_call.torch("x")), (Y - X, True))


if __name__ == "__main__":
    tests = {"protocol": protocol, "pytorch": pytorch, "memory": memory, "formats": formats}
    tests[sys.argv[1]](*sys.argv[2:])
