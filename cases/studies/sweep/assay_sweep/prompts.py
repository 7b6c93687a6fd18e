"""Prompts of computed-weight models: a haystack of token ids, and the questions that are asked behind it."""
import random


def _fill(source, about):
    return about["fillers"] + source.randrange(4096)


def ladder(about, length, seed):
    """Families of near keys, each key followed by its value; the right ones spread over all depths. ->
    (prompt, questions)"""
    source = random.Random(f"ladder {seed} {length}")
    slots, near, families, rungs = (length - 3) // 2, 4, 32, 14
    needed = rungs * families * near
    if needed > slots:
        raise ValueError(f"len={length}: the ladder needs {2 * needed + 3} tokens")
    order = [(r, f) for r in range(rungs) for f in range(families)]
    source.shuffle(order)
    right = [(2 * i + 1) * slots // (2 * len(order)) for i in range(len(order))]
    others = list(set(range(slots)) - set(right))
    source.shuffle(others)
    hay, questions = {}, []
    for slot, (r, f) in zip(right, order):
        first = about["keys"] + (r * families + f) * near
        labels = source.sample(range(128), near)
        hay[slot] = (first, about["values"] + labels[0])
        for m in range(1, near):
            hay[others.pop()] = (first + m, about["values"] + labels[m])
        questions.append({"rung": r + 1, "at": slot / slots, "ask": [first],
                          "answer": about["values"] + labels[0]})
    prompt = [1]
    for slot in range(slots):
        prompt += hay.get(slot) or (_fill(source, about), about["values"] + source.randrange(128))
    prompt += [about["separator"]] * (length - 2 - len(prompt))
    return prompt + [about["separator"]], sorted(questions, key=lambda q: (q["rung"], q["ask"]))


def pair(about, length, seed, side):
    source = random.Random(f"pair {seed} {length}")
    tokens = sorted({t for item in about["items"] for t in item["hay"]})
    room = length - 3
    if len(tokens) > room:
        raise ValueError(f"len={length}: the pair needs {len(tokens) + 3} tokens")
    prompt = [1] + [_fill(source, about) for _ in range(room)]
    where = dict(zip(tokens, source.sample(range(room), len(tokens))))
    for token, slot in where.items():
        prompt[1 + slot] = token
    questions = [{"rung": item["rung"], "at": where[item["hay"][0]] / room, "ask": [item["query"]],
                  "answer": item["answer"]}
                 for item in about["items"] if item["side"] == side]
    return prompt + [about["separator"]], questions


def mrcr(about, length, seed):
    """16 keys of 8 occurrences each, every value of a key asked for by its ordinal."""
    source = random.Random(f"mrcr {seed} {length}")
    slots, keys, times = (length - 4) // 2, 16, about["occurrences"]
    if keys * times > slots:
        raise ValueError(f"len={length}: mrcr needs {2 * keys * times + 4} tokens")
    places = sorted(source.sample(range(slots), keys * times))
    which = [k for k in range(keys) for _ in range(times)]
    source.shuffle(which)
    labels = [source.sample(range(128), times) for _ in range(keys)]
    seen, hay, questions = [0] * keys, {}, []
    for slot, k in zip(places, which):
        value = about["values"] + labels[k][seen[k]]
        hay[slot] = (about["keys"] + k, value)
        questions.append({"rung": seen[k] + 1, "at": slot / slots,
                          "ask": [about["orders"] + seen[k], about["keys"] + k], "answer": value})
        seen[k] += 1
    prompt = [1]
    for slot in range(slots):
        prompt += hay.get(slot) or (_fill(source, about), about["values"] + source.randrange(128))
    prompt += [about["separator"]] * (length - 3 - len(prompt))
    return prompt + [about["separator"]], sorted(questions, key=lambda q: q["ask"])


def dense(about, length, seed):
    """A needle in every cell behind the first, or spread evenly where there are more cells than needles; each
    is asked for."""
    source = random.Random(f"dense {seed} {length}")
    room, known = length - 3, len(about["labels"])
    count = min(room, known)
    prompt, questions = [1] + [about["separator"]] * room, []
    for i, key in enumerate(source.sample(range(known), count)):
        slot = i * room // count
        prompt[1 + slot] = about["keys"] + key
        questions.append({"at": slot / room, "ask": [about["asked"] + key],
                          "answer": about["values"] + about["labels"][key]})
    return prompt + [about["separator"]], questions
