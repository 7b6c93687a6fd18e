"""What the documents name is there, what is there is named, and each measurement can be repeated."""
import glob
import os
import re

from rules.tree import CPP, GLSL, LAYERS

LINK = re.compile(r"\]\(([^)\s]+)\)")
QUOTED = re.compile(r"`([^`\n]+)`")
FENCE = re.compile(r"^(```|~~~)")
TOPS = LAYERS + ("ci", "cmake")
MAPS = ("README.md", "ARCHITECTURE.md", "CONTRIBUTING.md")
RESULTS = "reports/results/"
HEADER = {"commit": re.compile(r"^\s*commit: +[0-9a-f]{7,40}\b", re.M),
          "machine": re.compile(r"^\s*machine: +\S", re.M),
          "command": re.compile(r"^\s*command: +\S", re.M)}


def check(tree):
    documents = [f for f in tree.files if f.endswith(".md")]
    for file in documents:
        yield from _paths(tree, file)
    yield from _named_folders(tree)
    for file in documents:
        if file.startswith(RESULTS):
            for word, line in HEADER.items():
                if not line.search(tree.text(file)):
                    yield f"{file}:1: a measurement without a line `{word}: ...`: who repeats it needs commit, machine and command"
    told = "".join(tree.text(f) for f in documents if f.startswith(RESULTS))
    for file in tree.files:
        if file.startswith(RESULTS) and not file.endswith(".md") and os.path.basename(file) not in told:
            yield f"{file}:1: no document under {RESULTS} says what it is and how it was made"


def _paths(tree, file):
    fenced = False
    for number, line in tree.lines(file):
        if FENCE.match(line):
            fenced = not fenced
        if fenced:
            continue
        for target in LINK.findall(QUOTED.sub("", line)):
            path = target.split("#")[0]
            if path and "://" not in path and not path.startswith("mailto:"):
                if not tree.has(os.path.normpath(os.path.join(os.path.dirname(file), path))):
                    yield f"{file}:{number}: a dead link: {target}"
        for text in QUOTED.findall(line):
            for path in re.split(r"[\s,;|]+", text):
                if path.split("/")[0] in TOPS and "/" in path and not _there(tree, path, file in MAPS):
                    yield f"{file}:{number}: names {path}, which is not there"


def _there(tree, path, placeholders):
    path = re.sub(r"(:\d+|[.:)])+$", "", path)
    if re.search(r"[^\w./*<>{},+-]", path) or ("<" in path and not placeholders):
        return True  # a pattern, an expression or an option, no path
    path = re.sub(r"<[a-z ]+>", "*", path)
    choices = re.search(r"\{([^}]*)\}", path)
    paths = [path.replace(choices[0], one) for one in choices[1].split(",")] if choices else [path]
    return all(glob.glob(os.path.join(tree.root, p)) or glob.glob(os.path.join(tree.root, p) + ".*")
               for p in paths)


def _named_folders(tree):
    """Every folder of depth 2, study and part of attention that holds sources is named in ARCHITECTURE.md by
    its path."""
    if not tree.has("ARCHITECTURE.md"):
        yield "ARCHITECTURE.md:1: there is none"
        return
    text, folders = tree.text("ARCHITECTURE.md"), set()
    for file in tree.sources:
        parts = file.split("/")[:-1]
        if file.endswith(CPP + GLSL + (".py", ".cases", ".csv", ".md", ".json")) and len(parts) >= 2:
            folders.add("/".join(parts[:2]))
            if len(parts) >= 3 and parts[:2] == ["cases", "studies"]:
                folders.add("/".join(parts[:3]))
            if len(parts) >= 4 and parts[:3] == ["reference", "ops", "attention"]:
                folders.add("/".join(parts[:4]))
    for folder in sorted(folders):
        if not re.search(r"(?<![\w/])" + re.escape(folder) + r"/?(?![\w/-])", text):
            yield f"ARCHITECTURE.md:1: does not name {folder}"
