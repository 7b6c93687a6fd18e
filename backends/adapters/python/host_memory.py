"""The shared memory in this process. With assay_guards.so, which the build puts beside the workers: mapped
with the access that each request names, so that an access out of bounds faults and is told of (protocol.md,
`guards`). Without it: all of it."""

import ctypes
import mmap
import os

MEMORY = 4
LIBRARY = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "assay_guards.so")


class HostLimit(Exception):
    """This machine cannot map the memory: nobody's fault."""


class HostMemory:
    def __init__(self, library=LIBRARY):
        self._whole, self._size = None, 0
        try:
            self._guards = ctypes.CDLL(library)
        except OSError:  # not built, or with a sanitizer
            self._guards = None
            return
        self._guards.assay_guards_adopt.restype = ctypes.c_void_p
        self._guards.assay_guards_adopt.argtypes = [ctypes.c_int64, ctypes.POINTER(ctypes.c_int64),
                                                    ctypes.c_int, ctypes.c_char_p]
        self._guards.assay_guards_request.argtypes = [ctypes.c_int64]
        self._guards.assay_guards_install()

    @property
    def guards(self):
        return self._guards is not None

    def request(self, number):
        if self.guards:
            self._guards.assay_guards_request(number)

    def whole(self, size):
        """All of it, to be read and written: for what is copied to a device and back."""
        if self._whole is None:  # of one length for the whole life of this process
            try:
                self._whole = mmap.mmap(MEMORY, size, mmap.MAP_SHARED)
            except OSError as error:
                raise HostLimit(f"{size} bytes of shared memory: {error}") from error
        return memoryview(self._whole)

    def guarded(self, size, slots):
        """What a call on the CPU is given: its slots, where there are guards."""
        if not self.guards:
            return self.whole(size)
        flat = [number for offset, count, mode in slots for number in (offset, count, mode == "w")]
        reason = ctypes.create_string_buffer(256)
        base = self._guards.assay_guards_adopt(size, (ctypes.c_int64 * len(flat))(*flat), len(slots), reason)
        if not base:
            raise HostLimit(f"{size} bytes of shared memory: {reason.value.decode()}")
        return memoryview((ctypes.c_ubyte * size).from_address(base)).cast("B")
