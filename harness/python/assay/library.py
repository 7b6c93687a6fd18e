"""The judge in this process: libassay_judge.so, by the header assay_judge.h. It lies beside the program, or
in the lib beside its folder. A call lets other threads of Python run."""
import ctypes
import functools
import os

from assay import program
from assay.tensors import NAMES, TYPES, Plane

GREEN, FINDING, USAGE = 0, 1, 2
STRICT = 1


class _Tensor(ctypes.Structure):
    _fields_ = [("name", ctypes.c_char_p), ("type", ctypes.c_char_p),
                ("shape", ctypes.POINTER(ctypes.c_int64)),
                ("rank", ctypes.c_int32), ("data", ctypes.c_void_p), ("bytes", ctypes.c_size_t)]


@functools.cache
def _loaded():
    beside = os.path.dirname(os.path.realpath(program.path()))
    places = [os.path.join(beside, "libassay_judge.so"),
              os.path.join(beside, os.pardir, "lib", "libassay_judge.so")]
    found = next((place for place in places if os.path.exists(place)), None)
    if found is None:
        raise FileNotFoundError(f"no libassay_judge.so beside {program.path()}, nor in the lib beside its folder; "
                                "process=\"own\" asks the program itself")
    library = ctypes.CDLL(found)
    handle, count = ctypes.POINTER(ctypes.c_void_p), ctypes.POINTER(ctypes.c_size_t)
    tensors, sizes = ctypes.POINTER(_Tensor), ctypes.POINTER(ctypes.c_int64)
    for name, result, *arguments in (
            ("judge", ctypes.c_int, ctypes.c_char_p, ctypes.c_char_p, ctypes.c_uint, tensors, ctypes.c_size_t,
             handle),
            ("make_case", ctypes.c_int, ctypes.c_char_p, handle, handle),
            ("case_inputs", tensors, ctypes.c_void_p, count),
            ("free_case", None, ctypes.c_void_p),
            ("make_truths", ctypes.c_int, ctypes.c_char_p, ctypes.c_char_p, tensors, ctypes.c_size_t, handle,
             handle),
            ("truth_values", tensors, ctypes.c_void_p, count),
            ("truth_limits", tensors, ctypes.c_void_p, count),
            ("free_truths", None, ctypes.c_void_p),
            ("decode", ctypes.c_int, ctypes.c_char_p, sizes, ctypes.c_int32, tensors, ctypes.c_size_t,
             ctypes.c_void_p, handle),
            ("round_to", ctypes.c_int, ctypes.c_char_p, sizes, ctypes.c_int32, ctypes.c_void_p,
             ctypes.c_void_p, handle),
            ("add_formula", ctypes.c_int, ctypes.c_char_p, handle),
            ("free", None, ctypes.c_void_p)):
        function = getattr(library, "assay_" + name)
        function.restype, function.argtypes = result, arguments
    return library


def _taken(text):
    """The text at a pointer of the library, which gets it back."""
    if not text.value:
        raise MemoryError("assay: not enough memory")
    said = ctypes.string_at(text.value).decode()
    _loaded().assay_free(text)
    return said


def _address(data):
    """Of bytes, or of a view of them, which the caller keeps."""
    if isinstance(data, memoryview) and len(data):
        import numpy  # a view of the caller's array may be read-only, which ctypes takes for none of its own
        return numpy.frombuffer(data, numpy.uint8).ctypes.data
    return ctypes.cast(ctypes.c_char_p(data if isinstance(data, bytes) else b""), ctypes.c_void_p)


def _handed(planes):
    """`planes` (name -> Plane) as the library takes them."""
    tensors = (_Tensor * len(planes))()
    for tensor, (name, plane) in zip(tensors, planes.items()):
        tensor.name, tensor.type = name.encode(), TYPES[plane.type][0].encode()
        tensor.shape, tensor.rank = (ctypes.c_int64 * len(plane.shape))(*plane.shape), len(plane.shape)
        tensor.data, tensor.bytes = _address(plane.data), len(plane.data)
    return tensors


def _received(made, function):
    """name -> Plane of the tensors that a function of the library lists."""
    count = ctypes.c_size_t()
    tensors = getattr(_loaded(), function)(made, ctypes.byref(count))
    return {t.name.decode(): Plane(NAMES[t.type.decode()], t.shape[:t.rank],
                                   ctypes.string_at(t.data, t.bytes)) for t in tensors[:count.value]}


def _done(function, *arguments):
    """Calls a function of the library. ValueError says why it could not do it."""
    text = ctypes.c_void_p()
    code = getattr(_loaded(), function)(*arguments, ctypes.byref(text))
    said = _taken(text)
    if code != GREEN:
        raise ValueError(said)


def _made(function, *arguments):
    """The handle that a function of the library makes."""
    handle = ctypes.c_void_p()
    _done(function, *arguments, ctypes.byref(handle))
    return handle


def judge(line, planes, contract=None, strict=False):
    """(code, text) of the outputs among `planes` (name -> Plane)."""
    text = ctypes.c_void_p()
    code = _loaded().assay_judge(line.encode(), None if contract is None else contract.encode(),
                                 STRICT if strict else 0,
                                 _handed(planes), len(planes), ctypes.byref(text))
    return code, _taken(text)


def truths(line, planes, contract=None):
    """name -> (Plane of exact values, Plane of limits) of each output."""
    made = _made("assay_make_truths", line.encode(), None if contract is None else contract.encode(),
                 _handed(planes), len(planes))
    values, limits = _received(made, "assay_truth_values"), _received(made, "assay_truth_limits")
    _loaded().assay_free_truths(made)
    return {name: (values[name], limits[name]) for name in values}


def inputs(line):
    """name -> Plane of the inputs of a case. ValueError where the line is no case."""
    made = _made("assay_make_case", line.encode())
    planes = _received(made, "assay_case_inputs")
    _loaded().assay_free_case(made)
    return planes


def _sizes(shape):
    return (ctypes.c_int64 * len(shape))(*shape), len(shape)


def decode(form, shape, planes):
    """The numbers (an array of f64) that a tensor of this shape and format stands for. planes: suffix ->
    Plane, those on the page of
    the format: {"": codes, ".scale": scales}; codes that share a byte, and blocks, are bytes. ValueError
    where they do not fit."""
    import numpy
    values = numpy.empty(shape, numpy.float64)
    _done("assay_decode", form.encode(), *_sizes(shape), _handed(planes), len(planes), values.ctypes.data)
    return values


def round_to(form, values):
    """What is left of numbers when the format's own quantiser has stored them, as f64. `values` are taken as
    f32."""
    import numpy
    numbers = numpy.ascontiguousarray(values, numpy.float32)
    rounded = numpy.empty(numbers.shape, numpy.float64)
    _done("assay_round_to", form.encode(), *_sizes(numbers.shape), numbers.ctypes.data, rounded.ctypes.data)
    return rounded


def add_formula(formula):
    """The formula's op is one of this process from now on. ValueError says what is wrong with its text."""
    _done("assay_add_formula", formula.encode())
