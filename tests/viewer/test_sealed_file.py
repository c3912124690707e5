"""Files with checksums: whatever happens to their bytes is noticed."""

from __future__ import annotations

import os
import random
from pathlib import Path

import pytest

from fastprof.viewer.cache_folder import DamagedFileError, copy_sealed, seal_file

CONTENTS = {
    "nothing": b"",
    "a few bytes": b"what was written",
    "a block": bytes(1 << 20),
    "some blocks": random.Random(1).randbytes((3 << 20) + 5),
    "more than a thread checks": bytes((33 << 20) + 1),
}


def check_seal(path: Path) -> None:
    """Check a sealed file without keeping the copy."""
    with path.open("rb") as file:
        copy_sealed(file.fileno(), Path(os.devnull))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "file"


@pytest.mark.parametrize("what", CONTENTS)
def test_a_file_keeps_its_bytes_and_is_whole(path: Path, what: str) -> None:
    path.write_bytes(CONTENTS[what])
    seal_file(path)
    check_seal(path)
    copy = path.with_name("copy")
    copy.touch()
    with path.open("rb") as file:
        copy_sealed(file.fileno(), copy)
    assert copy.read_bytes() == CONTENTS[what]


@pytest.mark.parametrize("what", CONTENTS)
def test_a_file_is_no_longer_than_its_bytes_and_a_record_a_block(path: Path, what: str) -> None:
    path.write_bytes(CONTENTS[what])
    seal_file(path)
    assert path.stat().st_size <= len(CONTENTS[what]) + 8 * -(-len(CONTENTS[what]) // (1 << 20)) + 24
    assert what != "more than a thread checks" or path.stat().st_size < 10_000  # of zeros


def test_each_bit_counts(path: Path) -> None:
    path.write_bytes(b"what was written")
    seal_file(path)
    data = path.read_bytes()
    assert len(data) == 16 + 8 + 24
    for at in range(len(data)):
        for bit in range(8):
            path.write_bytes(data[:at] + bytes([data[at] ^ 1 << bit]) + data[at + 1 :])
            with pytest.raises(DamagedFileError):
                check_seal(path)


@pytest.mark.parametrize("what", ["some blocks", "more than a thread checks"])
def test_bytes_of_each_block_count(path: Path, what: str) -> None:
    path.write_bytes(CONTENTS[what])
    seal_file(path)
    whole = path.stat().st_size
    for at in [*range(0, whole, 1 << 20)[-4:], whole - 1, whole - 30]:
        with path.open("r+b") as file:
            file.seek(at)
            (before,) = file.read(1)
            file.seek(at)
            file.write(bytes([before ^ 0x10]))
            file.flush()
            with pytest.raises(DamagedFileError):
                check_seal(path)
            file.seek(at)
            file.write(bytes([before]))
    check_seal(path)


def test_what_is_cut_off_added_or_moved_counts(path: Path) -> None:
    path.write_bytes(CONTENTS["some blocks"])
    seal_file(path)
    data = path.read_bytes()
    block = 1 << 20
    for spoilt in (
        *(data[:size] for size in (0, 1, 23, 24, block, len(data) - 24, len(data) - 1)),
        *(data[block:], data[1:], data + b"\0", b"\0" + data, data + data),
        data[block : 2 * block] + data[:block] + data[2 * block :],
    ):
        path.write_bytes(spoilt)
        with pytest.raises(DamagedFileError):
            check_seal(path)


def test_a_file_without_checksums_is_not_taken(path: Path) -> None:
    path.write_bytes(b"never sealed, and longer than what is added")
    with pytest.raises(DamagedFileError, match="no checksums"):
        check_seal(path)
