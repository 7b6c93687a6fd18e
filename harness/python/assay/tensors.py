"""Tensors as bytes: from torch, JAX (by DLPack or __array__) and numpy, and as files of safetensors."""
import json
import os
import struct

# The type of an array, in safetensors and as a format of assay.
TYPES = {"float64": ("F64", "f64"), "float32": ("F32", "f32"), "float16": ("F16", "f16"),
         "bfloat16": ("BF16", "bf16"),
         "float8_e4m3fn": ("F8_E4M3", "e4m3fn"), "float8_e5m2": ("F8_E5M2", "e5m2"), "int8": ("I8", "int8"),
         "uint8": ("U8", "uint8"),
         "int32": ("I32", "int32"), "int64": ("I64", "int64"), "bool": ("BOOL", "int8")}
NAMES = {row[0]: name for name, row in TYPES.items()}


class Plane:
    """The bytes of one tensor (bytes, or a view of them), C-contiguous, with the name of its type
    ("bfloat16") and its shape."""

    def __init__(self, type_name, shape, data):
        if type_name not in TYPES:
            raise ValueError(f"a tensor of type {type_name}; allowed: {', '.join(TYPES)}")
        self.type, self.shape, self.data = type_name, tuple(shape), data

    @property
    def format(self):
        return TYPES[self.type][1]

    def widened(self, form):
        """As f32 where the op wants that and has 16 bits: exact, for f32 holds every number of them."""
        if form != "f32" or self.type not in ("float16", "bfloat16"):
            return self
        import numpy
        if self.type == "float16":
            wide = numpy.frombuffer(self.data, numpy.float16).astype(numpy.float32)
        else:  # the upper half of an f32
            wide = (numpy.frombuffer(self.data, numpy.uint16).astype(numpy.uint32) << 16).view(numpy.float32)
        return Plane("float32", self.shape, wide.tobytes())

    def reshaped(self, shape):
        return Plane(self.type, shape, self.data)

    def rows(self, chosen):
        """Of the first axis these places."""
        size = len(self.data) // self.shape[0]
        return Plane(self.type, (len(chosen), *self.shape[1:]),
                     b"".join(self.data[size * i: size * (i + 1)] for i in chosen))

    def taken(self, axis, chosen):
        """Of any axis these places."""
        import numpy
        items = numpy.frombuffer(self.data, numpy.uint8).reshape(*self.shape, -1).take(chosen, axis)
        return Plane(self.type, items.shape[:-1], items.tobytes())

    def numpy(self):
        import numpy
        if hasattr(numpy, self.type):
            kind = numpy.dtype(self.type)
        else:
            import ml_dtypes  # of bfloat16 and the 8-bit types, which numpy has not
            kind = numpy.dtype(getattr(ml_dtypes, self.type))
        return numpy.frombuffer(self.data, kind).reshape(self.shape).copy()

    def torch(self):
        import torch
        return torch.frombuffer(bytearray(self.data), dtype=getattr(torch, self.type)).reshape(self.shape)


def bytes_of(array):
    """A view of an array of numpy, or of a view, as bytes. By uint8: numpy's own 16-bit floats are no format
    of a memoryview."""
    return array if isinstance(array, memoryview) else memoryview(array.reshape(-1).view("uint8"))


def plane_of(array, copy=True):
    """Of a torch tensor on any device, of what has __dlpack__ or __array__, or of nested lists (as f32
    numbers). Without `copy` it
    may be a view of the array, for whoever is done with it before the array changes."""
    kept = bytes if copy else bytes_of
    if isinstance(array, Plane):
        return array
    if type(array).__module__.split(".")[0] == "torch":
        import torch
        here = array.detach().cpu().contiguous()
        data = kept(bytes_of(here.reshape(-1).view(torch.uint8).numpy())) if here.numel() else b""
        return Plane(str(here.dtype).removeprefix("torch."), here.shape, data)
    import numpy
    if hasattr(array, "__array__"):
        here = numpy.asarray(array)
    elif hasattr(array, "__dlpack__"):
        here = numpy.from_dlpack(array)
    else:
        here = numpy.asarray(array, numpy.float32)
    if here.dtype.byteorder not in "=|" and not here.dtype.isnative:
        here = here.astype(here.dtype.newbyteorder("="))
    return Plane(here.dtype.name, here.shape, kept(bytes_of(numpy.ascontiguousarray(here))) if here.size
                 else b"")


def write_planes(path, planes, metadata=None):
    """As a file of safetensors. `metadata` are texts by name."""
    header, at = ({"__metadata__": metadata} if metadata else {}), 0
    for name, plane in planes.items():
        header[name] = {"dtype": TYPES[plane.type][0], "shape": list(plane.shape),
                        "data_offsets": [at, at + len(plane.data)]}
        at += len(plane.data)
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text + b"".join(plane.data for plane in planes.values()))


def header_of(path):
    """(metadata, name -> (type, shape, first byte, byte behind the last)) of a file of safetensors, places
    counted from the file's
    begin. ValueError where it is none: cut off, a byte that belongs to no tensor or to two."""
    size = os.path.getsize(path)
    with open(path, "rb") as file:
        length = int.from_bytes(file.read(8), "little")
        if size < 8 or length > size - 8:
            raise ValueError(f"{path}: no file of safetensors, or cut off: {size} bytes, and a header of {length}")
        try:
            rows = json.loads(file.read(length))
            metadata, found = rows.pop("__metadata__", {}), {}
            for name, row in rows.items():
                start, end = row["data_offsets"]
                found[name] = (str(row["dtype"]), tuple(int(n) for n in row["shape"]), 8 + length + start,
                               8 + length + end)
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise ValueError(f"{path}: its header is none of safetensors: {error!r}") from None
    at = 8 + length
    for name, (_, _, start, end) in sorted(found.items(), key=lambda row: row[1][2:]):
        if start != at or end < start:
            raise ValueError(f"{path}: {name} is at bytes {start} to {end}, and the one before it ends at {at}")
        at = end
    if at != size:
        raise ValueError(f"{path}: its tensors end at byte {at}, the file at {size}: cut off, or not its header")
    return metadata, found


def read_planes(path):
    planes = {}
    with open(path, "rb") as file:
        for name, (kind, shape, start, end) in header_of(path)[1].items():
            file.seek(start)
            planes[name] = Plane(NAMES[kind], shape, file.read(end - start))
    return planes
