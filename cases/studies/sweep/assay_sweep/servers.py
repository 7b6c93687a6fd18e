"""Engines that a sweep starts, watches and stops, and those that are running already.

    llama-server[:PATH]      llama.cpp's own server
    xllamacpp[:PYTHON]       the server inside the wheel of that name, under this or another interpreter
    http://HOST:PORT         a server that is running: the model must be the cell's (assay sweep model writes
    it)
    command:TEMPLATE         any other: {model} {port} {context} {k} {v} {fa} {threads} {batch} are filled in
"""
import ctypes
import os
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time

from assay_sweep.client import Client, ServerError
from assay_sweep.line import LineError

HERE = os.path.dirname(os.path.realpath(__file__))


def _die_with_parent():
    # PR_SET_PDEATHSIG: a sweep that is killed leaves no server behind
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Engine:
    """What `--engine` names. `label` is part of a cell; `library` is a folder or file that is loaded in place
    of the engine's own."""

    def __init__(self, text, library=None, extra=""):
        kind, _, rest = text.partition(":")
        self.text, self.library, self.extra, self.url = text, library, shlex.split(extra), None
        if text.startswith(("http://", "https://")):
            self.label, self.url = "endpoint", text
        elif kind == "command" and rest:
            self.label, self.template = "command", rest
        elif kind == "llama-server":
            self.label, self.program = kind, rest or shutil.which("llama-server") or ""
            if not os.access(self.program, os.X_OK):
                raise LineError(f"engine {text}: no such program; give llama-server:PATH")
        elif kind == "xllamacpp":
            self.label, self.program = kind, rest or sys.executable
            if subprocess.run([self.program, "-c", "import xllamacpp"], capture_output=True).returncode != 0:
                raise LineError(f"engine {text}: {self.program} cannot import xllamacpp; pip install xllamacpp into it, or "
                                "give xllamacpp:PYTHON of an environment that has it")
        else:
            raise LineError(f"engine {text}: allowed: llama-server[:PATH] xllamacpp[:PYTHON] http://HOST:PORT command:TEMPLATE")

    def versions(self):
        if self.label == "xllamacpp":
            code = "import importlib.metadata as m; print('xllamacpp', m.version('xllamacpp'))"
            return subprocess.run([self.program, "-c", code], capture_output=True, text=True).stdout.strip()
        if self.label == "llama-server":
            done = subprocess.run([self.program, "--version"], capture_output=True, text=True)
            return " ".join((done.stdout + done.stderr).split())[:200]
        return self.text

    def command(self, model, port, values, context):
        if self.label == "command":
            filled = {"model": model, "port": str(port), "context": str(context), **values}
            return [part.format(**filled) for part in shlex.split(self.template)]
        if self.label == "xllamacpp":
            return [self.program, os.path.join(HERE, "serve_xllamacpp.py"), "--model", model, "--port",
                    str(port), "--context", str(context),
                    "--k", values["k"], "--v", values["v"], "--fa", values["fa"], "--threads",
                    values["threads"], "--batch", values["batch"]]
        return [self.program, "-m", model, "--port", str(port), "--host", "127.0.0.1", "-c", str(context),
                "-ctk", values["k"],
                "-ctv", values["v"], "-fa", values["fa"], "-t", values["threads"], "-b", values["batch"],
                "-ub", values["batch"],
                "-np", "1", "--no-warmup", *self.extra]

    def start(self, model, values, context, timeout, texts):
        return Server(self, model, values, context, timeout, texts)


class Server:
    """A context: started, waited for until /health is no longer 503, and stopped whatever happens."""

    def __init__(self, engine, model, values, context, timeout, texts):
        self.engine, self.process, self.log = engine, None, None
        if engine.url:
            self.client = Client(engine.url, timeout, texts)
            self._wait(timeout)
            return
        port = free_port()
        self.log = tempfile.TemporaryFile()
        environment = dict(os.environ)
        if engine.library:
            key = "LD_PRELOAD" if os.path.isfile(engine.library) else "LD_LIBRARY_PATH"
            environment[key] = os.path.abspath(engine.library)
        if values.get("rot") == "off":
            environment["LLAMA_ATTN_ROT_DISABLE"] = "1"  # llama.cpp's own switch
        try:
            self.process = subprocess.Popen(engine.command(model, port, values, context),
                                            stdin=subprocess.DEVNULL, stdout=self.log,
                                            stderr=self.log, env=environment, preexec_fn=_die_with_parent)
        except OSError as error:
            raise ServerError("failed", f"the engine cannot be started: {error}") from None
        self.client = Client(f"http://127.0.0.1:{port}", timeout, texts)
        try:
            self._wait(timeout)
        except ServerError:
            self.stop()
            raise

    def _wait(self, timeout):
        end = time.monotonic() + timeout
        while True:
            if self.process and self.process.poll() is not None:
                raise ServerError("crash", f"the engine ended with {self.process.returncode}: {self.tail()}")
            try:
                if self.client.ready():
                    return
            except ServerError as error:
                if not self.process and time.monotonic() >= end:
                    raise error
            if time.monotonic() >= end:
                raise ServerError("hang", f"the engine was not ready within {timeout:g} s: {self.tail()}")
            time.sleep(0.05)

    def tail(self):
        if self.log is None:
            return ""
        self.log.flush()
        size = os.fstat(self.log.fileno()).st_size
        return os.pread(self.log.fileno(), 800, max(0, size - 800)).decode(errors="replace").strip()

    def died(self):
        """What to add to a failure when the process is gone."""
        if self.process is None:
            return ""
        try:
            self.process.wait(0.5)
        except subprocess.TimeoutExpired:
            return ""
        return f"; the engine ended with {self.process.returncode}: {self.tail()}"

    def stop(self):
        self.client.connection.close()
        if self.process is None:
            return
        self.process.terminate()
        try:
            self.process.wait(5)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.log.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stop()
