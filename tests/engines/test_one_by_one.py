"""What was kept of many hosts is unpacked when it is looked at, and not before."""

from __future__ import annotations

import gc
import pickle
from collections.abc import Callable
from operator import itemgetter
from pathlib import Path

import pytest
from equal_reports import TF_DATA, check_equal
from faulty_executors import TestExecutor
from gate import few
from memory_builder import Pool, threads

import fastprof
from fastprof.analyses import accumulation
from fastprof.analyses.accumulation import LazyHostValues, PackedValue
from fastprof.decode.import_log import ImportLog
from fastprof.derive.memory.session_memory import HostMemoryState
from fastprof.derive.pipelines.pipelines_of_hosts import KeptPipelinesOfHost
from fastprof.engines.host_task import pack, unpack
from fastprof.errors import EngineError
from fastprof.inputs.open_files import Spill
from fastprof.tables.host_spill import Stored


def counting(seen: list[int], number: int) -> Callable[[], list[int]]:
    def unpack() -> list[int]:
        seen.append(number)
        return [number, 10 * number]

    return unpack


def test_values_are_unpacked_each_time_that_they_are_looked_at() -> None:
    seen: list[int] = []
    values = LazyHostValues([[0, 0], *(PackedValue(counting(seen, number)) for number in (1, 2))])
    assert len(values) == 3 and not seen
    assert list(values) == [[0, 0], [1, 10], [2, 20]] and seen == [1, 2]
    assert values[2] == [2, 20] and list(values[:2]) == [[0, 0], [1, 10]] and seen == [1, 2, 2, 1]


def test_a_part_of_each_value() -> None:
    seen: list[int] = []
    parts = LazyHostValues(LazyHostValues([PackedValue(counting(seen, number)) for number in (1, 2)]), itemgetter(1))
    assert list(parts) == [10, 20] and parts[0] == 10


def test_some_of_the_values_stay_packed() -> None:
    seen: list[int] = []
    some = LazyHostValues(
        LazyHostValues([[0, 0], *(PackedValue(counting(seen, number)) for number in (1, 2, 3))])
    ).only([0, 2])
    assert len(some) == 2 and not seen
    assert list(some) == [[0, 0], [2, 20]] and seen == [2]


def test_a_pickle_has_all_values() -> None:
    parts = LazyHostValues([PackedValue(counting([], number)) for number in (1, 2)], itemgetter(1))
    assert list(pickle.loads(pickle.dumps(parts))) == [10, 20]


# ---- parts that are set aside


def test_parts_that_are_stored_are_stored_once() -> None:
    part = Stored(list(range(10_000)))
    every = [Stored([part, number]) for number in range(3)]
    sizes = [len(one.packed()[0]) for one in every]
    values = [one.value() for one in every]
    assert [number for _, number in values] == [0, 1, 2]
    del part, every
    assert all(one.value() == list(range(10_000)) for one, _ in values)
    assert all(size > len(values[0][0].packed()[0]) for size in sizes)  # alone, it travels with its part


def test_a_value_that_is_stored_travels_with_its_parts() -> None:
    one = pickle.loads(pickle.dumps(Stored([Stored([Stored("inner"), 1]), 2])))
    first, second = one.value()
    inner, third = first.value()
    assert (inner.value(), third, second) == ("inner", 1, 2)


def test_what_is_set_aside_stays_beside_what_is_unpacked() -> None:
    payload, size, beside = pack(["head", Stored(list(range(10_000))), Stored("tail")])
    assert len(payload) < 300 < 10_000 < len(beside)
    file = Spill()
    file.write(b"others")
    for place in (beside, (file, file.write(beside))):
        head, first, second = unpack(payload, size, place, ImportLog(), lambda *_: b"", {})
        assert (head, first.value(), second.value()) == ("head", list(range(10_000)), "tail")
    with pytest.raises(EngineError, match="damaged on its way"):
        unpack(payload[:-8], size, beside, ImportLog(), lambda *_: b"", {})


def _host(number: int) -> bytes:
    pool = Pool(f"pool {number}", limit=10**7)
    return threads([pool.alloc(at, 64 * at, 8 + number, f"op {number}") for at in range(40)], host=f"host{number}")


@pytest.mark.parametrize("by_workers", few([False, True], 1))
def test_hosts_of_many_are_not_in_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, by_workers: bool) -> None:
    """Reports of hosts with and without memory and pipelines are those of hosts that are all in memory."""
    for number in range(3):
        (tmp_path / f"memory{number}.xplane.pb").write_bytes(_host(number))
        for path in Path(TF_DATA).rglob("*.xplane.pb"):
            (tmp_path / f"pipelines{number}-{path.name}").symlink_to(path)
    names, params = ("memory_profile", "tf_data"), {"slow_call_us": 0, "request": 9_000_000}
    expected = fastprof.load(tmp_path).answers(names, params, "json")
    assert (
        expected["tf_data"].scalars["slow_call_count"].value and expected["memory_profile"].tables["request"].num_rows
    )
    monkeypatch.setattr(accumulation, "GROUP", 1)
    gc.collect()
    before = _kept()
    found = fastprof.load(tmp_path, executor=TestExecutor() if by_workers else None).answers(names, params, "json")
    gc.collect()
    assert _kept() - before == (0 if by_workers else 1)  # the memory of the first host
    check_equal(found, expected)


def _kept() -> int:
    return sum(type(one) in (HostMemoryState, KeptPipelinesOfHost) for one in gc.get_objects())
