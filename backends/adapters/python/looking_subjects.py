"""The example's softmax, which fails where it sees that it is tested: by its name, its arguments, its
environment, its parent's name."""

import os
import sys

import example_subjects
from assay_subjects import subject


def seen():
    for file in ("/proc/self/cmdline", "/proc/self/comm", f"/proc/{os.getppid()}/cmdline",
                 f"/proc/{os.getppid()}/comm"):
        with open(file, "rb") as text:
            if b"assay" in text.read():
                yield file
    with open("/proc/self/environ", "rb") as text:
        if b"ASSAY" in text.read():
            yield "environ"
    yield from (name for name in os.environ if name.startswith("ASSAY"))
    yield from (word for word in sys.argv if "assay" in word)


@subject(op="softmax", contract="acc=f64 exp_ulp=1 out=f32", path="example_subjects.softmax", device="cpu",
         takes="mask=none sinks=no softcap=0 temperature=1")
def softmax(call):
    signs = list(seen())
    if signs:
        raise RuntimeError(f"a test: {signs}")
    return example_subjects.softmax(call)
