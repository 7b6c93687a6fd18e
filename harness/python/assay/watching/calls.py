"""A call of a watched step, and what its tensors hold. Nothing in here knows PyTorch."""
import hashlib

from assay.tensors import plane_of

FLOATS = ("float64", "float32", "float16", "bfloat16")


class Call:
    """`place`: the module that it happened in ("model.layers.3.mlp"); `name`: of the operator, class or
    function. `cases`: (op,
    attributes, inputs, outputs, words of the contract) of each case that it is; `why`: the reason where it is
    none. `inputs` and
    `outputs`: arrays of floats, but for weights, in their order. `changed`: None, or called before judging,
    whether a weight was
    written since. A weight is kept, and not copied."""
    __slots__ = ("step", "place", "name", "cases", "why", "inputs", "outputs", "weights", "changed")

    def __init__(self, step, place, name, cases=(), why="", inputs=(), outputs=(), weights=(), changed=None):
        self.step, self.place, self.name, self.cases, self.why = step, place, name, list(cases), why
        self.inputs, self.outputs, self.weights, self.changed = list(inputs), list(outputs), list(weights), changed


class Held:
    """What an array of floats holds: how many NaN and Inf, the largest finite |x|, a digest, and whether all
    are equal."""
    __slots__ = ("count", "nan", "inf", "most", "digest", "even")

    def __init__(self, array):
        plane = plane_of(array, copy=False)
        self.digest = hashlib.blake2b(plane.data, digest_size=12).hexdigest()
        values = wide(plane)
        import numpy
        self.count, finite = values.size, numpy.isfinite(values)
        self.nan = int(numpy.isnan(values).sum())
        self.inf = self.count - int(finite.sum()) - self.nan
        self.most = float(numpy.abs(values[finite]).max()) if finite.any() else 0.0
        self.even = self.count == 0 or bool((values == values.flat[0]).all())


def wide(plane):
    """As numbers of numpy, exactly: 16 bits as f32."""
    return plane.widened("f32").numpy()


def saturated(inputs, outputs):
    """Shares (at the largest number that the output's type holds, made an Inf) of a cast's results, whose
    argument was larger or
    finite."""
    import numpy
    most = {"float16": 65504.0, "bfloat16": float(numpy.uint32(0x7F7F0000).view(numpy.float32)),
            "float32": float(numpy.finfo(numpy.float32).max)}
    given, got = plane_of(inputs, copy=False), plane_of(outputs, copy=False)
    x, y, top = wide(given), wide(got), most.get(got.type)
    if top is None or x.size != y.size or not x.size:
        return 0.0, 0.0
    x, y = x.reshape(-1), y.reshape(-1)
    return float(((abs(y) == top) & (abs(x) > top)).mean()), float((numpy.isinf(y) & numpy.isfinite(x)).mean())
