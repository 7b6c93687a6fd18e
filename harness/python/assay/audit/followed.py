"""Comparisons whose threshold comes later: isclose(a, b).float().mean() > 0.99, a cosine, an SNR in dB.

What such a function returns carries, beside its value, the value that it would have had of each changed
result. Each further operation of a list is done on all of them; where the value becomes a truth, the changed
results with the same truth would have passed, if the test did. The value itself is computed as ever; what is
not in the list gives a plain value, and nothing is known of the site."""
import functools
import operator
import re
import sys
import time

from assay.audit import sites

LOST = "its value came to no comparison that could be followed"
ORDERING = re.compile(r"\b(?:min|max|sorted)\s*\(|\.sort\(")  # comparisons there decide nothing yet
ARITHMETIC = ("add", "sub", "mul", "truediv", "pow")
ORDERS = ("lt", "le", "gt", "ge", "eq", "ne")
# Of PyTorch: pure functions of their arguments, which draw nothing and write nowhere.
PURE = {
    "all", "any", "mean", "sum", "min", "max", "amin", "amax", "median", "float", "double", "half",
    "bfloat16", "int", "long", "bool", "to", "cpu", "detach", "clone", "contiguous", "abs", "absolute", "neg",
    "add", "sub", "subtract", "mul", "multiply", "div", "divide", "true_divide", "rsub", "pow", "sqrt", "log",
    "log10", "log2", "acos", "clamp", "lt", "le", "gt", "ge", "eq", "ne", "less", "greater", "logical_not",
    "logical_and", "logical_or", "bitwise_not", "bitwise_and", "bitwise_or", "reshape", "view", "flatten",
    "squeeze", "unsqueeze", "count_nonzero", "isnan", "std", "var", "quantile", "__getitem__", "__invert__",
    "__and__", "__or__", "__neg__", "__abs__", "__bool__", "__float__", "__int__", "item", "numel", "size",
    "dim", "__len__", "equal", "allclose"
}
PURE |= {f"__{name}__" for name in (*ORDERS, *ARITHMETIC)} | {f"__r{name}__" for name in ARITHMETIC}
MEASURES = {"mean", "sum", "count_nonzero", "median", "quantile", "any", "min", "max", "amin", "amax"}
TRUTHS = ("__bool__", "equal", "allclose")


class Followed:
    """Of which site and test values are followed, until the first truth."""
    def __init__(self, audit, site, measure):
        self.audit, self.site, self.test, self.ended = audit, site, audit.test, False
        # whether a number has been made of all elements, and not all() of them asked for
        self.measure = measure
        site.leave(LOST)

    def end(self, truth, others):
        if self.ended:
            return
        self.ended = True
        self.site.measure |= self.measure
        left = self.site.left
        left[LOST] = left.get(LOST, 1) - 1
        if not left[LOST]:
            del left[LOST]
        for name, other in others.items():
            try:
                self.audit.pending.append((self.site, name, bool(other) == truth, self.test))
            except Exception:  # noqa: BLE001
                self.site.leave("no truth of a changed value")

    def each(self, others, call):
        """call(value) of every changed value; those that it raises for are left out."""
        begun, result = time.process_time(), {}
        for name, value in others.items():
            try:
                result[name] = call(name, value)
            except Exception:  # noqa: BLE001
                continue
        self.audit.spent += time.process_time() - begun
        return result


def _plain(value):
    return value.plain() if hasattr(type(value), "plain") and hasattr(value, "followed") else value


@functools.cache
def number(kind):
    """A number (float, int, numpy.float64) with its changed values: .others."""
    class Number(kind):
        def plain(self):
            return float(self) if kind is float else int(self) if kind is int else kind(float(self))

        def __reduce__(self):
            return kind, (self.plain(), )

    def order(name):
        compare = getattr(operator, name)

        def method(self, other):
            if not isinstance(other, (int, float)):
                return getattr(kind, f"__{name}__")(self, other)
            result = compare(self.plain(), _plain(other))
            if not ORDERING.search(sites.text_of(sys._getframe(1))):
                self.followed.end(bool(result),
                                  self.followed.each(self.others, lambda _, v: compare(v, _plain(other))))
            return result

        return method

    def arithmetic(name, swapped):
        compute = getattr(operator, name)

        def method(self, other):
            if not isinstance(other, (int, float)):
                return getattr(kind, f"__{'r' if swapped else ''}{name}__")(self, other)
            result = compute(_plain(other), self.plain()) if swapped else compute(self.plain(), _plain(other))
            changed = self.followed.each(
                self.others, lambda _, v: compute(_plain(other), v) if swapped else compute(v, _plain(other)))
            return followed_number(result, changed, self.followed)

        return method

    for name in ORDERS:
        setattr(Number, f"__{name}__", order(name))
    for name in ARITHMETIC:
        setattr(Number, f"__{name}__", arithmetic(name, False))
        setattr(Number, f"__r{name}__", arithmetic(name, True))
    Number.__hash__ = kind.__hash__
    Number.__name__ = Number.__qualname__ = kind.__name__
    return Number


def followed_number(value, others, followed):
    numpy = sys.modules.get("numpy")
    if type(value) not in (float, int) and not (numpy is not None and type(value) is numpy.float64):
        return value
    result = number(type(value))(value)
    result.others, result.followed = others, followed
    return result


def plain_number(value):
    """What is to leave the process: the number alone."""
    return _plain(value)


@functools.cache
def tensor_class():
    import torch

    def plain(value, name, found):
        if isinstance(value, FollowedTensor):
            found.append(value)
            return value.as_subclass(torch.Tensor) if name is None else value.others[name]
        if hasattr(type(value), "plain") and hasattr(value, "followed"):
            return value.plain() if name is None else value.others[name]
        return type(value)(plain(v, name, found) for v in value) if type(value) in (list, tuple) else value

    class FollowedTensor(torch.Tensor):
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            kwargs = kwargs or {}
            found = []
            name = getattr(func, "__name__", "")
            with torch._C.DisableTorchFunctionSubclass():
                result = func(*plain(args, None, found),
                              **{k: plain(v, None, found) for k, v in kwargs.items()})
            if not found or name not in PURE or "out" in kwargs or not hasattr(found[0], "followed"):
                return result
            followed = found[0].followed
            if followed.ended or not isinstance(result, (torch.Tensor, bool, float, int)):
                return result
            with torch._C.DisableTorchFunctionSubclass(), torch.no_grad():
                changed = followed.each(
                    found[0].others,
                    lambda n, _: func(*plain(args, n, []), **{k: plain(v, n, []) for k, v in kwargs.items()}))
            followed.measure |= name in MEASURES
            if isinstance(result, torch.Tensor):
                return followed_tensor(result, changed, followed)
            if type(result) is bool:
                if name in TRUTHS or name == "item":
                    followed.end(result, changed)
                return result
            return (
                followed_number(result, changed, followed)
                if name in ("item", "__float__", "__int__")
                else result
            )

    FollowedTensor.__name__ = FollowedTensor.__qualname__ = "Tensor"
    return FollowedTensor


def followed_tensor(value, others, followed):
    import torch
    with torch.enable_grad():  # what was computed with a gradient keeps it
        result = value.as_subclass(tensor_class())
    result.others, result.followed = others, followed
    return result


@functools.cache
def array_class():
    import numpy

    class FollowedArray(numpy.ndarray):
        """Of numpy.isclose: its all() and any() are truths, its mean() and sum() numbers."""
        def _reduced(self, name, arguments, keywords):
            result = getattr(self.view(numpy.ndarray), name)(*arguments, **keywords)
            followed = getattr(self, "followed", None)
            if followed is None or followed.ended:
                return result
            changed = followed.each(self.others, lambda _, v: getattr(v, name)(*arguments, **keywords))
            followed.measure |= name != "all"
            if isinstance(result, numpy.bool_):
                followed.end(bool(result), changed)
                return result
            return followed_number(result, changed, followed)

        def __array_finalize__(self, source):
            self.followed = None  # of views and copies nothing is known

        def __array_ufunc__(self, ufunc, method, *inputs, **keywords):
            def bare(x):
                return x.view(numpy.ndarray) if isinstance(x, FollowedArray) else x

            if "out" in keywords:
                keywords["out"] = tuple(bare(x) for x in keywords["out"])
            return getattr(ufunc, method)(*(bare(x) for x in inputs), **keywords)

        def __array_function__(self, func, types, args, kwargs):
            name = func.__name__
            if name in ("all", "any", "mean", "sum") and args and args[0] is self:
                return self._reduced(name, args[1:], kwargs)

            def bare(x):
                if isinstance(x, FollowedArray):
                    return x.view(numpy.ndarray)
                return type(x)(bare(y) for y in x) if type(x) in (list, tuple) else x

            return func(*bare(args), **{k: bare(v) for k, v in kwargs.items()})

    for name in ("all", "any", "mean", "sum"):
        setattr(FollowedArray, name, lambda self, *a, _name=name, **k: self._reduced(_name, a, k))
    FollowedArray.__name__ = FollowedArray.__qualname__ = "ndarray"
    return FollowedArray


def follow(value, others, audit, site, measure):
    """`value` with what it would have been of each changed result. Types that cannot carry are given back as
    they are. measure: whether it is one number of all elements already."""
    torch, numpy = sys.modules.get("torch"), sys.modules.get("numpy")
    followed = Followed(audit, site, measure)
    if torch is not None and type(value) is torch.Tensor:
        return followed_tensor(value, others, followed)
    if numpy is not None and type(value) is numpy.ndarray and value.dtype.kind == "b":
        result = value.view(array_class())
        result.others, result.followed = others, followed
        return result
    return followed_number(value, others, followed)
