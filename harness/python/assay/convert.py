"""python3 -m assay.convert FILE.pt|FILE.npz ... : the tensors of each file as FILE.safetensors, for `assay judge`. Of nested
dictionaries and lists the names are joined by dots; what is no tensor is named and left out."""
import os
import sys

from assay.tensors import TYPES, plane_of, write_planes


def tensors_in(value, name=""):
    """(name, array) of everything in a nest of dictionaries and lists."""
    if isinstance(value, dict):
        pairs = value.items()
    elif isinstance(value, (list, tuple)):
        pairs = enumerate(value)
    else:
        yield name, value
        return
    for key, inside in pairs:
        yield from tensors_in(inside, f"{name}.{key}" if name else str(key))


def read(path):
    if path.endswith(".npz"):
        import numpy
        with numpy.load(path, allow_pickle=False) as file:
            return {name: file[name] for name in file.files}
    if path.endswith((".pt", ".pth", ".bin")):
        import torch
        return torch.load(path, map_location="cpu", weights_only=True)  # runs none of the file's code
    raise ValueError("allowed: .npz, .pt, .pth, .bin")


def convert(path):
    """Returns the path written and the names left out."""
    planes, left = {}, []
    for name, value in tensors_in(read(path)):
        kind = str(getattr(value, "dtype", "")).removeprefix("torch.")
        if kind in TYPES:
            planes[name] = plane_of(value)
        else:
            left.append(name)
    target = os.path.splitext(path)[0] + ".safetensors"
    if os.path.exists(target):
        raise ValueError(f"'{target}' is there already")
    write_planes(target, planes)
    return target, left


def main(paths):
    if not paths or paths[0] in ("-h", "--help"):
        print(__doc__)
        return 0 if paths else 2
    for path in paths:
        try:
            target, left = convert(path)
        except Exception as why:  # noqa: BLE001
            print(f"assay.convert: '{path}': {why}", file=sys.stderr)
            return 2
        print(target + (f"; left out: {', '.join(left)}" if left else ""))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
