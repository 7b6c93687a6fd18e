"""assay sweep engine: computed-weight models, or a real one, on a real server; a prefill for each cell, all
questions on its cached prefix."""
import math
import os
import time

from assay_sweep import conversations, digest, kernel, line, prompts, runner, stats
from assay_sweep.client import ServerError
from assay_sweep.line import LineError
from assay_sweep.models_cache import model

DEPTHS = 8
# Seconds per token of prompt, questions included, where nothing was recorded: as llama.cpp took on two cores
# (reports/results/sweeps.md). Those of a cache's type are nearly all decoding; they are by keys to 3 parts,
# by values to 7. Other probes have models of layers enough to hide it.
GUESS = {"ladder": 4e-3, "pair": 1.6e-3, "mrcr": 5.5e-3, "dense": 3.6e-3, "niah": 2e-2, "chat-mrcr": 5e-2}
OF_TYPE = {"f16": 0.14, "f32": 0.24, "bf16": 0.34, "q8_0": 0.38, "q4_0": 0.74, "q4_1": 0.68, "q5_0": 0.91,
           "q5_1": 0.91, "iq4_nl": 0.97}


def guess(probe, k, v):
    """Seconds per token of prompt of a cell that nobody has measured."""
    known = probe in ("ladder", "pair", "mrcr")
    return GUESS[probe] * (0.3 * OF_TYPE.get(k, 1) + 0.7 * OF_TYPE.get(v, 1) if known else 1)


NEEDLES = {"ladder": 448, "pair": 448, "mrcr": 128, "niah": 4, "chat-mrcr": 8}
REAL = {"niah": 64, "chat-mrcr": 192}  # asked of a language model that is given: tokens of an answer
DEFAULTS = {"len": None, "k": "f16", "v": "", "fa": "on", "threads": "1", "batch": "512", "side": "k",
            "rot": "on", "near": "4", "engine": "",
            "seed": "1"}  # rot: whether a llama.cpp that rotates a quantized cache (since 2026) does so; an earlier one never does
TYPES = "f32 f16 bf16 q8_0 q4_0 q4_1 q5_0 q5_1 iq4_nl"
SUITES = {
    "quick": ["ladder len=4096 k=q8_0,q4_0", "pair len=4096 side=k,v k=q8_0 v=q8_0,q4_0"],
    "ladder": ["ladder len=4096 k=f16,q8_0,q4_0 seed=1,2,3,4,5,6,7,8"],
    "mrcr": ["mrcr len=4096 k=f16,q8_0,q4_0 seed=1,2,3,4,5,6,7,8"],
    "pair": ["pair len=4096 side=k,v k=q8_0,q4_0 v=q8_0,q4_0 seed=1,2,3,4"],
    "nightly": [f"{probe} len=4096,16384 {k}" for probe in ("ladder", "pair side=k,v")
                for k in ("k=f16,bf16,q8_0,q4_0,q4_1,q5_0,q5_1,iq4_nl,f32", "k=f16 v=q4_0", "k=q4_0 v=f16")]
                + [
                    "mrcr len=4096,16384 k=f16,q8_0,q4_0", "dense len=4096 k=f16,q8_0,q4_0 seed=1,2"],
    "real": ["niah near=1,4 len=1024,2048,4096 seed=1,2,3,4,5",
             "chat-mrcr near=2,4 len=1024,2048,4096 seed=1,2,3,4,5"],
    "weekly": ["ladder len=32768 k=f16,q8_0,q4_0", "mrcr len=32768 k=f16,q8_0,q4_0"],
}


def _integer(low, high):
    def canonical(text):
        try:
            value = int(text)
        except ValueError:
            value = low - 1
        if not low <= value <= high:
            raise ValueError(f"{low}..{high}")
        return str(value)
    return canonical


def _word(allowed):
    def canonical(text):
        if text not in allowed.split():
            raise ValueError(allowed)
        return text
    return canonical


ALLOWED = {"len": _integer(64, 1 << 20), "k": _word(TYPES), "v": lambda text: text and _word(TYPES)(text),
           "fa": _word("on off auto"),
           "threads": _integer(1, 1024), "batch": _integer(1, 1 << 16), "side": _word("k v"),
           "rot": _word("on off"), "near": _integer(1, 8),
           "engine": str, "seed": _integer(0, 1 << 40)}


def planned_of(lines, label, rotate=0):
    cells, seen = [], set()
    for text in lines:
        probe = text.split()[0] if text.split() else ""
        if probe not in GUESS:
            raise LineError(f"'{text}': allowed probes: {' '.join(GUESS)}")
        for _, values in line.expand(text, DEFAULTS, ALLOWED, f"'{text}'"):
            values["v"] = values["v"] or values["k"]
            if values["engine"] and label and values["engine"] != label:
                raise LineError(f"'{text}': engine={values['engine']}, and --engine is a {label}")
            values["engine"] = label or values["engine"]
            if rotate:
                values["seed"] = str(int(values["seed"]) + rotate)
            if probe != "pair":
                values["side"] = DEFAULTS["side"]
            if probe not in REAL:
                values["near"] = DEFAULTS["near"]
            defaults = {**DEFAULTS, "v": values["k"], "side": None if probe == "pair" else "k"}
            cell = line.spelt(probe, values, defaults)
            if cell in seen:
                continue
            seen.add(cell)
            # those need no model of their own
            group = line.without(cell, "side", *(("seed", "near") if probe in REAL else ()))
            rate = f"engine {probe} {values['engine']} {values['k']} {values['v']} {values['fa']} {values['threads']}"
            cells.append(runner.Planned(cell, int(values["len"]), group, rate,
                                        NEEDLES.get(probe, int(values["len"]) - 3),
                                        guess(probe, values["k"], values["v"])))
    return cells


def values_of(cell):
    probe, given = line.words(cell)
    values = {key: given.get(key, fallback) for key, fallback in DEFAULTS.items()}
    values["v"] = given.get("v", values["k"])
    return probe, values


def questions_of(probe, about, values):
    length, seed = int(values["len"]), int(values["seed"])
    if probe == "pair":
        return prompts.pair(about, length, seed, values["side"])
    return {"ladder": prompts.ladder, "mrcr": prompts.mrcr,
            "dense": prompts.dense}[probe](about, length, seed)


def likely(questions, answers):
    """What a row says of the answers [(token, log-probability)] to its questions."""
    logs = [max(p, -99.99) if not math.isnan(p) else -99.99 for _, p in answers]
    return {**counted(questions,
                      [token == question["answer"] for question, (token, _) in zip(questions, answers)]),
            "log_probability": sum(logs) / max(1, len(logs)), "centinats": [round(100 * p) for p in logs]}


def said(questions, answers, tokens):
    """What a row says of the texts that a language model answered with."""
    graded = [conversations.graded(*pair) for pair in zip(questions, answers)]
    return {**counted(questions, [ok for ok, _ in graded]),
            "score": sum(score for _, score in graded) / len(graded), "tokens": tokens}


def counted(questions, found):
    depth, rungs, bits, right = [[0, 0] for _ in range(DEPTHS)], {}, 0, 0
    for question, ok in zip(questions, found):
        right += ok
        bits = 2 * bits + ok
        counts = [depth[min(DEPTHS - 1, int(question["at"] * DEPTHS))]]
        if "rung" in question:
            counts.append(rungs.setdefault(str(question["rung"]), [0, 0]))
        for count in counts:
            count[0] += ok
            count[1] += 1
    shift = -len(questions) % 4  # as the kernel's cells: the first needle in the highest bit of the first digit
    return {"needles": len(questions), "right": right, "depth": depth,
            "rungs": dict(sorted(rungs.items(), key=lambda x: int(x[0]))),
            "bits": f"{bits << shift:0{(len(questions) + shift) // 4}x}",
            "places": [round(q["at"], 5) for q in questions],
            "lost_from": min((q["at"] for q, ok in zip(questions, found) if not ok), default=None),
            "lost_to": max((q["at"] for q, ok in zip(questions, found) if not ok), default=None)}


def fitted(probe, values, count):
    length, seed = int(values["len"]), int(values["seed"])
    questions_of = {"niah": conversations.niah, "chat-mrcr": conversations.chat_mrcr}[probe]
    return conversations.fitted(lambda units: questions_of(seed, int(values["near"]), units), count, length)


def measure(engine, cache, timeout, given=None):
    """A function for runner.run. given: the file of the language model that niah and chat-mrcr ask."""
    def one(cell, server, about, probe, values, seconds):
        answers, prefill, chat, resent = [], None, server.client.chat, server.client.resent
        if probe in REAL:
            questions, tokens = fitted(probe, values, lambda messages: chat(messages, 1)[1])
        else:
            prompt, questions = questions_of(probe, about, values)
        for question in questions:
            start = time.monotonic()
            answers.append(chat(question["messages"], REAL[probe])[0] if probe in REAL else
                           server.client.ask(prompt + question["ask"], question["answer"]))
            prefill = prefill or time.monotonic() - start
        read = said(questions, answers, tokens) if probe in REAL else likely(questions, answers)
        resent = server.client.resent - resent
        return {"cell": cell, "kind": "engine", "verdict": "pass", **read, "model_sha256": about["sha256"],
                **({"resent": resent} if resent else {}),
                "prefill_seconds": prefill, "total_seconds": seconds()}

    def group(cells):
        begin = [time.monotonic()]

        def seconds():
            took, begin[0] = time.monotonic() - begin[0], time.monotonic()
            return took

        def failed(planned, verdict, what):
            return planned, {"cell": planned.cell, "kind": "engine", "verdict": verdict, "summary": what,
                             "total_seconds": seconds()}
        probe, values = values_of(cells[0].cell)
        left = list(cells)
        try:
            path, about = (
                (given, {"sha256": digest.of_model(given)})
                if probe in REAL
                else model(probe, int(values["seed"]), cache)
            )
            texts = {text: i for i, text in enumerate(about.get("token_texts", ()))}
            with engine.start(path, values, int(values["len"]) + 256, timeout, texts) as server:
                yield None, {"engine": engine.text, "versions": engine.versions(), **server.client.describe()}
                while left:
                    probe, values = values_of(left[0].cell)
                    try:
                        row = one(left[0].cell, server, about, probe, values, seconds)
                    except ServerError as error:
                        yield failed(left.pop(0), error.verdict, f"{error}{server.died()}")
                        break  # what is left of the group is asked of a new server
                    yield left.pop(0), row
        except (ServerError, ValueError) as error:
            verdict = error.verdict if isinstance(error, ServerError) else "impossible"
            yield failed(left.pop(0), verdict, str(error))
        if left:
            yield from group(left)

    def measuring(cells):
        groups = {}
        for planned in cells:
            groups.setdefault(planned.group, []).append(planned)
        for planned in groups.values():
            yield from group(planned)
    return measuring


def table(rows):
    found = []
    for name, group in kernel.series_of(rows).items():
        read = [row for row in group if "right" in row]
        resent = sum(row.get("resent", 0) for row in group)
        verdicts = ",".join(sorted({row["verdict"] for row in group})) + (
            f" ({resent} sent again)" if resent else ""
        )
        if not read:
            found.append((name, verdicts, "", "", "", ""))
            continue
        mean, half = stats.mean_interval([row["right"] / row["needles"] for row in read])
        gap = stats.gap75(stats.pooled(read, "rungs")) if name.startswith(("ladder", "pair")) else None
        spread = f" +- {half:.3f}" if math.isfinite(half) else ""
        if "score" in read[0]:
            tokens = sum(row["tokens"] for row in read) / len(read)
            most = 2 ** math.ceil(math.log2(tokens))
            last = f"score {sum(row['score'] for row in read) / len(read):.3f}, {tokens:.0f} tokens ({most // 2}, {most}]"
        else:
            last = f"{sum(row['log_probability'] for row in read) / len(read):.2f}"
        found.append((name, verdicts, f"{mean:.3f}{spread}", len(read), f"{gap:.2g}" if gap else "", last))
    return ("cells", "verdict", "right", "seeds", "gap at 75 %", "log-probability, or score"), found


def cache_folder(store_path):
    return os.path.abspath(store_path) + ".models"
