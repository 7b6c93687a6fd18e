"""The options of the audit, apart from what they do: nothing else is loaded where none is given."""

BLINDER = 7  # the exit status of a session whose tests pass and in which a comparison got blinder


def add(parser):
    group = parser.getgroup("assay", "assay: what the suite's comparisons would have let pass")
    group.addoption(
        "--assay-audit",
        metavar="FILE",
        help="ask every comparison again with wrong results; a report as JSON, and a page beside it")
    group.addoption("--assay-audit-against",
                    metavar="EARLIER",
                    help=f"also compare with an earlier report: exit status {BLINDER} where a "
                    "comparison got blinder")
    group.addoption(
        "--assay-audit-budget",
        metavar="PERCENT",
        type=float,
        default=25.0,
        help="of the session's own time, what the audit may take beyond a second (default 25; 0: no limit)")
    group.addoption("--assay-audit-each",
                    metavar="N",
                    type=int,
                    default=8,
                    help="parameter sets of a test that are asked, spread over all (default 8; 0: all)")
    group.addoption("--assay-audit-reference",
                    action="store_true",
                    help="also hold each reference against its own formula in f64 (PyTorch; slow)")
    group.addoption("--assay-audit-every",
                    metavar="SECONDS",
                    type=float,
                    default=20.0,
                    help="between two writes of the report (default 20)")
    parser.addini("assay_audit_helpers",
                  "comparisons of the suite's own: NAME [UNDER_TEST REFERENCE], one a line",
                  type="linelist",
                  default=[])


def given(config):
    return bool(config.getoption("--assay-audit") or config.getoption("--assay-audit-against"))
