"""git's own bisect log: what we write, `git bisect replay` reads, and what `git bisect log` writes, we
read."""
import os
import re

from .halving import NEW, OLD
from .problems import Usage

LINE = re.compile(r"git[ -]bisect (\S+) ?(.*)")


class BisectLog:
    """One line for each answer, in one write each. Lines of our own begin with `# assay:`, which git passes
    over."""

    def __init__(self, path, repository, fixed=False):
        self.path, self.repository = path, repository
        self.words = {OLD: "broken", NEW: "fixed"} if fixed else {OLD: "good", NEW: "bad"}
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w") as f:
            f.write("git bisect start" + (" '--term-new=fixed' '--term-old=broken'" if fixed else "") + "\n")

    def _append(self, text):
        with open(self.path, "a") as f:
            f.write(text)

    def answer(self, commit, state, why=""):
        word = self.words.get(state, "skip")
        why = f"# assay: {why}\n" if why else ""
        self._append(f"{why}# {word}: [{commit}] {self.repository.subject(commit)}\ngit bisect {word} {commit}\n")

    def note(self, text):
        self._append(f"# assay: {text}\n")

    def end(self, commits):
        if len(commits) == 1:
            self._append(f"# first '{self.words[NEW]}' commit: [{commits[0]}] {self.repository.subject(commits[0])}\n")
        else:
            self._append("# only skipped commits left to test\n" + "".join(
                f"# possible first '{self.words[NEW]}' commit: [{c}] {self.repository.subject(c)}\n"
                for c in commits))


def read_log(path):
    """([(commit, OLD | NEW | "skip")...]) of a bisect log."""
    try:
        with open(path) as f:
            lines = f.read().splitlines()
    except OSError as e:
        raise Usage(f"--replay {path}: {e.strerror}") from e
    old, new, found = "good", "bad", []
    for number, line in enumerate(lines, 1):
        if not line.strip() or line.startswith(("#", "status:")):
            continue
        parts = LINE.fullmatch(line.strip())
        if not parts:
            raise Usage(f"--replay {path}: line {number} is '{line[:60]}'; allowed: what `git bisect log` writes")
        word, rest = parts[1], parts[2].split()
        if word == "start":
            for option in rest:
                name, _, value = option.strip("'").partition("=")
                old = value if name in ("--term-old", "--term-good") else old
                new = value if name in ("--term-new", "--term-bad") else new
        elif word in (old, "good", "old"):
            found += [(commit, OLD) for commit in rest]
        elif word in (new, "bad", "new"):
            found += [(commit, NEW) for commit in rest]
        elif word == "skip":
            found += [(commit, "skip") for commit in rest]
        else:
            raise Usage(f"--replay {path}: line {number} has the word '{word}'; allowed: start {old} {new} skip")
    return found
