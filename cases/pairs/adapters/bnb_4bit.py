"""bitsandbytes' nf4 quantiser in Triton: the largest magnitude of each block, and two codes to a byte."""
import theirs

theirs.use(triton=True)
import torch  # noqa: E402

from assay_subjects import subject  # noqa: E402

kernels = theirs.alone("bitsandbytes/backends/triton/kernels_4bit.py")


@subject(op="nf4_blocks", contract="acc=f32", path="quantize_nf4_blockwise_kernel")
def nf4_blocks(call, x, absmax):
    blocks, block = x.shape
    packed = torch.empty((x.numel() + 1) // 2, dtype=torch.uint8)
    kernels.quantize_4bit_blockwise_triton(x.contiguous(), block, "nf4", blocks, absmax, x.numel(), packed)
    codes = torch.stack((packed >> 4, packed & 15), dim=-1).reshape(blocks, block)
    return {"absmax": absmax, "code": codes.to(torch.int8)}
