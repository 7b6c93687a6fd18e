"""What a subject is given as the storage of a tensor, without PyTorch: part of conformance_test.py memory."""

import ctypes
import sys

from conformance_test import BYTES, COLS, ROWS, STRIDE, X, Y, call, same


class Recorded:
    """In place of PyTorch: what it is given as the storage of a tensor."""
    uint8, int16, int32, float32 = "uint8", "int16", "int32", "float32"
    given = []

    def frombuffer(self, buffer, dtype):
        self.given.append(buffer)
        return self

    def empty(self, count, dtype):
        self.given.append(memoryview(bytearray(count)))
        return self

    def as_strided(self, shape, stride, offset=0):
        self.first = offset
        return self

    def view(self, kind):
        return self


def storages(assay_subjects):
    """A tensor's storage begins and ends with it: a library that copies storages touches neither guards nor
    neighbours."""
    data = (ctypes.c_ubyte * BYTES)()
    asked = call("good")
    asked["inputs"].append({"name": "none", "format": "f32", "shape": [ROWS, 0], "stride": [STRIDE, 4],
                            "offset": X})
    of_the_call, ours = assay_subjects.Call(asked, memoryview(data).cast("B")), sys.modules.get("torch")
    sys.modules["torch"] = recorded = Recorded()
    try:
        for name, begin, count in (("x", X, STRIDE + 4 * COLS), ("y", Y, STRIDE + 4 * COLS)):
            of_the_call.torch(name)
            buffer, recorded.given[:] = recorded.given[-1], []
            of_the_call.torch(name)  # the same tensor again: no second storage of the same bytes
            at = ctypes.addressof((ctypes.c_ubyte * count).from_buffer(buffer)) - ctypes.addressof(data)
            same((at, len(buffer), recorded.first, recorded.given), (begin, count, 0, []))
        of_the_call.torch("none")
        same(len(recorded.given[-1]), 0)
    finally:
        del sys.modules["torch"]
        if ours is not None:
            sys.modules["torch"] = ours
