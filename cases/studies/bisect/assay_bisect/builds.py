"""A plug-in for each commit: from the cache, ready-made by a command, or built in a work tree of its own."""
import fcntl
import glob
import hashlib
import json
import os
import queue
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from dataclasses import dataclass, field

from . import keeper
from .problems import Infrastructure, Untestable, Usage, read_state
from .repository import remove

KEEPER = os.path.abspath(keeper.__file__)


@dataclass
class Recipe:
    """How a commit becomes a plug-in."""
    build: str                 # a command for sh in the work tree; "" where everything is ready-made
    backend: str               # the plug-in, relative to the work tree
    keep: tuple = ()           # further files that the plug-in needs, as patterns relative to the work tree
    prebuilt: str = ""         # a command with {commit} {tree} {out}, tried first
    paths: tuple = ()          # what of the tree a build reads; empty: all of it
    seconds: float = 3600
    gigabytes: float = 20
    free_gigabytes: float = 1
    keep_ignored: bool = False
    environment: dict = field(default_factory=dict)

    def digest(self, tree):
        parts = [tree, self.build, self.backend, self.keep, self.prebuilt, self.paths,
                 sorted(self.environment.items())]
        return hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:32]


def lock(state):
    """Holds the folder for this process alone, as long as it lives; the system lets go of it whatever ends
    us."""
    os.makedirs(state, exist_ok=True)
    held = open(os.path.join(state, "lock"), "a+")
    try:
        fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        held.seek(0)
        raise Usage(f"--state {state}: another assay bisect (process {held.read().strip()}) works there") from None
    held.truncate(0)
    held.write(f"{os.getpid()}\n")
    held.flush()
    scratch_in(state)
    return held


def scratch_in(state):
    """Temporary files of ours and of whatever we start go into the state, where the next search clears what a
    SIGKILL left."""
    scratch = os.path.join(state, "scratch")
    shutil.rmtree(scratch, ignore_errors=True)
    os.makedirs(scratch, exist_ok=True)
    os.environ["TMPDIR"] = tempfile.tempdir = scratch


class Kept:
    """Commands that run under a keeper; stop() ends them all, from any thread."""

    def __init__(self):
        self._running, self._cancelled, self._lock, self.stopped = {}, set(), threading.Lock(), False

    def run(self, command, folder, log, seconds, gigabytes=1e6, free_gigabytes=0.0, environment=None,
            label=None):
        """What the keeper says of the command; None when it was cancelled."""
        with tempfile.TemporaryDirectory() as scratch:
            result = os.path.join(scratch, "result")
            limits = {"seconds": seconds, "bytes": gigabytes * 2**30, "free": free_gigabytes * 2**30,
                      "folder": folder,
                      "log": log, "result": result, "parent": os.getpid()}
            with self._lock:
                if self.stopped:
                    return None
                process = subprocess.Popen([sys.executable, "-S", "-E", KEEPER, json.dumps(limits), *command],
                                           env=environment, start_new_session=True)
                self._running[process.pid] = (process, label)
            process.wait()
            with self._lock:
                del self._running[process.pid]
                wanted = process.pid not in self._cancelled and not self.stopped
            if not os.path.exists(result):
                if wanted:
                    raise Infrastructure(f"what watches over `{command[-1][:60]}` was ended from outside")
                return None
            with open(result) as f:
                return json.load(f)

    def cancel(self, label):
        with self._lock:
            for process, own in self._running.values():
                if own == label:
                    self._cancelled.add(process.pid)
                    process.send_signal(signal.SIGTERM)

    def stop(self):
        with self._lock:
            self.stopped = True
            for process, _ in self._running.values():
                process.send_signal(signal.SIGTERM)


class Builder:
    def __init__(self, repository, recipe, state, jobs, say=lambda text: None):
        self.repository, self.recipe, self.state, self.say = repository, recipe, state, say
        self.kept = Kept()
        self.made = {}  # commit -> whether it could be built, of those that were built now
        self.slots = queue.SimpleQueue()
        for slot in range(jobs):
            self.slots.put(slot)
        os.makedirs(os.path.join(state, "builds"), exist_ok=True)

    def key(self, commit):
        return self.recipe.digest(self.repository.tree(commit, self.recipe.paths))

    def folder(self, commit):
        return os.path.join(self.state, "builds", self.key(commit))

    def cached(self, commit):
        return os.path.exists(os.path.join(self.folder(commit), "status.json"))

    def plugin(self, commit):
        """The path of the plug-in. Raises Untestable, with the reason, or Infrastructure."""
        folder = self.folder(commit)
        if not self.cached(commit):
            slot = self.slots.get()
            try:
                if not self.cached(commit):
                    self._make(commit, folder, slot)
            finally:
                self.slots.put(slot)
        path = os.path.join(folder, "status.json")
        with open(path, errors="replace") as f:
            status = read_state(path, f.read(), lambda found: "untestable" in found)
        if status["untestable"]:
            raise Untestable(status["untestable"])
        return os.path.join(folder, "kept", self.recipe.backend)

    def _make(self, commit, folder, slot):
        """Fills `folder`; status.json, the last file, says that it is whole."""
        part = f"{folder}.{slot}.part"
        remove(part)
        os.makedirs(os.path.join(part, "kept"))
        started = time.monotonic()
        try:
            reason = self._prebuilt(commit, part) if self.recipe.prebuilt else "nothing is ready-made"
            if reason and self.recipe.build:
                reason = self._build(commit, part, slot)
        except OSError as e:
            raise Infrastructure(f"{part}: {e.strerror}: {e.filename}") from e
        if self.kept.stopped or reason is None:
            remove(part)
            raise Cancelled()
        self.made[commit] = not reason
        with open(os.path.join(part, "status.json"), "w") as f:
            json.dump({"commit": commit, "untestable": reason,
                       "seconds": round(time.monotonic() - started, 2)}, f)
        remove(folder)
        os.rename(part, folder)
        self.say(f"  built {commit[:10]} in {time.monotonic() - started:.1f} s"
                 + (f": {reason}" if reason else ""))

    def _environment(self, commit, slot):
        return {k: v for k, v in os.environ.items() if not k.startswith("GIT_")} | self.recipe.environment | {
            "ASSAY_COMMIT": commit, "ASSAY_SLOT": str(slot)}

    def _prebuilt(self, commit, part):
        out = os.path.join(part, "kept")
        values = {"commit": commit, "tree": self.repository.tree(commit), "out": out}
        command = self.recipe.prebuilt
        for name, value in values.items():
            command = command.replace("{" + name + "}", shlex.quote(value))
        ended = self.kept.run(["/bin/sh", "-c", command], part, os.path.join(part, "log"),
                              self.recipe.seconds,
                              self.recipe.gigabytes, self.recipe.free_gigabytes, self._environment(commit, 0),
                              commit)
        if ended is None:
            return None
        if (
            ended["ended"] == "exit"
            and ended["code"] == 0
            and os.path.exists(os.path.join(out, self.recipe.backend))
        ):
            return ""
        return self._reason(ended,
                            part) or f"the command of --prebuilt left no {self.recipe.backend} in {{out}}"

    def _build(self, commit, part, slot):
        tree = os.path.join(self.state, "trees", str(slot))
        self.repository.check_out(commit, tree, self.recipe.keep_ignored)
        ended = self.kept.run(["/bin/sh", "-c", self.recipe.build], tree, os.path.join(part, "log"),
                              self.recipe.seconds,
                              self.recipe.gigabytes, self.recipe.free_gigabytes,
                              self._environment(commit, slot), commit)
        if ended is None:
            return None
        reason = self._reason(ended, part)
        if ended["ended"] in ("disk", "full"):
            remove(tree)
        if ended["ended"] == "full" and ended["grown"] < self.recipe.gigabytes * 2**30 / 4:
            raise Infrastructure(f"{self.state}: less than {self.recipe.free_gigabytes} GiB are free, and the build of "
                                 f"{commit[:10]} is not what filled the disk")
        if not reason and not os.path.exists(os.path.join(tree, self.recipe.backend)):
            return f"the build ended well and left no {self.recipe.backend}"
        if not reason:
            self._collect(tree, os.path.join(part, "kept"))
        return reason

    def _reason(self, ended, part):
        if ended["ended"] == "start":
            raise Infrastructure(f"/bin/sh: {ended['why']}")
        return {"time": f"it takes more than {self.recipe.seconds:g} s",
                "disk": f"it writes more than {self.recipe.gigabytes:g} GiB",
                "full": f"it leaves less than {self.recipe.free_gigabytes:g} GiB of the disk free"}.get(
            ended["ended"], f"it ends with {ended['code']}: {last_line(os.path.join(part, 'log'))}"
            if ended["code"] else
            f"it leaves processes: {' '.join(ended['left'])}" if ended["left"] else "")

    def _collect(self, tree, kept):
        for pattern in (glob.escape(self.recipe.backend), *self.recipe.keep):
            for path in glob.glob(pattern, root_dir=tree, recursive=True):
                source, target = os.path.join(tree, path), os.path.join(kept, path)
                if os.path.isfile(source):
                    os.makedirs(os.path.dirname(target), exist_ok=True)
                    shutil.copy2(source, target)


class Cancelled(Exception):
    """The build was ended because its answer is no longer wanted."""


def last_line(log):
    """What the log says went wrong: its first line with `error`, or its last one."""
    try:
        with open(log, errors="replace") as f:
            lines = [line.strip() for line in f.read()[-20000:].splitlines() if line.strip()]
    except OSError:
        return ""
    errors = [line for line in lines if "error" in line.lower()]
    return (errors or lines[-1:] or [""])[0][:200]
