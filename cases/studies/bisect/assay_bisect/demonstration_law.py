"""The law that plant `law` breaks: rows in another order are the same rows, bit for bit: demonstration_law.py
PLUGIN."""
import ctypes
import struct
import sys

ROWS, COLS = 64, 33


class Tensor(ctypes.Structure):
    _fields_ = [("name", ctypes.c_char_p), ("format", ctypes.c_char_p), ("data", ctypes.c_void_p),
                ("rank", ctypes.c_int32),
                ("shape", ctypes.c_int64 * 5), ("stride", ctypes.c_int64 * 5)]


class Attribute(ctypes.Structure):
    _fields_ = [("name", ctypes.c_char_p), ("value", ctypes.c_char_p)]


KERNEL = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_char_p)
NOTE = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_char_p)


class Trace(ctypes.Structure):
    _fields_ = [("self", ctypes.c_void_p), ("kernel", KERNEL), ("note", NOTE)]


class Call(ctypes.Structure):
    _fields_ = [("op", ctypes.c_char_p), ("variant", ctypes.c_char_p),
                ("attributes", ctypes.POINTER(Attribute)),
                ("attribute_count", ctypes.c_int32), ("inputs", ctypes.POINTER(Tensor)),
                ("input_count", ctypes.c_int32),
                ("outputs", ctypes.POINTER(Tensor)), ("output_count", ctypes.c_int32)]


RUN = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.POINTER(Call), ctypes.POINTER(Trace),
                       ctypes.c_char_p)


class Backend(ctypes.Structure):
    _fields_ = [("version", ctypes.c_uint32), ("name", ctypes.c_char_p), ("description", ctypes.c_char_p),
                ("variants", ctypes.c_char_p), ("self", ctypes.c_void_p), ("declare", ctypes.c_void_p),
                ("run", RUN)]


def rmsnorm(backend, rows):
    """The rows of the plug-in's rmsnorm, as bytes."""
    def tensor(name, values, shape):
        data = (ctypes.c_float * len(values))(*values)
        own = Tensor(name, b"f32", ctypes.cast(data, ctypes.c_void_p), len(shape))
        for axis, extent in enumerate(shape):
            own.shape[axis] = extent
            own.stride[axis] = 4 * (shape[axis + 1] if axis + 1 < len(shape) else 1)
        return own, data

    x, _x = tensor(b"x", [v for row in rows for v in row], (len(rows), COLS))
    gamma, _g = tensor(b"gamma", [1.0] * COLS, (COLS,))
    y, out = tensor(b"y", [0.0] * (len(rows) * COLS), (len(rows), COLS))
    inputs, outputs, attributes = (
        (Tensor * 2)(x, gamma),
        (Tensor * 1)(y),
        (Attribute * 1)(Attribute(b"eps", b"1e-5")),
    )
    call = Call(b"rmsnorm", b"", attributes, 1, inputs, 2, outputs, 1)
    trace = Trace(None, KERNEL(lambda *_: None), NOTE(lambda *_: None))
    if backend.run(backend.self, ctypes.byref(call), ctypes.byref(trace), b"\0" * 256):
        sys.exit(125)
    return [struct.pack(f"{COLS}f", *out[r * COLS:(r + 1) * COLS]) for r in range(len(rows))]


library = ctypes.CDLL(sys.argv[1])
library.assay_backend_open.restype = ctypes.POINTER(Backend)
plugin = library.assay_backend_open(b"", b"\0" * 256).contents
given = [[((7919 * (COLS * r + c) + 104729) % 9973) / 3000 - 1.6 for c in range(COLS)] for r in range(ROWS)]
forwards, turned = rmsnorm(plugin, given), rmsnorm(plugin, given[1:] + given[:1])
sys.exit(0 if turned == forwards[1:] + forwards[:1] else 1)
