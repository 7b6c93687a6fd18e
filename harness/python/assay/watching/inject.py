"""In a process that `assay watch` started: from the moment that PyTorch is imported its models are watched,
and the report is written when the process ends."""
import atexit
import importlib.util
import json
import os
import signal
import sys
import threading

VARIABLE = "ASSAY_WATCH"  # what watch() is called with, as JSON


class _Loader:
    """Of PyTorch: loads it, and starts the watch behind it."""

    def __init__(self, loader):
        self.loader = loader

    def create_module(self, spec):
        return self.loader.create_module(spec)

    def exec_module(self, module):
        module.__loader__ = module.__spec__.loader = self.loader
        self.loader.exec_module(module)
        try:
            start()
        except Exception as why:  # noqa: BLE001
            print(f"assay watch: {why}", file=sys.stderr)


class _Finder:
    def find_spec(self, name, path=None, target=None):
        if name != "torch":
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(name)
        if spec is not None and spec.loader is not None:
            spec.loader = _Loader(spec.loader)
        return spec


def install():
    if os.environ.get(VARIABLE):
        sys.meta_path.insert(0, _Finder())


def start():
    from assay.watching.session import watch
    options = json.loads(os.environ[VARIABLE])
    process = os.getpid()
    session = watch(None, os.path.join(options.pop("folder"), f"process-{process}"), **options).start()

    def end():
        if os.getpid() == process and session.steps.count:  # no fork of it
            try:
                session.finish()
            except Exception as why:  # noqa: BLE001
                print(f"assay watch: {type(why).__name__}: {why}", file=sys.stderr)
    atexit.register(end)
    if threading.current_thread() is threading.main_thread() and signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
        # by which the report is written
        signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))
