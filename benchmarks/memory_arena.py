"""An arena of memory that is handed out best fit first and takes back chunks joined with their neighbours.

As the allocator of TensorFlow's GPUs does, in short: what it says of itself beside each allocation is true.
"""

from __future__ import annotations

from bisect import bisect_left, insort

ROUND_TO = 256


def rounded(size: int) -> int:
    """The bytes that are allocated for a request."""
    return max(ROUND_TO, -(-size // ROUND_TO) * ROUND_TO)


class Arena:
    """Its free chunks by size and by both ends; bytes in use now and at most."""

    def __init__(self, base: int, capacity: int) -> None:
        self.free_chunks = [(capacity, base)]
        self.size_at = {base: capacity}
        self.start_before = {base + capacity: base}
        self.in_use = self.peak = 0
        self.available = capacity

    def largest(self) -> int:
        """Bytes of the largest free chunk."""
        return self.free_chunks[-1][0] if self.free_chunks else 0

    def fragmentation(self) -> float:
        """The share of what is free that is not in the largest chunk."""
        return (self.available - self.largest()) / self.available if self.available else 0.0

    def allocate(self, size: int) -> int:
        """The address of ``size`` bytes, from the smallest chunk that has them."""
        at = bisect_left(self.free_chunks, (size, 0))
        if at == len(self.free_chunks):
            raise MemoryError(f"{size} bytes do not fit: {self.available} are free, {self.largest()} in one chunk")
        whole, address = self.free_chunks[at]
        self._take(whole, address)
        if whole > size:
            self._give(whole - size, address + size)
        self.in_use += size
        self.available -= size
        self.peak = max(self.peak, self.in_use)
        return address

    def free(self, address: int, size: int) -> None:
        self.in_use -= size
        self.available += size
        after = self.size_at.get(address + size)
        if after is not None:
            self._take(after, address + size)
            size += after
        before = self.start_before.get(address)
        if before is not None:
            joined = self.size_at[before]
            self._take(joined, before)
            address, size = before, size + joined
        self._give(size, address)

    def _take(self, size: int, address: int) -> None:
        del self.free_chunks[bisect_left(self.free_chunks, (size, address))]
        del self.size_at[address], self.start_before[address + size]

    def _give(self, size: int, address: int) -> None:
        insort(self.free_chunks, (size, address))
        self.size_at[address] = size
        self.start_before[address + size] = address
