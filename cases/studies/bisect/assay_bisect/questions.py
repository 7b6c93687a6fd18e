"""What is asked of a plug-in, and what it answers: {name: state}, where a name is a case line and a state a
text."""
import hashlib
import json
import os
import re
import shlex
import statistics
import tempfile
from dataclasses import dataclass

from .problems import Infrastructure, Untestable, Usage

FINDS = ("verdict", "any", "path", "error", "law", "time")
NOT_RUN = {"unsupported", "too_big", "impossible"}  # verdicts that say nothing about a kernel
SECONDS = 3600


@dataclass
class Question:
    assay: str             # the program
    cases: tuple = ()      # lines, suites, files, as for `assay run`
    find: str = "verdict"
    command: str = ""      # in place of cases: any command
    field: str = ""        # of the JSON that the command prints: a.b.0.c
    options: str = ""      # options of the backend
    seconds: float = SECONDS
    pairs: int = 3         # time: runs of each side in one answer
    environment: tuple = ()

    def digest(self):
        stamp = os.stat(self.assay)
        files = []
        for case in self.cases:  # what a file says now is part of the question
            if os.path.isfile(case):
                with open(case, "rb") as f:
                    files.append(hashlib.sha256(f.read()).hexdigest())
        parts = [self.cases, files, self.find, self.command, self.field, self.options, self.pairs,
                 self.environment,
                 stamp.st_size, stamp.st_mtime_ns]
        return hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:16]

    # One run of everything that is asked. `kept` runs commands; raises Untestable and Infrastructure.
    def ask(self, kept, plugin, commit, reference=None):
        if self.command:
            return self._command(kept, plugin, commit)
        if self.find == "time":
            return {"time": self.ratio(kept, plugin, reference)}
        if self.find.partition(":")[0] == "law":
            name = self.find.partition(":")[2]
            words = ["laws", "--law", name] if name else ["laws"]
            return {f"{r['law']} of {without_backend(r['case'])}": r["outcome"]
                    for r in self._report(kept, plugin, words)["results"]}
        return {name: self._state(r) for name, r in self._results(kept, plugin).items()}

    def _state(self, result):
        verdict = result["verdict"]
        if self.find == "path":
            seen = result["kernels"] or result["announced"]
            return " ".join([result["expected_path"], "->", *seen]) if verdict not in NOT_RUN else verdict
        if self.find == "error" and verdict in ("pass", "wrong"):
            return f"{result['worst_ratio']!r} of the limit, {result['bad']} beyond it"
        if self.find == "any":
            return "finding" if verdict not in NOT_RUN | {"pass", "distrust", "blind", "suspect"} else verdict
        return verdict

    def _results(self, kept, plugin):
        answer = self._report(kept, plugin, ["run", "-q", "--jobs", "1"])
        if not answer["complete"]:
            raise Infrastructure(f"assay run was interrupted by {answer['ended_by']}")
        return {without_backend(r["case"]): r for r in answer["results"]}

    def _report(self, kept, plugin, words):
        """What `assay run` or `assay laws` writes with --json about the cases."""
        said_by = f"assay {words[0]}"
        name = plugin.replace("%", "%25").replace(" ", "%20").replace(",", "%2C")
        with tempfile.TemporaryDirectory() as scratch:
            report, log = os.path.join(scratch, "report.json"), os.path.join(scratch, "log")
            command = [self.assay, *words, *self.cases, "-b",
                       name + (":" + self.options if self.options else ""), "--json", report]
            ended = self._run(kept, command, scratch, log, plugin)
            with open(log, errors="replace") as f:
                said = f.read().strip().splitlines()
            if ended["ended"] == "time":
                raise Untestable(f"{said_by} takes more than {self.seconds:g} s")
            code = ended["code"]
            if code == 2:
                raise Usage(f"{said_by}: {said[-1] if said else 'wrong usage'}")
            if code > 125 or not os.path.exists(report):
                if code in (3, 125):
                    raise Untestable(said[-1] if said else f"{said_by} cannot run this plug-in")
                raise Infrastructure(f"{said_by} ended with {code}: {said[-1] if said else ''}")
            with open(report) as f:
                return json.load(f)

    def _run(self, kept, command, folder, log, plugin):
        environment = {k: v
                       for k, v in os.environ.items() if not k.startswith("GIT_")} | dict(self.environment)
        found = [os.path.join(where, n) for where, _, names in os.walk(folder_of(plugin)) for n in names
                 if ".so" in n]
        if found != [plugin]:  # libraries that the plug-in needs lie beside it
            libraries = sorted({os.path.dirname(f) for f in found})
            environment["LD_LIBRARY_PATH"] = ":".join(libraries
                                                      + [environment.get("LD_LIBRARY_PATH", "")]).rstrip(":")
        ended = kept.run(command, folder, log, self.seconds, environment=environment)
        if ended is None:
            raise Infrastructure("the run was ended from outside")
        if ended["ended"] not in ("exit", "time"):
            raise Infrastructure(f"{command[0]}: {ended}")
        return ended

    def _command(self, kept, plugin, commit):
        command = self.command
        for name, value in {"plugin": plugin, "commit": commit, "assay": self.assay}.items():
            command = command.replace("{" + name + "}", shlex.quote(value))
        with tempfile.TemporaryDirectory() as scratch:
            log = os.path.join(scratch, "log")
            ended = self._run(kept, ["/bin/sh", "-c", command], scratch, log, plugin)
            if ended["ended"] == "time":
                raise Untestable(f"the command of --run takes more than {self.seconds:g} s")
            with open(log, errors="replace") as f:
                text = f.read()
            code = ended["code"]
            if code > 128:
                raise Infrastructure(f"the command of --run was ended by signal {code - 128}")
            if code == 125 or (code in (126, 127)):
                raise Untestable(f"the command of --run ends with {code}: {text.strip()[-200:]}")
            if not self.field:
                return {"command": "found" if code else "clean"}
            try:
                value = json.loads(text[text.index("{"):])
                for part in self.field.split("."):
                    value = value[int(part)] if isinstance(value, list) else value[part]
            except (ValueError, KeyError, IndexError, TypeError):
                raise Untestable(f"the command of --run printed no JSON with {self.field}") from None
            return {self.field: json.dumps(value, sort_keys=True)}

    def ratio(self, kept, plugin, reference):
        """Time in the kernel against the reference's, runs of both in turn: the median of the ratios of
        neighbours."""
        def seconds(one):
            results = self._results(kept, one).values()
            if any(r["verdict"] in NOT_RUN for r in results):
                raise Untestable("the case is not run")
            return sum(r["kernel_seconds"] for r in results)

        ratios = []
        for i in range(self.pairs):
            pair = (reference, plugin) if i % 2 == 0 else (plugin, reference)
            taken = [seconds(one) for one in pair]
            if not all(t > 0 for t in taken):
                raise Usage("--find time: the kernel of this case takes no time that can be measured; choose larger shapes")
            ratios.append(taken[1] / taken[0] if i % 2 == 0 else taken[0] / taken[1])
        return statistics.median(ratios)


def without_backend(line):
    return re.sub(r" ?backend=\S+", "", line)


def folder_of(plugin):
    """The folder `kept` of a cached build, or the plug-in's own."""
    where = os.path.dirname(plugin)
    while where not in ("/", "") and os.path.basename(where) != "kept":
        where = os.path.dirname(where)
    return where if os.path.basename(where) == "kept" else os.path.dirname(plugin)
