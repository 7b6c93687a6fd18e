"""The command `assay watch`: starts a program, in whose processes PyTorch's models are watched, and says what
was found."""
import argparse
import glob
import json
import os
import shutil
import signal
import subprocess
import sys

from assay.watching import report
from assay.watching.inject import VARIABLE

USAGE, TROUBLE = 2, 125
EXAMPLE = """examples:
  assay watch -- python3 -c 'from torch import nn, randn; m = nn.Sequential(nn.Linear(64, 64), nn.SiLU()); [m(randn(4, 64)) for _ in range(20)]'
  assay watch --folder after --against before -- python3 generate.py --tokens 100

The report is FOLDER/process-N/watch.json, beside a case file of each finding, which assay judge, explain and repro take.
Exit codes: 0 all green, 1 a finding, 2 wrong usage, 3 nothing was judged, 125 the command itself went wrong."""


def options(words):
    parser = argparse.ArgumentParser(
        prog="assay watch", usage="assay watch [options] -- COMMAND ...",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog=EXAMPLE,
        description="Judges what the PyTorch models of a program compute, call by call, while it runs. Every n-th step is watched.")
    parser.add_argument("--folder", default="assay-watch",
                        help="for the report and the findings; default %(default)s")
    parser.add_argument("--share", type=float, default=5, metavar="PERCENT",
                        help="of the steps' time that watching may take more; default 5")
    parser.add_argument("--every", type=int, metavar="N",
                        help="every N-th step is watched; nothing is measured")
    parser.add_argument("--contract", action="append", default=[], metavar="OP:WORDS",
                        help="the arithmetic that an op's kernels keep: 'matmul:acc=f32 order=tree'; default: that of PyTorch on a CPU")
    parser.add_argument("--keep", action="store_true",
                        help="a case file of every call that is judged, not of findings alone")
    parser.add_argument("--memory", type=int, default=1024, metavar="MIB",
                        help="of copies, behind which a pause judges them; default %(default)s")
    parser.add_argument("--against", metavar="RUN",
                        help="the folder or watch.json of another run: where the two part")
    parser.add_argument("command", nargs=argparse.REMAINDER, help=argparse.SUPPRESS)
    given = parser.parse_args(words)
    given.command = given.command[1:] if given.command[:1] == ["--"] else given.command
    return parser, given


def contracts(rows):
    found = {}
    for row in rows:
        op, colon, words = row.partition(":")
        if not colon or not op:
            raise ValueError(f"--contract '{row}': OP:WORDS is wanted, as in 'matmul:acc=f32 order=tree'")
        found[op] = words
    return found


def checked(given):
    """The options of the watch, as JSON. ValueError says what is wrong with them."""
    if not given.command:
        raise ValueError("no command: assay watch [options] -- COMMAND ...")
    if shutil.which(given.command[0]) is None:
        raise ValueError(f"'{given.command[0]}' is no program")
    if not 0 < given.share <= 100:
        raise ValueError(f"--share {given.share:g}: allowed are percents above 0, to 100")
    for name, value in (("--every", given.every), ("--memory", given.memory)):
        if value is not None and value < 1:
            raise ValueError(f"{name} {value}: allowed are whole numbers from 1 on")
    if os.path.exists(given.folder):
        raise ValueError(f"'{given.folder}' is there already: name another one by --folder")
    against = given.against and os.path.abspath(one_of(given.against))
    if against:
        report.read(against)
    return json.dumps({"folder": os.path.abspath(given.folder), "share": given.share / 100,
                       "every": given.every,
                       "contracts": contracts(given.contract), "keep": given.keep,
                       "memory": given.memory << 20, "against": against})


def one_of(path):
    """The report in a folder of `assay watch`, where it had one process."""
    found = glob.glob(os.path.join(glob.escape(path), "process-*", report.NAME))
    if len(found) > 1:
        raise ValueError(f"'{path}' has {len(found)} processes: name one, as in {found[0]}")
    return found[0] if found else path


def ran(command, environment):
    """The exit code of the command, to which signals are passed on."""
    process = subprocess.Popen(command, env=environment)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the terminal gives it to the command too
    signal.signal(signal.SIGTERM, lambda *_: process.terminate())
    return process.wait()


def main(here, words):
    try:
        parser, given = options(words)
        wanted = checked(given)
    except ValueError as why:
        print(f"assay watch: {why}", file=sys.stderr)
        return USAGE
    package = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    places = [os.path.join(package, "assay", "watching", "site"), package, os.environ.get("PYTHONPATH")]
    environment = dict(os.environ,
                       **{VARIABLE: wanted,
                          "PYTHONPATH": os.pathsep.join(place for place in places if place)})
    program = os.path.join(here, "assay")
    if os.path.exists(program):
        environment.setdefault("ASSAY_PROGRAM", program)
    try:
        code = ran(given.command, environment)
    except OSError as why:
        print(f"assay watch: {why}", file=sys.stderr)
        return TROUBLE
    reports = []
    for path in sorted(glob.glob(os.path.join(glob.escape(given.folder), "process-*", report.NAME))):
        reports.append(report.read(path))
        print("\n".join(report.lines(reports[-1])) + f"\n{os.path.relpath(path)}")
    if not reports:
        print("no step of a PyTorch model was seen: COMMAND is to start a Python that imports torch, in which modules are called, "
              "and to end by itself or by SIGTERM\nnothing was judged")
    if code:
        print(f"the command ended with {code}")
    codes = [report.code(found) for found in reports] or [report.NOTHING]
    if report.FINDING in codes:
        return report.FINDING
    if code:
        return TROUBLE
    return report.GREEN if report.GREEN in codes else report.NOTHING
