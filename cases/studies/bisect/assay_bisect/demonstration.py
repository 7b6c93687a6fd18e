"""The demonstration repository: some 200 commits of a small kernel library, with merges, stretches that do
not build, and one planted regression. The same seed makes the same repository, byte for byte."""
import json
import os
import random
import subprocess

from .demonstration_kernels import PLANTS, State, sources
from .problems import GREEN, Usage
from .repository import environment

HERE = os.path.dirname(os.path.abspath(__file__))
CASES = {"speed": "rmsnorm rows=8 cols=16385"}  # what shows a plant; another is shown by:
CASE = "rmsnorm rows=4 cols=33"
BRANCHES = 0.08  # the share of commits that a branch begins at: no tolerance, a shape of history


def arguments(p):
    group = p.add_argument_group("demonstration")
    group.add_argument("--plant", choices=PLANTS, default="numbers")
    group.add_argument("--seed", type=int, default=1)
    group.add_argument("--commits", type=int, default=220, help="at least 3")


class Draft:
    """A history before git has it: commits by number, each with its parents and its state."""

    def __init__(self, seed, count, plant, stretches=2, where=None, rate=10):
        """where: "stretch" or "branch" puts the plant there; None: anywhere behind the first commit."""
        if count < 3:
            raise Usage(f"--commits {count}; allowed: 3 and more")
        self.random = random.Random(f"{seed} {count} {plant} {where}")
        self.parents, self.states, self.subjects, self.on_branch = [], [], [], []
        self.plant, self.rate = plant, rate
        draw = self.random
        broken = set()
        for _ in range(stretches):
            first = draw.randrange(count // 10 + 1, max(count // 10 + 2, count - 2))
            broken |= set(range(first, min(count - 2, first + draw.randint(1, max(1, count // 14)))))
        self._grow(count, broken)
        inside = [i for i in range(1, len(self.states)) if self.states[i].broken]
        branch = [i for i in range(1, len(self.states)) if self.on_branch[i]]
        self.culprit = draw.choice({"stretch": inside, "branch": branch}.get(where)
                                   or range(1, len(self.states)))
        self.subjects[self.culprit] = "Tidy the kernel"
        self._infect()

    def _commit(self, parents, state, subject, on_branch=False):
        self.parents.append(parents)
        self.states.append(state)
        self.subjects.append(subject)
        self.on_branch.append(on_branch)
        return len(self.states) - 1

    def _edit(self, parent, files, broken, on_branch=False):
        state = self.states[parent].copy()
        name = self.random.choice(files)
        state.edits[name] += 1
        state.broken = broken
        if name == "sum.c" and self.random.random() < 0.3:
            state.unroll = self.random.choice([1, 2, 4, 8])
        return self._commit([parent], state, f"{name}: revision {state.edits[name]}", on_branch)

    def _grow(self, count, broken):
        tip = self._commit([], State(rate=self.rate), "The first kernel")
        while len(self.states) < count:
            free = not self.states[tip].broken and len(self.states) not in broken
            if free and self.random.random() < BRANCHES and len(self.states) + 4 < count:
                side = tip
                for _ in range(self.random.randint(1, 6)):
                    side = self._edit(side, ["row.c", "dispatch.c"], False, True)
                for _ in range(self.random.randint(0, 4)):
                    tip = self._edit(tip, ["sum.c", "plugin.c"], len(self.states) in broken)
                state = self.states[tip].copy()
                for name in ("row.c", "dispatch.c"):
                    state.edits[name] = self.states[side].edits[name]
                tip = self._commit([tip, side], state, "Merge a branch")
            else:
                files = ["sum.c", "row.c", "dispatch.c", "plugin.c", "notes.md"]
                tip = self._edit(tip, files, len(self.states) in broken)
        state = self.states[tip].copy()  # the tip builds
        state.broken = False
        state.edits["plugin.c"] += 1
        self._commit([tip], state, "Release")

    def _infect(self):
        """The plant is in its commit and in whatever descends from it. An edit in it sees that nothing stays
        as it was."""
        for i, parents in enumerate(self.parents):
            if i == self.culprit or any(self.states[p].plant for p in parents):
                self.states[i].plant = self.plant

    def write(self, folder):
        """Makes the repository by `git fast-import`; returns the names of the commits, by number."""
        if os.path.exists(folder) and os.listdir(folder):
            raise Usage(f"{folder} is there and not empty")
        subprocess.run(["git", "init", "-q", "-b", "main", "--template=", folder], check=True,
                       env=environment())
        with open(os.path.join(HERE, "assay_backend.h")) as f:
            header = f.read()
        stream, blobs, marks = [], {}, len(self.states) + 1
        for i, (parents, state, subject) in enumerate(zip(self.parents, self.states, self.subjects)):
            lines = []
            for path, text in sources(state, header).items():
                if text not in blobs:
                    blobs[text] = marks
                    stream.append(f"blob\nmark :{marks}\ndata {len(text.encode())}\n{text}\n")
                    marks += 1
                lines.append(f"M 100644 :{blobs[text]} {path}\n")
            when = f"A. Author <author@example.org> {1700000000 + 3600 * i} +0000"
            text = subject + "\n"
            stream.append(f"commit refs/heads/main\nmark :{i + 1}\nauthor {when}\ncommitter {when}\ndata {len(text)}\n{text}")
            for word, parent in zip(["from"] + ["merge"] * 9, parents):
                stream.append(f"{word} :{parent + 1}\n")
            stream.append("deleteall\n" + "".join(lines) + "\n")
        exported = os.path.abspath(os.path.join(folder, ".git", "marks"))
        subprocess.run(["git", "-C", folder, "fast-import", "--quiet", "--force",
                        f"--export-marks={exported}"], check=True,
                       input="".join(stream), text=True, env=environment())
        names = {}
        with open(exported) as f:
            for line in f:
                mark, name = line.split()
                names[int(mark[1:])] = name
        subprocess.run(["git", "-C", folder, "checkout", "-q", "-f", "main"], check=True, env=environment())
        return [names[i + 1] for i in range(len(self.states))]

    def smallest(self):
        """The commits that no build tells from the culprit: those with the same buildable descendants."""
        count = len(self.states)
        behind = [0] * count  # bits of the buildable commits that descend from each, or are it
        for i in reversed(range(count)):
            if not self.states[i].broken:
                behind[i] |= 1 << i
            for parent in self.parents[i]:
                behind[parent] |= behind[i]
        return [i for i in range(1, count) if behind[i] == behind[self.culprit]]


def command(p, a):
    if not a.folder:
        p.error("demonstration: name the folder of the repository to make")
    draft = Draft(a.seed, a.commits, a.plant)
    names = draft.write(a.folder)
    with open(os.path.join(a.folder, ".git", "planted.json"), "w") as f:
        json.dump({"plant": a.plant, "culprit": names[draft.culprit],
                   "smallest": [names[i] for i in draft.smallest()]}, f)
    broken = sum(state.broken for state in draft.states)
    print(f"{a.folder}: {len(names)} commits, {broken} of which do not build; planted: {a.plant}")
    print(f"assay bisect --repository {a.folder} --good {names[0][:10]} --bad main --build 'sh build.sh' --backend kernels.so \\")
    run = f" --run 'python3 {HERE}/demonstration_law.py {{plugin}}'" if a.plant == "law" else \
        f" --case '{CASES.get(a.plant, CASE)}'"
    more = {"flaky": " --noisy", "speed": " --find time", "kernel": " --find path"}.get(a.plant, "")
    print(f"   {run}{more}")
    return GREEN
