"""Objects that were fetched whole are kept for later sessions, and not used when they differ or are damaged."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from object_server import ObjectServer
from stored_captures import CAPTURE, KEY

import fastprof
from fastprof.engines import processes
from fastprof.inputs.stores import kept_objects
from fastprof.inputs.stores.store_path import get_pool

URL = f"s3://bucket/{KEY}"


@pytest.fixture
def folder(server: ObjectServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    assert server.address
    monkeypatch.setenv("FASTPROF_CACHE", str(tmp_path))
    return tmp_path / "objects"


def count_events() -> int:
    """Load the capture in a new session, and wait until it has been kept."""
    rows = fastprof.load(URL).events.num_rows
    get_pool().shutdown(wait=True)
    get_pool.cache_clear()
    return rows


def test_an_object_is_fetched_once(server: ObjectServer, folder: Path) -> None:
    rows = count_events()
    (kept,) = folder.iterdir()
    assert kept.stat().st_size == len(CAPTURE) + 16 and kept.stat().st_mode & 0o777 == 0o600
    assert KEY not in kept.name
    server.forget()
    assert count_events() == rows
    assert server.count("GET") == sum(not request.key for request in server.requests), "only lists"


def test_another_version_is_fetched(server: ObjectServer, folder: Path) -> None:
    rows = count_events()
    server.objects[KEY] = CAPTURE + CAPTURE
    assert count_events() != rows
    assert len([*folder.iterdir()]) == 2


@pytest.mark.parametrize("damage", ["byte", "cut"])
def test_a_damaged_file_is_replaced(damage: str, server: ObjectServer, folder: Path) -> None:
    rows = count_events()
    (kept,) = folder.iterdir()
    sound = kept.read_bytes()
    kept.write_bytes(bytes([sound[0] ^ 1]) + sound[1:] if damage == "byte" else sound[:-20])
    assert count_events() == rows
    assert kept.read_bytes() == sound
    assert server.count("GET") > 1


def test_the_least_recently_used_goes_first(
    server: ObjectServer, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    count_events()
    (first,) = folder.iterdir()
    os.utime(first, (1, 1))
    left = folder / ".left.1"
    left.touch()
    os.utime(left, (1, 1))
    monkeypatch.setattr(kept_objects, "_MOST_BYTES", len(CAPTURE) * 3)
    server.objects[KEY] = CAPTURE + CAPTURE
    count_events()
    (second,) = folder.iterdir()
    assert second != first


def test_nothing_is_kept_by_workers_or_when_it_is_off(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fastprof.load(URL, executor=processes(1)).steps()
    assert not folder.exists()
    monkeypatch.setenv("FASTPROF_CACHE", "0")
    monkeypatch.chdir(folder.parent)
    count_events()
    assert [*folder.parent.iterdir()] == []
