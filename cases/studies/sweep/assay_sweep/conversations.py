"""Retrieval asked of a real language model in its own words, over the chat endpoint that all servers have.

    niah        RULER's needles (Hsieh et al. 2024, arXiv 2404.06654, its noise haystack and multi-key
    question): numbers for `near` keys,
                one in each part of the text, each asked for; right when the answer holds the number (RULER's
                string match).
    chat-mrcr   OpenAI's multi-round co-reference (its data set's card): a conversation in which each request
    is made `near` times,
                with another answer each time; the i-th is asked for, to be begun with a random text. Score: 0
                without that text, else
                difflib's ratio of what follows to the answer. Right: begun so, and nearer to that answer than
                to all other ones of the
                same request: which one was found, whatever the model's spelling.

A prompt is as long as `len` allows, in the model's own tokens: the server counts them (usage.prompt_tokens).
"""
import difflib
import random

GROUPS_ASKED = 2
NOISE = "The grass is green. The sky is blue. The sun is yellow. Here we go. There and back again."
INTRODUCTION = ("Some special magic numbers are hidden within the following text. Make sure to memorize it. I will quiz you about the "
                "numbers afterwards.\n")
KINDS = ("poem", "short story", "letter", "riddle", "song", "speech")
TOPICS = ("tapirs", "lanterns", "rivers", "clocks", "harbours", "mountains", "bakers", "violins", "deserts",
          "windmills", "foxes", "trains")
ADJECTIVES = ("old", "quiet", "golden", "hurried", "pale", "clever", "broken", "distant", "patient", "sudden",
              "gentle", "restless")
VERBS = ("wait for", "dream of", "carry", "forget", "follow", "paint", "repair", "answer", "wake", "count",
         "guard", "envy")
NOUNS = ("the harbour", "a stranger", "the morning", "seven bells", "the garden", "a map", "the winter",
         "two brothers", "a promise", "the sea")
ORDINALS = ("first", "second", "third", "fourth", "fifth", "sixth", "seventh", "eighth")


def niah(seed, near, units):
    """The questions about a text with `units` of noise."""
    source = random.Random(f"niah {seed} {near}")
    keys = source.sample([f"{a}-{n.split()[-1]}" for a in ADJECTIVES for n in NOUNS], near)
    numbers = [str(source.randrange(10 ** 6, 10 ** 7)) for _ in keys]
    parts, places = [NOISE] * units, [int((i + source.random()) * units / near) for i in range(near)]
    for i in reversed(range(near)):
        parts.insert(places[i], f"One of the special magic numbers for {keys[i]} is: {numbers[i]}.")
    text = INTRODUCTION + " ".join(parts)
    return [{"at": places[i] / units, "answer": numbers[i],
             "messages": [{"role": "user", "content": f"{text}\nWhat is the special magic number "
             f"for {keys[i]} mentioned in the provided text?"}]} for i in range(near)]


def written(source, topic):
    return " ".join(f"The {source.choice(ADJECTIVES)} {topic} {source.choice(VERBS)} {source.choice(NOUNS)}."
                    for _ in range(4))


def chat_mrcr(seed, near, units):
    """`units` requests that are made `near` times each."""
    source = random.Random(f"chat-mrcr {seed}")
    pairs = source.sample([(kind, topic) for kind in KINDS for topic in TOPICS],
                          min(units, len(KINDS) * len(TOPICS)))
    order = [pair for pair in pairs for _ in range(near)]
    source.shuffle(order)
    history, answers, at = [], {pair: [] for pair in pairs}, {}
    for slot, (kind, topic) in enumerate(order):
        at[(kind, topic), len(answers[kind, topic])] = slot / len(order)
        answers[kind, topic].append(written(source, topic))
        history += [{"role": "user", "content": f"Write a {kind} about {topic}."},
                    {"role": "assistant", "content": answers[kind, topic][-1]}]
    questions = []
    for pair in pairs[:GROUPS_ASKED]:
        for i, answer in enumerate(answers[pair]):
            prefix = "".join(source.choice("abcdefghijkmnpqrstuvwxyzABCDEFGHJKLMNPQRSTUVWXYZ23456789")
                             for _ in range(10))
            ask = f"Prepend {prefix} to the {ORDINALS[i]} {pair[0]} about {pair[1]}. Do not include any other text in your response."
            questions.append({"rung": i + 1, "at": at[pair, i], "answer": answer, "others": answers[pair],
                              "prefix": prefix,
                              "messages": history + [{"role": "user", "content": ask}]})
    return questions


def graded(question, said):
    """(whether the right one was found, score)."""
    if "prefix" not in question:
        right = question["answer"] in said
        return right, float(right)
    said = said.lstrip()
    if not said.startswith(question["prefix"]):
        return False, 0.0
    said = said[len(question["prefix"]):].strip()
    ratios = [difflib.SequenceMatcher(None, said, other).ratio() for other in question["others"]]
    score = difflib.SequenceMatcher(None, said, question["answer"]).ratio()
    return score == max(ratios) and ratios.count(score) == 1, score


def fitted(questions_of, count, length):
    """The questions of the longest prompt of at most `length` tokens, and its tokens. count(messages) ->
    tokens."""
    def tokens(units):
        return count(questions_of(units)[-1]["messages"])
    few, more = 2, 4
    a, b = tokens(few), tokens(more)
    per_unit = max(1.0, (b - a) / (more - few))
    units = int((length - a) / per_unit) + few
    while units >= few:
        found = tokens(units)
        if found <= length:
            return questions_of(units), found
        units -= max(1, int((found - length) / per_unit))
    raise ValueError(f"len={length}: the least prompt has {a} tokens")
