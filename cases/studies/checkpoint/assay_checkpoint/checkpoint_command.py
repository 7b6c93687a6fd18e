"""The command line of assay checkpoint."""
import argparse
import json
import os
import re
import sys
import time

from assay_checkpoint import findings, judging
from assay_checkpoint.files import BadInput, Checkpoint
from assay_checkpoint.layouts import ROLES
from assay_checkpoint.schemes import declared_by

GREEN, FINDING, USAGE, NOTHING_JUDGED, CANNOT_RUN = 0, 1, 2, 3, 125
SHOWN = 20  # findings of one kind and role are one line; of those so many


def megabytes(count):
    return f"{count / 1e6:.1f} MB" if count < 1e9 else f"{count / 1e9:.2f} GB"


def table(rows):
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    return "\n".join("  " + "  ".join(text.ljust(width) for text, width in zip(row, widths)).rstrip()
                     for row in rows)


def groups_of(report):
    """(name with *, modules) of one role that are declared and stored alike, in the order of the files."""
    found = {}
    for module in report.modules:
        found.setdefault((module.group, module.declared, module.stored), []).append(module)
    return [(key[0], modules) for key, modules in found.items()]


def modules_table(report, compared):
    rows = [["modules", "", "an engine chooses", "the bytes are", "bits"]
            + (["error", "best"] if compared else [])]
    for name, modules in groups_of(report):
        if modules[0].plain and not modules[0].meant:
            continue
        weights, size = sum(m.weights for m in modules), sum(m.bytes for m in modules)
        row = [name, str(len(modules)), modules[0].declared, modules[0].stored,
               f"{8 * size / weights:.2f}" if weights else ""]
        if compared:
            with_error = [m for m in modules if m.error is not None]
            worst = max(with_error, key=lambda m: m.error / m.best if m.best else m.error, default=None)
            row += ["", ""] if worst is None else [f"{worst.error:.3g}", f"{worst.best:.3g}"]
        rows.append(row)
    return table(rows) if len(rows) > 1 else "  no module is quantised"


def left_plain(report):
    """A line for the modules that are plain numbers and are meant to be."""
    left = {}
    for module in report.modules:
        if module.plain and not module.meant:
            left.setdefault(module.stored, []).append(module.group)
    return "; ".join(f"{len(groups)} in {kind}: {', '.join(dict.fromkeys(groups))}"
                     for kind, groups in left.items())


def _masked(text):
    """Without the modules' names and numbers."""
    text = re.sub(r"\w+(?:\.\w+)*\.(\w+)", lambda m: m[1] if m[1] in ROLES else "@", text)
    return re.sub(r"[-+]?\d[\d.e+-]*", "#", text)


def lines_of(found):
    """Findings, those of one kind that say the same of several modules as one."""
    alike = {}
    for each in found:
        key = (each.kind, _masked(each.where), _masked(each.what))
        alike.setdefault(key, []).append(each)
    for several in alike.values():
        more = f"   (and {len(several) - 1} more like it)" if len(several) > 1 else ""
        yield f"{several[0].kind:<10} {several[0].where}{more}\n           {several[0].what}"


def text_of(report, seconds, against):
    checkpoint = report.checkpoint
    size = sum(stored.end - stored.start for stored in checkpoint.tensors.values())
    out = [f"checkpoint {checkpoint.path}: {len(checkpoint.files)} file{'s' * (len(checkpoint.files) != 1)}, "
           f"{len(checkpoint.tensors)} tensors, {megabytes(size)}", f"metadata   {report.declared.text}"]
    if report.modules:
        out += ["", modules_table(report, against), f"  as they are: {left_plain(report) or 'none'}"]
    for title, found in (("", report.wrong), ("notes", [each for each in report.findings if each.note])):
        lines = list(lines_of(found))
        out += ["", *([title] if title and lines else []), *lines[:SHOWN]] if lines else []
        if len(lines) > SHOWN:
            out.append(f"... and {len(lines) - SHOWN} more: --json has all")
    if report.not_understood:
        out += ["", f"not understood, and not judged: {len(report.not_understood)}"]
        out += [f"  {name}: {why}" for name, why in report.not_understood[:SHOWN]]
    if against and report.not_compared:
        out += ["", f"not compared, for the original has no matrix of the name: {len(report.not_compared)}, as {report.not_compared[0]}"]
    weights = sum(m.weights for m in report.judged)
    beside = f", {report.compared} beside the original" if against else ""
    end = f"{len(report.judged)} quantised modules, {weights:,} weights judged{beside} in {seconds:.1f} s: "
    count = len(report.wrong)
    end += f"{count} finding{'s' * (count != 1)}" if count else "nothing wrong" if report.judged else "nothing judged"
    if report.not_understood:
        end += f"; {len(report.not_understood)} not understood"
    return "\n".join([*out, "", end])


def json_of(report, seconds):
    return json.dumps({
        "checkpoint": report.checkpoint.path, "metadata": report.declared.text, "seconds": round(seconds, 3),
        "modules": [{key: value for key, value in vars(module).items() if key not in ("parts", "seen")}
                    for module in report.modules],
        "findings": [vars(each) for each in report.findings],
        "not_understood": [{"name": name, "what": what} for name, what in report.not_understood],
        "compared": report.compared, "not_compared": report.not_compared}, indent=1)


def code_of(report, strict):
    if report.wrong or strict and report.not_understood:
        return FINDING
    return GREEN if report.judged else NOTHING_JUDGED


def main(argv):
    parser = argparse.ArgumentParser(
        prog="assay checkpoint", formatter_class=argparse.RawDescriptionHelpFormatter,
        description="What a quantised checkpoint's metadata makes an engine choose, what its bytes are, and what is wrong with them.",
        epilog="Exit codes: 0 nothing wrong, 1 a finding, 2 wrong usage or no checkpoint, 3 nothing was judged.\n\nfindings\n"
               + "\n".join(f"  {kind:<11}{says}" for kind, says in findings.KINDS.items()))
    parser.add_argument("path", metavar="FOLDER|FILE",
                        help="a folder with config.json and *.safetensors, a .safetensors or a .gguf")
    parser.add_argument("--against", metavar="ORIGINAL",
                        help="the checkpoint that was quantised: the error of each module, and its cause")
    parser.add_argument("--sample", type=int, metavar="ROWS",
                        help="reads so many rows of each module, spread over it (default: all)")
    parser.add_argument("--json", action="store_true", help="everything, for programs")
    parser.add_argument("--strict", action="store_true", help="what is not understood is a finding")
    options = parser.parse_args(argv)
    if options.sample is not None and options.sample < 16:
        parser.error(f"--sample {options.sample}: allowed: 16 rows or more")
    start = time.monotonic()
    try:
        checkpoint = Checkpoint(options.path)
        other = Checkpoint(options.against) if options.against else None
        report = judging.judge(checkpoint, declared_by(checkpoint), other, options.sample)
        if other is not None and report.judged and not report.compared and report.not_compared:
            raise BadInput(f"{options.against}: it has none of the tensors, as {report.not_compared[0]}.weight in plain numbers")
    except BadInput as error:
        print(f"assay checkpoint: {error}", file=sys.stderr)
        return USAGE
    except FileNotFoundError as error:  # of libassay_judge.so
        print(f"assay checkpoint: {error}", file=sys.stderr)
        return CANNOT_RUN
    seconds = time.monotonic() - start
    try:
        print(json_of(report, seconds) if options.json else text_of(report, seconds, other is not None))
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return code_of(report, options.strict)
