"""The few functions of the CUDA driver that guarded memory needs, by ctypes: nothing is linked, and no
framework is needed.

Addresses are reserved, and granules of memory (2 MiB) mapped into them: what is reserved and not mapped is a
guard, on which an access of the device faults (CUDA C++ Programming Guide, "Virtual Memory Management")."""

import ctypes

PINNED, DEVICE, READ_WRITE = 1, 1, 3  # CU_MEM_ALLOCATION_TYPE_PINNED, CU_MEM_LOCATION_TYPE_DEVICE, ..._PROT_READWRITE
MINIMUM_GRANULARITY = 0
NON_BLOCKING_STREAM = 1
CAPTURE_MODE_RELAXED = 2  # what is done here may be done while a stream of this thread is captured


class DriverError(RuntimeError):
    """A call of the driver that failed. `lost`: the context is unusable, and with it this process."""

    def __init__(self, what, code, text):
        super().__init__(f"{what}: {text} (CUDA driver error {code})")
        self.code, self.text = code, text

    @property
    def lost(self):
        # A fault of the device: illegal instruction, misaligned, invalid address space or pc, launch failure,
        # assert, hardware stack, illegal address, timeout, uncorrectable ECC.
        return self.code in (214, 700, 702, 710, 714, 715, 716, 717, 718, 719)


class _Location(ctypes.Structure):
    _fields_ = [("type", ctypes.c_int), ("id", ctypes.c_int)]


class _AllocationProp(ctypes.Structure):
    _fields_ = [("type", ctypes.c_int), ("handle_types", ctypes.c_int), ("location", _Location),
                ("windows", ctypes.c_void_p), ("flags", ctypes.c_ubyte * 8)]


class _AccessDesc(ctypes.Structure):
    _fields_ = [("location", _Location), ("flags", ctypes.c_int)]


class Driver:
    """The primary context of device 0, which CUDA's runtime and every framework on it use too."""

    _pointer, _size, _u64 = ctypes.c_void_p, ctypes.c_size_t, ctypes.c_uint64

    def __init__(self, library="libcuda.so.1"):
        self._library = ctypes.CDLL(library)  # OSError where there is no driver
        self._call("cuInit", ctypes.c_uint(0))
        device, self._context, stream = ctypes.c_int(), self._pointer(), self._pointer()
        self._call("cuDeviceGet", ctypes.byref(device), ctypes.c_int(0))
        self._call("cuDevicePrimaryCtxRetain", ctypes.byref(self._context), device)
        self.make_current()
        self._call("cuStreamCreate", ctypes.byref(stream), ctypes.c_uint(NON_BLOCKING_STREAM))
        self._stream = stream
        self._place = _AllocationProp(type=PINNED, location=_Location(DEVICE, device.value))
        self._access = _AccessDesc(_Location(DEVICE, device.value), READ_WRITE)
        granule = self._size()
        self._call("cuMemGetAllocationGranularity", ctypes.byref(granule), ctypes.byref(self._place),
                   ctypes.c_int(MINIMUM_GRANULARITY))
        self.granule = granule.value

    def _call(self, name, *arguments):
        code = getattr(self._library, name)(*arguments)
        if code != 0:
            raise DriverError(name, code, self._text(code))

    def _text(self, code):
        text = ctypes.c_char_p()
        self._library.cuGetErrorString(ctypes.c_int(code), ctypes.byref(text))
        return text.value.decode() if text.value else "unknown error"

    def make_current(self):
        self._call("cuCtxSetCurrent", self._context)

    def exchange_capture_mode(self, mode):
        """Sets how this thread takes calls that a capture forbids; returns what it was."""
        value = ctypes.c_int(mode)
        self._call("cuThreadExchangeStreamCaptureMode", ctypes.byref(value))
        return value.value

    def reserve(self, size):
        address = self._u64()
        self._call("cuMemAddressReserve", ctypes.byref(address), self._size(size), self._size(0),
                   self._u64(0),
                   self._u64(0))
        return address.value

    def map(self, address, size):
        handle = self._u64()
        self._call("cuMemCreate", ctypes.byref(handle), self._size(size), ctypes.byref(self._place),
                   self._u64(0))
        try:
            self._call("cuMemMap", self._u64(address), self._size(size), self._size(0), handle, self._u64(0))
        finally:
            self._call("cuMemRelease", handle)  # the memory lives until it is unmapped
        self._call("cuMemSetAccess", self._u64(address), self._size(size), ctypes.byref(self._access),
                   self._size(1))

    def unmap(self, address, size):
        self._call("cuMemUnmap", self._u64(address), self._size(size))

    def release(self, address, size):
        self._call("cuMemAddressFree", self._u64(address), self._size(size))

    def fill(self, address, size, byte):
        """On a stream of its own, complete on return."""
        if size > 0:
            self._call("cuMemsetD8Async", self._u64(address), ctypes.c_ubyte(byte), self._size(size),
                       self._stream)
            self._call("cuStreamSynchronize", self._stream)

    def write(self, address, host, size):
        self._call("cuMemcpyHtoDAsync_v2", self._u64(address), self._pointer(host), self._size(size),
                   self._stream)
        self._call("cuStreamSynchronize", self._stream)

    def write_bytes(self, address, data):
        self._call("cuMemcpyHtoDAsync_v2", self._u64(address), ctypes.c_char_p(data), self._size(len(data)),
                   self._stream)
        self._call("cuStreamSynchronize", self._stream)

    def read(self, host, address, size):
        self._call("cuMemcpyDtoHAsync_v2", self._pointer(host), self._u64(address), self._size(size),
                   self._stream)
        self._call("cuStreamSynchronize", self._stream)

    def bytes_at(self, address, size):
        """A copy, as a ctypes array."""
        copy = (ctypes.c_ubyte * size)()
        if size > 0:
            self.read(ctypes.addressof(copy), address, size)
        return copy

    def synchronize(self):
        self._call("cuCtxSynchronize")
