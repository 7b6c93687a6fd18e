"""What ran, from evidence: on a device the library that ASSAY_WITNESS names, on a CPU the functions that
Python entered and the operators that PyTorch dispatched. What a subject declares is no evidence."""

import ctypes
import glob
import json
import os
import sys

MOST_NAMES = 256


def _cupti_of_pip():
    """Where pip puts CUPTI: the packages that this Python imports are those that PyTorch will use."""
    return [file for folder in sys.path
            for file in sorted(glob.glob(os.path.join(folder, "nvidia", "*", "lib", "libcupti.so.*")))]


class Witness:
    """The library that ASSAY_WITNESS names: what it saw goes into the reply."""

    def __init__(self, path):
        self.name, self.absence = os.path.splitext(os.path.basename(path))[0], ""
        self._collect = None
        if not path:
            return
        try:
            os.environ.setdefault("ASSAY_CUPTI", ":".join(_cupti_of_pip()))
            library = ctypes.CDLL(path)
            opened, collect = library.assay_witness_open, library.assay_witness_collect
        except (OSError, AttributeError) as error:
            self.absence = str(error)
            return
        opened.restype = collect.restype = ctypes.c_char_p
        reason = opened()
        if reason is None:
            self._collect = collect
        else:
            self.absence = reason.decode(errors="replace")

    @property
    def watches(self):
        return self._collect is not None

    def standing(self):
        if self.watches:
            return f", watched by {self.name}"
        return f", NOT watched: {self.absence}" if self.absence else ", NOT watched"

    def collect(self):
        return json.loads(self._collect().decode(errors="replace")) if self._collect else None


def _first(names, path):
    """Of many names those that `path` could mean come first."""
    stem = path.rstrip("*")
    return sorted(names, key=lambda name: not (name == path or (stem != path and stem in name)))[:MOST_NAMES]


class Entered:
    """The functions that Python enters while it is open, as FILE.NAME and NAME of each, and PyTorch's
    operators."""

    def __init__(self):
        self._codes, self._builtins, self._profile = {}, {}, None

    def __enter__(self):
        torch = sys.modules.get("torch")
        if torch is not None:
            self._profile = torch.autograd.profiler.profile(use_kineto=False)
            self._profile.__enter__()
        self._before = sys.getprofile()
        sys.setprofile(self._event)
        return self

    def _event(self, frame, event, argument):
        if event == "call":
            self._codes[frame.f_code] = True
        elif event == "c_call":
            self._builtins[argument] = True

    def __exit__(self, *error):
        sys.setprofile(self._before)
        if self._profile is not None:
            self._profile.__exit__(*error)

    def witness(self, path, announced):
        """The member `witness` of a reply: operators of PyTorch and compiled routines were seen. A function
        of Python, whose
        name is its author's to choose and which may do nothing, and what was announced are not: nobody could
        have seen them."""
        seen, python = {}, dict.fromkeys(announced)
        if self._profile is not None:
            seen.update((e.name, None) for e in self._profile.function_events)
        for builtin in self._builtins:
            if builtin is not sys.setprofile:  # this class's own
                seen[getattr(builtin, "__name__", "builtin")] = None
        for code in self._codes:
            if code.co_filename != __file__:
                file = os.path.splitext(os.path.basename(code.co_filename))[0]
                python[code.co_name] = python[f"{file}.{code.co_name}"] = None
        return {"by": "Python's profiler", "host": True,
                "kernels": [{"name": name} for name in _first(seen, path)],
                "unwatched": _first((name for name in python if name not in seen), path)}
