"""Which comparisons are hooked, and how: those of numpy and PyTorch once the suite has imported these, and a
suite's own by name.

Nothing is imported that the suite does not import. A function that was imported by name before is replaced
where a module holds it."""
import functools
import importlib.abc
import importlib.util
import inspect
import os
import re
import sys
import types

from assay.audit import followed, sites
from assay.audit.core import LOCAL, is_traced

FIRST = ("actual", "input", "x", "a", "a1")
SECOND = ("desired", "expected", "other", "y", "b", "a2")
# Names that people give to comparisons.
COMPARES = re.compile(r"close|(?:assert|check|verify)\w*(?:equal|near|match|same|error|diff)|cosine|snr|sqnr|"
                      r"calc_diff|compute_error|err_ratio", re.I)
WATCHED = ("numpy", "numpy.testing", "torch", "jax.numpy")


def _argument(at, name, default):
    return lambda a, k: a[at] if len(a) > at else k.get(name, default)


def relative(rtol, atol, at=2):
    """The tolerances of a function that takes rtol and atol from its argument `at` on."""
    r, t = _argument(at, "rtol", rtol), _argument(at + 1, "atol", atol)
    return lambda a, k: {"rtol": r(a, k), "atol": t(a, k)}


def decimals(default):
    """Of numpy's: |desired - actual| < 1.5 * 10^-decimal."""
    read = _argument(2, "decimal", default)
    return lambda a, k: {"rtol": 0.0, "atol": 1.5 * 10.0**-read(a, k)}


class Rule:
    """How a function compares. known(a, k): its rtol and atol; exact: it takes none; tested, reference: where
    these are, as positions or names, where somebody said so; careful: somebody's own; measure: its threshold
    comes later, and it is followed only where a test calls it."""
    def __init__(self,
                 kind,
                 known=None,
                 exact=False,
                 tested=None,
                 reference=None,
                 careful=False,
                 measure=False,
                 method=False):
        self.kind, self.known, self.exact, self.tested, self.reference = kind, known, exact, tested, reference
        self.careful, self.measure, self.method = careful, measure, method

    def slots(self, function, a, k):
        """The two places among the arguments, or None."""
        if self.tested is not None:
            found = [self._slot(function, where, a, k) for where in (self.tested, self.reference)]
        else:
            start = 1 if self.method else 0
            named = [next((n for n in names if n in k), None) for names in (FIRST, SECOND)]
            found = list(range(start, min(len(a), start + 2)))
            if len(found) < 2 and named[1] is not None:
                found = (found or [named[0]]) + [named[1]]
        return found if len(found) == 2 and None not in found else None

    def _slot(self, function, where, a, k):
        at = where
        if isinstance(where, str):
            if where in k:
                return where
            try:
                at = list(inspect.signature(function).parameters).index(where)
            except ValueError:
                return None
        else:
            at += 1 if self.method else 0
        if at < len(a):
            return at
        try:
            name = list(inspect.signature(function).parameters)[at]
        except (ValueError, IndexError, TypeError):
            return None
        return name if name in k else None


def _never():
    return False


def hooked(audit, original, rule):
    """`original`, and the audit behind each of its calls that passed."""
    compiling = _never
    if rule.kind.startswith(
            "torch."
    ):  # asked first, and by itself: a compiler that traces this function sees the original alone
        compiling = getattr(getattr(sys.modules["torch"], "compiler", None), "is_compiling", _never)

    def audited(result, a, k):
        slots = rule.slots(original, a, k)
        if slots is None:
            return result
        values = [k[s] if isinstance(s, str) else a[s] for s in slots]

        def called(side, value):
            arguments, keywords = list(a), dict(k)
            for i, s in enumerate(slots):
                new = value if i == side else values[i]
                (keywords if isinstance(s, str) else arguments)[s] = copied(new) if rule.careful else new
            return original(*arguments, **keywords)

        if truth_of(result):
            audit.compared(rule.kind,
                           values,
                           lambda side, value: verdict(called(side, value)),
                           known=rule.known and rule.known(a, k),
                           fixed=0 if rule.tested is not None else None,
                           exact=rule.exact,
                           careful=rule.careful)
            return result
        if not measured(result):
            return result
        box = [result]

        def carry(site, changed):
            side = 0 if rule.tested is not None or site.side != "first" else 1
            others = {}
            for name, value in changed.items():
                try:
                    others[name] = called(side, value)
                except Exception as why:  # noqa: BLE001
                    site.leave(type(why).__name__)
            box[0] = followed.follow(result, others, audit, site, not rule.kind.endswith(".isclose"))

        audit.compared(rule.kind,
                       values,
                       None,
                       known=rule.known and rule.known(a, k),
                       fixed=0 if rule.tested is not None else None,
                       careful=rule.careful,
                       values=carry)
        return box[0]

    @functools.wraps(original)
    def compare(*a, **k):
        if compiling():
            return original(*a, **k)
        __tracebackhide__ = True
        if LOCAL.busy or is_traced() or (rule.measure and not sites.called_from_test()):
            return original(*a, **k)
        if rule.kind == "numpy.testing.assert_equal" and a and isinstance(a[0], (dict, list, tuple)):
            return original(*a, **k)  # which compares what is in it, one by one, by this function
        LOCAL.busy = True
        try:
            result = original(*a, **k)
        finally:
            LOCAL.busy = False
        if audit.often(sys._getframe(1)):
            return result
        with audit.guarded(rule.kind):
            result = audited(result, a, k)
        return result

    compare.assay_audit = True
    return compare


def copied(value):
    """For somebody's own function, which may write into what it is given."""
    if hasattr(value, "clone"):
        return value.clone()
    return value.copy() if type(value).__module__ == "numpy" and hasattr(value, "copy") else value


def truth_of(result):
    """Whether a comparison said that it holds: None, True, or a tuple that begins so."""
    if type(result) is tuple and result and type(result[0]) is bool:
        return result[0]
    if result is None or result is True:
        return True
    kind = type(result)
    if kind.__module__.split(".")[0] in ("jax", "jaxlib"):
        return str(result.dtype).endswith("bool") and result.shape == () and bool(result)
    return (kind.__module__, kind.__name__) in (("numpy", "bool_"), ("numpy", "bool")) and bool(result)


def verdict(result):
    return None if result is None else result[0] if type(result) is tuple and result else result


def measured(result):
    torch, numpy = sys.modules.get("torch"), sys.modules.get("numpy")
    if torch is not None and type(result) is torch.Tensor:
        return result.layout == torch.strided
    if numpy is not None and type(result) in (numpy.float64, numpy.ndarray):
        return type(result) is numpy.float64 or result.dtype.kind == "b"
    return type(result) in (float, int)


class Hooks(importlib.abc.MetaPathFinder):
    """Installed while a session lasts. own: the suite's own comparisons, as (name, tested, reference)."""
    def __init__(self, audit, own=()):
        self.audit, self.own, self.undo, self.swapped, self.finding, self.seen = audit, own, [], {}, set(
        ), set()
        self.found = set()

    def install(self):
        sys.meta_path.insert(0, self)
        for name in WATCHED:
            if name in sys.modules:
                self.loaded(name)
        self.sweep()

    def uninstall(self):
        if self in sys.meta_path:
            sys.meta_path.remove(self)
        while self.undo:
            self.undo.pop()()

    # A module that is watched is hooked as soon as it is loaded.

    def find_spec(self, name, path=None, target=None):
        if name not in WATCHED or name in self.finding:
            return None
        self.finding.add(name)
        try:
            spec = importlib.util.find_spec(name)
        finally:
            self.finding.discard(name)
        if spec is not None and spec.loader is not None and hasattr(spec.loader, "exec_module"):
            spec.loader = _Loader(spec.loader, self)
        return spec

    def loaded(self, name):
        with self.audit.guarded(f"hooks of {name}"):
            module = sys.modules.get(name)
            if module is not None and name not in self.found:
                self.found.add(name)
                getattr(self, "_" + name.replace(".", "_"))(module)

    def replace(self, owner, name, rule):
        original = getattr(owner, name, None)
        if original is None or hasattr(original, "assay_audit"):
            return
        known = self.swapped.get(id(original))
        wrapper = known[1] if known else hooked(self.audit, original, rule)
        self.swapped[id(original)] = (original, wrapper)
        self.put(owner, name, original, wrapper)

    def put(self, owner, name, original, wrapper):
        own = name in vars(owner)
        setattr(owner, name, wrapper)
        self.undo.append(lambda: setattr(owner, name, original) if own else delattr(owner, name))

    def _numpy(self, numpy):
        self.replace(numpy, "allclose", Rule("numpy.allclose", relative(1e-5, 1e-8)))  # numpy's own defaults
        self.replace(numpy, "array_equal", Rule("numpy.array_equal", exact=True))
        self.replace(numpy, "array_equiv", Rule("numpy.array_equiv", exact=True))
        self.replace(numpy, "isclose", Rule("numpy.isclose", relative(1e-5, 1e-8),
                                            measure=True))  # numpy's own defaults
        if "numpy.testing" in sys.modules:
            self.loaded("numpy.testing")

    def _numpy_testing(self, testing):
        private = sys.modules.get("numpy.testing._private.utils")
        for owner in [testing, *([private] if private else [])]:
            rules = {
                "assert_allclose": Rule(
                    "numpy.testing.assert_allclose", relative(1e-7, 0)
                ),  # numpy's own default
                "assert_array_almost_equal": Rule("numpy.testing.assert_array_almost_equal", decimals(6)),
                "assert_almost_equal": Rule("numpy.testing.assert_almost_equal", decimals(7)),
                "assert_approx_equal": Rule("numpy.testing.assert_approx_equal"),
                "assert_array_almost_equal_nulp": Rule("numpy.testing.assert_array_almost_equal_nulp"),
                "assert_array_equal": Rule("numpy.testing.assert_array_equal", exact=True),
                "assert_equal": Rule("numpy.testing.assert_equal", exact=True),
            }
            for name, rule in rules.items():
                self.replace(owner, name, rule)
        if private is not None and hasattr(private, "build_err_msg"):
            self.put(private, "build_err_msg", private.build_err_msg, _unsaid(private.build_err_msg))

    def _torch(self, torch):
        defaults = relative(1e-5, 1e-8)  # PyTorch's own defaults
        for owner in (torch, torch.Tensor):
            self.replace(owner, "allclose", Rule("torch.allclose", defaults))
            self.replace(owner, "equal", Rule("torch.equal", exact=True))
            self.replace(owner, "isclose", Rule("torch.isclose", defaults, measure=True))
        for owner in (torch, torch.nn.functional):
            self.replace(owner, "cosine_similarity", Rule("torch.cosine_similarity", measure=True))
        register = getattr(getattr(torch.jit, "_builtins", None), "_register_builtin", None)
        if register is not None:  # a function that is scripted calls the operators as before
            for name in ("allclose", "equal", "isclose", "cosine_similarity"):
                register(getattr(torch, name), f"aten::{name}")
        comparison = sys.modules["torch.testing._comparison"]
        self._pairs(torch, comparison)
        if hasattr(comparison, "make_tensor_mismatch_msg"):
            self.put(comparison, "make_tensor_mismatch_msg", comparison.make_tensor_mismatch_msg,
                     _unsaid(comparison.make_tensor_mismatch_msg))

    def _pairs(self, torch, comparison):
        """assert_close, and TestCase.assertEqual of PyTorch's own tests: containers are taken apart,
        tolerances resolved."""
        audit, tensors, numbers = self.audit, comparison.TensorLikePair, comparison.NumberPair
        original_values, original_number = tensors._compare_values, numbers.compare

        @functools.wraps(original_values)
        def values(pair, actual, expected):
            __tracebackhide__ = True
            if LOCAL.busy or is_traced():
                return original_values(pair, actual, expected)
            LOCAL.busy = True
            try:
                original_values(pair, actual, expected)
            finally:
                LOCAL.busy = False
            with audit.guarded("torch.testing.assert_close"):
                if actual.layout == torch.strided and not actual.is_quantized and not actual.is_nested:

                    def again(side, value):
                        return original_values(pair, *((value, expected) if side == 0 else (actual, value)))

                    audit.compared("torch.testing.assert_close", (actual, expected), again,
                                   {"rtol": pair.rtol, "atol": pair.atol})

        @functools.wraps(original_number)
        def number(pair):
            __tracebackhide__ = True
            original_number(pair)
            if LOCAL.busy or is_traced():
                return
            with audit.guarded("torch.testing.assert_close"):
                import copy
                sides = (pair.actual, pair.expected)

                def again(side, value):
                    other = copy.copy(pair)
                    setattr(other, ("actual", "expected")[side], value)
                    return original_number(other)

                audit.compared("torch.testing.assert_close", sides, again,
                               {"rtol": pair.rtol, "atol": pair.atol})

        self.put(tensors, "_compare_values", original_values, values)
        self.put(numbers, "compare", original_number, number)

    def _jax_numpy(self, module):
        self.replace(
            module, "allclose", Rule("jax.numpy.allclose", relative(1e-5, 1e-8))
        )  # JAX's own defaults
        self.replace(module, "array_equal", Rule("jax.numpy.array_equal", exact=True))

    # What modules hold by name.

    def sweep(self):
        """In each module that is new: functions that are hooked by now, and the suite's own comparisons."""
        with self.audit.guarded("the search through modules"):
            modules = {
                name: module for name, module in list(sys.modules.items())
                if isinstance(module, types.ModuleType) and _theirs(name)
            }
            fresh = [name for name in modules if name not in self.seen]
            self.seen.update(fresh)
            for name in fresh:
                self._candidates_in(modules[name])
            if self.own:
                for name in fresh:
                    self._own_in(modules[name])
            # A helper is defined in one module and held in others, which may have been looked through before.
            for name in (modules if self.own else fresh):
                held = vars(modules[name])
                for key, value in list(held.items()):
                    found = self.swapped.get(id(value))
                    if found is not None and found[0] is value:
                        held[key] = found[1]
                        self.undo.append(functools.partial(held.__setitem__, key, value))

    def _own_in(self, module):
        for value in list(vars(module).values()):
            if isinstance(value, types.FunctionType) and not hasattr(value, "assay_audit"):
                full = f"{value.__module__}.{value.__qualname__}"
                for name, tested, reference in self.own:
                    if value.__name__ == name or full == name or full.endswith("." + name):
                        rule = Rule(value.__name__,
                                    _keywords,
                                    tested=tested,
                                    reference=reference,
                                    careful=True)
                        self.swapped[id(value)] = (value, hooked(self.audit, value, rule))
                        self.found.add(name)
            elif isinstance(value, type) and value.__module__ == module.__name__:
                for name, tested, reference in self.own:
                    owner, _, method = name.rpartition(".")
                    if owner.rpartition(".")[2] == value.__name__ and isinstance(
                            value.__dict__.get(method), types.FunctionType):
                        if not hasattr(value.__dict__[method], "assay_audit"):
                            self.replace(
                                value, method,
                                Rule(method,
                                     _keywords,
                                     tested=tested,
                                     reference=reference,
                                     careful=True,
                                     method=True))
                            self.found.add(name)

    def _candidates_in(self, module):
        """Functions of the suite's own that are named as comparisons are."""
        file = getattr(module, "__file__", None) or ""
        if not file.startswith(self.audit.root + os.sep) or "site-packages" in file:
            return
        for value in list(vars(module).values()):
            if isinstance(value, types.FunctionType) and value.__module__ == module.__name__ \
                    and COMPARES.search(value.__name__) and not value.__name__.startswith("test"):
                self.audit.candidates[value.__name__] = f"{value.__module__}.{value.__qualname__}"

    def not_found(self):
        """Names of the suite's own comparisons that no module had."""
        return [name for name, _, _ in self.own if name not in self.found]


def _keywords(a, k):
    """What a call of somebody's own function says of its tolerance."""
    known = {"rtol": "rtol", "rel_tol": "rtol", "atol": "atol", "abs_tol": "atol"}
    return {known[n]: v for n, v in k.items() if n in known}


def _theirs(name):
    """Modules whose names are looked through: not those of the libraries themselves, but for their tests."""
    first = name.split(".")[0]
    if first in ("assay", "_pytest", "pytest", "pluggy"):
        return False
    return first not in ("numpy", "torch", "jax") or ".test" in name or "tests" in name


def _unsaid(original):
    """A message is not made for who only asks whether."""
    @functools.wraps(original)
    def message(*a, **k):
        return "" if LOCAL.asking else original(*a, **k)

    return message


class _Loader(importlib.abc.Loader):
    def __init__(self, loader, hooks):
        self.loader, self.hooks = loader, hooks

    def __getattr__(self, name):
        return getattr(self.loader, name)

    def create_module(self, spec):
        return self.loader.create_module(spec)

    def exec_module(self, module):
        module.__spec__.loader = module.__loader__ = self.loader
        self.loader.exec_module(module)
        self.hooks.loaded(module.__name__)
