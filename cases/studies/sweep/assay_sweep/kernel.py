"""assay sweep kernel: cells of one attention op, measured by assay-sweep-kernel (C++) through the harness."""
import json
import signal
import subprocess

from assay_sweep import line, runner, stats
from assay_sweep.line import LineError

PROGRAM = "assay-sweep-kernel"
# Nanoseconds per multiply-add of a machine of which nothing is recorded: two runs of the kernel, and the
# reference.
GUESS = {"emulated": 2.2}
GUESS_ELSE = 0.25

# Named lists of cells. A cell that names no backend gets those of -b.
SUITES = {
    "quick": [
        "qk len=4096 needles=512 k=f16,bf16,q8_0,e4m3fn,q4_0,tq3_0_c2s1 backend=cpu",
        "pv len=4096,16384 needles=16 score=7 mean=1 variant=hopper_fp8,hopper_fp8_promote1 backend=emulated",
    ],
    "ruler": [
        "qk len=4096 needles=1024 k=f16,bf16,q8_0,e4m3fn,q4_0,tq3_0_c2s1 seed=1,2,3,4,5,6,7,8,9,10,11,12,13,14",
        "qk len=4096 needles=1024 outlier=8 k=q8_0,e4m3fn,q4_0,tq3_0_c2s1 seed=1,2,3,4,5,6,7,8,9,10,11,12,13,14",
        "qk len=4096 needles=1024 outlier=8 rotate=qk k=q8_0,q4_0 seed=1,2,3,4,5,6,7,8,9,10,11,12,13,14",
        "qk len=4096 needles=1024 scales=locked drift=4 k=e4m3fn_tensor seed=1,2,3,4,5,6,7,8,9,10,11,12,13,14",
    ],
    "accumulator": [
        "pv len=4096,16384,32768,65536,131072 needles=256 mean=0.5 seed=1,2,3,4"
        " variant=hopper_fp8.detap,hopper_fp8_promote1.detap backend=emulated",
    ],
    "long": [
        "pv len=131072,524288,1048576 needles=256 mean=0.5 dtype=f16 seed=1,2 variant=fp8_wgmma_p0,fp8_wgmma_p4 backend=cuda",
    ],
    "nightly": [
        "qk len=4095,4096,4097,16384,32768 needles=256 near=2,4,8 k=f16,q8_0,q4_0,e4m3fn,e4m3fn_head,e4m3fn_tok backend=cpu",
        "qk len=4096 needles=256 scales=locked drift=1,4 k=e4m3fn_tensor backend=cpu",
        "qk len=16384 needles=512 delta=0.002,0.01 depth=0,0.25,0.5,0.75,1 k=q8_0,q4_0 backend=cpu",
        "pv len=4096,16384,65536 needles=64 mean=0,0.25,0.5 backend=emulated"
        " variant=hopper_fp8.detap,hopper_fp8_promote1.detap,hopper_fp8_promote4.detap",
        "pv len=4096,16384,65536 needles=64 mean=0.5 k=f16,q8_0,q4_0 backend=cpu",
    ],
}


def planned_of(programs, lines, backends):
    """The cells of lines, as the program that measures them spells them."""
    command = [f"{programs}/{PROGRAM}", "--plan", "--stdin"]
    for backend in backends:
        command += ["-b", backend]
    done = subprocess.run(command, input="\n".join(lines) + "\n", capture_output=True, text=True)
    if done.returncode != 0:
        raise LineError(done.stderr.strip().removeprefix("assay: ")
                        or f"{PROGRAM} ended with {done.returncode}")
    cells, seen = [], set()
    for text in done.stdout.splitlines():
        row = json.loads(text)
        if row["cell"] in seen:
            continue
        seen.add(row["cell"])
        probe, values = line.words(row["cell"])
        if "backend" not in values:
            raise LineError(f"'{row['cell']}' names no backend; give backend= or -b")
        backend = values["backend"]
        cells.append(runner.Planned(row["cell"], row["work"], row["inputs"],
                                    f"kernel {probe} {backend} {values.get('variant', '')}",
                                    row["needles"], GUESS.get(backend.split(":")[0], GUESS_ELSE) / 1e9))
    return cells


def measure(programs, options):
    """A function for runner.run. A program that dies costs the cell under way; the others go on in a new
    one."""
    def measuring(cells):
        left = list(cells)
        while left:
            command = [f"{programs}/{PROGRAM}", "--stdin", "--timeout", str(options.timeout), "--threads",
                       str(options.threads)]
            command += ["--keep", options.keep] if options.keep else []
            with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                  text=True) as process:
                try:
                    process.stdin.write("".join(planned.cell + "\n" for planned in left))
                    process.stdin.close()
                    for text in process.stdout:
                        row = json.loads(text)
                        if "cell" not in row:
                            yield None, row
                            continue
                        if row["cell"] != left[0].cell:
                            raise RuntimeError(f"{PROGRAM} answered {row['cell']} when asked {left[0].cell}")
                        yield left.pop(0), row
                except BrokenPipeError:
                    pass
                except BaseException:
                    process.kill()
                    raise
            if not left:
                break
            if process.returncode == 2:
                raise LineError(f"{PROGRAM} refused its cells")
            how = (f"signal {signal.Signals(-process.returncode).name}" if process.returncode < 0
                   else f"exit code {process.returncode}")
            yield left[0], {"cell": left[0].cell, "kind": "kernel", "verdict": "lost",
                            "summary": f"{PROGRAM} ended by {how}"}
            left.pop(0)
    return measuring


def series_of(rows):
    """Cells that differ in seed alone, together: {line without seed: rows}."""
    series = {}
    for row in rows:
        series.setdefault(line.without(row["cell"], "seed"), []).append(row)
    return series


def table(rows):
    """What a person reads of a run: a line for each series, seeds pooled."""
    found = []
    for name, group in series_of(rows).items():
        read = [row for row in group if "right" in row]
        verdicts = ",".join(sorted({row["verdict"] for row in group}))
        if not read:
            found.append((name, verdicts, "", "", "", "", ""))
            continue
        right, exact, needles = (sum(row[key] for row in read) for key in ("right", "right_exact", "needles"))
        rungs = stats.pooled(read, "rungs")
        gap = ""
        if rungs:
            value, low, high = stats.gap75_interval(rungs)
            gap = "beyond" if value is None else f"{value:.2g}" + (f" ({low:.2g}..{high:.2g})" if low else "")
        numbers = [row for row in read if isinstance(row["gain"], float)]
        mean = lambda key: f"{sum(row[key] for row in numbers) / len(numbers):.3g}" if numbers else "nan"  # noqa: E731
        limits = [row["limit"] for row in read if isinstance(row["limit"], float)]
        found.append((name, verdicts, f"{right / needles:.3f} of {needles}", f"{exact / needles:.3f}", gap,
                      f"{mean('gain')} / {mean('relative_error')}",
                      f"{max(limits):.2g}" if limits else "inf"))
    return ("cells", "verdict", "right", "exact", "gap at 75 %", "gain / error", "limit"), found
