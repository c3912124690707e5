"""Captures with many devices: what is recorded of ops and copies is looked up for those of one device at a time, not
for those of all. Counted in values that are looked at."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from flight_spaces import AR, FUSION, core, gpu, ran
from step_captures import spaces

import fastprof
from fastprof.derive.ops import gpu_attribution as gpu_ops
from fastprof.tables import host_events, host_reader

Values = host_events.Stat


def many_cores(count: int) -> bytes:
    """Each core runs instructions that no other core has."""
    cores = []
    for number in range(count):
        ar, fusion = (text.replace(".", f".{number}") for text in (AR, FUSION))
        named = {ar: "all-reduce", fusion: "loop fusion"}
        cores.append(core(number, [(ar, number, 2), (fusion, number + 3, 2)], steps=[(number, 9)], categories=named))
    return spaces(*cores)


def many_gpus(count: int) -> bytes:
    copied = {"memcpy_details": "kind_src:device kind_dst:device size:4096 dest:1 async:1"}
    return spaces(*(gpu(number, [ran("MemcpyD2D", 1, 2, **copied), ran("sum", 4, 2)]) for number in range(count)))


@pytest.fixture
def looked_at(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The number of values of each stat that is filtered or converted."""
    counts: list[int] = []
    of_kinds, numbers = Values.of_kinds, Values.numbers.fget

    def filtered(self: Values, kinds: tuple[int, ...]) -> Values:
        counts.append(len(self))
        return of_kinds(self, kinds)

    def converted(self: Values) -> np.ndarray:
        counts.append(len(self))
        return numbers(self)  # type: ignore[misc]

    monkeypatch.setattr(Values, "of_kinds", filtered)
    monkeypatch.setattr(Values, "numbers", property(converted))
    return counts


@pytest.mark.parametrize("name", ["overview", "op_profile", "op_stats"])
def test_stats_of_cores_are_looked_up_for_their_own_ops(name: str, looked_at: list[int]) -> None:
    fastprof.load(many_cores(10)).report(name)
    few = sum(looked_at)
    looked_at.clear()
    fastprof.load(many_cores(80)).report(name)
    assert sum(looked_at) < 12 * few  # 8 times the cores; 64 times, if each core looks at the ops of all


def test_stats_of_copies_are_looked_up_for_their_own_gpu(looked_at: list[int]) -> None:
    report = fastprof.load(many_gpus(80)).communication()
    assert sum(looked_at) < 800  # 6,400, if each GPU looks at the copies of all
    assert report.tables["devices"].num_rows == 80


def test_values_at_rows() -> None:
    found = Values(np.array([2, 5], np.int32), np.array([0, 3], np.uint8), np.array([7, 9], np.int64))
    at = found.at(np.array([5, 0, 2, 9, -1]))
    assert at.kind.tolist() == [3, 6, 0, 6, 6]  # 6: the row has no value
    assert at.value[[0, 2]].tolist() == [9, 7]
    none = Values(np.zeros(0, np.int32), np.zeros(0, np.uint8), np.zeros(0, np.int64)).at(np.array([1]))
    assert none.kind.tolist() == [6]


def test_the_ops_of_a_gpu_are_summed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Steps take the rows of their ops from these sums."""
    summed: list[int] = []
    op_table = gpu_ops.build_gpu_op_table

    def counted(*of: Any) -> Any:
        summed.append(1)
        return op_table(*of)

    monkeypatch.setattr(gpu_ops, "build_gpu_op_table", counted)
    report = fastprof.load(many_gpus(30)).report("overview")
    assert report.tables["top_ops"].num_rows
    assert len(summed) == 30


def test_a_plane_is_found_by_name_without_a_look_at_all_others() -> None:
    profile = fastprof.load(many_gpus(30))
    events = host_reader.read_host(profile.table_set, 0, None, (), ())
    assert events.plane_named("/device:GPU:7") is events.planes[7]
    assert events.plane_named("/device:GPU:77") is None
    names = [plane.name for plane in events.planes]
    doubled = events.subset(np.ones(len(events), bool))
    doubled.planes[9].name = names[8]
    assert doubled.plane_named(names[8]) is doubled.planes[8], "the first of several"
