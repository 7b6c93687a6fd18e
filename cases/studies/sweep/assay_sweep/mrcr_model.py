"""The three-layer model of multi-round co-reference: "the i-th value of key k" among eight of each key.

Layer 1 copies the previous token. Layer 2 counts: a token attends to itself-like keys before it and to the
first token of the text, so that the first token's weight is 1 / (1 + m r) after m of them; a gated MLP turns
that weight into which-th by steps between neighbouring counts. Layer 3 finds by key and by ordinal. Errors of
K and V move the weight across a step."""
import numpy as np

from assay_sweep.models import (FILLERS, HEAD, WIDTH, Layer, Vocabulary, g, orthonormal, previous_token_head,
                                turning, unit)

KEYS, OCCURRENCES, PAIRS = 64, 8, 24
MATCH, RATIO, FIND, ORDER = 40.0, 0.25, 44.0, 16.0  # nats of a matching key, its weight to the first token's, nats of layer 3
COUNT_GAIN, STEP_HALF_WIDTH, STEEPNESS = 0.1, 0.004, 2e4


def mrcr(seed):
    source = np.random.default_rng(seed + 2000)
    constant, first_token, quiet, count = 0, 1, 2, 464
    content, previous, value, answer = slice(32, 96), slice(96, 160), slice(160, 288), slice(288, 416)
    asked_order, previous_order, own_order = slice(416, 432), slice(432, 448), slice(448, 464)
    words = Vocabulary()
    orders = words.add([f"<#{i}>" for i in range(1, OCCURRENCES + 1)])
    fillers = words.add([f"<f{i}>" for i in range(FILLERS)])
    values = words.add([f"<v{i}>" for i in range(HEAD)])
    keys = words.add([f"<k{i}>" for i in range(KEYS)])
    end = words.pad()
    table = np.zeros((len(words.texts), WIDTH))
    table[:, constant] = 1
    table[:orders, quiet] = table[end:, quiet] = 1
    table[1, quiet], table[1, first_token] = 0, 1
    ordinals = orthonormal(source, 16)
    table[orders:fillers, asked_order] = ordinals[:OCCURRENCES]
    table[fillers:values, content] = unit(source, FILLERS, 64)
    table[keys:end, content] = unit(source, KEYS, 64)
    codes = orthonormal(source, HEAD)
    table[values:keys, value] = codes
    theta, divisors = turning(source, PAIRS)
    still = 2 * PAIRS  # the head's channels from here on do not turn: 64 of content, 16 of order
    by_content, by_order = slice(still, still + 64), slice(still + 64, HEAD)
    copy, counting, find = Layer(), Layer(), Layer()
    previous_token_head(copy, source, theta, 120.0, constant, 2)
    copy.v[:64, content], copy.v[64:80, asked_order] = np.eye(64) * 8 / g(2), np.eye(16) * 4 / g(2)
    copy.o[previous, :64], copy.o[previous_order, 64:80] = np.eye(64) / 8, np.eye(16) / 4

    mark = source.standard_normal(16)
    mark *= 4 / np.linalg.norm(mark)
    counting.k[by_content, previous], counting.k[by_order, first_token] = np.eye(64) * 8 / g(3), mark / g(2)
    counting.q[by_content, previous] = np.eye(64) * MATCH * np.sqrt(HEAD) / 8 / g(3)
    counting.q[by_order, constant] = mark / 16 * (MATCH - np.log(RATIO)) * np.sqrt(HEAD) / g(3)
    signs = np.where(source.random(HEAD) < 0.5, -1.0, 1.0)
    counting.v[:, first_token] = signs / g(2)
    counting.o[count, :] = signs / HEAD * COUNT_GAIN
    norm2 = 3 + (COUNT_GAIN * 0.5) ** 2
    thresholds = 1 / (1 + (np.arange(1, OCCURRENCES + 2) - 0.5) * RATIO)
    for i, threshold in enumerate(thresholds):
        for side, sign in ((0, 1.0), (1, -1.0)):  # a step is the difference of two ramps
            unit_row = 2 * i + side
            counting.gate[unit_row, count] = -STEEPNESS / COUNT_GAIN / g(norm2)
            counting.gate[unit_row, constant] = STEEPNESS * (threshold + sign * STEP_HALF_WIDTH) / g(norm2)
            counting.up[unit_row, constant] = 1 / g(norm2)
            height = sign / (2 * STEP_HALF_WIDTH * STEEPNESS)
            if i < OCCURRENCES:
                counting.down[own_order, unit_row] += height * ordinals[i]
            if i > 0:
                counting.down[own_order, unit_row] -= height * ordinals[i - 1]

    stored, asking = 4 + (COUNT_GAIN * 0.5) ** 2, 3 + COUNT_GAIN ** 2
    find.k[by_content, previous], find.k[by_order,
                                         own_order] = np.eye(64) * 8 / g(stored), np.eye(16) * 4 / g(stored)
    find.q[by_content, content] = np.eye(64) * FIND * np.sqrt(HEAD) / 8 / g(asking)
    find.q[by_order, previous_order] = np.eye(16) * ORDER * np.sqrt(HEAD) / 4 / g(asking)
    find.v[:, value] = np.eye(HEAD) * np.sqrt(HEAD) / g(stored)
    find.o[answer, :] = np.eye(HEAD) / np.sqrt(HEAD)
    output = np.zeros_like(table)
    output[values:keys, answer] = codes
    about = {"orders": orders, "fillers": fillers, "values": values, "keys": keys,
             "separator": words.separator,
             "occurrences": OCCURRENCES}
    return words, table, output, divisors, [copy, counting, find], about
