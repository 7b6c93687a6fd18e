"""The command line of assay sweep."""
import argparse
import math
import os
import signal
import sys

from assay_sweep import engine, kernel, models_cache, page, reports, runner, servers, slurm, text
from assay_sweep.line import LineError
from assay_sweep.store import Store, StoreError

GREEN, FINDING, USAGE, NOTHING_EXECUTED, CANNOT_RUN = 0, 1, 2, 3, 125


def run_options(parser, suites):
    parser.add_argument("lines", nargs="*", metavar="CELLS",
                        help="cells, a comma is a set: 'pv len=4096,65536 mean=0.5'")
    parser.add_argument("--suite", choices=sorted(suites), help="a named list of cells")
    parser.add_argument("--quick", action="store_true", help="the list `quick`, which ends within a minute")
    parser.add_argument("--store", default="sweep.jsonl",
                        help="JSON Lines that results are added to (default: %(default)s)")
    parser.add_argument("--resume", nargs="?", const="last", metavar="RUN",
                        help="goes on with an unfinished run of the store")
    parser.add_argument("--budget", help="the most informative cells that fit: 30s, 90m, 2h")
    parser.add_argument("--html", help="the page of the run")
    parser.add_argument("--cells-from", metavar="FILE", help="cells, one a line")
    # a shard: an unfinished run of the store is resumed
    parser.add_argument("--part-of", metavar="PLAN", help=argparse.SUPPRESS)
    parser.add_argument("--slurm", metavar="FOLDER",
                        help="measures nothing: writes shards and an sbatch script")
    parser.add_argument("--minutes", type=float, default=5, help="of a shard, about (default: %(default)s)")
    parser.add_argument("--throttle", type=int, default=0,
                        help="tasks of the array at one time (default: all)")
    parser.add_argument("--plan", action="store_true",
                        help="prints the cells and their predicted seconds, and measures nothing")
    parser.add_argument("-q", "--quiet", action="store_true", help="no progress")


def chosen_lines(options, suites):
    lines = list(options.lines)
    if options.quick:
        lines += suites["quick"]
    if options.suite:
        lines += suites[options.suite]
    if options.cells_from:
        with open(options.cells_from, encoding="utf-8") as file:
            lines += [text.strip() for text in file if text.strip()]
    if not lines and not options.resume:
        raise LineError("no cells; give some, --suite NAME or --quick")
    return lines


def resumable(options, store, kind):
    """The run that is taken up again; None for a new one. A shard is asked for by the same command every time."""
    if options.resume:
        return runner.unfinished(store, kind, options.resume)
    if options.part_of and os.path.exists(store.path):
        runs = [run for run in store.runs(kind) if run.get("part_of") == options.part_of]
        return runs[-1] if runs else None
    return None


def measure_cells(options, store, cells, kind, header, measure, resumed):
    """Shared by kernel and engine: predict, choose, run, print, draw."""
    existing = store if os.path.exists(store.path) else None
    total = runner.predict(cells, existing)
    budget = runner.seconds_of(options.budget) if options.budget else (resumed or {}).get("budget")
    if budget:
        groups = runner.by_worth(cells, existing)
        fitting = runner.choose(groups, budget)
        cells = (
            fitting
            if options.plan or options.slurm or not fitting
            else [planned for group in groups for planned in group]
        )
    if options.plan:
        print(text.table(("seconds", "cell"),
                         [(f"{planned.seconds:.2f}", planned.cell) for planned in cells]))
        print(f"{len(cells)} cells, {sum(planned.seconds for planned in cells):.0f} s of {total:.0f} s")
        return GREEN
    if options.slurm:
        words = [os.path.join(options.programs, "assay-sweep"), kind]
        for backend in getattr(options, "backend", ()):
            words += ["-b", backend]
        for option in ("engine", "library", "gguf", "extra", "timeout", "models"):
            if getattr(options, option, None) and option in header | {"timeout": 1, "models": 1, "extra": 1}:
                words += [f"--{option}", str(getattr(options, option))]
        print(slurm.write(options.slurm, cells, words, options.minutes, options.throttle, 1, options.command))
        return GREEN
    if budget and not fitting:
        print("no cell fits the budget")
        return NOTHING_EXECUTED
    if budget:
        header = {**header, "budget": budget}
    if options.part_of:
        header = {**header, "part_of": options.part_of}
    name, complete = runner.run(store, {"kind": kind, **header}, cells, measure, options.quiet, resumed,
                                 budget or math.inf)
    rows = list(store.cells(name).values())
    print(text.table(*(kernel.table(rows) if kind == "kernel" else engine_table(rows))))
    bad = [row for row in rows if row["verdict"] not in ("pass", "distrust", "unsupported", "blind",
                                                         "suspect")]
    for row in bad[:20]:
        print(f"{row['verdict']} {row['cell']}\n  {row.get('summary', '')}\n  repro  {page.repro(row)}")
    if options.html:
        page.write(options.html, store, name)
        print(f"page: {options.html}")
    out = f", {len(cells) - len(rows)} left out for the budget" if complete and len(rows) < len(cells) else ""
    print(f"run {name} in {store.path}: {len(rows)} cells{out if complete else ', incomplete'}")
    if not complete:
        return CANNOT_RUN
    if all(row["verdict"] == "unsupported" for row in rows):
        return NOTHING_EXECUTED
    return FINDING if bad else GREEN


def engine_table(rows):
    return engine.table(rows)


def add_kernel(commands):
    parser = commands.add_parser("kernel", help="needles planted into one attention op, on any backend")
    run_options(parser, kernel.SUITES)
    parser.add_argument("-b", "--backend", action="append", default=[], help="for cells that name none")
    parser.add_argument("--timeout", type=float, default=600,
                        help="seconds of one run of a kernel (default: %(default)s)")
    parser.add_argument("--threads", type=int, default=1, help="of the reference (default: %(default)s)")
    parser.add_argument("--keep", metavar="FOLDER",
                        help="the case file of each red cell, for `assay hunt FOLDER/*.safetensors`")
    parser.set_defaults(act=run_kernel)


def add_engine(commands):
    parser = commands.add_parser("engine", help="computed-weight models on a server", epilog=servers.__doc__,
                                 formatter_class=argparse.RawDescriptionHelpFormatter)
    run_options(parser, engine.SUITES)
    parser.add_argument("--engine",
                        help="llama-server[:PATH], xllamacpp[:PYTHON], http://HOST:PORT or command:TEMPLATE")
    parser.add_argument("--library",
                        help="a file that is preloaded, or a folder that is searched first, when the engine is started")
    parser.add_argument("--extra", default="", help="further arguments for llama-server")
    parser.add_argument("--gguf",
                        help="the language model that niah and chat-mrcr ask; a server that is running has its own")
    parser.add_argument("--models", help="folder for the model files (default: beside the store)")
    parser.add_argument("--timeout", type=float, default=1800,
                        help="seconds of one request (default: %(default)s)")
    parser.add_argument("--rotate", type=int, default=0, metavar="N",
                        help="added to every seed: another night, other models")
    parser.set_defaults(act=run_engine)


def run_engine(options):
    store = Store(options.store)
    resumed = resumable(options, store, "engine")
    name = options.engine or (resumed or {}).get("engine")
    if not name and not options.plan:
        raise LineError("no engine; give --engine llama-server:PATH, xllamacpp, http://HOST:PORT or command:TEMPLATE")
    started = servers.Engine(name, options.library or (resumed or {}).get("library"),
                             options.extra) if name else None
    lines = resumed["cells"] if resumed else chosen_lines(options, engine.SUITES)
    cells = engine.planned_of(lines, started.label if started else "", 0 if resumed else options.rotate)
    given = options.gguf or (resumed or {}).get("gguf")
    real = [planned.cell for planned in cells if planned.cell.split()[0] in engine.REAL]
    if real and started and not started.url and not given:
        raise LineError(f"{real[0]}: asked of a language model; give --gguf FILE, or an engine that is running: http://HOST:PORT")
    header = {"command": options.command, "engine": name, "library": options.library, "gguf": given,
              "versions": started.versions() if started and not options.plan else ""}
    measuring = engine.measure(started, options.models or engine.cache_folder(store.path), options.timeout,
                               given)
    return measure_cells(options, store, cells, "engine", header, measuring, resumed)


def add_model(commands):
    parser = commands.add_parser("model",
                                 help="writes the model of a probe, for a server that is started by hand")
    parser.add_argument("probe", choices=sorted(engine.GUESS.keys() - engine.REAL.keys()))
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--format", choices=("gguf", "safetensors"), default="gguf",
                        help="safetensors: a Llama checkpoint of Hugging Face, a folder (default: %(default)s)")
    parser.add_argument("--out", default=".", help="folder")
    parser.set_defaults(act=run_model)


def run_model(options):
    path, about = models_cache.model(options.probe, options.seed, options.out, options.format)
    weights = path if options.format == "gguf" else os.path.join(path, "model.safetensors")
    print(f"{path}: {os.path.getsize(weights) / 1e6:.0f} MB, {len(about['token_texts'])} tokens, sha256 {about['sha256']}")
    return GREEN


def run_kernel(options):
    store = Store(options.store)
    resumed = resumable(options, store, "kernel")
    lines = resumed["cells"] if resumed else chosen_lines(options, kernel.SUITES)
    cells = kernel.planned_of(options.programs, lines, options.backend)
    header = {"command": options.command, "backends": options.backend}
    return measure_cells(options, store, cells, "kernel", header, kernel.measure(options.programs, options),
                         resumed)


def main(argv, programs):
    parser = argparse.ArgumentParser(prog="assay sweep",
                                     description="Long-context retrieval as an instrument: at which length, "
                                     "depth, format and backend it breaks, by how much, since when.")
    commands = parser.add_subparsers(dest="what", required=True)
    add_kernel(commands)
    add_engine(commands)
    add_model(commands)
    reports.add(commands)
    commands.add_parser("plan",
                        help="`plan kernel ...` or `plan engine ...`: prints the cells and their seconds, or writes them for Slurm")
    words = argv[1:]
    if words[:1] == ["plan"] and words[1:]:
        words = words[1:] if any(word.startswith("--slurm") for word in words) else [*words[1:], "--plan"]
    options = parser.parse_args(words)
    if options.what == "plan":
        parser.error("plan: give `kernel` or `engine` and cells behind it")
    options.programs, options.command = programs, " ".join(["assay sweep", *argv[1:]])
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        return options.act(options)
    except (LineError, StoreError) as error:
        print(f"assay sweep: {error}", file=sys.stderr)
        return USAGE
    except BrokenPipeError:
        return CANNOT_RUN
    except OSError as error:
        if str(error.filename).startswith(programs):
            print(f"assay sweep: {error.filename} was not built: cmake --build {programs} --target assay-sweep", file=sys.stderr)
            return CANNOT_RUN
        print(f"assay sweep: {error.filename}: {error.strerror}", file=sys.stderr)
        return USAGE
    except KeyboardInterrupt:
        return 130
