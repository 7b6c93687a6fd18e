"""lmdeploy's grouped product of FP8 rows with their experts' weights, both with a scale each 128."""
import theirs

theirs.use(triton=True)
import torch  # noqa: E402
from lmdeploy.pytorch.kernels.cuda import blocked_fp8_fused_moe as mixture  # noqa: E402

from assay_subjects import subject  # noqa: E402


@subject(op="expert_product", contract="acc=f32", path="fused_moe_blocked_f8_kernel")
def expert_product(call, a, sa, b, sb, expert, weight):
    """The second product of a mixture: the kernel is given the rows in the order of their experts."""
    ids = expert.to(torch.int64)
    order = ids.argsort(stable=True)
    counts = torch.bincount(ids, minlength=b.shape[0])
    end = counts.cumsum(0)
    y = torch.empty(a.shape[0], b.shape[1], dtype=torch.float32)
    sorted_a = a.view(torch.uint8)[order].view(a.dtype)
    mixture.fused_moe_blocked_fp8_kernel_launcher(
        sorted_a, sa[order].contiguous(), b.contiguous(), sb.contiguous(), y, sorted_idx=order,
        exp_start=end - counts,
        exp_end=end, weights=weight.contiguous(), enable_weights=True, top_k=1, num_tokens=a.shape[0],
        reindex_a=False, reindex_c=True)
    return y
