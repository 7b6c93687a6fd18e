"""The command line of `assay bisect`."""
import argparse
import json
import math
import os
import re
import shutil
import sys

from . import axes, demonstration
from .builds import Recipe, lock
from .commits import Commits
from .noisy import Noisy
from .problems import CANNOT_RUN, GREEN, NOTHING, SEVERAL, USAGE, Infrastructure, NoDifference, Untestable, Usage
from .log import read_log
from .questions import FINDS, Question
from .repository import Repository

EPILOG = """Examples:
  assay bisect --good v1.2 --bad HEAD --build 'make -s' --backend mine.so --case 'rmsnorm rows=4 cols=33'
  assay bisect --good v1.2 --bad HEAD --build 'make -s' --backend mine.so --case norms --jobs 4 --json culprits.json
  assay bisect --good v1.2 --bad HEAD --build 'make -s' --backend mine.so --case 'softmax rows=4 cols=64' --noisy
  assay bisect --good v1.2 --bad HEAD --build 'make -s' --backend mine.so --case 'matmul m=64 n=512 k=512' --find time
  assay bisect --good v1.2 --bad HEAD --build 'make -s' --backend mine.so --case 'rmsnorm rows=40 cols=33' --find law
  assay bisect --good v1.2 --bad HEAD --build 'make -s' --backend mine.so --field verdict \\
      --run "{assay} sweep kernel 'pv len=256' -b {plugin} --store s.jsonl > log; grep '\\"cell\\":' s.jsonl"
  assay bisect flags --build 'cc $CFLAGS -shared -fPIC -o mine.so *.c' --backend mine.so --case 'softmax rows=4 cols=64' \\
      --good-flags '-O2' --bad-flags '-O3 -ffast-math -funroll-loops'
  assay bisect files --good HEAD~1 --bad HEAD --build 'make -s' --backend mine.so --case 'softmax rows=4 cols=64'
  assay bisect demonstration here --plant numbers

What is looked for (--find): verdict (the default: from the good end's verdict to the bad end's; any other is no answer), any
(every finding alike), path (the kernels that ran), error (worst error / limit to the last digit: another arithmetic), law
(each law of `assay laws` on the case: bitwise, within limits, broken; law:NAME one of them), time (seconds in the kernel against the good end's, runs of
both in turn; always --noisy). --run CMD asks any command instead, with
{plugin} {commit} {assay}: exit code 0 is clean, 125 no answer, another a finding; --field NAME takes that field of the JSON that
it prints.

Whatever ends it, kill -9 too: the same command goes on from there. The log is git's own (`git bisect replay LOG`).
Exit codes: 0 the culprit is named, 1 narrowed to several, 2 wrong usage, 3 the ends do not differ, 125 the machine failed."""


class Parser(argparse.ArgumentParser):
    def error(self, message):
        self.exit(USAGE, f"assay bisect: {message}\n")


def number(low, high, kind=float):
    def parse(text):
        try:
            value = kind(text)
        except ValueError:
            value = math.nan
        if not low <= value <= high:
            raise argparse.ArgumentTypeError(f"'{text}'; allowed: {low}..{high}")
        return value
    return parse


def find_of(text):
    if text not in FINDS and not re.fullmatch("law:[a-z_]+", text):
        raise argparse.ArgumentTypeError(f"'{text}'; allowed: {', '.join(FINDS)}, law:NAME")
    return text


def setting(text):
    name, found, value = text.partition("=")
    if not found or not name:
        raise argparse.ArgumentTypeError(f"'{text}'; allowed: NAME=VALUE")
    return name, value


def parser():
    p = Parser(prog="assay bisect", formatter_class=argparse.RawDescriptionHelpFormatter, epilog=EPILOG,
               allow_abbrev=False,
               description="Finds what turned a kernel's result into another: the commit; or the compile flag, the source file, "
                           "the object, the library.")
    p.add_argument("axis", nargs="?", default="commits", choices=("commits", *axes.AXES, "demonstration"))
    p.add_argument("folder", nargs="?", help="demonstration: the repository to make")
    ends = p.add_argument_group("ends")
    ends.add_argument("--repository", default=".", help="the history; it is only read (default: here)")
    ends.add_argument("--good", help="a commit without the change")
    ends.add_argument("--bad",
                      help="a commit with it; an ancestor of --good asks for the commit that mended it")
    ends.add_argument("--first-parent", action="store_true", help="follow the first parent of merges only")
    build = p.add_argument_group("builds")
    build.add_argument("--build", default="", metavar="CMD",
                       help="for sh, in a clean work tree of the commit")
    build.add_argument("--backend", metavar="FILE",
                       help="the plug-in that the build leaves, a path inside the work tree")
    build.add_argument("--keep", action="append", default=[], metavar="PATTERN",
                       help="further files that the plug-in needs")
    build.add_argument("--prebuilt", default="", metavar="CMD",
                       help="tried before --build: puts the plug-in of {commit} (its tree: {tree}) into the folder {out}, as {out}/FILE")
    build.add_argument("--paths", nargs="+", default=[],
                       help="all that a build reads of the tree; commits alike there are one")
    build.add_argument("--env", action="append", type=setting, default=[], metavar="NAME=VALUE",
                       help="for builds and runs")
    build.add_argument("--jobs", "-j", type=number(1, 64, int), default=1,
                       help="builds side by side, on speculation")
    build.add_argument("--build-seconds", type=number(0.1, 1e6), default=3600,
                       help="a build that takes longer is skipped")
    build.add_argument("--build-gigabytes", type=number(0.001, 1e6), default=20,
                       help="a build that writes more is skipped")
    build.add_argument("--free-gigabytes", type=number(0, 1e6), default=1,
                       help="of the disk, that are left free")
    build.add_argument("--keep-ignored", action="store_true",
                       help="leave what git ignores in the work tree from build to build")
    ask = p.add_argument_group("question")
    ask.add_argument("--case", action="append", default=[],
                     help="a case line, a suite, a file; may be repeated")
    ask.add_argument("--options", default="", help="of the backend, as behind the colon of -b")
    ask.add_argument("--find", type=find_of, metavar="FIND", default="verdict")
    ask.add_argument("--ratio", type=number(0.001, 1000), default=0.0,
                     help="--find time: the threshold (default: between the ends)")
    ask.add_argument("--run", default="", metavar="CMD", help="ask this command in place of assay run")
    ask.add_argument("--field", default="", metavar="NAME",
                     help="--run: compare this field of its JSON, as in cells.3.verdict")
    ask.add_argument("--run-seconds", type=number(0.1, 1e6), default=3600)
    ask.add_argument("--noisy", action="store_true", help="a fault that shows in some runs only")
    ask.add_argument("--error", type=number(1e-6, 0.5), default=0.01,
                     help="--noisy: probability of a wrong answer")
    ask.add_argument("--most-runs", type=number(1, 10**7, int), default=20000)
    ask.add_argument("--confirm", type=number(0, 1000, int), default=2,
                     help="times that the answer at the culprit is asked again")
    out = p.add_argument_group("state and reports")
    out.add_argument("--state", help="work trees, builds and answers (default: ~/.cache/assay/bisect/...)")
    out.add_argument("--replay", metavar="LOG",
                     help="take the answers of a bisect log; its ends too, where none are given")
    out.add_argument("--log", metavar="FILE", help="put git's bisect log there as well")
    out.add_argument("--json", metavar="FILE")
    out.add_argument("--quiet", "-q", action="store_true", help="the answer only")
    axes.arguments(p)
    demonstration.arguments(p)
    return p


def question_of(p, a):
    if bool(a.case) == bool(a.run):
        p.error("name --case, or --run: one of the two")
    if a.field and not a.run:
        p.error("--field: a field of what --run prints; there is no --run")
    noisy = a.noisy or a.find == "time"
    find = "any" if noisy and a.find == "verdict" else a.find
    if noisy and find not in ("any", "time"):
        p.error(f"--noisy --find {a.find}: allowed: verdict, any, time")
    cases = tuple(os.path.abspath(c) if os.path.isfile(c) else of_any_backend(c) for c in a.case)
    return Question(a.assay, cases, find, a.run, a.field, a.options, a.run_seconds,
                    environment=tuple(sorted(a.env)))


def of_any_backend(case):
    """A case line without its backend, as a repro has one: the plug-in of each commit takes its place."""
    line = re.sub(r"\s*\bbackend=\S+", "", case)
    if line != case:
        print(f"assay bisect: --backend takes the place of {re.search(r'backend=[^ ]+', case)[0]}",
              file=sys.stderr)
    return line


def recipe_of(p, a):
    if not a.build and not a.prebuilt:
        p.error("name --build, --prebuilt or both: without them there are no plug-ins")
    if not a.backend or os.path.isabs(a.backend) or ".." in a.backend.split("/"):
        p.error(f"--backend '{a.backend or ''}': allowed: a path inside the work tree")
    return Recipe(a.build, a.backend, tuple(a.keep), a.prebuilt, tuple(a.paths), a.build_seconds,
                  a.build_gigabytes,
                  a.free_gigabytes, a.keep_ignored, dict(a.env))


def state_of(a, repository):
    cache = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    return os.path.abspath(a.state or os.path.join(cache, "assay", "bisect",
                                                   repository.name() if repository else "folders"))


def commits_axis(p, a):
    question, recipe = question_of(p, a), recipe_of(p, a)
    repository = Repository(a.repository)
    replayed = []
    if a.replay:
        replayed = [(repository.commit(c, "--replay"), state) for c, state in read_log(a.replay)]
        a.good = a.good or next((c for c, state in replayed if state == "old"), None)
        a.bad = a.bad or next((c for c, state in replayed if state == "new"), None)
    if not a.good or not a.bad:
        p.error("name both ends: --good COMMIT --bad COMMIT")
    good, bad = repository.commit(a.good, "--good"), repository.commit(a.bad, "--bad")
    if good == bad:
        p.error(f"--good {a.good} and --bad {a.bad} are one commit")
    state = state_of(a, repository)
    held = lock(state)
    say = (lambda text: None) if a.quiet else (lambda text: print(text, flush=True))
    search = Commits(repository, recipe, question, good, bad, state, a.jobs, a.first_parent, say)
    try:
        say(f"{len(search.history)} commits between {good[:10]} and {bad[:10]}; at most {search.bound()} builds and those that fail")
        noisy = a.noisy or a.find == "time"
        report = noisy_report(search, a) if noisy else exact_report(search, a, replayed)
    finally:
        search.builder.kept.stop()
        held.close()
    made = search.builder.made
    report |= {"commits": len(search.history), "builds": sum(made.values()),
               "unbuildable": len(made) - sum(made.values())}
    print(f"builds: {report['builds']}, and {report['unbuildable']} that failed; log: {report['logs'][0]}")
    if a.log:
        shutil.copyfile(report["logs"][0], a.log)
    if a.json:
        with open(a.json + ".part", "w") as f:
            json.dump({"schema": "assay-bisect", "version": 1, "command": sys.argv, **report}, f, indent=1)
            f.write("\n")
        os.replace(a.json + ".part", a.json)
    return GREEN if all(len(f["commits"]) == 1 and not f["varies"] for f in report["findings"]) else SEVERAL


def exact_report(search, a, replayed):
    found = search.differences()
    findings = search.findings(found, replayed, a.confirm)
    together = {}
    for f in findings:
        together.setdefault(tuple(f.commits), []).append(f)
    word = "first fixed" if search.fixed else "culprit"
    for commits, group in together.items():
        if len(commits) == 1:
            print(f"{word} {search.repository.describe(commits[0])}")
        else:
            print(f"{word} is one of {len(commits)}, which no build tells apart:")
            for commit in commits:
                print(f"  {search.repository.describe(commit)}")
        changes = [f"  {name}: {f.old} -> {f.new}" for f in group for name in f.names]
        print("\n".join(changes[:10] + [f"  ... and {len(changes) - 10} more"] * (len(changes) > 10)))
        for varies in sorted({f.varies for f in group} - {""}):
            print(f"  not to be trusted: {varies}; search with --noisy")
    return {"findings": [vars(f) for f in findings], "logs": [f.log for f in findings], "runs": search.asked}


def noisy_report(search, a):
    found = Noisy(search, a.error, a.most_runs, a.ratio).search()
    if found.old_end:
        print(f"the old end {search.old[:10]} has it already, with probability {found.posterior:.4f}")
        return {"findings": [{"commits": [], "posterior": found.posterior, "varies": "the old end has it"}],
                "logs": [found.log]}
    for commit in found.commits:
        print(f"culprit {search.repository.describe(commit)}")
    shows = f"; it shows in {found.rate:.0%} of runs" if not found.threshold else f"; threshold of the ratio {found.threshold:.3f}"
    print(f"  with probability {found.posterior:.4f}, by {found.runs} runs{shows}")
    return {"findings": [{"commits": found.commits, "posterior": found.posterior, "varies": ""}],
            "logs": [found.log],
            "runs": found.runs, "rate": found.rate}


def main(here):
    p = parser()
    words, given = [], iter(sys.argv[1:])
    for word in given:  # a value that begins with a dash, as flags do, is a value all the same
        words.append(f"{word}={next(given, '')}" if word in ("--good-flags", "--bad-flags") else word)
    a = p.parse_intermixed_args(words)
    a.assay = os.path.join(here, "assay")
    try:
        if a.axis == "demonstration":
            return demonstration.command(p, a)
        if a.folder:
            p.error(f"'{a.folder}': only demonstration takes a folder")
        if not os.path.exists(a.assay):
            raise Infrastructure(f"there is no {a.assay}")
        return commits_axis(p, a) if a.axis == "commits" else axes.command(p, a)
    except Usage as e:
        print(f"assay bisect: {e}", file=sys.stderr)
        return USAGE
    except NoDifference as e:
        print(f"assay bisect: {e}", file=sys.stderr)
        return NOTHING
    except (Infrastructure, Untestable, OSError) as e:
        print(f"assay bisect: {e}; the same command goes on from here", file=sys.stderr)
        return CANNOT_RUN
    except KeyboardInterrupt:
        print("assay bisect: interrupted; the same command goes on from here", file=sys.stderr)
        return 130
