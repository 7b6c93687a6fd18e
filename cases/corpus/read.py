"""read.py FILE ...: the corpus read without assay. Each file is safetensors: 8 bytes of length, a header in
JSON, the tensors. NAME is a plane of an input, truth/NAME.value and truth/NAME.limit are f64 per element of
an output, got/NAME is what the defective kernel wrote, and __metadata__ has the case line and the contract
under which the limits hold."""
import json
import math
import struct
import sys

SCALARS = {"F64": "d", "F32": "f", "F16": "e", "I8": "b", "U8": "B", "I16": "h", "I32": "i", "I64": "q"}


def read(path):
    """(metadata, {name: (type, shape, bytes)})."""
    with open(path, "rb") as file:
        length, = struct.unpack("<Q", file.read(8))
        header, data = json.loads(file.read(length)), file.read()
    about = header.pop("__metadata__", {})
    return about, {name: (row["dtype"], row["shape"], data[slice(*row["data_offsets"])])
                   for name, row in header.items()}


def numbers(tensor):
    """The elements as floats; of other types than these, decode the bytes by the format that the case line
    names."""
    kind, _, data = tensor
    if kind == "BF16":
        return [struct.unpack("<f", b"\0\0" + data[i:i + 2])[0] for i in range(0, len(data), 2)]
    return [float(x[0]) for x in struct.iter_unpack("<" + SCALARS[kind], data)]


def bad(tensors, name, got):
    """How many elements are wrong: limit inf claims nothing; otherwise a NaN is asked for by a NaN, and error
    <= limit."""
    values, limits = (numbers(tensors[f"truth/{name}.{part}"]) for part in ("value", "limit"))
    return sum(not (limit == math.inf or (math.isnan(value) and math.isnan(g)) or g == value
                    or abs(g - value) <= limit)
               for value, limit, g in zip(values, limits, got))


if __name__ == "__main__":
    for path in sys.argv[1:]:
        about, tensors = read(path)
        for output in [name[len("truth/"):-len(".value")] for name in tensors if name.endswith(".value")]:
            kind = tensors.get(f"got/{output}", ("none",))[0]
            count = bad(tensors, output,
                        numbers(tensors[f"got/{output}"])) if kind in SCALARS or kind == "BF16" else "?"
            print(f"{path.split('/')[-1]}: {about['case']}: {output}: {count} wrong under {about['contract']}")
