"""The computed models as checkpoints of Hugging Face: by a forward pass in f64 of what is in their files,
and, with --transformers, by transformers itself. Ends with 77 where numpy, or then torch and transformers,
are missing.

    sweep_checkpoint_test.py [--transformers] [TEST ...]
"""
import json
import os
import random
import sys
import tempfile
import unittest

sys.dont_write_bytecode = True
HERE = os.path.dirname(os.path.realpath(__file__))
sys.path[:0] = [HERE, os.path.join(HERE, "..", "..", "..", "harness", "python")]
try:
    import numpy as np
    if "--transformers" in sys.argv:
        import torch
        import transformers
except ImportError as error:
    print(f"{error}: skipped")
    sys.exit(77)
from assay import tensors as container  # noqa: E402
from assay_sweep import checkpoint, models, models_cache, prompts  # noqa: E402


def short_ladder(about, seed):
    """Two families of each rung: (prompt, questions) of 225 tokens."""
    source, pairs, questions = random.Random(seed), [], []
    for family in [r * models.FAMILIES + f for r in range(models.RUNGS) for f in (0, 1)]:
        first, labels = about["keys"] + family * models.NEAR, source.sample(range(models.HEAD), models.NEAR)
        pairs += [(first + m, about["values"] + labels[m]) for m in range(models.NEAR)]
        questions.append({"ask": [first], "answer": about["values"] + labels[0]})
    source.shuffle(pairs)
    return [1] + [token for couple in pairs for token in couple], questions


def forward(config, weights, tokens):
    """Logits behind the last of `tokens`, in f64: a Llama of Hugging Face, as its modeling_llama.py defines
    it."""
    heads, head = config["num_attention_heads"], config["head_dim"]
    groups = heads // config["num_key_value_heads"]
    frequencies = config["rope_theta"] ** (-np.arange(0, head,
                                                      2) / head) / np.array(config["rope_scaling"]["short_factor"])
    angle = np.tile(np.outer(np.arange(len(tokens)), frequencies), 2)

    def normed(x, name):
        return x / np.sqrt((x * x).mean(-1, keepdims=True) + config["rms_norm_eps"]) * weights[name]

    def turned(x):  # [heads, tokens, head]
        half = np.concatenate([-x[..., head // 2:], x[..., :head // 2]], -1)
        return x * np.cos(angle) + half * np.sin(angle)

    def split(x):
        return x.reshape(len(tokens), -1, head).transpose(1, 0, 2)

    x = weights["model.embed_tokens.weight"][tokens]
    for i in range(config["num_hidden_layers"]):
        part = lambda name: weights[f"model.layers.{i}.{name}.weight"]  # noqa: B023, E731
        y = normed(x, f"model.layers.{i}.input_layernorm.weight")
        q, k, v = (split(y @ part(f"self_attn.{name}_proj").T) for name in "qkv")
        k, v = (np.repeat(z, groups, 0) for z in (turned(k), v))
        scores = turned(q) @ k.transpose(0, 2, 1) / np.sqrt(head)
        scores[:, np.triu(np.ones((len(tokens),) * 2, bool), 1)] = -np.inf
        shares = np.exp(scores - scores.max(-1, keepdims=True))
        read = (shares / shares.sum(-1, keepdims=True)) @ v
        x = x + read.transpose(1, 0, 2).reshape(len(tokens), -1) @ part("self_attn.o_proj").T
        y = normed(x, f"model.layers.{i}.post_attention_layernorm.weight")
        gate = y @ part("mlp.gate_proj").T
        # silu as g (1 + tanh(g / 2)) / 2, which has no exponential that overflows.
        x = x + (gate * (1 + np.tanh(gate / 2)) / 2 * (y @ part("mlp.up_proj").T)) @ part("mlp.down_proj").T
    return normed(x[-1:], "model.norm.weight")[0] @ weights["lm_head.weight"].T


class Checkpoint(unittest.TestCase):
    def written(self, probe, seed):
        folder = tempfile.TemporaryDirectory(prefix="sweep_checkpoint_")
        self.addCleanup(folder.cleanup)
        path, about = models_cache.model(probe, seed, folder.name, "safetensors")
        self.assertEqual(models_cache.model(probe, seed, folder.name, "safetensors"),
                         (path, json.loads(json.dumps(about))))
        return path, about

    def read(self, path):
        with open(os.path.join(path, "config.json"), encoding="utf-8") as file:
            config = json.load(file)
        return config, {name: plane.numpy()
                        for name, plane in container.read_planes(os.path.join(path, "model.safetensors")).items()}

    @unittest.skipIf("--transformers" in sys.argv, "the test without it")
    def test_the_file_has_the_weights_of_the_gguf_to_the_bit_in_the_order_of_halves(self):
        path, about = self.written("ladder", 5)
        config, found = self.read(path)
        words, table, output, divisors, layers, _ = models.ladder(5)
        given = {name: np.asarray(array, "<f4")
                 for name, array in models.tensors(table, output, divisors, layers)}
        factors = given.pop("rope_freqs.weight")
        for name in ("short_factor", "long_factor"):
            self.assertTrue(np.array_equal(np.array(config["rope_scaling"][name], "<f4"), factors))
        self.assertIn(np.float32(models.STILL), factors)
        self.assertEqual(len(found), len(given))
        for i in range(2):
            for part, heads in (("q", models.HEADS), ("k", models.KV_HEADS)):
                before, after = given.pop(f"blk.{i}.attn_{part}.weight"), found.pop(f"model.layers.{i}.self_attn.{part}_proj.weight")
                for row in range(heads * models.HEAD):  # channel 2 j + s is channel j + s HEAD / 2
                    at, channel = divmod(row, models.HEAD)
                    to = at * models.HEAD + channel // 2 + channel % 2 * models.HEAD // 2
                    self.assertTrue(np.array_equal(before[row], after[to]))
        self.assertEqual(sorted((array.shape, array.tobytes()) for array in found.values()),
                         sorted((array.shape, array.tobytes()) for array in given.values()))
        with open(os.path.join(path, "tokenizer.json"), encoding="utf-8") as file:
            self.assertEqual(list(json.load(file)["model"]["vocab"]), about["token_texts"])

    @unittest.skipIf("--transformers" in sys.argv, "the test without it")
    def test_its_needles_are_found_and_heads_in_another_order_lose_them(self):
        path, about = self.written("ladder", 5)
        config, found = self.read(path)
        weights = {name: array.astype(np.float64) for name, array in found.items()}
        prompt, questions = short_ladder(about, 1)

        def right(weights):
            return sum(forward(config, weights, prompt + q["ask"]).argmax() == q["answer"] for q in questions)
        self.assertEqual(right(weights), len(questions))
        # The fault of a converter that keeps GGUF's order: the engine turns channels together that belong to
        # different pairs.
        faulty = dict(weights)
        for name in weights:
            if "q_proj" in name or "k_proj" in name:
                back = np.argsort(checkpoint.halves(np.arange(len(weights[name]))[:, None],
                                                    models.HEAD)[:, 0])
                faulty[name] = weights[name][back]
        # What is read has nothing to do with the question then: each is right by luck, one in 28 at most,
        # half of them never.
        self.assertLess(right(faulty), len(questions) / 2)

    @unittest.skipUnless("--transformers" in sys.argv, "give --transformers")
    def test_transformers_finds_the_needles_of_all_models(self):
        asked = {"ladder": lambda about: short_ladder(about, 1),
                 "dense": lambda about: prompts.dense(about, 512, 1),
                 "mrcr": lambda about: prompts.mrcr(about, 1024, 1),
                 "pair": lambda about: prompts.pair(about, 2304, 1, "k")}
        for probe, asking in asked.items():
            path, about = self.written(probe, 5)
            config, found = self.read(path)
            weights = {name: array.astype(np.float64) for name, array in found.items()}
            model = transformers.AutoModelForCausalLM.from_pretrained(path, dtype=torch.float32).eval()
            prompt, questions = asking(about)
            questions = questions[::max(1, len(questions) // 28)]
            with torch.no_grad():
                logits = [model(torch.tensor([prompt + q["ask"]]), logits_to_keep=1).logits[0, -1].numpy()
                          for q in questions]
            answers = [int(row.argmax()) for row in logits]
            print(f"{probe}: {sum(a == q['answer'] for a, q in zip(answers, questions))} of {len(questions)} by transformers "
                  f"{transformers.__version__}, {len(prompt)} tokens")
            self.assertEqual(answers, [q["answer"] for q in questions], probe)
            exact = forward(config, weights, prompt + questions[0]["ask"])
            self.assertEqual(int(exact.argmax()), answers[0])
            tokens = transformers.AutoTokenizer.from_pretrained(path)
            self.assertEqual([tokens.decode([t]) for t in questions[0]["ask"]],
                             [about["token_texts"][t] for t in questions[0]["ask"]])


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], "-v", *[word for word in sys.argv[1:] if word != "--transformers"]])
