"""python3 -m assay.audit add FILE... -o FILE: one report of several (of xdist's workers where a session was
killed, of the parts of a suite) python3 -m assay.audit show FILE: what it says    python3 -m assay.audit
against EARLIER FILE: exit status 7 where a comparison got blinder"""
import sys

from assay.audit import report, store
from assay.audit.options import BLINDER


def main(words):
    try:
        if words[:1] == ["add"] and len(words) >= 4 and words[-2] == "-o":
            whole = store.merged([store.read(path) for path in words[1:-2]])
            store.write(words[-1], whole)
            report.write_page(report.page_beside(words[-1]), whole)
            print(
                f"{len(whole['sites'])} places of {len(words) - 3} reports: {words[-1]}, "
                f"{report.page_beside(words[-1])}"
            )
            return 0
        if words[:1] == ["show"] and len(words) == 2:
            print("\n".join(report.lines(store.read(words[1]))))
            return 0
        if words[:1] == ["against"] and len(words) == 3:
            verdict = store.compared(store.read(words[1]), store.read(words[2]))
            print("\n".join(report.gate(verdict)))
            return BLINDER if verdict["blinder"] else 0
    except (OSError, ValueError) as why:
        print(f"assay.audit: {why}", file=sys.stderr)
        return 2
    print(__doc__, file=sys.stderr if words not in (["-h"], ["--help"]) else sys.stdout)
    return 0 if words in (["-h"], ["--help"]) else 2


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
