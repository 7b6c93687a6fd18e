"""The example's softmax with one bit less in its exponentials, under the same contract: to be found wrong."""

import math

from assay_subjects import subject
from example_subjects import rows_of


@subject(op="softmax", contract="acc=f64 exp_ulp=1 out=f32", path="wrong_subjects.softmax", device="cpu",
         takes="mask=none sinks=no softcap=0 temperature=1")
def softmax(call):
    result = []
    for row in rows_of(call, "x"):
        weights = [math.exp(x - max(row)) for x in row]
        weights[0] *= 1 + 2**-22
        result += [w / math.fsum(weights) for w in weights]
    return result
