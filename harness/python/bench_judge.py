#!/usr/bin/env python3
"""bench_judge.py PROGRAM: what one judged call costs in the process of a test, and by a process of its own,
in turn; medians, and their ratio. Ends with 1 where the call in the process is not at least twice as fast."""
import os
import statistics
import sys
import time

try:
    import numpy
except ImportError:
    print("no numpy here: skipped")
    sys.exit(77)
os.environ["ASSAY_PROGRAM"] = os.path.abspath(sys.argv[1])
sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import assay  # noqa: E402

ROUNDS = 30


def softmax(x):
    e = numpy.exp(x.astype(numpy.float64) - x.max(-1, keepdims=True))
    return (e / e.sum(-1, keepdims=True)).astype(x.dtype)


def main():
    slow = False
    for rows, cols in ((4, 1000), (64, 1000)):
        x = numpy.random.default_rng(1).standard_normal((rows, cols)).astype(numpy.float32)
        y, seconds = softmax(x), {"": [], "own": []}
        for turn in range(ROUNDS + 1):
            for process, taken in seconds.items():
                begun = time.perf_counter()
                assay.check(y, op="softmax", inputs={"x": x}, contract="acc=f32 exp_ulp=2", process=process)
                if turn > 0:  # the first one loads
                    taken.append(time.perf_counter() - begun)
        here, apart = (1e3 * statistics.median(taken) for taken in seconds.values())
        print(f"softmax {rows} x {cols}: {here:.2f} ms in the process, {apart:.2f} ms by one of its own: {apart / here:.1f} times")
        slow |= rows == 4 and not apart >= 2 * here
    return slow


sys.exit(main())
