"""Captures of devices that communicate: ops given by their HLO, or kernels and copies."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from reports import session_of
from step_captures import US, core_details, in_order
from trace_builder import Event, Line, Metadata, Plane, Value, event, int_field, line, plane, u64

import fastprof

AR = "%all-reduce.1 = f32[256]{0} all-reduce(f32[256]{0} %x), channel_id=1, replica_groups={{0,1}}, to_apply=%add"
AG_START = "%all-gather-start.3 = (f32[64]{0}, f32[256]{0}) all-gather-start(f32[64]{0} %y), replica_groups=[1,4]<=[4]"
AG_DONE = "%all-gather-done.7 = f32[256]{0} all-gather-done((f32[64]{0}, f32[256]{0}) %all-gather-start.3)"
_TWO = "(f32[1024]{0}, f32[1024]{0:S(5)}, u32[]{:S(2)})"
LOAD_START = f"%copy-start = {_TWO} copy-start(f32[1024]{{0:S(5)}} %p)"
LOAD_DONE = f"%copy-done = f32[1024]{{0}} copy-done({_TWO} %copy-start)"
STORE_START = "%copy-start.1 = (f32[8]{0:S(5)}, f32[8]{0}, u32[]) copy-start(f32[8]{0} %p.1)"
STORE_DONE = "%copy-done.1 = f32[8]{0:S(5)} copy-done((f32[8]{0:S(5)}, f32[8]{0}, u32[]) %copy-start.1)"
PREFETCH_START = "%copy-start.2 = (f32[8]{0:S(1)}, f32[8]{0}, u32[]) copy-start(f32[8]{0} %p.2)"
PREFETCH_DONE = "%copy-done.2 = f32[8]{0:S(1)} copy-done((f32[8]{0:S(1)}, f32[8]{0}, u32[]) %copy-start.2)"
FUSION = "%fusion.9 = f32[256]{0} fusion(f32[256]{0} %x), kind=kLoop, calls=%f"

CATEGORIES = {
    AR: "all-reduce", AG_START: "all-gather-start", AG_DONE: "all-gather-done", LOAD_START: "copy-start",
    LOAD_DONE: "copy-done", STORE_START: "copy-start", STORE_DONE: "copy-done", PREFETCH_START: "copy-start",
    PREFETCH_DONE: "copy-done", FUSION: "loop fusion",
}  # fmt: skip

Op = tuple[str, float, float]
"""Its text, and its start and duration in microseconds."""


def short(text: str) -> str:
    return text.partition(" = ")[0].removeprefix("%")


def metadata(texts: Sequence[str], categories: Mapping[str, str] = CATEGORIES) -> list[Metadata]:
    return [
        Metadata(
            text,
            display_name=short(text),
            stats={"program_id": u64(1), "symbol_id": u64(number), "hlo_category": categories[text]},
        )
        for number, text in enumerate(dict.fromkeys(texts), 1)
    ]


def ran(text: str, start_us: float, duration_us: float, **stats: Value) -> Event:
    recorded: dict[str | int, Value] = dict(stats.items())
    return event(text, round(start_us * US), round(duration_us * US), recorded)


def core(
    ordinal: int,
    ops: Sequence[Op],
    *,
    steps: Sequence[tuple[float, float]] = (),
    aloft: Sequence[tuple[str, str, float, float]] = (),
    late_us: float = 0,
    categories: Mapping[str, str] = CATEGORIES,
    more: Sequence[Line] = (),
    number: int | None = None,
) -> Plane:
    """A TensorCore. ``aloft``: of the line Async XLA Ops: text, name of the op that ends it, start and duration.
    ``late_us``: how far the device's clock is behind the host's, if at all; ``more``: lines; ``number``: of the
    core in the system."""

    def one(text: str, start: float, duration: float) -> Event:
        clock = {"device_offset_ps": u64(round(start * US)), "device_duration_ps": u64(round(duration * US))}
        return ran(text, start + late_us, duration, **(clock if late_us else {}))

    lines: list[Line] = [*more, line("XLA Ops", in_order([one(*op) for op in ops]), id=3)]
    if steps:
        lines.append(line("Steps", [one(str(n), *span) for n, span in enumerate(steps)], id=1))
    if aloft:
        flights = [ran(text, at + late_us, took, hlo_op=done) for text, done, at, took in aloft]
        lines.append(line("Async XLA Ops", in_order(flights), id=4))
    texts = [text for text, _, _ in ops] + [text for text, _, _, _ in aloft]
    return plane(
        f"/device:TPU:{ordinal}",
        lines,
        id=ordinal + 2,
        event_metadata=metadata(texts, categories),
        stats={"core_details": core_details(ordinal) + (int_field(6, number) if number is not None else b"")},
    )


def gpu(ordinal: int, *streams: Sequence[Event]) -> Plane:
    lines = [line(f"Stream #{number}", in_order(stream), id=number) for number, stream in enumerate(streams, 1)]
    return plane(f"/device:GPU:{ordinal}", lines, id=ordinal + 1)


def report_of(*captures: bytes, **params: Any) -> fastprof.Report:
    return session_of(*captures).report("communication", **params)


def rows(report: fastprof.Report, table: str, *columns: str) -> list[tuple[Any, ...]]:
    """Of columns; times in microseconds."""
    found = report.tables[table]

    def values(column: str) -> list[Any]:
        known = found[column].to_pylist()
        return [None if one is None else one / US for one in known] if column.endswith("_ps") else known

    return list(zip(*(values(column) for column in columns), strict=True))
