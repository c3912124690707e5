"""Every real capture decodes to exactly what the protobuf runtime reads: all of it, in value and order."""

from __future__ import annotations

import gzip
import io
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
import slow_reader
import xspace_descriptor
from gate import few, typical_captures
from slow_tables import Source, Tables, tables

import fastprof
from fastprof.tables.table_set import TABLES

METADATA_KEYS = {
    "event_metadata": ("plane_id", "metadata_id"),
    "event_metadata_stats": ("plane_id", "metadata_id"),
    "stat_metadata": ("plane_id", "stat_id"),
}
"""Tables whose rows protobuf's maps hand out in no order, with the columns that sort them."""

Check = Callable[..., None]


def host_of(path: Path) -> str:
    return path.name.removesuffix(".xplane.pb")


def source_of(path: Path, space: slow_reader.Space) -> Source:
    return Source(host_of(path), str(path), path.stat().st_size, space)


@cache
def in_file_order(path: Path) -> Tables:
    """What the slow reader reads."""
    return tables([source_of(path, slow_reader.parse(path.read_bytes()))])


@cache
def by_protobuf(path: Path) -> Tables:
    """What the protobuf runtime reads, metadata sorted."""
    return _sorted_rows(tables([source_of(path, xspace_descriptor.read(path.read_bytes()))]))


@cache
def loaded(path: Path) -> fastprof.Profile:
    """Read once for all tests: its tables cannot be changed."""
    return fastprof.load(path)


@cache
def loaded_from_bytes(path: Path) -> fastprof.Profile:
    return fastprof.load(path.read_bytes())


def _sorted_rows(found: Tables) -> Tables:
    for name, keys in METADATA_KEYS.items():
        columns = found[name]
        count = len(columns[keys[0]])
        order = sorted(range(count), key=lambda row: tuple(columns[key][row] for key in keys))
        found[name] = {column: [values[row] for row in order] for column, values in columns.items()}
    return found


def metadata_sorted(found: Mapping[str, pa.Table]) -> dict[str, pa.Table]:
    sorted_tables = dict(found)
    for name, keys in METADATA_KEYS.items():
        table = found[name].append_column("row", pa.array(range(found[name].num_rows), pa.int64()))
        order = table.sort_by([(key, "ascending") for key in (*keys, "row")])["row"]
        sorted_tables[name] = found[name].take(order)
    return sorted_tables


@pytest.mark.parametrize("threads", few([4, 1], 1))
def test_as_protobuf_reads_it(capture: Path, threads: int, check_tables: Check) -> None:
    profile = fastprof.load(capture, threads=threads)
    check_tables(metadata_sorted(profile.tables), by_protobuf(capture))
    assert not {"data_loss", "error"} & set(profile.import_log["severity"].to_pylist())


def test_as_tensorflow_reads_it(capture: Path, check_tables: Check) -> None:
    space = xspace_descriptor.read_tensorflow(capture.read_bytes())
    if space is None:
        pytest.skip("tensorflow is not installed: its xplane_pb2 is not asked")
    profile = fastprof.load(capture)
    check_tables(metadata_sorted(profile.tables), _sorted_rows(tables([source_of(capture, space)])))


@typical_captures
def test_in_the_order_of_the_file(capture: Path, check_tables: Check) -> None:
    check_tables(loaded(capture).tables, in_file_order(capture))


def test_counts_and_sums_straight_from_protobuf(capture: Path) -> None:
    """No row is worked out here: a second look that shares nothing with the oracle's tables."""
    space = xspace_descriptor.xspace_class().FromString(capture.read_bytes())
    lines = [line for plane in space.planes for line in plane.lines]
    events = [event for line in lines for event in line.events]
    metas = [meta for plane in space.planes for meta in plane.event_metadata.values()]
    found = fastprof.load(capture).tables
    assert found["events"].num_rows == len(events)
    assert found["event_stats"].num_rows == sum(len(event.stats) for event in events)
    assert found["event_metadata"].num_rows == len(metas)
    assert found["event_metadata_stats"].num_rows == sum(len(meta.stats) for meta in metas)
    assert found["stat_metadata"].num_rows == sum(len(plane.stat_metadata) for plane in space.planes)
    assert found["plane_stats"].num_rows == sum(len(plane.stats) for plane in space.planes)
    assert pc.sum(found["events"]["duration_ps"]).as_py() == sum(e.duration_ps for e in events)
    starts = sum(line.timestamp_ns * 1000 + event.offset_ps for line in lines for event in line.events)
    assert pc.sum(found["events"]["start_ps"]).as_py() == starts
    names = [name for plane in space.planes for name in _event_names(plane)]
    assert sorted(found["events"]["name"].to_pylist()) == sorted(names)


def _event_names(plane: Any) -> list[str]:
    return [plane.event_metadata[event.metadata_id].name for line in plane.lines for event in line.events]


class InChunks(io.RawIOBase):
    """A file object that gives at most ``size`` bytes at a time."""

    def __init__(self, data: bytes, size: int) -> None:
        self._inner = io.BytesIO(data)
        self._size = size

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        return self._inner.read(self._size if size < 0 else min(size, self._size))


@typical_captures
@pytest.mark.parametrize("size", few([7, 1, 4096, 64], 2))
def test_in_chunks(capture: Path, size: int, check_same: Check) -> None:
    data = capture.read_bytes()
    check_same(fastprof.load(InChunks(data, size)).tables, loaded(capture).tables, HOST_TABLES)
    if size == 64:
        check_same(fastprof.load(InChunks(gzip.compress(data, 1), size)).tables, loaded(capture).tables, HOST_TABLES)


PATH_TABLES = ("hosts", "import_log", "hlo_modules")
HOST_TABLES = (*PATH_TABLES, "planes", "events", *(name for name in TABLES if name.startswith("hlo_")))
"""Tables that name the path, and those that name the host, which a stream does not have."""


@typical_captures
@pytest.mark.parametrize("codec", ["none", "gzip", "zstd"])
def test_streams(capture: Path, codec: str, check_same: Check, tmp_path: Path) -> None:
    data = capture.read_bytes()
    packed = data if codec == "none" else pa.compress(data, codec, asbytes=True)
    path = tmp_path / f"{host_of(capture)}.xplane.pb"
    path.write_bytes(packed)
    check_same(fastprof.load(path).tables, loaded(capture).tables, PATH_TABLES)
    profile = fastprof.load(io.BytesIO(packed))
    assert profile.hosts["size_bytes"].to_pylist() == [len(data)]
    check_same(profile.tables, loaded_from_bytes(capture).tables, PATH_TABLES)


def test_a_session_of_two_hosts(captures: Path, check_tables: Check) -> None:
    run = captures / "xspace" / "synthetic-tpu-pod"
    paths = sorted(run.glob("*.xplane.pb"))
    spaces = [source_of(path, slow_reader.parse(path.read_bytes())) for path in paths]
    for space in spaces:
        space.run = run.name
    for threads in (1, 4):
        check_tables(fastprof.load(run, threads=threads).tables, tables(spaces))


def test_all_captures_as_one_session(captures: Path, check_tables: Check) -> None:
    paths = sorted((captures / "xspace").rglob("*.xplane.pb"))
    small = [path for path in paths if path.stat().st_size < 300_000]
    profile = fastprof.load(small, threads=4)
    order = [paths_ for host in profile.hosts["path"].to_pylist() for paths_ in small if str(paths_) == host]
    assert sorted(order) == small
    spaces = [source_of(path, slow_reader.parse(path.read_bytes())) for path in order]
    hosts = profile.hosts["host"].to_pylist()
    for source, host in zip(spaces, hosts, strict=True):
        source.host = host  # hosts of one name are numbered, by a rule that is not this test's
    expected = tables(spaces)
    check_tables(profile.tables, expected)
    assert len(expected["events"]["event_id"]) == profile.events.num_rows
