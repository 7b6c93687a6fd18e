"""Functions of numpy as subjects: inputs by name as arrays, an array or a list of whole numbers back."""

import numpy as np
from assay_subjects import subject


@subject(op="softmax", contract="acc=f32 exp_ulp=4", path="reduce", arrays="numpy")
def softmax(call, x):
    weights = np.exp(x - x.max(axis=-1, keepdims=True))
    return weights / weights.sum(axis=-1, keepdims=True)


@subject(op="softmax", variant="double", contract="acc=f32 exp_ulp=4", arrays="numpy")
def softmax_in_double(call, x):
    """Of another type than the output."""
    return softmax(call, x.astype(np.float64))


@subject(op="softmax", variant="late", contract="acc=f32 exp_ulp=4", arrays="numpy")
def softmax_off_by_a_row(call, x):
    return np.roll(softmax(call, x), 1, axis=0)


@subject(op="argmax", contract="", path="argmax", arrays="numpy")
def argmax(call, x):
    return [int(place) for place in np.argmax(x, axis=-1)]
