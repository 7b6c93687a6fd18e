"""The smallest subjects in Python: no library but assay_subjects. Copy this file and put your own functions
in it:

    assay run 'softmax rows=4 cols=33,1000 fill=gaussian,peaked' -b ./mine.py
"""

import math
import struct

from assay_subjects import subject

DESCRIPTION = "plain Python, arithmetic in f64"


def rows_of(call, name):
    cols = call.tensor(name).shape[-1]
    flat = call.floats(name)
    return [flat[i:i + cols] for i in range(0, len(flat), cols)]


@subject(op="softmax", contract="acc=f64 exp_ulp=1 out=f32", path="example_subjects.softmax", device="cpu",
         takes="mask=none sinks=no softcap=0 temperature=1")
def softmax(call):
    result = []
    for row in rows_of(call, "x"):
        largest = max(row)
        weights = [math.exp(x - largest) for x in row]
        total = math.fsum(weights)
        result += [w / total for w in weights]
    return result


@subject(op="rmsnorm", contract="acc=f64 out=f32", path="example_subjects.rmsnorm", device="cpu",
         takes="dtype=f32")
def rmsnorm(call):
    gamma, eps = call.floats("gamma"), struct.unpack("f", struct.pack("f", call.real("eps")))[0]
    result = []
    for row in rows_of(call, "x"):
        scale = 1 / math.sqrt(math.fsum(x * x for x in row) / len(row) + eps)
        result += [x * scale * g for x, g in zip(row, gamma)]
    return result
