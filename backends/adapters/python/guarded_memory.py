"""Device memory between guards: where the planes of a call stand on a device, and what surrounds them.

The shared memory of the worker holds each plane in a slot of whole pages, with poison where no element is
(protocol.md). A plane on a device is a copy of its slot: gaps, poison and all, in memory of its own, so that
everything that is said of the shared memory after a run is said of the device's too: inputs that were written
to, outputs that were not, poison that was damaged. Memory comes in granules of 2 MiB between addresses
without memory behind them. A slot ends where the last granule ends (in the run that places planes on the left
it begins where the first begins), so that an access one element past the end is an illegal address; the rest
of the granules is filled with poison, and looked at after the run."""

import ctypes
import platform

from cuda_driver import CAPTURE_MODE_RELAXED, DriverError
from regions import GUARD, Pool, in_granules, round_up

PAGE = 65536 if platform.machine() == "aarch64" else 4096  # as protocol.md has it
LARGEST_GUARD = 512 << 20  # guards are as wide as a plane's largest stride, up to this
FRAMEWORK_ALIGNMENT = 512  # that of PyTorch's own allocator
ALIKE = 256  # both runs of a case place a tensor at the same address modulo this: libraries choose kernels by it
FRONT_LOOKED_AT = 4096  # bytes in front of a framework's allocation that are compared after a run
OTHER = {0x5A: 0xFF, 0xFF: 0x5A}  # the two poisons

_LIBC = ctypes.CDLL(None)
_LIBC.memcmp.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t]


class Violation(Exception):
    """What a call did that it may not do. `finding`: the verdict."""

    def __init__(self, finding, reason):
        super().__init__(reason)
        self.finding = finding


def first_other(data, byte):
    """Index of the first element of a ctypes array of bytes that is not `byte`; -1 for none."""
    if len(data) == 0:
        return -1
    if data[0] != byte:
        return 0
    if _LIBC.memcmp(ctypes.addressof(data), ctypes.addressof(data) + 1, len(data) - 1) == 0:
        return -1
    return next(i for i in range(len(data)) if data[i] != byte)


def slots_of(tensors, slots):
    """Which slots hold which plane: {name: [(offset, bytes)]}. Slots come in the order of the planes, and a
    plane begins in
    its first one (or, without elements, where that ends); one whose rows lie far apart has several."""
    owned = {t.name: [] for t in tensors}
    ordered = sorted(tensors, key=lambda t: t.offset)
    for offset, count, *_ in sorted(slots):
        begun = [t for t in ordered if t.offset <= offset + count]
        if not begun:
            raise ValueError(f"a slot at {offset} in front of every tensor")
        owned[begun[-1].name].append((offset, count))
    return owned


def on_the_left(tensors, owned):
    """Whether planes begin at the first byte of their slots because this run places them so; where all of
    them fill whole
    pages both ends of a slot are the plane's, and it goes to the right."""
    if any(t.offset != owned[t.name][0][0] for t in tensors):
        return False
    return any(t.extent % PAGE != 0 for t in tensors)


class DevicePlane:
    """One plane of a call. slots: [(offset, bytes)] of it in the shared memory. alignment: of its first
    element, where the
    function demands more than the element's own. canary: poisoned memory in place of the guards."""

    def __init__(self, pool, tensor, slots, left, poison, alignment, canary):
        self.tensor, self.slots, self.poison, self.driver = tensor, slots, poison, pool.driver
        granule = pool.driver.granule
        self.first = slots[0][0]
        self.end = sum(slots[-1])
        span = self.end - self.first
        margin = granule if canary else 0
        # On the right an element ends where the region ends; a region begins and ends at a multiple of a
        # granule.
        shift = -round_up(tensor.extent, tensor.natural_alignment) % alignment
        moved = max(ALIKE, alignment) if left or shift else 0
        room = round_up(span + moved, granule)
        begin = margin + room - span - shift
        if left:
            begin = margin + (-round_up(tensor.extent, tensor.natural_alignment) - shift) % ALIKE
        guard = max(GUARD, min(round_up(max([0, *tensor.stride[:-1]]) + granule, granule), LARGEST_GUARD))
        wanted = [(begin + offset - self.first, count) for offset, count in slots]
        if canary:
            wanted = [(0, margin), *wanted, (margin + room, margin)]
        self.region = pool.take(in_granules(wanted, granule), guard)
        self.begin = self.region.base + begin  # of the first slot

    def address(self, offset):
        """Of a byte of the shared memory."""
        return self.begin + offset - self.first

    def write(self, memory):
        self.region.fill(self.poison)
        for offset, count in self.slots:
            self.driver.write(self.address(offset), memory + offset, count)

    def read(self, memory):
        for offset, count in self.slots:
            self.driver.read(memory + offset, self.address(offset), count)

    def surroundings(self):
        """[(address, bytes)]: what is mapped and belongs to no slot."""
        around = []
        for offset, count in self.region.mapped:
            at, end = self.region.base + offset, self.region.base + offset + count
            for slot, size in self.slots:
                begin, stop = self.address(slot), self.address(slot) + size
                if stop <= at or begin >= end:
                    continue
                if begin > at:
                    around.append((at, begin - at))
                at = max(at, stop)
            if at < end:
                around.append((at, end - at))
        return around

    def check(self):
        for at, count in self.surroundings():
            found = first_other(self.driver.bytes_at(at, count), self.poison)
            if found >= 0:
                byte = at + found - self.address(self.tensor.offset)
                raise Violation("overrun", f"wrote out of bounds on the device: {self.place(byte)}")

    def place(self, byte):
        """Of a byte counted from the first element."""
        name, extent = self.tensor.name, self.tensor.extent
        if byte < 0:
            return f"{-byte} bytes in front of the first element of {name}"
        if byte == extent:
            return f"right after the last element of {name}"
        if byte > extent:
            return f"{byte - extent} bytes past the last element of {name}"
        return f"byte {byte} of {name}, between rows"


class Block:
    """One allocation of a framework, at the end of its region."""

    def __init__(self, region, size, poison, run):
        self.region, self.size, self.poison, self.run = region, size, poison, run
        self.room = region.bytes
        self.begin = self.room - round_up(size, FRAMEWORK_ALIGNMENT)
        self.address = region.base + self.begin

    def check(self):
        driver, front = self.region.driver, min(self.begin, FRONT_LOOKED_AT)
        slack = self.room - self.begin - self.size
        found = first_other(driver.bytes_at(self.address + self.size, slack), self.poison)
        if found >= 0:
            raise Violation("overrun",
                            f"wrote {found} bytes past the end of an allocation of {self.size} bytes")
        found = first_other(driver.bytes_at(self.address - front, front), self.poison)
        if found >= 0:
            raise Violation("overrun",
                            f"wrote {front - found} bytes in front of an allocation of {self.size} bytes")


class GuardedMemory:
    """All device memory of a worker: the planes of the call under way, and what a framework asks for
    meanwhile."""

    def __init__(self, driver, canary=False):
        self.driver, self.pool, self.canary = driver, Pool(driver), canary
        self.poison, self.planes, self.run = 0xFF, {}, 0
        self.blocks, self.freed = {}, []
        self.in_use = self.peak = self.allocated = 0
        self.exhausted = False
        self.next_freed = lambda: None  # an address that a framework has freed and not told of

    def place(self, call, slots, stack, memory, alignment=1):
        """Brings the planes of a call to the device. memory: the address of the shared memory. stack: tells
        the two poisons
        apart (protocol.md)."""
        self.poison = OTHER.get(stack, 0xFF)
        tensors = [t for t in (*call.inputs.values(), *call.outputs.values())]
        owned = slots_of(tensors, slots)
        tensors = [t for t in tensors if t.elements > 0]
        left = on_the_left(tensors, owned)
        for t in tensors:
            poison = self.poison if t.name in call.outputs else OTHER[self.poison]
            plane = DevicePlane(self.pool, t, owned[t.name], left, poison, alignment, self.canary)
            self.planes[t.name] = plane
            plane.write(memory)

    def collect(self, memory):
        """The device's bytes to the shared memory. Raises Violation for what the shared memory has no place
        for."""
        for plane in self.planes.values():
            plane.read(memory)
        for plane in self.planes.values():
            plane.check()
        self._hear()
        for block in [*self.blocks.values(), *self.freed]:
            block.check()

    def restore(self, memory):
        """Inputs as the case has them, and outputs that nobody has written."""
        for plane in self.planes.values():
            plane.write(memory)

    def settle(self):
        """Behind a call, when the device is idle: what nobody holds any more may serve again."""
        self._hear()
        for plane in self.planes.values():
            self.pool.give(plane.region)
        for block in self.freed:
            self.pool.give(block.region)
        self.planes, self.freed, self.exhausted = {}, [], False

    def forget(self):
        """What is counted from now on is of a new run."""
        self._hear()
        self.run += 1
        self.in_use = self.peak = self.allocated = self.pool.mapped = 0

    def correct(self, seen):
        """A witness sees granules mapped, where a framework asked for less, or for what was mapped before.
        What it saw beyond
        them others allocated; of their peak this is the least that it can have been."""
        seen["allocated_bytes"] = self.allocated + max(0, seen.get("allocated_bytes", 0) - self.pool.mapped)
        seen["peak_bytes"] = self.peak + max(0, seen.get("peak_bytes", 0) - self.pool.mapped)

    def allocate(self, size):
        """For a framework. 0 where there is no more."""
        self._hear()
        self.driver.make_current()
        mode = self.driver.exchange_capture_mode(CAPTURE_MODE_RELAXED)
        try:
            region = self.pool.take(((0, round_up(max(size, 1), self.driver.granule)),))
            region.fill(self.poison)
        except DriverError:
            self.exhausted = True
            return 0
        finally:
            self.driver.exchange_capture_mode(mode)
        block = Block(region, size, self.poison, self.run)
        self.blocks[block.address] = block
        self.in_use += size
        self.allocated += size
        self.peak = max(self.peak, self.in_use)
        return block.address

    def _hear(self):
        while address := self.next_freed():
            self.release(address)

    def release(self, address):
        """It is not handed out again before the device is idle: another stream may still use it."""
        block = self.blocks.pop(address, None)
        if block is not None:
            self.freed.append(block)
            if block.run == self.run:  # what was allocated before this run was not counted in it
                self.in_use -= block.size
