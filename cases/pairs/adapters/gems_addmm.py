"""addmm of FlagGems: beta bias + alpha a b."""
import contextlib
import types

import theirs

theirs.use(triton=True)
import triton  # noqa: E402


def configurations(_):
    return [triton.Config({"BLOCK_SIZE_M": 32, "BLOCK_SIZE_N": 32, "BLOCK_SIZE_K": 32})]


device = types.SimpleNamespace(device=lambda *_: contextlib.nullcontext())
theirs.package("flag_gems.runtime", get_tuned_config=configurations, torch_device_fn=device)
theirs.package("flag_gems.utils", broadcastable_to=lambda *_: True, libentry=lambda: lambda kernel: kernel)
theirs.package("flag_gems", runtime=__import__("sys").modules["flag_gems.runtime"])
import flag_gems.utils.triton_lang_extension  # noqa: E402
from flag_gems.ops import addmm as theirs_addmm  # noqa: E402

from assay_subjects import subject  # noqa: E402


@subject(op="addmm", contract=theirs.interpreted("acc=f32"), path="addmm_kernel")
def addmm(call, bias, a, b):
    shaped = {"row": bias[0], "column": bias[:, :1], "matrix": bias}[call.text("addend")]
    return theirs_addmm.addmm(shaped, a, b, beta=call.real("beta"), alpha=call.real("alpha"))
