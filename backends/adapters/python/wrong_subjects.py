"""The example's softmax with one bit less in its exponentials, under the same contract: to be found wrong."""

import math

from assay_subjects import subject
from example_subjects import plain_softmax, rows_of


@subject(op="softmax", contract=plain_softmax, path="wrong_subjects.softmax", device="cpu")
def softmax(call):
    result = []
    for row in rows_of(call, "x"):
        weights = [math.exp(x - max(row)) for x in row]
        weights[0] *= 1 + 2**-22
        result += [w / math.fsum(weights) for w in weights]
    return result
