"""The axis of commits: the ends, what differs between them, and for each difference the commit that brought
it."""
import json
import math
import os
from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, wait
from dataclasses import dataclass, field

from .builds import Builder, Cancelled
from .halving import NEW, OLD, UNTESTABLE, Halving
from .history import History
from .log import BisectLog
from .problems import Infrastructure, NoDifference, Untestable, Usage, read_state


@dataclass
class Finding:
    """A change that was found, or narrowed to `commits`."""
    names: list
    old: str
    new: str
    commits: list
    log: str
    skipped: list = field(default_factory=list)
    varies: str = ""
    posterior: float = 1.0


class Commits:
    """Everything about one question on one stretch of history; what is seen is on the disk as soon as it is
    there."""

    def __init__(self, repository, recipe, question, good, bad, state, jobs=1, first_parent=False, say=print):
        self.repository, self.recipe, self.question, self.jobs, self.say = repository, recipe, question, jobs, say
        self.good, self.bad = good, bad
        self.fixed = good != bad and git_is_ancestor(repository, bad, good)
        self.old, self.new = (bad, good) if self.fixed else (good, bad)
        repository.borrow(state)
        self.builder = Builder(repository, recipe, state, jobs, say)
        self.folder = os.path.join(state, "questions", question.digest())
        os.makedirs(self.folder, exist_ok=True)
        self.asked, self.taken = 0, {}
        commits, parents = repository.between(self.old, self.new, first_parent)
        if not commits:
            raise Usage(f"--good and --bad are the same history: {self.old[:10]} has all of {self.new[:10]}")
        self.history = History(commits, parents)
        self.excluded, self.like = self._same_builds(parents)

    def _same_builds(self, parents):
        """(bits of commits that are built from what a parent is built from, commit -> the one that stands for
        it)."""
        repository, paths = self.repository, self.recipe.paths
        touched = repository.touching(self.old, self.new, paths) if paths else None
        commits = self.history.commits
        if not paths:
            repository.trees(commits + sorted({p for c in commits for p in parents[c]}))
        excluded, like = 0, {}
        for i, commit in enumerate(commits):
            same = None
            for n, parent in enumerate(parents[commit]):
                untouched = n == 0 and touched is not None and commit not in touched
                if untouched or repository.tree(commit,
                                                paths) == repository.tree(like.get(parent, parent), paths):
                    same = like.get(parent, parent)
                    break
            like[commit] = same or commit
            if same:
                excluded |= 1 << i
        return excluded, like

    def stands_for(self, commit):
        return self.like.get(commit, commit)

    # What a commit shows, from the disk or asked now. Raises Untestable and Infrastructure.
    def states(self, commit, again=0):
        commit = self.stands_for(commit)
        plugin = self.builder.plugin(commit)  # also where the answer is known: it may say why not
        path = os.path.join(self.folder,
                            f"{self.builder.key(commit)}{'.' + str(again) if again else ''}.json")
        if not os.path.exists(path):
            try:
                found = {"states": self.question.ask(self.builder.kept, plugin, commit)}
            except Untestable as e:
                found = {"untestable": str(e)}
            self.asked += 1
            with open(path + ".part", "w") as f:
                json.dump({"commit": commit, **found}, f)
            os.rename(path + ".part", path)
        with open(path, errors="replace") as f:
            found = read_state(path, f.read(),
                               lambda found: "untestable" in found or isinstance(found.get("states"), dict))
        if "untestable" in found:
            raise Untestable(found["untestable"])
        return found["states"]

    def known(self, commit):
        """Whether the answer of the commit is there without a build or a run."""
        commit = self.stands_for(commit)
        if not self.builder.cached(commit):
            return False
        return os.path.exists(os.path.join(self.folder,
                                           self.builder.key(commit) + ".json")) or not os.path.exists(
            os.path.join(self.builder.folder(commit), "kept", self.recipe.backend))

    def _end(self, commit, option):
        try:
            return self.states(commit)
        except Untestable as e:
            raise Usage(f"{option} {commit[:10]} cannot be tested: {e}") from e

    def differences(self):
        """{(state at the old end, at the new one): [name]}: both ends are built and asked first."""
        words = ("--bad", "--good") if self.fixed else ("--good", "--bad")
        with ThreadPoolExecutor(self.jobs) as pool:
            old, new = pool.map(lambda end: self._end(*end), ((self.old, words[0]), (self.new, words[1])))
        found = {}
        for name in old:
            if name in new and old[name] != new[name]:
                found.setdefault((old[name], new[name]), []).append(name)
        if not found:
            shown = sorted(set(old.values()))
            raise NoDifference(f"both ends show the same: {', '.join(shown[:5])}")
        self._merge_bases(found)
        return found

    def _merge_bases(self, found):
        if git_is_ancestor(self.repository, self.old, self.new):
            return
        for base in self.repository.merge_bases(self.old, self.new):
            try:
                states = self.states(base)
            except Untestable as e:
                self.say(f"  the merge base {base[:10]} cannot be tested ({e}); the change is taken to be behind it")
                continue
            for (_, new), names in found.items():
                if any(states.get(name) == new for name in names):
                    raise Usage(f"the merge base {base[:10]} shows '{new}' already: it is not {self.new[:10]} that brought it, "
                                f"but {self.old[:10]} that lost it; search --good {self.old[:10]} --bad {base[:10]}")

    def _answer(self, commit, name, old, new):
        """(state, why) of one name at one commit, as the search takes it."""
        try:
            state = self.states(commit).get(name, "not there")
        except Untestable as e:
            return UNTESTABLE, str(e)
        if state in (old, new):
            return (OLD if state == old else NEW), ""
        return UNTESTABLE, f"it shows '{state}'"

    def search(self, name, old, new, log, replayed=()):
        """Halving until nothing more can be said; returns the Halving."""
        halving = Halving(self.history, self.excluded)
        log.answer(self.old, OLD)
        log.answer(self.new, NEW)
        halving.answer(len(self.history) - 1, NEW)
        for commit, state in replayed:
            if commit in self.history.index:
                halving.answer(self.history.index[commit], state if state != "skip" else UNTESTABLE)
                log.answer(commit, state)
        for i, commit in enumerate(self.history.commits):  # what was asked before costs nothing
            if halving.splits(i) and not self.excluded >> i & 1 and self.known(commit):
                self._take(halving, log, i, self._answer(commit, name, old, new))
        running = {}
        with ThreadPoolExecutor(self.jobs) as pool:
            try:
                while wanted := halving.wanted(self.jobs):
                    for i in running.values():
                        if i not in wanted and not halving.splits(i):
                            self.builder.kept.cancel(self.history.commits[i])
                    busy = set(running.values())
                    for i in [w for w in wanted if w not in busy][:self.jobs - len(busy)]:
                        running[pool.submit(self._answer, self.history.commits[i], name, old, new)] = i
                    for done in wait(running, return_when=FIRST_COMPLETED).done:
                        i = running.pop(done)
                        try:
                            self._take(halving, log, i, done.result())
                        except Cancelled:
                            pass
            except BaseException:
                self.builder.kept.stop()
                raise
            for i in running.values():
                self.builder.kept.cancel(self.history.commits[i])
        return halving

    def _take(self, halving, log, i, answer):
        state, why = answer
        if state == UNTESTABLE or halving.splits(i):
            halving.answer(i, state)
            log.answer(self.history.commits[i], state, why)
            left = halving.remaining.bit_count()
            rest = f"{left} left" if left > 1 else "one left"
            self.say(f"  {self.history.commits[i][:10]} {state}{': ' + why if why else ''}; {rest}")

    def findings(self, found, replayed=(), confirm=2):
        """A Finding for each change, those that the same commit brought together."""
        if replayed and sum(map(len, found.values())) > 1:
            raise Usage("--replay: its answers are about one case, and more than one changes between the ends")
        results = []
        for (old, new), names in found.items():
            rest = list(names)
            while rest:
                path = os.path.join(self.folder,
                                    f"bisect{'-' + str(len(results) + 1) if results else ''}.log")
                log = BisectLog(path, self.repository, self.fixed)
                log.note(f"{rest[0]}: {old} -> {new}")
                if len(found) > 1 or len(names) > 1:
                    self.say(f"{rest[0]}: {old} -> {new}")
                halving = self.search(rest[0], old, new, log, replayed)
                culprits = halving.culprits()
                same = [name for name in rest if name == rest[0] or self._agrees(name, old, new, halving)]
                commits = [self.history.commits[i] for i in culprits]
                log.end(commits)
                finding = Finding(same, old, new, commits, path, [self.history.commits[i] for i, state in
                                                                 halving.answers.items()
                                                                 if state == UNTESTABLE])
                if len(commits) == 1 and confirm:
                    finding.varies = self._repeated(commits[0], same, confirm)
                results.append(finding)
                rest = [name for name in rest if name not in same]
        return results

    def _agrees(self, name, old, new, halving):
        """Whether every commit that was asked about one name answers alike about another."""
        for i, state in halving.answers.items():
            if (
                self.known(self.history.commits[i])
                and self._answer(self.history.commits[i], name, old, new)[0] != state
            ):
                return False
        return True

    def _repeated(self, commit, names, times):
        """The culprit and its parents asked again, from the builds that are there; what answers differ, ""
        for none."""
        around = [commit,
                  *(self.history.commits[p] for p in self.history.parents[self.history.index[commit]])]
        if len(around) == 1:
            around.append(self.old)
        for one in around:
            try:
                first = self.states(one)
                for again in range(1, times + 1):
                    other = self.states(one, again)
                    for name in names:
                        if first.get(name) != other.get(name):
                            return f"{one[:10]} shows '{first.get(name)}', and asked again '{other.get(name)}'"
            except Untestable:
                continue
        return ""

    def bound(self):
        """Builds that halving may take: ceil(log2 n) and the two ends."""
        return math.ceil(math.log2(max(1, len(self.history)))) + 2


def git_is_ancestor(repository, a, b):
    from .repository import git
    done = git(repository.source, "merge-base", "--is-ancestor", a, b, check=False)
    if done.returncode not in (0, 1):
        raise Infrastructure(done.stderr.strip())
    return done.returncode == 0
