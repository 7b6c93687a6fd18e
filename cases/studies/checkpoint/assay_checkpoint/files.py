"""Files of a checkpoint, mapped, never read whole: a folder or a file of safetensors, with its index and its
config; a GGUF."""
import json
import os
import struct

import numpy as np
from assay import library
from assay.tensors import Plane, header_of


class BadInput(Exception):
    """What was got, where, and what is allowed."""


# Of a type of safetensors: bits of an element, and the scalar format of assay that reads it.
TYPES = {"F64": (64, None), "F32": (32, "f32"), "F16": (16, "f16"), "BF16": (16, "bf16"),
         "F8_E4M3": (8, "e4m3fn"),
         "F8_E5M2": (8, "e5m2"), "F8_E4M3FNUZ": (8, "e4m3fnuz"), "F8_E5M2FNUZ": (8, "e5m2fnuz"),
         "F8_E8M0": (8, "e8m0"),
         "I64": (64, None), "I32": (32, "int32"), "I16": (16, None), "I8": (8, "int8"), "U8": (8, "uint8"),
         "U16": (16, None), "U32": (32, None), "U64": (64, None), "BOOL": (8, "uint8")}
FLOATS = ("F64", "F32", "F16", "BF16")
WORDS = {"I64": "<i8", "I32": "<i4", "I16": "<i2", "I8": "i1", "U8": "u1", "U16": "<u2", "U32": "<u4",
         "U64": "<u8", "F64": "<f8"}

# Of ggml: its number of a type, name, elements of a block, bytes of it, and the format of assay that reads it
# ("" for none).
GGML = {0: ("F32", 1, 4, "f32"), 1: ("F16", 1, 2, "f16"), 2: ("Q4_0", 32, 18, "q4_0"),
        3: ("Q4_1", 32, 20, "q4_1"),
        6: ("Q5_0", 32, 22, "q5_0"), 7: ("Q5_1", 32, 24, "q5_1"), 8: ("Q8_0", 32, 34, "q8_0"),
        9: ("Q8_1", 32, 36, "q8_1"),
        10: ("Q2_K", 256, 84, "q2_K"), 11: ("Q3_K", 256, 110, "q3_K"), 12: ("Q4_K", 256, 144, "q4_K"),
        13: ("Q5_K", 256, 176, "q5_K"), 14: ("Q6_K", 256, 210, "q6_K"), 15: ("Q8_K", 256, 292, ""),
        16: ("IQ2_XXS", 256, 66, ""), 17: ("IQ2_XS", 256, 74, ""), 18: ("IQ3_XXS", 256, 98, ""),
        19: ("IQ1_S", 256, 50, ""),
        20: ("IQ4_NL", 32, 18, "iq4_nl"), 21: ("IQ3_S", 256, 110, ""), 22: ("IQ2_S", 256, 82, ""),
        23: ("IQ4_XS", 256, 136, "iq4_xs"), 24: ("I8", 1, 1, "int8"), 25: ("I16", 1, 2, ""),
        26: ("I32", 1, 4, "int32"),
        27: ("I64", 1, 8, ""), 28: ("F64", 1, 8, ""), 29: ("IQ1_M", 256, 56, ""), 30: ("BF16", 1, 2, "bf16"),
        34: ("TQ1_0", 256, 54, ""), 35: ("TQ2_0", 256, 66, ""), 39: ("MXFP4", 32, 17, "mxfp4_ggml"),
        40: ("NVFP4", 64, 36, "")}
PLAIN = {"F32": "F32", "F16": "F16", "BF16": "BF16", "F64": "F64"}  # types of ggml that safetensors has too


class Stored:
    """One tensor: its type, its shape, and its bytes, which are mapped when they are asked for. `form`:
    assay's format."""

    def __init__(self, name, kind, shape, path, start, end, form):
        self.name, self.kind, self.shape, self.path, self.start, self.end = name, kind, shape, path, start, end
        self.form = form

    def __repr__(self):
        return f"{self.kind} [{','.join(map(str, self.shape))}]"

    @property
    def elements(self):
        return int(np.prod(self.shape, dtype=np.int64))

    @property
    def bytes(self):
        if self.end == self.start:
            return np.zeros(0, np.uint8)
        return np.memmap(self.path, np.uint8, "r", self.start, (self.end - self.start,))

    @property
    def rows(self):
        """As a matrix: the last axis, and all in front of it."""
        return (self.elements // self.shape[-1],
                self.shape[-1]) if self.shape and self.elements else (self.elements, 1)

    def words(self):
        """Its whole numbers, or the bits of its numbers, in its shape."""
        bits = TYPES[self.kind][0]
        return self.bytes.view(WORDS.get(self.kind, f"<u{bits // 8}")).reshape(self.shape)

    def numbers(self, first=0, last=None):
        """Rows [first, last) of the matrix as f64, decoded by assay's codec."""
        count, width = self.rows
        last = count if last is None else min(last, count)
        if self.kind in ("F64", "I64", "I16", "U16", "U32", "U64"):
            return self.words().reshape(count, width)[first:last].astype(np.float64)
        each = (self.end - self.start) // count if count else 0
        return numbers_of(self.form, (last - first, width), self.bytes[first * each:last * each])


def numbers_of(form, shape, data):
    """f64 of bytes in one of assay's formats that have one plane."""
    if 0 in shape:
        return np.zeros(shape)
    data = np.ascontiguousarray(data)
    return library.decode(form, shape, {"": Plane("uint8", (data.size,), memoryview(data))})


def _safetensors(path, into, where):
    for name, (kind, shape, start, end) in _checked(header_of, _ordinary(path))[1].items():
        if name in into:
            raise BadInput(f"{path}: {name} is in {where[name]} too")
        bits, form = TYPES.get(kind, (None, None))
        elements = int(np.prod(shape, dtype=np.int64))
        if bits and elements * bits != 8 * (end - start):
            raise BadInput(f"{path}: {name} is {kind} {list(shape)}, {elements * bits // 8} bytes, and has {end - start}")
        into[name], where[name] = Stored(name, kind, shape, path, start, end, form), os.path.basename(path)


def _ordinary(path):
    """path, which is a file: a pipe would be waited for, and a device read without an end."""
    if not os.path.isfile(path):
        raise BadInput(f"{path}: it is no ordinary file")
    return path


def _checked(call, *arguments):
    try:
        return call(*arguments)
    except ValueError as error:
        raise BadInput(str(error)) from None
    except OSError as error:
        raise BadInput(f"{error.filename}: {error.strerror}") from None


def read_json(path):
    """The object in a file; {} where there is no such file."""
    if not os.path.exists(path):
        return {}
    try:
        with open(_ordinary(path), encoding="utf-8") as file:
            found = json.load(file)
    except (OSError, ValueError) as error:
        raise BadInput(f"{path}: no JSON: {error}") from None
    if not isinstance(found, dict):
        raise BadInput(f"{path}: it is {type(found).__name__}; allowed: an object")
    return found


class Reader:
    """Values of a GGUF's head, one behind the other."""

    SIZES = {0: "<B", 1: "<b", 2: "<H", 3: "<h", 4: "<I", 5: "<i", 6: "<f", 7: "<?", 10: "<Q", 11: "<q",
             12: "<d"}
    STRING, ARRAY = 8, 9

    def __init__(self, path):
        self.path, self.data, self.at = path, np.memmap(_ordinary(path), np.uint8, "r"), 0

    def take(self, count):
        if count < 0 or self.at + count > len(self.data):
            raise BadInput(f"{self.path}: cut off: {count} bytes wanted at {self.at} of {len(self.data)}")
        self.at += count
        return self.data[self.at - count:self.at].tobytes()

    def number(self, form):
        return struct.unpack(form, self.take(struct.calcsize(form)))[0]

    def text(self):
        return self.take(self.number("<Q")).decode("utf-8", "replace")

    def value(self, kind):
        if kind == self.STRING:
            return self.text()
        if kind == self.ARRAY:
            inner, count = self.number("<I"), self.number("<Q")
            if count > len(self.data):
                raise BadInput(f"{self.path}: an array of {count} values in {len(self.data)} bytes")
            return [self.value(inner) for _ in range(count)]
        if kind not in self.SIZES:
            raise BadInput(f"{self.path}: a value of type {kind}; allowed: 0 to 12")
        return self.number(self.SIZES[kind])


def _gguf(path, into):
    reader = Reader(path)
    if reader.take(4) != b"GGUF" or reader.number("<I") not in (2, 3):
        raise BadInput(f"{path}: no GGUF of version 2 or 3")
    tensors, keys = reader.number("<Q"), reader.number("<Q")
    metadata = {}
    for _ in range(keys):
        key = reader.text()
        metadata[key] = reader.value(reader.number("<I"))
    rows = []
    for _ in range(tensors):
        name, axes = reader.text(), reader.number("<I")
        shape = tuple(reader.number("<Q") for _ in range(axes))[::-1]
        rows.append((name, shape, reader.number("<I"), reader.number("<Q")))
    alignment = metadata.get("general.alignment", 32)
    begin = -(-reader.at // alignment) * alignment
    for name, shape, number, offset in rows:
        kind, block, each, form = GGML.get(number, (f"type {number}", 1, 0, ""))
        elements = int(np.prod(shape, dtype=np.int64))
        if shape and shape[-1] % block:
            raise BadInput(f"{path}: {name} is {kind} {list(shape)}: rows of {shape[-1]} are no whole blocks of {block}")
        start = begin + offset
        end = start + elements // block * each
        if end > len(reader.data):
            raise BadInput(f"{path}: cut off: {name} ends at byte {end}, the file at {len(reader.data)}")
        if name in into:
            raise BadInput(f"{path}: {name} is there twice")
        into[name] = Stored(name, kind, shape, path, start, end, form)
    return metadata


class Checkpoint:
    """A folder (config.json, *.safetensors and their index), or a file of safetensors or GGUF. `index`: what
    is wrong with it."""

    def __init__(self, path):
        self.path, self.tensors, self.gguf, self.index = path, {}, None, []
        folder = path if os.path.isdir(path) else os.path.dirname(path) or "."
        self.files = self._files(path)
        where = {}
        for file in self.files:
            if file.endswith(".gguf"):
                self.gguf = dict(self.gguf or {}, **_gguf(file, self.tensors))
            else:
                _safetensors(file, self.tensors, where)
        self.config = {} if self.gguf is not None else read_json(os.path.join(folder, "config.json"))
        self.more = {
            name: read_json(os.path.join(folder, name))
            for name in ("hf_quant_config.json", "quantize_config.json", "quant_config.json")
        }
        if os.path.isdir(path) and self.gguf is None:
            self._against_index(where)

    @staticmethod
    def _files(path):
        if not os.path.exists(path):
            raise BadInput(f"{path}: there is no such file or folder")
        if not os.path.isdir(path):
            if not path.endswith((".safetensors", ".gguf")):
                raise BadInput(f"{path}: allowed: a folder, or a file that ends in .safetensors or .gguf")
            return [path]
        names = sorted(os.listdir(path))
        for end in (".safetensors", ".gguf"):
            found = [os.path.join(path, name) for name in names if name.endswith(end)]
            if found:
                return found
        raise BadInput(f"{path}: no .safetensors and no .gguf in it")

    def _against_index(self, where):
        """model.safetensors.index.json says in which file a tensor is: loaders go by it."""
        index = read_json(os.path.join(self.path, "model.safetensors.index.json")).get("weight_map")
        if index is None:
            return
        if not isinstance(index, dict):
            raise BadInput(f"{self.path}/model.safetensors.index.json: weight_map is no object")
        for name, file in index.items():
            if where.get(name) != file:
                self.index.append((name, f"the index says that it is in {file}, "
                                   + (f"and it is in {where[name]}" if name in where
                                      else "and no file has it")))
        self.index += [(name, f"it is in {file}, and the index does not name it: loaders leave it out")
                       for name, file in where.items() if name not in index]
