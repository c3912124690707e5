"""From an event to what it ran: its rows in op stats, and its instruction in its program."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from gate import few

import fastprof
from fastprof.viewer.hlo_answers import get_module_text
from fastprof.viewer.timeline_answers import describe_event
from fastprof.viewer.viewed_run import ViewedRun

_DEMO = Path(__file__).parents[2] / "demo"
_OF_DEMO = {
    "logdir": (True, True),
    "memory": (True, False),
    "pod": (True, False),
    "serving": (False, False),
    "tf-data": (True, False),
    "xla": (True, True),
}
"""Whether events have rows in op stats, and programs."""
_SHOWN = {  # columns that the page shows, and filters by
    "search": ("ops", ("host_or_device", "type", "name")),
    "device_search": ("device_ops", ("program", "category", "name", "bound_by")),
    "host_search": ("host_ops", ("type", "name")),
}
_EVENTS = 500
"""How many of a capture are looked at, and at least four of each track."""


def _shown(table: pa.Table, columns: tuple[str, ...]) -> list[str]:
    """The rows as the page filters them: the cells that it shows, each on a line."""
    cells = [[str(one or "").lower() for one in table[name].to_pylist()] for name in columns]
    return ["\n".join(row) for row in zip(*cells, strict=True)]


def _ops(run: ViewedRun) -> Iterator[dict[str, Any]]:
    """What some events of each track are executions of, each op once."""
    seen, met = run.snapshot, set()
    for host in seen.ready:
        for track in host.store.tracks:
            step = max(track.events // max(_EVENTS // len(host.store.tracks), 4), 1)
            for at in range(track.first_at, track.first_at + track.events, step):
                op = describe_event(run, seen, host, at)["op"]
                if op is not None and repr(op) not in met:
                    met.add(repr(op))
                    yield op | {"host": host.name}


def _check(source: Path) -> tuple[int, int]:
    """How many jumps to op stats, and to programs, lead somewhere: all."""
    profile = fastprof.load(source)
    run = ViewedRun(profile, None, threading.Event())
    run.build()
    tables = profile.op_stats().tables
    shown = {search: _shown(tables[name], columns) for search, (name, columns) in _SHOWN.items()}
    rows = programs = 0
    for op in _ops(run):
        for search, words in (op["op_stats"] or {}).items():
            wanted = words.lower().split()
            assert any(all(word in row for word in wanted) for row in shown[search]), (search, words, op)
            rows += 1
        if op["hlo"] is not None:
            found = get_module_text(
                profile.table_set, op["host"], op["hlo"]["module"], instruction=op["hlo"]["instruction"]
            )
            assert op["hlo"]["instruction"] is None or found["at"] is not None, op
            programs += 1
    return rows, programs


@pytest.mark.parametrize("name", few(list(_OF_DEMO), 3))
def test_each_event_with_an_op_leads_to_its_rows_and_to_its_instruction(name: str) -> None:
    rows, programs = _check(_DEMO / name)
    assert (rows > 0, programs > 0) == _OF_DEMO[name]


_REAL = {
    "cpu-jax-train": (True, True),
    "cpu-tf221-train": (True, False),
    "gpu-mi300x-jax08-gemm": (True, True),
    "gpu-v100x8-tf": (True, False),
    "synthetic-tpu-pod": (True, False),
    "tpu-v6e-jax-inference": (True, True),
}


@pytest.mark.parametrize("name", few(list(_REAL), 2))
def test_so_do_those_of_other_captures(captures: Path, name: str) -> None:
    rows, programs = _check(captures / "xspace" / name)
    assert (rows > 0, programs > 0) == _REAL[name]
