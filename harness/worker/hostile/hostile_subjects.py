"""Misdeeds of subjects in Python: one variant each. What each must be found to be stands in rows.hpp."""

import ctypes
import gc
import os
import signal
import subprocess
import sys
import threading
import time

from assay_subjects import Unsupported, subject


def twice(call):
    return [2 * value for value in call.floats("x")]


def variant(function):
    return subject(op="twice", contract="out=f32", path="twice", variant=function.__name__,
                   device="cpu")(function)


@variant
def innocent(call):
    if os.getcwd() != FOLDER or sys.getrecursionlimit() != 1000 or not gc.isenabled():
        raise RuntimeError("left behind: another process state")
    return twice(call)


FOLDER = os.getcwd()


@variant
def raise_error(call):
    raise ValueError("no memory for the tile")


@variant
def raise_lines_and_escapes(call):
    raise ValueError("one\ntwo\x1b[2J\udcff")


@variant
def raise_a_mebibyte(call):
    raise ValueError("m" * (1 << 20))


@variant
def raise_system_exit(call):
    raise SystemExit(3)


@variant
def raise_keyboard_interrupt(call):
    raise KeyboardInterrupt


@variant
def raise_what_cannot_be_printed(call):
    class Silent(Exception):
        def __str__(self):
            raise RuntimeError("no text")

    raise Silent


@variant
def recursion_without_end(call):
    return recursion_without_end(call)


@variant
def memory_error(call):
    raise MemoryError


@variant
def leave_at_once(call):
    os._exit(4)


@variant
def killed(call):
    os.kill(os.getpid(), signal.SIGKILL)


@variant
def segmentation_fault(call):
    ctypes.string_at(8)


@variant
def aborted(call):
    os.abort()


@variant
def spin(call):
    while True:
        pass


@variant
def sleep(call):
    time.sleep(1e6)


@variant
def wait_for_a_lock(call):
    lock = threading.Lock()
    lock.acquire()
    lock.acquire()


@variant
def spin_without_being_interrupted(call):
    while True:
        try:
            time.sleep(0.001)
        except BaseException:
            pass


@variant
def return_too_few(call):
    return twice(call)[:-1]


@variant
def return_too_many(call):
    return twice(call) + [1.0]


@variant
def return_nothing(call):
    return None


@variant
def return_text(call):
    return "twice"


@variant
def return_not_numbers(call):
    return ["a"] * len(call.floats("x"))


@variant
def return_numbers_too_large(call):
    return [1e300] * len(call.floats("x"))


@variant
def write_the_input(call):
    result = twice(call)
    call.rows("x")[0][0:4] = b"\0\0\x80?"
    return result


@variant
def write_the_gap(call):
    result = twice(call)
    at = call.outputs["y"].offset + 4 * call.outputs["y"].shape[-1]
    call.memory[at:at + 4] = b"\0\0\x80?"
    return result


@variant
def close_the_memory(call):
    result = twice(call)
    call.store(result)
    call.memory.release()


@variant
def close_the_channel(call):
    os.close(3)
    return twice(call)


@variant
def say_garbage(call):
    os.write(3, b"garbage\n")
    return twice(call)


@variant
def print_much(call):
    for _ in range(64):
        sys.stdout.write("p" * (1 << 16))
    return twice(call)


@variant
def close_standard_output(call):
    sys.stdout.close()
    return twice(call)


@variant
def leave_a_daemon(call):
    subprocess.Popen(["sleep", "1000"], start_new_session=True)
    return twice(call)


@variant
def fork_and_answer_twice(call):
    os.fork()
    return twice(call)


@variant
def fork_and_raise_twice(call):
    os.fork()
    raise ValueError("of either process")


@variant
def fork_and_let_the_child_answer(call):
    if os.fork() != 0:
        os._exit(0)
    return twice(call)


@variant
def note_what_is_no_text(call):
    call.kernels += ["\x1b[2J\n"]
    call.notes.append(["key", b"bytes"])
    return twice(call)


@variant
def replace_the_print_of_replies(call):
    import json

    json.dumps = lambda reply: '{"type":"done"}'
    return twice(call)


@variant
def unsupported_after_all(call):
    raise Unsupported("not this one after all")


@variant
def answer_by_clock(call):
    result = twice(call)
    result[1] = float(time.perf_counter_ns() % 65536)
    return result


@variant
def another_folder(call):
    os.chdir("/")
    return twice(call)


@variant
def correct_in_a_thread(call):
    result = []
    thread = threading.Thread(target=lambda: result.extend(twice(call)))
    thread.start()
    thread.join()
    return result
