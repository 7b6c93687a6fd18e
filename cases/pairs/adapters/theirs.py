"""What adapters share: the files of one side of a pair on Python's path, and stand-ins for what was not taken
of it.

Of a pair only the listed files are there. Any other module of the same packages, and any package in `absent`,
is a stand-in: its names are empty classes, which as decorators give back what they decorate. What computes
must be listed."""

import importlib.abc
import importlib.machinery
import importlib.util
import os
import sys
import types

FILES = os.environ.get("PAIR_FILES", "")
PAIR = os.environ.get("PAIR_NAME", "")


class _Kind(type):
    def __call__(cls, *words, **named):
        if "stand_in" not in cls.__dict__:
            return super().__call__(*words, **named)
        return words[0] if len(words) == 1 and callable(words[0]) and not named else cls

    def __getattr__(cls, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return stand_in(name)

    def __or__(cls, other):
        return cls

    __ror__ = __or__

    def __getitem__(cls, key):
        return cls

    def __bool__(cls):
        return "stand_in" not in cls.__dict__

    def __iter__(cls):
        return iter(())


def stand_in(name):
    return _Kind(name, (), {"stand_in": True, "__init_subclass__": classmethod(lambda cls, **named: None)})


class _Module(types.ModuleType):
    def __getattr__(self, name):
        if name.startswith("__"):
            if name == "__version__":
                return "0"
            raise AttributeError(name)
        made = stand_in(name)
        setattr(self, name, made)
        return made


class _Absent(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Last of the finders: only what nobody else has comes here."""

    def __init__(self, packages):
        self.packages = packages

    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in self.packages:
            return importlib.machinery.ModuleSpec(name, self, is_package=True)
        return None

    def create_module(self, spec):
        return _Module(spec.name)

    def exec_module(self, module):
        pass


def use(*absent, triton=False):
    """Theirs on the path. `absent`: packages that are stand-ins where they are not installed. triton:
    interpreted."""
    if triton:
        os.environ["TRITON_INTERPRET"] = "1"
    own = [n.removesuffix(".py") for n in os.listdir(FILES)]
    sys.path.insert(0, FILES)
    sys.meta_path.append(_Absent({*own, *absent}))
    if triton:
        _first_configuration()


def _first_configuration():
    """To tune, Triton needs a device: the first configuration of each kernel is the one that runs."""
    import triton

    tune = triton.autotune
    triton.autotune = lambda configs, key, **named: tune(configs[:1], key)


def interpreted(contract):
    """A contract for what Triton's interpreter runs: not bfloat16, which the pinned one cuts off, not
    rounds."""
    def declared(call):
        from assay_subjects import need

        need(call.attributes.get("dtype") != "bf16", "bf16 by Triton's interpreter, which cuts it off")
        return contract(call) if callable(contract) else contract

    return declared


def package(name, **attributes):
    """A package of theirs with these names instead of those of its __init__.py, around the modules that were
    taken."""
    module = _Module(name)
    module.__path__ = [os.path.join(FILES, *name.split("."))]
    vars(module).update(attributes)
    sys.modules[name] = module
    return module


def alone(path, name=None):
    """One file as a module, without its package."""
    name = name or os.path.basename(path).removesuffix(".py")
    spec = importlib.util.spec_from_file_location(name, os.path.join(FILES, path))
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module
