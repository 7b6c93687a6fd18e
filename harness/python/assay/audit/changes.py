"""Results with one thing wrong, of arrays of numpy and of PyTorch: what a comparison is asked again with.

Rows are all axes but the last (of a vector its elements); a tile is the last sixteenth of the rows, or the
last 16 columns. A change counts only where it holds something: what it takes away or moves must be visible
beside the rest (holds())."""
import sys

# key -> in words; in the order of a report.
CHANGES = {
    "all_zero": "all zero",
    "tile_rows": "a tile of rows zeroed",
    "tile_cols": "a tile of columns zeroed",
    "rows_shifted": "rows shifted by one",
    "row_nan": "a row NaN",
    "row_sign": "a row's sign",
    "rows_swapped": "two rows swapped",
    "heads_swapped": "two heads swapped",
    "last_row": "the last row zeroed",
    "last_element": "the last element zeroed",
    "element": "one element x 1.5",
    "scale": "x 1.02",
}
SAMPLE = 1 << 16  # elements that a median is taken of
MOST_ELEMENTS = 1 << 26  # larger results are not changed: copies of them would not be free
PART = 8  # a change below this part of the median shows nothing
TILE_COLS, TILE_ROWS = 16, 16
SCALE, ELEMENT = 1.02, 1.5


class Unchangeable(Exception):
    """What no changed result can be made of; its text says why."""


def is_torch(x):
    torch = sys.modules.get("torch")
    return torch is not None and hasattr(torch, "Tensor") and isinstance(x, torch.Tensor)


def number_kind(x):
    """'f' of floats, 'c' of complex numbers, 'i' of integers and truths, '' of all else."""
    if is_torch(x):
        return "f" if x.dtype.is_floating_point else "c" if x.dtype.is_complex else "i"
    kind = x.dtype.kind
    if kind == "V" and x.dtype.names is None and x.dtype.name.startswith(("bfloat", "float")):
        return "f"  # of ml_dtypes
    return {"f": "f", "c": "c", "b": "i", "i": "i", "u": "i"}.get(kind, "")


def readable(x):
    """An array of numbers that can be changed: (array, how a changed one is given back). Raises Unchangeable.
    Only types that are known are touched, for what an object of somebody's does when it is read is its
    own."""
    torch, numpy = sys.modules.get("torch"), sys.modules.get("numpy")
    if is_torch(x):
        if type(x) not in (torch.Tensor, torch.nn.Parameter):
            raise Unchangeable(f"a subclass of a tensor, {type(x).__name__}")
        if x.layout != torch.strided or x.is_quantized or x.device.type == "meta":
            raise Unchangeable("a sparse, quantised or meta tensor")
        return x.detach(), lambda y: y
    if numpy is None:
        raise Unchangeable(f"a {type(x).__name__}")
    if type(x) is numpy.ndarray:
        array, back = x, lambda y: y
    elif isinstance(x, numpy.generic):
        array, back = numpy.asarray(x), lambda y: y[()]
    elif type(x) in (int, float, complex):
        array, back = numpy.asarray(x), lambda y: y.item()
    elif type(x) in (list, tuple) and _numbers(x, numpy):
        kind = type(x)
        array, back = numpy.asarray(x), lambda y: kind(y.tolist())
    elif type(x).__module__.split(".")[0] in ("jax", "jaxlib"):
        array, back = numpy.asarray(x), lambda y: y
    else:
        raise Unchangeable(f"a {type(x).__name__}")
    if not number_kind(array):
        raise Unchangeable(f"an array of {array.dtype}")
    return array, back


def _numbers(x, numpy, most=10_000):
    """Whether a list has numbers alone, at any depth."""
    stack, seen = list(x), 0
    while stack:
        one = stack.pop()
        seen += 1
        if seen > most:
            return False
        if type(one) in (list, tuple):
            stack.extend(one)
        elif type(one) not in (int, float, complex) and not isinstance(one, numpy.number):
            return False
    return seen > 0


def size_of(x):
    return x.numel() if is_torch(x) else x.size


def _wide(x):
    """Magnitudes in f64, flat; what is not finite is left out."""
    if is_torch(x):
        import torch
        y = (x.to(torch.complex128) if x.dtype.is_complex else x.to(torch.float64)).abs().reshape(-1)
        return y[torch.isfinite(y)]
    import numpy
    y = abs(x.astype(numpy.complex128 if x.dtype.kind == "c" else numpy.float64)).reshape(-1)
    return y[numpy.isfinite(y)]


def top(x):
    """The largest magnitude of what is finite; 0 of nothing."""
    y = _wide(x)
    return float(y.max()) if size_of(y) else 0.0


def median(x):
    """The median magnitude of what is neither zero nor infinite nor NaN, of a sample of the elements; 0 of
    nothing."""
    flat = x.reshape(-1)
    y = _wide(flat[::max(1, size_of(flat) // SAMPLE)])
    y = y[y > 0]
    if not size_of(y):
        return 0.0
    if is_torch(y):
        return float(y.median())
    import numpy
    return float(numpy.median(y))


def largest_error(x, y):
    """max |x - y| over what is finite on both sides; None where shapes or kinds do not allow it."""
    if tuple(x.shape) != tuple(y.shape) or is_torch(x) != is_torch(y):
        return None
    if is_torch(x):
        import torch
        wide = torch.complex128 if x.dtype.is_complex or y.dtype.is_complex else torch.float64
        return top(x.to(wide) - y.to(device=x.device, dtype=wide))
    import numpy
    wide = numpy.complex128 if "c" in (x.dtype.kind, y.dtype.kind) else numpy.float64
    return top(x.astype(wide) - y.astype(wide))


def epsilon(x):
    """The distance of 1 to the next number of its format; 0 of integers."""
    kind = number_kind(x)
    if kind not in ("f", "c"):
        return 0.0
    if is_torch(x):
        import torch
        return float(torch.finfo(x.dtype).eps)
    import numpy
    try:
        return float(numpy.finfo(x.dtype).eps)
    except ValueError:
        import ml_dtypes
        return float(ml_dtypes.finfo(x.dtype).eps)


class Changed:
    """The changed results of one array. Values are made when they are asked for, each a copy of its own."""
    def __init__(self, x, expected=None):
        self.x, self.kind = x, number_kind(x)
        if not 0 < size_of(x) <= MOST_ELEMENTS:
            raise Unchangeable("no elements" if not size_of(x) else f"more than {MOST_ELEMENTS} elements")
        self.shape = tuple(x.shape)
        cols = self.shape[-1] if len(self.shape) >= 2 else 1
        self.flat = x.reshape(-1, cols)
        self.rows, self.cols = self.flat.shape[0], cols
        self.top, self.epsilon = top(x), epsilon(x)
        # Where the reference has zeros, what is under test may have their rounding.
        self.median = max(median(x), 0.0 if expected is None else median(expected))

    def holds(self, change):
        """Whether a change of this size is visible beside the rest: more than the format's rounding of the
        largest element, and at least an eighth of the median of what is not zero."""
        return change > self.epsilon * self.top and change * PART >= self.median

    def names(self):
        """The changes that an array of this shape and kind can have."""
        found = ["all_zero"]
        several = self.rows * self.cols > 1
        if several:
            found += ["tile_rows"] * (self.rows > 1) + ["tile_cols"] * (self.cols > TILE_COLS)
            found += ["rows_shifted"] * (self.rows > 1) + ["last_row"] * (self.rows > 1) + ["last_element"]
            found += ["rows_swapped"] * (len(self.shape) < 2 and self.rows > 1
                                         or len(self.shape) >= 2 and self.shape[-2] > 1)
            found += ["heads_swapped"] * (len(self.shape) >= 3 and self.shape[-3] > 1)
        if self.kind in "fc":
            found += ["scale", "element"]
            found += ["row_nan", "row_sign"] if several and self.rows > 1 else []
        return [name for name in CHANGES if name in found]

    def make(self, name):
        """The changed array, or None where the change would show nothing."""
        return getattr(self, "_" + name)()

    def _copy(self):
        return self.flat.clone() if is_torch(self.x) else self.flat.copy()

    def _zeroed(self, part):
        y = self._copy()
        if not self.holds(top(self.flat[part])):
            return None
        y[part] = 0
        return y.reshape(self.shape)

    def _all_zero(self):
        return self._zeroed((slice(None), slice(None)))

    def _tile_rows(self):
        return self._zeroed((slice(-max(1, self.rows // TILE_ROWS), None), slice(None)))

    def _tile_cols(self):
        return self._zeroed((slice(None), slice(-TILE_COLS, None)))

    def _last_row(self):
        return self._zeroed((slice(-1, None), slice(None)))

    def _last_element(self):
        return self._zeroed((slice(-1, None), slice(-1, None)))

    def _moved(self, y, z):
        """z, an order of y's rows that is another, where it can be told from y."""
        error = largest_error(y, z)
        return z.reshape(self.shape) if error is not None and self.holds(error) else None

    def _rows_shifted(self):
        y = self._copy()
        y[1:] = self.flat[:-1]
        y[:1] = self.flat[-1:]
        return self._moved(self.flat, y)

    def _swapped(self, axis):
        x = self.x if len(self.shape) >= 2 else self.flat
        y = x.clone() if is_torch(x) else x.copy()
        first = (Ellipsis, 0, *[slice(None)] * (-axis - 1))
        second = (Ellipsis, 1, *[slice(None)] * (-axis - 1))
        y[first], y[second] = x[second], x[first]
        return self._moved(x, y)

    def _rows_swapped(self):
        return self._swapped(-2)

    def _heads_swapped(self):
        return self._swapped(-3)

    def _row(self):
        """A row that holds something: the one in the middle, else the one with the largest finite element;
        None of neither."""
        middle = self.rows // 2
        if self.holds(top(self.flat[middle])):
            return middle
        size = abs(self.flat)
        size = size.double() if is_torch(size) else size.astype("f8")
        size[~(size < float("inf"))] = 0
        found = int((size.amax(1) if is_torch(size) else size.max(1)).argmax())
        return found if self.holds(top(self.flat[found])) else None

    def _row_nan(self):
        at = self._row()
        if at is None:
            return None
        y = self._copy()
        y[at] = float("nan")
        return y.reshape(self.shape)

    def _row_sign(self):
        at = self._row()
        if at is None:
            return None
        y = self._copy()
        y[at] = -self.flat[at]
        return y.reshape(self.shape)

    def _scale(self):
        y = self.flat * SCALE
        y = y.to(self.x.dtype) if is_torch(y) else y.astype(self.x.dtype)
        error = largest_error(self.flat, y)
        return y.reshape(self.shape) if error is not None and error > self.epsilon * self.top else None

    def _element(self):
        """An element of median size: the nearest to it of a sample."""
        flat = self.flat.reshape(-1)
        step = max(1, size_of(flat) // SAMPLE)
        part = flat[::step]
        if is_torch(part):
            import torch
            size = (part.to(torch.complex128) if part.dtype.is_complex else part.to(torch.float64)).abs()
            distance = torch.where(torch.isfinite(size), (size - self.median).abs(), float("inf"))
        else:
            import numpy
            size = abs(part.astype(numpy.complex128 if self.kind == "c" else numpy.float64))
            distance = numpy.where(numpy.isfinite(size), abs(size - self.median), float("inf"))
        at = int(distance.argmin()) * step
        y = self._copy().reshape(-1)
        y[at] = y[at] * ELEMENT
        error = largest_error(flat[at:at + 1], y[at:at + 1])
        return y.reshape(self.shape) if error is not None and self.holds(error) else None
