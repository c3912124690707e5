"""A temporary file for what is seldom looked at."""

from __future__ import annotations

import gc
import os
import random
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from fastprof.errors import UnreadableError
from fastprof.inputs.open_files import Spill, SpilledPiece


def test_pieces_are_read_and_mapped_as_they_were_written() -> None:
    spill, random_bytes = Spill(), random.Random(3).randbytes
    written = [random_bytes(size) for size in (0, 1, 4095, 4096, 4097, 100_000, 0, 7)]
    pieces = [spill.write(one) for one in written]
    assert [spill.read(piece) for piece in pieces] == written
    assert [bytes(spill.mapped(piece)) for piece in pieces] == written


def test_maps_outlive_the_spill_and_the_file_has_no_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    spill = Spill()
    view = spill.mapped(spill.write(b"x" * 10_000))
    number = spill._number
    assert list(tmp_path.iterdir()) == []
    del spill
    gc.collect()
    assert bytes(view) == b"x" * 10_000
    with pytest.raises(OSError, match="descriptor"):
        os.fstat(number)


def test_threads_write_side_by_side() -> None:
    spill = Spill()
    with ThreadPoolExecutor(4) as pool:
        pieces = list(pool.map(lambda i: spill.write(bytes([i]) * (1000 + i)), range(200)))
    assert [spill.read(piece) for piece in pieces] == [bytes([i]) * (1000 + i) for i in range(200)]


def test_a_directory_that_cannot_be_written_to_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", "/nonexistent")
    with pytest.raises(UnreadableError, match="TMPDIR"):
        Spill().write(b"x")


def test_a_file_that_became_shorter_is_an_error() -> None:
    spill = Spill()
    spill.write(b"abc")
    with pytest.raises(UnreadableError, match="shorter"):
        spill.read(SpilledPiece(1, 5))
