"""The audit as a plug-in of pytest: registered by assay.pytest_plugin where one of its options is given."""
import glob
import os
import sys
import time
import uuid

import pytest
from assay.audit import followed, report, store
from assay.audit.core import Audit
from assay.audit.hooks import Hooks
from assay.audit.options import BLINDER


def helpers_of(lines):
    """[(name, tested, reference)] of lines 'NAME [UNDER_TEST REFERENCE]', the latter two positions or names
    of arguments."""
    found = []
    for line in lines:
        words = line.split("#")[0].split()
        if not words:
            continue
        if len(words) not in (1, 3):
            raise pytest.UsageError(
                f"assay_audit_helpers: '{line}'; allowed: NAME, or NAME UNDER_TEST REFERENCE")
        places = [int(w) if w.isdecimal() else w for w in words[1:]] or [None, None]
        found.append((words[0], *places))
    return found


class Plugin:
    def __init__(self, config):
        self.config, self.worker = config, getattr(config, "workerinput", None)
        self.earlier = self.verdict = self.merged = None
        self.file = config.getoption("--assay-audit")
        against = config.getoption("--assay-audit-against")
        try:
            self.earlier = store.read(against) if against else None
            if self.file is not None:
                self.file = os.path.abspath(self.file)
                if self.file.endswith(".html"):
                    raise ValueError(
                        f"'{self.file}': the JSON has a name of its own, and the page one beside it")
                self._writable()
        except (OSError, ValueError) as why:
            raise pytest.UsageError(f"--assay-audit: {why}") from None
        self.run = self.worker[
            "assay_audit_run"] if self.worker and "assay_audit_run" in self.worker else uuid.uuid4().hex
        path = self.file
        # of a session that only compares, the workers' parts go to the controller by files too
        if self.worker and not path:
            path = self.worker.get("assay_audit_parts")
        if self.worker and path:
            path = f"{path}.{self.worker['workerid']}"
        self.parts = None
        reference = None
        if config.getoption("--assay-audit-reference"):
            from assay.audit import reference as formula
            self.formula = formula
            reference = formula.judge
        else:
            self.formula = None
        share = config.getoption("--assay-audit-budget")
        again = [t for site in self.earlier["sites"] for t in site["tests"]] if self.earlier else []
        self.audit = Audit(
            str(config.rootpath), share / 100 if share > 0 else None, config.getoption("--assay-audit-each"),
            path, {
                "run": self.run, "command": " ".join(["pytest", *map(str, config.invocation_params.args)]),
                "python": sys.version.split()[0], "date": time.strftime("%Y-%m-%d")
            }, again, config.getoption("--assay-audit-every"), reference)
        self.hooks = Hooks(self.audit, helpers_of(config.getini("assay_audit_helpers")))
        self.hooks.install()
        self.modules = 0

    def _writable(self):
        folder = os.path.dirname(self.file)
        if os.path.isdir(self.file) or not os.path.isdir(folder) or not os.access(folder, os.W_OK):
            raise ValueError(f"'{self.file}' cannot be written")

    # With xdist, each worker writes FILE.gwN; the controller adds them up.

    @pytest.hookimpl(optionalhook=True)
    def pytest_configure_node(self, node):
        node.workerinput["assay_audit_run"] = self.run
        if not self.file and self.parts is None:
            import tempfile
            self.parts = os.path.join(tempfile.mkdtemp(prefix="assay_audit_"), "part")
        elif self.parts is None:
            self.parts = self.file
            for old in self._files():
                os.unlink(old)
        node.workerinput["assay_audit_parts"] = self.parts

    def _files(self):
        """Files of workers that are beside the report; only those that are an audit's."""
        found = []
        for path in sorted(glob.glob(glob.escape(self.parts) + ".gw*")):
            try:
                store.read(path)
                found.append(path)
            except ValueError:
                continue
        return found

    # The tests.

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items):
        with self.audit.guarded("the tests drawn"):
            self.audit.draw([(item.nodeid.split("[")[0], item.nodeid) for item in items])

    def pytest_collection_finish(self):
        self.hooks.sweep()
        self.modules = len(sys.modules)

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_setup(self, item):
        with self.audit.guarded("a test's beginning"):
            path = str(getattr(item, "path", None) or item.fspath)
            function = item.nodeid.split("[")[0].partition("::")[2] or item.name
            self.audit.enter(item.nodeid, path,
                             getattr(item, "originalname", None) or item.name.split("[")[0], function)
            if len(sys.modules) != self.modules:
                self.hooks.sweep()
                self.modules = len(sys.modules)

    @pytest.hookimpl(hookwrapper=True)
    def pytest_runtest_call(self, item):
        tape = self.formula.recording(self.audit) if self.formula else None
        if tape is None:
            yield
            return
        with tape:
            yield

    @pytest.hookimpl(hookwrapper=True)
    def pytest_runtest_makereport(self, item, call):
        with self.audit.guarded("a test's end"):
            self.audit.leave(call.excinfo is None)
        if item.user_properties:
            with self.audit.guarded("a test's properties"):
                item.user_properties[:] = [(name, followed.plain_number(value))
                                           for name, value in item.user_properties]
        yield

    @pytest.hookimpl(trylast=True)
    def pytest_runtest_logfinish(self):
        self.audit.save(now=False)

    # The end.

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session):
        for name in self.hooks.not_found():
            self.audit.errors[f"assay_audit_helpers: no module has {name}"] += 1
        if self.worker:
            self.audit.save()
            return
        with self.audit.guarded("the report"):
            whole = self.audit.as_json()
            if self.parts is not None:
                parts = [(path, store.read(path)) for path in self._files()]
                parts = [(path, part) for path, part in parts if part.get("run") == self.run]
                whole = dict(store.merged([part for _, part in parts]) if parts else whole,
                             command=whole["command"])
                whole["processes"] = len(parts)
                errors = dict(self.audit.errors)
                for name in self.hooks.not_found():
                    errors.pop(f"assay_audit_helpers: no module has {name}", None)  # the workers say whether
                    if whole["errors"].get(f"assay_audit_helpers: no module has {name}", 0) == len(parts):
                        errors[f"assay_audit_helpers: no module has {name}"] = 1
                    whole["errors"].pop(f"assay_audit_helpers: no module has {name}", None)
                whole["errors"].update(errors)
                for path, _ in parts:
                    os.unlink(path)
                if not self.file:
                    os.rmdir(os.path.dirname(self.parts))
            self.merged = whole
            if self.earlier is not None:
                self.verdict = store.compared(self.earlier, whole)
            if self.file:
                store.write(self.file, whole)
                report.write_page(report.page_beside(self.file), whole, self.verdict)
        if self.earlier is not None and self.verdict is None:  # a gate that could not look is not open
            self.verdict = {"blinder": [], "sharper": [], "new": [], "gone": [], "failed": True}
        if self.verdict and (self.verdict["blinder"] or self.verdict.get("failed")
                             ) and session.exitstatus in (0, pytest.ExitCode.NO_TESTS_COLLECTED):
            session.exitstatus = BLINDER

    def pytest_terminal_summary(self, terminalreporter):
        if self.worker:
            return
        with self.audit.guarded("the summary"):
            terminalreporter.write_sep("=", "assay: what the comparisons would have let pass")
            whole = self.merged or self.audit.as_json()
            for line in report.lines(dict(whole, errors={**whole["errors"], **self.audit.errors}),
                                     self.verdict):
                terminalreporter.write_line(line)
            if self.file and self.merged:
                terminalreporter.write_line(
                    f"written to {os.path.relpath(self.file)} and "
                    f"{os.path.relpath(report.page_beside(self.file))}"
                )
            if self.verdict and (self.verdict["blinder"] or self.verdict.get("failed")):
                terminalreporter.write_line(
                    f"exit status {BLINDER} where all tests pass: a comparison got blinder", red=True)

    def pytest_unconfigure(self):
        with self.audit.guarded("the end"):
            self.hooks.uninstall()
