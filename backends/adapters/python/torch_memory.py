"""PyTorch's device memory from guarded_memory: views of a call's planes, and every allocation that PyTorch
makes. Its caching allocator would hand out large blocks in which an access out of bounds hits a neighbour,
and torch.empty() would return what an earlier call left there."""

import ctypes

from host_memory import LIBRARY

_ALLOCATE = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_ssize_t, ctypes.c_int, ctypes.c_void_p)
_RELEASE = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_ssize_t, ctypes.c_int, ctypes.c_void_p)
_kept = []  # what PyTorch calls must outlive it


def _release_for(memory):
    """A tensor's destructor may run while an exception is on its way, which a function of Python would lose
    ("SystemError: error
    return without exception set"). So a function of assay_guards.so notes the address, and `memory` asks for
    it later."""
    try:
        library = ctypes.CDLL(LIBRARY)
        library.assay_guards_next_freed.restype = ctypes.c_void_p
        memory.next_freed = library.assay_guards_next_freed
        return library.assay_guards_free
    except (OSError, AttributeError):  # not built
        return _RELEASE(lambda address, _size, _device, _stream: memory.release(address or 0))


def take_over(memory):
    """Every later allocation of PyTorch comes from `memory`. "" when that is so, or why it is not."""
    import torch

    def allocate(size, _device, _stream):
        return memory.allocate(size) or None

    functions = _ALLOCATE(allocate), _release_for(memory)
    pointers = [ctypes.cast(f, ctypes.c_void_p).value for f in functions]
    try:
        allocator = torch._C._cuda_customAllocator(*pointers)
        torch._C._cuda_changeCurrentAllocator(allocator)
    # another version of PyTorch, or memory was allocated before
    except (AttributeError, RuntimeError) as error:
        return f"PyTorch keeps its own allocator: {error}"
    _kept.extend([functions, allocator])
    return ""


class _Interface:
    """An address as an array of integers, as __cuda_array_interface__ describes one (version 3)."""

    def __init__(self, address, count, item):
        self.__cuda_array_interface__ = {"shape": (count,), "typestr": f"{'|u' if item == 1 else '<i'}{item}",
                                         "data": (address, False), "strides": None, "version": 3}


def array_of(plane, item):
    """The plane from its first element to the end of its last slot, as a flat tensor of integers of `item`
    bytes."""
    import torch

    start = plane.address(plane.tensor.offset)
    return torch.as_tensor(_Interface(start, (plane.address(plane.end) - start) // item, item), device="cuda")
