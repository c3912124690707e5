"""A transcription is parts of a temporary file, which are read as if they stood one behind the other."""

from __future__ import annotations

import os
import struct
import tempfile

import numpy as np
import pytest

from fastprof._native import records
from fastprof._native.xspace import Bytes
from fastprof.inputs.open_files import PartsOfFile, SpooledFile
from fastprof.inputs.source import CaptureSource

WRITTEN = b"one, two, three, four"
PARTS = ((17, 4), (3, 2), (0, 3), (3, 7))
WHOLE = b"four, one, two, "


def spooled() -> PartsOfFile:
    with tempfile.TemporaryFile() as file:
        file.write(WRITTEN)
        file.flush()
        parts = b"".join(struct.pack("<QQ", *part) for part in PARTS)
        return PartsOfFile(SpooledFile(os.dup(file.fileno()), len(WRITTEN)), parts)


@pytest.mark.parametrize("begin", range(len(WHOLE) + 1))
def test_any_bytes_of_the_parts_are_read(begin: int) -> None:
    source = CaptureSource("path", stored=spooled())
    assert source.size == len(WHOLE)
    for length in range(len(WHOLE) + 2):
        assert source.read(begin, length) == WHOLE[begin : begin + length]


@pytest.mark.parametrize("begins", [(1, 5), (0, 5, 5), (0, 5, 4), (0, 16)])
def test_parts_that_do_not_ascend_are_refused(begins: tuple[int, ...]) -> None:
    parts = np.zeros(len(begins), records.WINDOW_PART)
    parts["begin"] = begins
    with pytest.raises(ValueError, match="ascend"):
        Bytes(spooled(), 16, parts)
