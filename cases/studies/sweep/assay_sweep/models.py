"""Models whose weights are computed, not trained: llama-architecture transformers that retrieve exactly as
far as the engine's arithmetic lets them. One model and one prefill give a whole curve of difficulty.

Every embedding has a known norm, so that RMSNorm is a known factor g = sqrt(D / norm^2) which the weights
undo. rope_freqs gives each pair of a head's channels its own divisor: the first pairs turn at random
frequencies (position), the others not at all (content). A key is an embedding x in c dimensions; near ones
have cosine 1 - 2^-rung exactly. A query's direction has a part of length ETA that no key has: without it,
errors of K across the query would be hidden."""
import json
import os
import shutil

import numpy as np

from assay_sweep import digest, gguf

WIDTH, HEAD, HEADS, KV_HEADS = 512, 128, 2, 1
RUNGS, FAMILIES, NEAR = 14, 32, 4
DENSE = 4096
FILLERS, BETA, ETA = 4096, 64.0, 1.7
ROPE_BASE, STILL = 10000.0, 1e30
VERSION = 1  # of what the weights are computed by


def g(norm2):
    return np.sqrt(WIDTH / norm2)


def unit(source, count, width):
    rows = source.standard_normal((count, width))
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def near_to(source, x, gap):
    u = source.standard_normal(len(x))
    u -= (u @ x) * x
    u /= np.linalg.norm(u)
    return (1 - gap) * x + np.sqrt(1 - (1 - gap) ** 2) * u


def orthonormal(source, n):
    return np.linalg.qr(source.standard_normal((n, n)))[0]


class Vocabulary:
    """Token texts and their embeddings. The first 260 are what llama.cpp's tokenizer expects: specials,
    bytes, a separator."""

    def __init__(self):
        self.texts = ["<unk>", "<s>", "</s>"] + [f"<0x{b:02X}>" for b in range(256)] + ["<sep>"]
        self.separator = len(self.texts) - 1

    def add(self, texts):
        first = len(self.texts)
        self.texts += texts
        return first

    def pad(self):
        return self.add([f"<pad{i}>" for i in range(-len(self.texts) % 64)])


class Layer:
    def __init__(self, hidden=64):
        self.q, self.k, self.v = (np.zeros((HEAD, WIDTH)) for _ in range(3))
        self.o = np.zeros((WIDTH, HEAD))
        self.gate, self.up, self.down = (
            np.zeros((hidden, WIDTH)),
            np.zeros((hidden, WIDTH)),
            np.zeros((WIDTH, hidden)),
        )


def turning(source, pairs):
    """Frequencies of the pairs that turn, and the divisors that make an engine use them."""
    theta = source.uniform(0.3, np.pi, pairs)
    divisors = np.full(HEAD // 2, STILL)
    divisors[:pairs] = ROPE_BASE ** (-2 * np.arange(pairs) / HEAD) / theta
    return theta, divisors


def previous_token_head(layer, source, theta, strength, constant, norm2):
    """q and k that depend on nothing but position: their product peaks, at `strength` nats, one token
    back."""
    n, phase = 2 * len(theta), source.uniform(0, 2 * np.pi, len(theta))
    for weights, angle, scale in ((layer.k, phase, 1.0),
                                  (layer.q, phase - theta, strength * np.sqrt(HEAD) / n)):
        weights[0:n:2, constant] = np.cos(angle) * np.sqrt(2) * scale / g(norm2)
        weights[1:n:2, constant] = np.sin(angle) * np.sqrt(2) * scale / g(norm2)


def ladder(seed):
    """Two layers. The first copies the key in front of a value to that value's position, the second finds by
    content."""
    source = np.random.default_rng(seed + 1000)
    constant, quiet, content, previous, value, answer = (
        0,
        1,
        slice(32, 64),
        slice(96, 128),
        slice(160, 288),
        slice(288, 416),
    )
    words = Vocabulary()
    fillers = words.add([f"<f{i}>" for i in range(FILLERS)])
    values = words.add([f"<v{i}>" for i in range(HEAD)])
    keys = words.add([f"<k{r}_{f}_{m}>" for r in range(1, RUNGS + 1) for f in range(FAMILIES)
                      for m in range(NEAR)])
    end = words.pad()
    table = np.zeros((len(words.texts), WIDTH))
    table[:, constant] = 1
    table[:fillers, quiet] = table[end:, quiet] = 1
    table[fillers:values, content] = unit(source, FILLERS, 32)
    codes = orthonormal(source, HEAD)
    table[values:keys, value] = codes
    for family in range(RUNGS * FAMILIES):
        x = unit(source, 1, 32)[0]
        first = keys + family * NEAR
        table[first, content] = x
        for m in range(1, NEAR):
            table[first + m, content] = near_to(source, x, 2.0 ** -(1 + family // FAMILIES))
    theta, divisors = turning(source, 32)
    copy, find = Layer(), Layer()
    previous_token_head(copy, source, theta, 100.0, constant, 2)
    frame = np.linalg.qr(source.standard_normal((HEAD, 32)))[0]
    copy.v[:, content] = frame * np.sqrt(HEAD) / g(2)
    copy.o[previous, :] = frame.T / np.sqrt(HEAD)
    basis = orthonormal(source, 64)
    find.k[64:, previous] = basis[:, :32] * 8 / g(3)
    find.q[64:, content] = (basis[:, :32]
                            + ETA * basis[:, 32:] @ orthonormal(source, 32)) * BETA * np.sqrt(HEAD) / 8 / g(2)
    find.v[:, value] = np.eye(HEAD) * np.sqrt(HEAD) / g(3)
    find.o[answer, :] = np.eye(HEAD) / np.sqrt(HEAD)
    output = np.zeros_like(table)
    output[values:keys, answer] = codes
    about = {"fillers": fillers, "values": values, "keys": keys, "separator": words.separator}
    return words, table, output, divisors, [copy, find], about


PAIR_SLICES = slice(32, 96), slice(96, 160), slice(160, 288), slice(288, 352)  # content, value, answer, query


def found_by_content(key_basis, value_basis, across):
    """The only layer of pair and dense: a query attends by content, BETA nats to its own key, and writes that
    token's value as answer."""
    content, value, answer, query = PAIR_SLICES
    layer = Layer()
    layer.k[:, content] = key_basis[:, :64] * np.sqrt(HEAD) / g(3)
    layer.q[:, query] = (key_basis[:, :64] + ETA * key_basis[:, 64:] @ across) * BETA / g(2)
    layer.v[:, value] = value_basis[:, :64] * np.sqrt(HEAD) / g(3)
    layer.o[answer, :] = np.eye(HEAD) / np.sqrt(HEAD)
    return layer


def pair(seed):
    """One layer; a token is key and value at once. On side k the keys of a family are near and the values
    far; on side v the key
    is alone and the answers that its value is read as are near: each ladder feels errors of its own cache
    alone."""
    source = np.random.default_rng(seed + 3000)
    constant, quiet = 0, 1
    content, value, answer, query = PAIR_SLICES
    key_basis, value_basis, codes = orthonormal(source,
                                                HEAD), orthonormal(source, HEAD), orthonormal(source, 64)
    words, rows, outputs, items = Vocabulary(), {}, {}, []
    fillers = words.add([f"<f{i}>" for i in range(FILLERS)])
    values = words.add([f"<v{i}>" for i in range(64)])

    def add(text, x=None, v=None, asked=False):
        token = words.add([text])
        row = np.zeros(WIDTH)
        row[constant] = 1
        if x is None:
            row[quiet] = 1
        else:
            row[query if asked else content] = x
        if v is not None:
            row[value] = v
        rows[token] = row
        return token

    for r in range(1, RUNGS + 1):
        for f in range(FAMILIES):
            x, labels = unit(source, 1, 64)[0], source.choice(64, NEAR, replace=False)
            hay = [add(f"<K{r}_{f}_0>", x, codes[labels[0]])]
            hay += [add(f"<K{r}_{f}_{m}>", near_to(source, x, 2.0 ** -r), codes[labels[m]])
                    for m in range(1, NEAR)]
            items.append({"side": "k", "rung": r, "hay": hay, "query": add(f"<q{r}_{f}>", x, asked=True),
                          "answer": values + int(labels[0])})
    for r in range(1, RUNGS + 1):
        for f in range(FAMILIES):
            x, v = unit(source, 1, 64)[0], unit(source, 1, 64)[0]
            hay, asked, first = [add(f"<V{r}_{f}>", x, v)], add(f"<w{r}_{f}>", x, asked=True), None
            for m in range(NEAR):
                token = add(f"<o{r}_{f}_{m}>")
                first = token if first is None else first
                code = v if m == 0 else near_to(source, v, 2.0 ** -r)
                outputs[token] = value_basis[:,
                                             :64] @ code + ETA * value_basis[:, 64:] @ unit(source, 1, 64)[0]
            items.append({"side": "v", "rung": r, "hay": hay, "query": asked, "answer": first})
    end = words.pad()
    table = np.zeros((len(words.texts), WIDTH))
    table[:, constant] = 1
    table[:fillers, quiet] = table[values:values + 64, quiet] = table[end:, quiet] = 1
    table[fillers:values, content] = unit(source, FILLERS, 64)
    table[fillers:values, value] = codes[source.integers(64, size=FILLERS)]
    output = np.zeros_like(table)
    output[values:values + 64, answer] = codes @ value_basis[:, :64].T
    for token, row in rows.items():
        table[token] = row
    for token, row in outputs.items():
        output[token, answer] = row
    layer = found_by_content(key_basis, value_basis, orthonormal(source, 64))
    about = {"fillers": fillers, "values": values, "separator": words.separator, "items": items}
    return words, table, output, np.full(HEAD // 2, STILL), [layer], about


def dense(seed):
    """One layer; each of DENSE keys, all far from each other, is a token with a value of its own: a needle
    for every cell of the cache.
    Nothing is near, so that every type of cache finds all of them, and a cell that is skipped or misread
    costs its needle."""
    source = np.random.default_rng(seed + 4000)
    content, value, answer, query = PAIR_SLICES
    key_basis, value_basis, codes = orthonormal(source,
                                                HEAD), orthonormal(source, HEAD), orthonormal(source, 64)
    words = Vocabulary()
    values = words.add([f"<v{i}>" for i in range(64)])
    keys = words.add([f"<k{i}>" for i in range(DENSE)])
    asked = words.add([f"<q{i}>" for i in range(DENSE)])
    end = words.pad()
    table = np.zeros((len(words.texts), WIDTH))
    table[:, 0] = 1
    table[:keys, 1] = table[end:, 1] = 1
    labels = source.integers(64, size=DENSE)
    table[keys:asked, content] = table[asked:end, query] = unit(source, DENSE, 64)
    table[keys:asked, value] = codes[labels]
    output = np.zeros_like(table)
    output[values:keys, answer] = codes @ value_basis[:, :64].T
    layer = found_by_content(key_basis, value_basis, orthonormal(source, 64))
    about = {"values": values, "keys": keys, "asked": asked, "separator": words.separator,
             "labels": labels.tolist()}
    return words, table, output, np.full(HEAD // 2, STILL), [layer], about


def metadata(words, layers, name):
    count = len(words.texts)
    kinds = [2, 3, 3] + [6] * 256 + [4] * (count - 259)  # unknown, control, byte, user-defined
    return [("general.architecture", "string", "llama"), ("general.name", "string", name),
            ("general.alignment", "u32", gguf.ALIGNMENT),
            ("llama.context_length", "u32", 1 << 20), ("llama.embedding_length", "u32", WIDTH),
            ("llama.block_count", "u32", len(layers)),
            ("llama.feed_forward_length", "u32", layers[0].gate.shape[0]),
            ("llama.rope.dimension_count", "u32", HEAD),
            ("llama.rope.freq_base", "f32", ROPE_BASE), ("llama.attention.head_count", "u32", HEADS),
            ("llama.attention.head_count_kv", "u32", KV_HEADS), ("llama.attention.key_length", "u32", HEAD),
            ("llama.attention.value_length", "u32", HEAD),
            ("llama.attention.layer_norm_rms_epsilon", "f32", 1e-9),
            ("llama.vocab_size", "u32", count), ("tokenizer.ggml.model", "string", "llama"),
            ("tokenizer.ggml.tokens", "[string]", words.texts),
            ("tokenizer.ggml.scores", "[f32]", [0.0] * count), ("tokenizer.ggml.token_type", "[i32]", kinds),
            ("tokenizer.ggml.bos_token_id", "u32", 1), ("tokenizer.ggml.eos_token_id", "u32", 2),
            ("tokenizer.ggml.unknown_token_id", "u32", 0), ("tokenizer.ggml.add_bos_token", "bool", False)]


def tensors(table, output, divisors, layers):
    named = [("token_embd.weight", table), ("output_norm.weight", np.ones(WIDTH)), ("output.weight", output),
             ("rope_freqs.weight", divisors)]
    for i, layer in enumerate(layers):
        parts = {"attn_norm": np.ones(WIDTH), "attn_q": np.tile(layer.q, (HEADS, 1)),
                 "attn_k": np.tile(layer.k, (KV_HEADS, 1)),
                 "attn_v": np.tile(layer.v, (KV_HEADS, 1)),
                 "attn_output": np.tile(layer.o, (1, HEADS)) / HEADS, "ffn_norm": np.ones(WIDTH),
                 "ffn_gate": layer.gate, "ffn_up": layer.up, "ffn_down": layer.down}
        named += [(f"blk.{i}.{part}.weight", weights) for part, weights in parts.items()]
    return named


def placed(path, part):
    """Puts what was written whole beside a path at that path: several sweeps may make one model, the tasks of
    an array."""
    if os.path.isdir(part):
        shutil.rmtree(path, ignore_errors=True)
    try:
        os.replace(part, path)
    except OSError:  # another has placed its folder, of the same content
        shutil.rmtree(part)


def make(probe, seed, path, form="gguf"):
    """Writes the model of a probe and a seed, a file of GGUF or a folder with model.safetensors, and beside
    it what its tokens mean.
    Returns that."""
    from assay_sweep import mrcr_model
    words, table, output, divisors, layers, about = {"ladder": ladder, "pair": pair, "mrcr": mrcr_model.mrcr,
                                                     "dense": dense}[probe](seed)
    named, given = tensors(table, output, divisors, layers), metadata(words, layers, f"assay {probe} {seed}")
    part = f"{path}.{os.getpid()}.part"
    if form == "gguf":
        with open(part, "wb") as file:
            file.write(gguf.encode(given, named))
    else:
        from assay_sweep import checkpoint
        os.makedirs(part)
        checkpoint.write(part, given, named, words.texts)
    sha256 = digest.of_file(part if form == "gguf" else os.path.join(part, "model.safetensors"))
    about = {**about, "probe": probe, "seed": seed, "version": VERSION, "sha256": sha256,
             "token_texts": words.texts}
    placed(path, part)
    with open(part, "w", encoding="utf-8") as file:
        json.dump(about, file)
    placed(path + ".json", part)
    return about
