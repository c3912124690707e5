"""Random traces give the events of the slow reader, however they are cut into chunks."""

from __future__ import annotations

import io

import pytest
from loaded_traces import difference, slices, slow_slices
from random_documents import document
from slow_trace import read_trace

import fastprof


@pytest.mark.parametrize("first", range(0, 400, 50))
def test_random_documents(first: int) -> None:
    for seed in range(first, first + 50):
        data = document(seed)

        assert difference(slices(fastprof.load(data)), slow_slices(read_trace(data))) == "", f"seed {seed}"


class Dripping(io.BytesIO):
    """Gives at most ``most`` bytes at a time."""

    most = 1

    def read(self, size: int | None = -1, /) -> bytes:
        return super().read(min(self.most, size) if size is not None and size >= 0 else self.most)


@pytest.mark.parametrize("most", [1, 7, 64, 4096])
def test_chunks_of_any_size(most: int) -> None:
    for seed in range(20):
        data = document(seed)
        stream = Dripping(data)
        stream.most = most

        assert difference(slices(fastprof.load(stream)), slow_slices(read_trace(data))) == "", f"seed {seed}"
