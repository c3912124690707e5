"""A selection without events is said to be one: nothing of it means that nothing was recorded."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

import fastprof
from fastprof.engines import processes

DEMO = Path(__file__).parents[2] / "demo"
NEVER = (10**13, 2 * 10**13)


@pytest.mark.parametrize("selection", [{"time_ps": NEVER}, {"names": "^no such op$"}])
@pytest.mark.parametrize("name", ["gaps", "diagnosis", "op_stats", "steps", "communication", "overview"])
def test_figures_give_the_selection_as_their_reason(name: str, selection: Mapping[str, Any]) -> None:
    report = fastprof.load(DEMO / "xla").select(**selection).report(name)
    assert {(figure.value, figure.reason) for figure in report.scalars.values()} == {
        (None, "the selection has no events")
    }
    assert all(table.num_rows == 0 for table in report.tables.values())
    assert [notice.text for notice in report.notices] == [
        "The selection has no events: no event meets all its conditions (time, names, planes, lines). "
        "The session has some."
    ]
    assert "recorded" not in str(report)


def test_one_host_with_events_is_enough() -> None:
    pod = fastprof.load(DEMO / "pod")
    first = pod.event_table(columns=["host", "start_ps"]).to_pylist()[0]
    chosen = pod.select(time_ps=(first["start_ps"], first["start_ps"] + 1))
    assert chosen.op_stats().notices == () or "The selection has no events" not in chosen.op_stats().notices[0].text
    assert pod.select(time_ps=NEVER).gaps().scalars["window_ps"].reason == "the selection has no events"


def test_programs_need_no_events() -> None:
    report = fastprof.load(DEMO / "xla").select(time_ps=NEVER).memory_viewer()
    assert report.tables["modules"].num_rows > 0


def test_workers_say_the_same() -> None:
    chosen = fastprof.load(DEMO / "pod", executor=processes(1)).select(time_ps=NEVER)
    assert chosen.gaps().scalars["window_ps"].reason == "the selection has no events"
