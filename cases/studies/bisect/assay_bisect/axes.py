"""The axes beside commits: which part of a difference makes a result another, by delta debugging over the
parts.

flags      compile flags and environment, over their product: what only the bad side has is taken over part by
part files      source files of two commits: the good tree with some of the bad one's files
objects    object files of two builds, by linking some of each; then the functions of those that matter
libraries  shared libraries of two builds, by a folder with some of each"""
import hashlib
import json
import os
import shlex
import shutil
import subprocess
import sys

from .builds import Builder, Kept, Recipe, lock
from .delta import smallest
from .objects import by_function, link, parts_of
from .problems import GREEN, SEVERAL, Infrastructure, NoDifference, Untestable, Usage
from .repository import Repository, environment, git, remove

AXES = ("flags", "files", "objects", "libraries")


def arguments(p):
    group = p.add_argument_group("flags, files, objects, libraries")
    group.add_argument("--at", default="HEAD", metavar="COMMIT", help="flags: the commit to build")
    group.add_argument("--good-flags", default="", metavar="FLAGS")
    group.add_argument("--bad-flags", default="", metavar="FLAGS")
    group.add_argument("--flags-in", default="CFLAGS", metavar="NAME",
                       help="the variable that the build takes its flags from")
    group.add_argument("--good-env", action="append", default=[], metavar="NAME=VALUE")
    group.add_argument("--bad-env", action="append", default=[], metavar="NAME=VALUE")
    group.add_argument("--good-folder", metavar="DIR", help="objects, libraries: what the good build left")
    group.add_argument("--bad-folder", metavar="DIR")
    group.add_argument("--objects", default="**/*.o", metavar="PATTERN",
                       help="objects: which files of both folders")
    group.add_argument("--link", default="cc -shared -o {out} {objects} -lm", metavar="CMD")


class Flags:
    def __init__(self, p, a, question, state, say):
        from .command import recipe_of, setting
        self.recipe, self.question, self.a = recipe_of(p, a), question, a
        self.repository = Repository(a.repository)
        self.commit = self.repository.commit(a.at, "--at")
        self.repository.borrow(state)
        self.state, self.say = state, say
        self.flags = [shlex.split(a.good_flags), shlex.split(a.bad_flags)]
        self.settings = [dict(setting(t) for t in a.good_env), dict(setting(t) for t in a.bad_env)]
        good, bad = self.flags
        self.items = [f"without {f}"
                      for f in good if f not in bad] + [f"with {f}" for f in bad if f not in good]
        names = sorted(set(self.settings[0]) | set(self.settings[1]))
        self.items += [f"{n}={self.settings[1].get(n, '')}" for n in names
                       if self.settings[0].get(n) != self.settings[1].get(n)]

    def plugin(self, part):
        good, bad = self.flags
        chosen = [f for f in good if f not in bad and f"without {f}" not in part]
        chosen += [f for f in bad if f in good or f"with {f}" in part]
        settings = dict(self.settings[0])
        for name in set(settings) | set(self.settings[1]):
            if f"{name}={self.settings[1].get(name, '')}" in part:
                settings.pop(name, None)
                if name in self.settings[1]:
                    settings[name] = self.settings[1][name]
        own = Recipe(**(vars(self.recipe) | {"environment": self.recipe.environment | settings |
                                             {self.a.flags_in: " ".join(chosen)}}))
        self.question.environment = tuple(sorted(settings.items()))
        return Builder(self.repository, own, self.state, 1, self.say).plugin(self.commit)


class Files:
    def __init__(self, p, a, question, state, say):
        from .command import recipe_of
        repository = self.repository = Repository(a.repository)
        if not a.good or not a.bad:
            p.error("files: name both ends: --good COMMIT --bad COMMIT")
        self.good, self.bad = repository.commit(a.good, "--good"), repository.commit(a.bad, "--bad")
        repository.borrow(state)
        self.index = os.path.join(state, "index")
        self.builder = Builder(repository, recipe_of(p, a), state, 1, say)
        raw = git(repository.source, "diff-tree", "-r", "-z", "--no-renames", "--raw", self.good,
                  self.bad).split("\0")
        self.change = {}
        for meta, path in zip(raw[::2], raw[1::2]):
            _, mode, _, blob, _ = meta[1:].split()
            self.change[path] = (mode, blob)
        self.items = sorted(self.change)

    def plugin(self, part):
        own = self.repository.own
        said = environment() | {"GIT_INDEX_FILE": self.index}
        zero = "0" * 40
        text = "".join(f"{self.change[f][0]} {self.change[f][1] if self.change[f][0] != '000000' else zero}\t{f}\0" for f in part)

        def run(*words, given=None):
            done = subprocess.run(["git", "-C", own, *words], input=given, text=True, capture_output=True,
                                  env=said | {
                "GIT_AUTHOR_NAME": "assay", "GIT_AUTHOR_EMAIL": "assay@localhost",
                "GIT_AUTHOR_DATE": "@0 +0000",
                "GIT_COMMITTER_NAME": "assay", "GIT_COMMITTER_EMAIL": "assay@localhost",
                "GIT_COMMITTER_DATE": "@0 +0000"})
            if done.returncode:
                raise Infrastructure(f"git {words[0]}: {done.stderr.strip()}")
            return done.stdout.strip()

        run("read-tree", self.good)
        run("update-index", "-z", "--index-info", given=text)
        commit = run("commit-tree", run("write-tree"), "-m", "some files of another commit")
        self.repository._tree[commit, ()] = run("rev-parse", commit + "^{tree}")
        self.repository.source, source = own, self.repository.source  # the commit is in our repository alone
        try:
            return self.builder.plugin(commit)
        finally:
            self.repository.source = source


class Folders:
    """What objects and libraries share: two builds, and a folder for each mixture of them."""

    def __init__(self, p, a, question, state, say):
        for option, folder in (("--good-folder", a.good_folder), ("--bad-folder", a.bad_folder)):
            if not folder or not os.path.isdir(folder):
                p.error(f"{option} '{folder or ''}': allowed: a folder that a build left")
        if not a.backend:
            p.error("--backend: name the plug-in's file")
        self.a, self.state, self.kept = a, state, Kept()
        self.good, self.bad = os.path.abspath(a.good_folder), os.path.abspath(a.bad_folder)
        self.pattern = a.objects if a.axis == "objects" else "**/*.so*"
        good, bad = parts_of(self.good, self.pattern), parts_of(self.bad, self.pattern)
        self.both = sorted(good | bad)
        self.items = [f for f in self.both if not same_file(os.path.join(self.good, f),
                                                            os.path.join(self.bad, f))]

    def folder(self, part):
        name = hashlib.sha256("\0".join([self.good, self.bad, *sorted(part)]).encode()).hexdigest()[:20]
        folder = os.path.join(self.state, "mixtures", name)
        remove(folder)
        os.makedirs(folder)
        return folder

    def side(self, file, part):
        return os.path.join(self.bad if file in part else self.good, file)


class Libraries(Folders):
    def plugin(self, part):
        kept = os.path.join(self.folder(part), "kept")
        for file in set(self.both) | {self.a.backend}:
            source, target = self.side(file, part), os.path.join(kept, file)
            if os.path.exists(source):
                os.makedirs(os.path.dirname(target), exist_ok=True)
                shutil.copy2(source, target)
        if not os.path.exists(os.path.join(kept, self.a.backend)):
            raise Usage(f"--backend {self.a.backend}: not in {self.good}")
        return os.path.join(kept, self.a.backend)


class Objects(Folders):
    def plugin(self, part):
        folder = self.folder(part)
        return link(self.kept, self.a.link,
                    [self.side(f, part) for f in self.both if os.path.exists(self.side(f, part))], folder,
                    os.path.basename(self.a.backend))


def same_file(a, b):
    if not os.path.exists(a) or not os.path.exists(b):
        return False
    with open(a, "rb") as x, open(b, "rb") as y:
        return x.read() == y.read()


def command(p, a):
    from .command import question_of, state_of
    question = question_of(p, a)
    if a.noisy or a.find == "time":
        p.error(f"{a.axis}: --noisy and --find time are for commits")
    repository = Repository(a.repository) if a.axis in ("flags", "files") else None
    state = state_of(a, repository)
    held = lock(state)
    say = (lambda text: None) if a.quiet else (lambda text: print(text, flush=True))
    axis = {"flags": Flags, "files": Files, "objects": Objects,
            "libraries": Libraries}[a.axis](p, a, question, state, say)
    kept = Kept()
    try:
        if not axis.items:
            raise NoDifference(f"{a.axis}: both sides are the same")
        states = []
        for part, side in (([], "good"), (axis.items, "bad")):
            try:
                states.append(question.ask(kept, axis.plugin(part), side))
            except Untestable as e:
                raise Usage(f"the {side} side cannot be tested: {e}") from e
        names = [n for n in states[0] if n in states[1] and states[0][n] != states[1][n]]
        if not names:
            raise NoDifference(f"both sides show the same: {', '.join(sorted(set(states[0].values()))[:5])}")
        good, bad = states[0][names[0]], states[1][names[0]]
        tests = [0]

        def shows(plugin, label):
            tests[0] += 1
            state = question.ask(kept, plugin, label).get(names[0])
            say(f"  {label}: {state}")
            return True if state == bad else False if state == good else None

        part = smallest(axis.items, lambda some: shows(axis.plugin(some), " ".join(some)))
        print(f"{names[0]}: {good} -> {bad} by {len(part)} of {len(axis.items)} {a.axis}:")
        for item in part:
            print(f"  {item}")
        report = {"case": names[0], "good": good, "bad": bad, "axis": a.axis, "parts": part,
                  "of": len(axis.items)}
        if a.axis == "objects":
            report["functions"] = by_function(axis, part, shows, say)
        report["tests"] = tests[0]
        print(f"tests: {tests[0]}, and the two ends")
    finally:
        kept.stop()
        held.close()
    if a.json:
        with open(a.json, "w") as f:
            json.dump({"schema": "assay-bisect", "version": 1, "command": sys.argv, **report}, f, indent=1)
            f.write("\n")
    return GREEN if len(part) == 1 else SEVERAL
