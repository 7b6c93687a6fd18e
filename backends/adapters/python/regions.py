"""Addresses of a device with memory behind some of them, and none around: what guarded memory is made of."""

from cuda_driver import DriverError

GUARD = 32 << 20  # addresses without memory on each side of a region


def round_up(value, multiple):
    return -(-value // multiple) * multiple


def in_granules(ranges, granule):
    """The granules that ascending ranges touch, as ((offset, bytes), ...), joined where they touch each
    other."""
    spans = []
    for offset, count in ranges:
        first, end = offset // granule * granule, round_up(offset + count, granule)
        if spans and first <= spans[-1][1]:
            spans[-1][1] = max(spans[-1][1], end)
        else:
            spans.append([first, end])
    return tuple((first, end - first) for first, end in spans)


class Region:
    """Reserved addresses, with memory behind `mapped`: ((offset, bytes), ...), ascending, in whole
    granules."""

    def __init__(self, driver, mapped, guard):
        self.driver, self.mapped, self.guard = driver, mapped, guard
        self.bytes = sum(count for _, count in mapped)
        self._reserved = sum(mapped[-1]) + 2 * guard
        self._addresses = driver.reserve(self._reserved)
        self.base = self._addresses + guard
        self._backed = []
        try:
            for offset, count in mapped:
                driver.map(self.base + offset, count)
                self._backed.append((offset, count))
        except DriverError:
            self.free()
            raise

    def fill(self, byte):
        for offset, count in self.mapped:
            self.driver.fill(self.base + offset, count, byte)

    def free(self):
        for offset, count in self._backed:
            self.driver.unmap(self.base + offset, count)
        self.driver.release(self._addresses, self._reserved)


class Pool:
    """Regions that are not in use, by what they look like: to map one takes longer than most kernels."""

    def __init__(self, driver, most_bytes=16 << 30):
        self.driver, self.most_bytes, self.bytes, self._free = driver, most_bytes, 0, {}
        self.mapped = 0  # bytes, since somebody set it to 0

    def take(self, mapped, guard=GUARD):
        free = self._free.get((mapped, guard))
        if free:
            region = free.pop()
            self.bytes -= region.bytes
            return region
        try:
            region = Region(self.driver, mapped, guard)
        except DriverError as error:
            if self.bytes == 0 or error.lost:
                raise
            self.clear()
            region = Region(self.driver, mapped, guard)
        self.mapped += region.bytes
        return region

    def give(self, region):
        if self.bytes + region.bytes > self.most_bytes:
            self.clear()
        self._free.setdefault((region.mapped, region.guard), []).append(region)
        self.bytes += region.bytes

    def clear(self):
        for regions in self._free.values():
            for region in regions:
                region.free()
        self._free, self.bytes = {}, 0
