"""Communication of captures with many devices: its cost is that of the events and of the devices, not their product."""

from __future__ import annotations

import tracemalloc
from typing import Any

import numpy as np
import pytest
from flight_spaces import AR, FUSION, core, report_of
from step_captures import spaces

from fastprof.derive.communication import tpu_flights
from fastprof.derive.communication.collectives import parse_groups


def many_cores(count: int) -> bytes:
    """Each core computes and communicates once, by instructions that no other core has."""
    cores = []
    for number in range(count):
        ar, fusion = (text.replace(".", f".{number}") for text in (AR, FUSION))
        named = {ar: "all-reduce", fusion: "loop fusion"}
        cores.append(core(number, [(ar, number, 2), (fusion, number + 3, 2)], categories=named))
    return spaces(*cores)


def test_a_core_has_rows_for_its_own_instructions_only(monkeypatch: pytest.MonkeyPatch) -> None:
    rows: list[int] = []

    def counted(*args: Any) -> tpu_flights.Instructions:
        found = instructions(*args)
        rows.append(len(found.mark))
        return found

    instructions = tpu_flights.read_instructions
    monkeypatch.setattr(tpu_flights, "read_instructions", counted)
    report_of(many_cores(50))
    assert rows == [3] * 50  # two instructions, and one for events without metadata


def test_a_report_has_all_of_many_devices() -> None:
    report = report_of(many_cores(50))
    assert report.tables["devices"]["exposed_ps"].to_pylist() == [2_000_000] * 50
    assert report.tables["devices"]["compute_ps"].to_pylist() == [2_000_000] * 50
    operations = report.tables["operations"]
    assert operations.num_rows == 50 and set(operations["device_count"].to_pylist()) == {1}


def test_groups_of_many_devices_are_not_listed() -> None:
    groups = parse_groups("[2,524288]<=[2,524288]T(0,1)")
    tracemalloc.start()
    try:
        assert groups is not None and groups(np.array([3, 600_000])).tolist() == [0, 1]
        assert tracemalloc.get_traced_memory()[1] < 100_000
    finally:
        tracemalloc.stop()
