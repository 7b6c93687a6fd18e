"""What PyTorch's kernels have in common: types, and the matrix unit that a device multiplies with."""

import torch

WIDE = ("f16", "bf16")  # what matrix units take in 16 bits
UNITS = {8: {0: "a100", 6: "a100", 9: "ada"}, 9: {0: "hopper"}, 10: {0: "blackwell"}, 12: {0: "blackwell"}}


def torch_type(name):
    return {"f32": torch.float32, "f16": torch.float16, "bf16": torch.bfloat16}[name]


def softmax_kernel(cols):
    """On CUDA, as seen with PyTorch 2.11: one warp for a row of up to 2048 columns, one block for a longer
    one."""
    return "softmax_warp_forward" if cols <= 2048 else "cunn_SoftMaxForward*"


def unit(name):
    """The matrix unit of this device for operands of type `name`: its row in `assay list units`."""
    major, minor = torch.cuda.get_device_capability()
    of_minor = UNITS.get(major)
    if of_minor is None:
        raise RuntimeError(f"no model of the matrix units of compute capability {major}.{minor}")
    return f"{of_minor.get(minor, of_minor[0])}_{name}"
