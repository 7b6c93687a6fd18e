"""Weights of gemlite to int8 with a scale a row: what its packer is given."""
import theirs

theirs.use("tqdm", "hqq")
from gemlite import helper  # noqa: E402

from assay_subjects import subject  # noqa: E402


class Packer:
    def __init__(self, *_, **__):
        self.words = ()

    def pack(self, codes, scales, *_, **__):
        self.words = codes, scales
        return self


helper.GemLiteLinearTriton = Packer


@subject(op="weight_rows", contract="acc=f32", path="from_weights_of_theirs")
def from_weights_of_theirs(call, x):
    made = helper.A8W8_dynamic(device="cpu").from_weights(x.clone())
    codes, scales = made.words
    return {"scale": scales.reshape(-1).float(), "code": codes}
