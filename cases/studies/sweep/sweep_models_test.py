"""The computed weights of assay sweep: against a forward pass of their own, and as files. Ends with 77 where
numpy is missing.

    sweep_models_test.py [--whole]        contexts of their whole length, as nightly; else a quarter of it
"""
import os
import sys
import unittest

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.realpath(__file__)))
try:
    import numpy as np
except ImportError:
    print("numpy is not here: skipped")
    sys.exit(77)
from assay_sweep import engine, gguf, models, prompts, regression  # noqa: E402

WHOLE = "--whole" in sys.argv


class Models(unittest.TestCase):
    """The computed weights, against a forward pass in f64 that shares no code with an engine."""

    def test_the_ladder_finds_every_needle_in_exact_arithmetic(self):
        words, table, output, divisors, layers, about = models.ladder(5)
        prompt, questions = prompts.ladder(about, 4096, 5)
        tokens = np.array(prompt if WHOLE else prompt[:1024])
        # whose key and value stand before the cut
        questions = [q for q in questions if WHOLE or q["at"] < 0.24]
        self.assertGreater(len(questions), 100)
        place = np.arange(len(tokens))

        def normed(x):
            return x / np.sqrt((x * x).mean(-1, keepdims=True))

        def turned(x, at):
            angle = np.outer(at, models.ROPE_BASE ** (-2 * np.arange(64) / 128) / divisors)
            out = np.empty_like(x)
            out[:, 0::2] = x[:, 0::2] * np.cos(angle) - x[:, 1::2] * np.sin(angle)
            out[:, 1::2] = x[:, 0::2] * np.sin(angle) + x[:, 1::2] * np.cos(angle)
            return out

        def attention(layer, q_in, q_at, k_in, k_at):
            scores = turned(q_in @ layer.q.T, q_at) @ turned(k_in @ layer.k.T, k_at).T / np.sqrt(128)
            scores[k_at[None, :] > q_at[:, None]] = -np.inf
            weights = np.exp(scores - scores.max(-1, keepdims=True))
            return (weights / weights.sum(-1, keepdims=True)) @ (k_in @ layer.v.T) @ layer.o.T

        x = table[tokens]
        x = x + attention(layers[0], normed(x), place, normed(x), place)
        asked = np.array([q["ask"][0] for q in questions])
        y = table[asked]
        at = np.full(len(asked), len(tokens))
        # The asked token attends to the prompt, its own key apart: one more column would be itself, which
        # holds no value.
        y = y + attention(layers[0], normed(y), at, normed(table[tokens]), place)
        y = y + attention(layers[1], normed(y), at, normed(x), place)
        answers = (normed(y) @ output.T).argmax(-1)
        right = (answers == np.array([q["answer"] for q in questions])).sum()
        self.assertEqual(right, len(questions))

    def test_each_cell_of_the_dense_context_has_a_needle_that_its_loss_loses(self):
        _, table, output, _, (layer,), about = models.dense(3)
        table = table / np.sqrt((table * table).mean(-1, keepdims=True))
        length, page = (2048, 256) if WHOLE else (512, 64)
        cells_there = length - 3
        about["labels"] = about["labels"][:cells_there]  # the keys that are used here: as many as the prompt has cells
        keys, asked = (table[about[name]:about[name] + cells_there] for name in ("keys", "asked"))
        # No channel turns: what a query gives to a key does not depend on where the key stands, and one
        # matrix serves all prompts.
        scores = (asked @ layer.q.T / np.sqrt(128)).astype(np.float32) @ (keys @ layer.k.T).T.astype(np.float32)
        weights = np.exp(scores - scores.max(-1, keepdims=True))
        read = (keys @ layer.v.T @ layer.o.T @ output[about["values"]:about["keys"]].T).astype(np.float32)
        place = np.arange(cells_there)

        def measured(seed, seen=place, value_at=place):
            prompt, questions = prompts.dense(about, length, seed)
            cells = np.array(prompt[1:-1]) - about["keys"]
            self.assertEqual([q["ask"][0] - about["asked"] for q in questions], cells.tolist())
            by_key = np.zeros_like(read)
            by_key[cells[seen]] = read[cells[value_at[seen]]]
            answers = about["values"] + (weights @ by_key)[cells].argmax(-1)
            return {"cell": f"dense len={length} seed={seed}",
                    **engine.likely(questions, [(int(a), 0.0) for a in answers])}

        seeds = (1, 2, 3, 4)
        good = [measured(seed) for seed in seeds]
        self.assertEqual([(row["right"], row["needles"]) for row in good], [(cells_there, cells_there)] * 4)
        # Cell 0 of the cache is the text's first token: the faults are at the last cell of each page, and at
        # its first.
        last, first = (place + 1) % page == page - 1, (place + 1) % page == 0
        for faulty in ({"seen": place[~last]}, {"value_at": np.where(first, place - 1, place)}):
            night = [measured(seed, **faulty) for seed in seeds]
            lost = {at for then, now in zip(good, night)
                    for at, (_, gone) in enumerate(regression.lost_needles(then, now)) if gone}
            self.assertEqual(lost, set(place[last if "seen" in faulty else first]))
            # The threshold of a night of 40 series, more than the nightly suite of the engine has.
            self.assertGreaterEqual(regression.paired_e(list(zip(good, night)))[0],
                                    40 * regression.NIGHTS / regression.ERROR)
        # To the cell, but for one in 64 at either end whose query comes by the same value from elsewhere.
        stretch = measured(2, seen=place[(place < 150) | (place >= 214)])
        self.assertEqual([round(x * cells_there) for x in regression.located([(good[1], stretch)])[:2]],
                         [150, 213])

    def test_gguf_is_what_its_specification_says(self):
        raw = gguf.encode([("a.b", "u32", 7), ("c", "[string]", ["x", "yz"])],
                          [("t", np.arange(6.0).reshape(2, 3)), ("u", np.ones(1))])
        self.assertEqual(raw[:24], b"GGUF" + bytes([3, 0, 0, 0]) + bytes([2] + [0] * 7)
                         + bytes([2] + [0] * 7))
        self.assertEqual(len(raw) % 32, 0)
        self.assertEqual(np.frombuffer(raw[-64:-40], "<f4").tolist(), [0, 1, 2, 3, 4, 5])
        self.assertEqual(np.frombuffer(raw[-32:-28], "<f4").tolist(), [1])


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], "-v", *(word for word in sys.argv[1:] if word != "--whole")])
