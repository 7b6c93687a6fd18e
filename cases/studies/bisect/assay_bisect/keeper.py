"""Runs one command, holds it to limits and leaves none of its processes behind: python3 keeper.py LIMITS
COMMAND...

LIMITS is JSON: seconds, bytes (that the folder may grow by), free (bytes that the disk must keep), folder,
log, result. The result file says how the command ended: {"ended": "exit"|"time"|"disk"|"full"|"start",
"code": n, "left": [names]}. The keeper is the reaper of all that the command starts, in whatever session, and
ends with its own parent."""
import ctypes
import json
import os
import signal
import subprocess
import sys
import time

PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER = 1, 36
GRACE = 1.0  # seconds that the last processes of a command may take to end behind it


def descendants():
    """{pid: name} of every process below this one."""
    parents, names = {}, {}
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            try:
                with open(f"/proc/{entry}/stat") as f:
                    text = f.read()
            except OSError:
                continue
            name, rest = text[text.index("(") + 1:text.rindex(")")], text[text.rindex(")") + 2:].split()
            if rest[0] != "Z":
                parents[int(entry)], names[int(entry)] = int(rest[1]), name
    mine, grown = {os.getpid()}, True
    while grown:
        more = {pid for pid, parent in parents.items() if parent in mine} - mine
        mine |= more
        grown = bool(more)
    return {pid: names[pid] for pid in mine - {os.getpid()}}


def end_all():
    while True:
        left = descendants()
        for pid in left:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        try:
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        except ChildProcessError:
            pass
        if not left:
            return
        time.sleep(0.01)


def size_of(folder):
    total = 0
    for where, _, files in os.walk(folder):
        for name in files:
            try:
                total += os.lstat(os.path.join(where, name)).st_blocks * 512
            except OSError:
                pass
    return total


def free_on(folder):
    room = os.statvfs(folder)
    return room.f_bavail * room.f_frsize


def keep(limits, command):
    before = size_of(limits["folder"])
    started = time.monotonic()
    try:
        with open(limits["log"], "ab") as log:
            process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                                       cwd=limits["folder"],
                                       start_new_session=True)
    except OSError as e:
        return {"ended": "start", "code": e.errno, "left": [], "why": str(e)}
    pause, looked, taken = 0.002, started, 0.0
    while process.poll() is None:
        now = time.monotonic()
        if now - started > limits["seconds"]:
            return {"ended": "time", "code": 0, "left": []}
        if now - looked > max(0.5, 10 * taken):
            if size_of(limits["folder"]) - before > limits["bytes"]:
                return {"ended": "disk", "code": 0, "left": []}
            if free_on(limits["folder"]) < limits["free"]:
                grown = size_of(limits["folder"]) - before
                return {"ended": "full", "code": 0, "left": [], "grown": grown}
            looked = time.monotonic()
            taken = looked - now
        time.sleep(pause)
        pause = min(0.05, 1.3 * pause)
    grown = size_of(limits["folder"]) - before
    if grown > limits["bytes"]:
        return {"ended": "disk", "code": process.returncode, "left": []}
    waited = time.monotonic()
    while descendants() and time.monotonic() - waited < GRACE:
        time.sleep(0.01)
    code = process.returncode if process.returncode >= 0 else 128 - process.returncode
    return {"ended": "exit", "code": code, "left": sorted(set(descendants().values()))}


def main():
    limits = json.loads(sys.argv[1])
    libc = ctypes.CDLL(None, use_errno=True)
    libc.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    libc.prctl(PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)

    def stop(*_):
        end_all()
        os._exit(1)

    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, stop)
    if os.getppid() != limits["parent"]:  # it ended before the death signal was set
        return 1
    result = keep(limits, sys.argv[2:])
    end_all()
    with open(limits["result"] + ".part", "w") as f:
        json.dump(result, f)
    os.rename(limits["result"] + ".part", limits["result"])
    return 0


if __name__ == "__main__":
    sys.exit(main())
