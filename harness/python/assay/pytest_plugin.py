"""What pytest says with assay installed: the program in its header, a red verdict as assay's own text,
without the frames of this package, and with --assay-audit what the suite's comparisons would have let pass
(assay.audit)."""
import subprocess

import assay
import pytest
from assay import program


def pytest_addoption(parser):
    from assay.audit.options import add
    add(parser)


def pytest_configure(config):
    from assay.audit import options
    if options.given(config):
        from assay.audit.plugin import Plugin
        config.pluginmanager.register(Plugin(config), "assay_audit")


def pytest_report_header():
    try:
        path = program.path()
        return f"assay: {subprocess.run([path, '--version'], capture_output=True, text=True).stdout.splitlines()[0]}, {path}"
    except (OSError, IndexError) as error:
        return f"assay: {error}"


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item, call):
    outcome = yield
    if call.excinfo is not None and call.excinfo.errisinstance(assay.Finding):
        entry = call.excinfo.traceback.cut(path=item.path)[0]
        report = outcome.get_result()
        report.longrepr = f"{entry.path}:{entry.lineno + 1}{call.excinfo.value}"
