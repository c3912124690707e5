"""Files that change while they are loaded: noticed where their bytes are gone, and no matter where the map has them."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from trace_builder import event, line, plane, xspace

import fastprof

CAPTURE = xspace(plane("/host:CPU", [line("l", [event(f"op {n}", n, 1) for n in range(2000)])]))
CHANGED = r"h\.xplane\.pb: the file changed since it was loaded"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    file = tmp_path / "h.xplane.pb"
    file.write_bytes(CAPTURE)
    return file


def other(path: Path, data: bytes) -> Path:
    """Another file of the same size and time of change, elsewhere."""
    found = path.with_name("other")
    found.write_bytes(data)
    status = path.stat()
    os.utime(found, ns=(status.st_atime_ns, status.st_mtime_ns))
    return found


def test_a_file_that_is_deleted_can_still_be_read(path: Path) -> None:
    profile = fastprof.load(path)
    path.unlink()
    assert profile.events.num_rows == 2000


@pytest.mark.parametrize("left", [0, 4096])
def test_a_file_that_was_cut_off_and_then_deleted_is_noticed(path: Path, left: int) -> None:
    profile = fastprof.load(path)
    os.truncate(path, left)
    path.unlink()
    with pytest.raises(fastprof.ChangedError, match=CHANGED):
        profile.read("events")


def test_a_file_that_another_took_the_place_of_is_read_as_it_was(path: Path) -> None:
    profile = fastprof.load(path)
    other(path, b"\xff" * len(CAPTURE)).replace(path)
    assert profile.events.num_rows == 2000


def test_a_file_that_was_cut_off_before_another_took_its_place_is_noticed(path: Path) -> None:
    profile = fastprof.load(path)
    fresh = other(path, CAPTURE)
    os.truncate(path, 0)
    fresh.replace(path)
    with pytest.raises(fastprof.ChangedError, match=CHANGED):
        profile.read("events")


def test_the_check_leaves_no_descriptor_open(path: Path) -> None:
    profile = fastprof.load(path)
    path.unlink()
    descriptors = Path("/dev/fd")
    before = len(list(descriptors.iterdir()))
    for _ in range(3):
        profile.select(names="op 1").read("events")
    assert len(list(descriptors.iterdir())) == before
