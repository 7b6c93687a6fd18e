"""A writer of GGUF version 3 (ggml's docs/gguf.md): metadata, tensors of f32, each aligned to 32 bytes."""
import struct

import numpy

ALIGNMENT = 32
TYPES = {"u32": (4, "<I"), "i32": (5, "<i"), "f32": (6, "<f"), "bool": (7, "<?"), "u64": (10, "<Q")}
STRING, ARRAY, F32 = 8, 9, 0


def _string(text):
    raw = text.encode()
    return struct.pack("<Q", len(raw)) + raw


def _value(kind, value):
    return _string(value) if kind == "string" else struct.pack(TYPES[kind][1], value)


def _type(kind):
    return STRING if kind == "string" else TYPES[kind][0]


def encode(metadata, tensors):
    """metadata: [(key, kind, value)], kind "[string]" for an array; tensors: [(name, array)], rows as [out,
    in]."""
    head = [b"GGUF", struct.pack("<IQQ", 3, len(tensors), len(metadata))]
    for key, kind, value in metadata:
        head.append(_string(key))
        if kind.startswith("["):
            inner = kind[1:-1]
            head.append(struct.pack("<IIQ", ARRAY, _type(inner), len(value))
                        + b"".join(_value(inner, x) for x in value))
        else:
            head.append(struct.pack("<I", _type(kind)) + _value(kind, value))
    offset, body = 0, []
    for name, array in tensors:
        raw = numpy.ascontiguousarray(array, dtype="<f4").tobytes()
        head.append(_string(name) + struct.pack("<I", array.ndim)
                    + b"".join(struct.pack("<Q", n) for n in array.shape[::-1])
                    + struct.pack("<IQ", F32, offset))
        raw += b"\0" * (-len(raw) % ALIGNMENT)
        body.append(raw)
        offset += len(raw)
    whole = b"".join(head)
    return whole + b"\0" * (-len(whole) % ALIGNMENT) + b"".join(body)
