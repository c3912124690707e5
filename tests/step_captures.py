"""Small captures with steps, and what was found in them as plain values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from reports import session_of
from trace_builder import Event, Metadata, Plane, event, int_field, len_field, line, plane, u64, xspace

from fastprof.analyses.contract import AnalysisReport
from fastprof.derive.steps.step_alignment import SessionSteps
from fastprof.derive.steps.step_database import TYPES, StepDatabase
from fastprof.xprof.steps import get_shown_steps

US = 1_000_000
"""A microsecond in picoseconds."""

HOST = "/host:CPU"


def spaces(*planes: Plane, hostnames: Sequence[str] = ("vm",)) -> bytes:
    return xspace(*planes, hostnames=list(hostnames))


def step(number: int, start_us: float, duration_us: float, name: str = "train", **stats: Any) -> Event:
    """A marker that a user sets."""
    return event(name, round(start_us * US), round(duration_us * US), {"_r": 1, "step_num": number, **stats})


def ran(name: str, start_us: float, duration_us: float, **stats: Any) -> Event:
    return event(name, round(start_us * US), round(duration_us * US), stats)


def in_order(events: Sequence[Event]) -> list[Event]:
    return sorted(events, key=lambda one: (one.offset_ps or 0, -one.duration_ps))


def host(*threads: Sequence[Event]) -> Plane:
    return plane(HOST, [line(f"thread {number}", in_order(thread)) for number, thread in enumerate(threads)])


def core_details(ordinal: int, hostname: str = "", chip: int = 0) -> bytes:
    parts = int_field(2, ordinal) + int_field(4, chip)
    return (len_field(1, hostname) if hostname else b"") + parts


def tpu(
    ordinal: int,
    steps: Sequence[Event],
    ops: Sequence[tuple[str, str, float, float]],
    *,
    id: int | None = None,
    details: bool = True,
    stats: Mapping[str, Mapping[str, Any]] | None = None,
    lines: Sequence[Any] = (),
) -> Plane:
    """A TensorCore: ops as (name, category, start and duration in microseconds); ``stats``: of the events of an op."""
    names = {name: category for name, category, _, _ in ops}
    metadata = [
        Metadata(name, stats={"program_id": u64(1), "symbol_id": u64(number + 10), "hlo_category": category})
        for number, (name, category) in enumerate(names.items())
    ]
    events = [ran(name, at, duration, **(stats or {}).get(name, {})) for name, _, at, duration in ops]
    return plane(
        f"/device:TPU:{ordinal}",
        [line("Steps", steps, id=1), line("XLA Ops", in_order(events), id=3), *lines],
        id=ordinal + 2 if id is None else id,
        event_metadata=metadata,
        stats={"core_details": core_details(ordinal)} if details else {},
    )


def sparse_core(ordinal: int, ops: Sequence[tuple[str, str, float, float]], steps: Sequence[Event] = ()) -> Plane:
    """A SparseCore, with a line of steps or without."""
    names = {name: category for name, category, _, _ in ops}
    metadata = [
        Metadata(name, stats={"program_id": u64(2), "symbol_id": u64(number + 1), "hlo_category": category})
        for number, (name, category) in enumerate(names.items())
    ]
    events = in_order([ran(name, at, duration) for name, _, at, duration in ops])
    marks = [line("Sparse Core Steps", steps, id=1)] if steps else []
    lines = [*marks, line("Sparse Core Ops", events, id=3)]
    return plane(f"/device:TPU:0 SparseCore {ordinal}", lines, id=20 + ordinal, event_metadata=metadata)


def found(*captures: bytes, **params: Any) -> StepDatabase:
    """The steps of a session of these captures."""
    return session_of(*captures).report("steps", **params).answer.detail_as(SessionSteps).database


def marked(*captures: bytes) -> StepDatabase:
    """The same by markers alone: each step lasts as long as its marker, or its work on a device."""
    return found(*captures, steps_from="markers")


def pod_viewer(*captures: bytes) -> AnalysisReport:
    """A report that comes after steps, with what XProf's page of it needs."""
    return session_of(*captures).answers(["pod_viewer"], {}, "xprof")["pod_viewer"]


def shown(*captures: bytes) -> StepDatabase:
    """The same steps as XProf sees them."""
    return get_shown_steps(pod_viewer(*captures))


Row = tuple[int, int, float, float, dict[str, float]]


def rows(database: StepDatabase) -> list[Row]:
    """(step, core, begin, duration, times by type or category) in microseconds, without what is 0."""
    listed = []
    for i, number in enumerate(database.step.tolist()):
        for c, core in enumerate(database.cores.id.tolist()):
            if database.present[i, c]:
                begin, duration = int(database.begin_ps[i, c]), int(database.duration_ps[i, c])
                listed.append((number, core, begin / US, duration / US, times(database, i, c)))
    return listed


def times(database: StepDatabase, i: int, c: int) -> dict[str, float]:
    names = database.categories if database.is_tpu else TYPES
    values = database.category_ps if database.is_tpu else database.type_ps
    return {name: value / US for name, value in zip(names, values[i, c].tolist(), strict=True) if value}
