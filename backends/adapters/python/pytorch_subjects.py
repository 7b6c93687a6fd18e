"""PyTorch's kernels as subjects, on the CPU and on CUDA devices. Which arithmetic makes each green, and which
kernel it stands on, is declared beside the function."""

import torch

DESCRIPTION = f"PyTorch {torch.__version__}"
if torch.cuda.is_available():
    DESCRIPTION += f", {torch.cuda.get_device_name()}"

import pytorch_rows  # noqa: E402,F401  softmax, layernorm, rmsnorm
import pytorch_attention  # noqa: E402,F401  scaled_dot_product_attention by each of its backends
import pytorch_matmul  # noqa: E402,F401  mm, _scaled_mm
import triton_nvfp4  # noqa: E402,F401  NVFP4 to FP8, and the FP8 product
import pytorch_formulas  # noqa: E402,F401  ops that are formulas
