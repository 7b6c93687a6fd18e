"""ReLU(x)^2 of flash-linear-attention's RWKV-7 channel mixing."""
import theirs

theirs.use(triton=True)
from fla.ops.rwkv7 import channel_mixing  # noqa: E402

from assay_subjects import subject  # noqa: E402


@subject(op="relu_square", contract=theirs.interpreted("acc=f32"), path="rwkv_channel_mixing_pow_and_relu")
def relu_square(call, x, y):
    """Into the caller's own memory: the launch is that of the function, which makes its output itself."""
    y.copy_(x)
    channel_mixing.rwkv_relu_and_square_fwd(y, inplace=True)
