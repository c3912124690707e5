"""One valid call of every native function that reads or writes files, added to border_calls.CALLS."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from native.border_calls import (
    CALLS,
    Call,
    Given,
    free,
    i32,
    i64,
    index,
    out,
    plain,
    read,
    simple,
    structs,
    u8,
    u32,
    u64,
)
from trace_builder import event, line, plane
from trace_builder import xspace as xspace_bytes

from fastprof._native import (
    hlo,
    line_events,
    messages,
    records,
    riegeli,
    trace_writers,
    transcribing,
    xprof_events,
    xspace,
)

TEXTS = (index(i64(0, 1, 3), free=True), free(np.frombuffer(b"abc", np.uint8)))
STATS = (read(i32(0, 1)), read(u8(0, 3)), read(i64(1, 2)), read(np.zeros(2)), read(i32(-1, 1)))
TRACKS = np.array(
    [(1, 2, 0, 0, 0, 0), (1, 3, 1, 1, 1, 0)],
    [("p", "i8"), ("t", "i8"), ("s", "i8"), ("o", "i8"), ("n", "i4"), ("d", "i4")],
)
simple(hlo.read_hlo, free(u8(10, 0)))
simple(hlo.read_hlo_buffers, free(u8(10, 0)))
simple(
    line_events.line_events,
    free(i64(1, 2)),
    read(i64(0, 5)),
    read(i64(1, 1)),
    index(i64(0, 1, 2), free=True),
    free(i64(1, 2)),
    read(i64(7, 0)),
    read(u8(0, 1)),
    index(i64(0, 2), free=True),
    free(u8(97, 98)),
)
simple(messages.read_message, free(u8(8, 1, 16, 2)), "reading")
simple(messages.read_message_fields, free(u8(8, 1, 16, 2)), index(u64(0, 2, 2, 2), free=True), (5,), "reading")
TABLES = [
    ((1,), (2,), [(3, 1)], [(4, 2)], [(5, 3)]),
    ((1,), (), [], [], []),
    ((1,), (), [], [], []),
    ((), (1,), [], [], []),
]
simple(messages.read_message_tables, free(u8(8, 1, 16, 2)), index(u64(0, 2, 2, 2), free=True), TABLES, "reading")
simple(transcribing.span_texts, free(u8(97, 98, 99)), index(u64(0, 2, 1, 2), free=True), True, "reading")
simple(transcribing.span_ints, free(u8(1, 2, 0x80, 1)), index(u64(0, 2, 2, 2), free=True), "reading")
simple(transcribing.event_metadata, 1, *TEXTS, 0)
simple(transcribing.first_free_lanes, read(i64(0, 5)), read(i64(3, 9)))
CALLS["trace_writers.Texts"] = lambda: (trace_writers.Texts, list(TEXTS))
CALLS["trace_writers.Stats"] = lambda: (trace_writers.Stats, list(STATS))


def kinds() -> list[Any]:
    texts, stats = trace_writers.Texts(*plain(TEXTS)), trace_writers.Stats(*plain(STATS))
    return [read(i32(0, 1)), read(i32(-1, 0)), texts, 0, stats, index(i64(0, 1, 2))]


def batch() -> list[Any]:
    stats, texts = trace_writers.Stats(*plain(STATS)), trace_writers.Texts(*plain(TEXTS))
    events = [read(i64(0, 1)), read(i64(0, 9)), read(i64(5, 5)), read(i32(0, 1)), read(i32(0, 1))]
    renamed, flows = (
        (read(i64(0, 1)), read(i32(0, 1))),
        (read(i64(0, 1)), read(i64(5, 5)), read(u8(1, 0)), read(i32(0, 0))),
    )
    made = trace_writers.Kinds(*plain(kinds()))
    return [*events, made, read(i64(0, 1)), stats, read(i64(0, 1)), stats, texts, 2, renamed, flows]


CALLS["trace_writers.Kinds"] = lambda: (trace_writers.Kinds, kinds())
CALLS["trace_writers.Batch"] = lambda: (trace_writers.Batch, batch())


def of_writer(kind: Any) -> None:
    def make() -> Any:
        writer = kind()
        writer.host(TRACKS.copy(), TRACKS.copy(), trace_writers.Texts(*plain(TEXTS)), 9, 99, 0)
        return writer

    host = [
        out(TRACKS.copy(), free=True),
        Given(TRACKS.copy(), written=True, free=True),
        trace_writers.Texts(*plain(TEXTS)),
        9,
        99,
        0,
    ]
    for name, arguments in {
        "host": lambda: host,
        "events": lambda: [trace_writers.Batch(*plain(batch()))],
        "counter": lambda: [0, read(i64(0, 1)), read(i64(5, 6)), False, True],
    }.items():
        CALLS[f"trace_writers.{kind.__name__}.{name}"] = lambda name=name, arguments=arguments: (
            getattr(make(), name),
            arguments(),
        )


of_writer(trace_writers.JsonWriter)
of_writer(trace_writers.PerfettoWriter)
CALLS["trace_writers.PerfettoWriter.begin"] = lambda: (trace_writers.PerfettoWriter().begin, [5])

DRAWN = (
    read(u64(0, 5)),
    read(u64(9, 9)),
    index(i32(0, 1)),
    TEXTS,
    index(i64(0, 1, 2)),
    read(u32(1, 1)),
    read(u32(2, 3)),
)
MARKS = (read(u8(1, 1)), read(i32(-1, 0)), read(u32(0, 1)), read(u64(0, 5)))
VALUES = (
    index(i64(0, 1, 2), free=True),
    read(i32(0, 1)),
    read(u8(0, 3)),
    read(i64(1, 2)),
    read(np.zeros(2)),
    read(i32(0, 1)),
    TEXTS,
)
for kind, arguments in (("Texts", (TEXTS,)), ("Drawn", DRAWN), ("Marks", MARKS), ("NamedValues", VALUES)):
    CALLS[f"xprof_events.{kind}"] = lambda kind=kind, arguments=arguments: (
        getattr(xprof_events, kind),
        list(arguments),
    )


def of_events(name: str, make: Callable[..., list[Any]]) -> None:
    def built() -> Call:
        parts = (
            xprof_events.Drawn(*plain(DRAWN)),
            xprof_events.Marks(*plain(MARKS)),
            xprof_events.NamedValues(*plain(VALUES)),
        )
        return getattr(xprof_events.Writer(), name), make(*parts)

    CALLS[f"xprof_events.Writer.{name}"] = built


of_events("drawn", lambda drawn, marks, _: [drawn, marks, (0, 0), 99])
of_events("flights", lambda drawn, marks, _: [drawn, marks, 1])
of_events("complete", lambda drawn, _, v: [drawn, read(u8(1, 1)), TEXTS, index(i32(0, 1)), v, v, v, (0, 0), 99])
of_events("points", lambda _, __, values: [read(u64(0, 5)), values, 2])
of_events("text", lambda *_: [b"text"])
simple(xprof_events.gnu_hash, b"text")


# ---- captures

CAPTURE = xspace_bytes(plane("p", [line("l", [event("a", 0, 10), event("b", 5, 2)])]))


def opened() -> tuple[xspace.XSpace, np.ndarray, np.ndarray]:
    """A capture, its pieces and its segments, as the decoder makes them."""
    memory = xspace.Memory()
    scanner = xspace.Scanner(memory, "path")
    scanner.push(CAPTURE)
    scanner.finish()
    made = xspace.XSpace(scanner, CAPTURE)
    spans = np.frombuffer(scanner.spans(records.LINES), records.SPAN)
    pieces = np.zeros(len(spans), records.PIECE)
    for name in ("offset", "length", "part"):
        pieces[name] = spans[name]
    segments = np.frombuffer(made.index(pieces, 0, len(pieces), records.STATS, 1 << 20)[0], records.SEGMENT).copy()
    segments["row_end"] = segments["event_count"]
    segments["stat_row_end"] = segments["stat_count"]
    return made, pieces, segments


def columns(rows: int = 2) -> dict[str, Given]:
    return {
        "event_id": out(np.zeros(rows, np.int64)),
        "start_ps": out(np.zeros(rows, np.int64)),
        "plane_id": out(np.zeros(rows, np.int32)),
        "name": out(np.zeros(rows, np.int8)),
        "present": out(np.zeros(rows, np.uint8)),
    }


def sink(**more: Any) -> xspace.Sink:
    return xspace.Sink(xspace.Memory(), plain(columns()), {"meta_names": np.zeros(9, np.int32)}, **more)


def of_xspace(name: str, make: Callable[..., list[Any]]) -> None:
    def built() -> Call:
        capture, pieces, segments = opened()
        return getattr(capture, name), make(pieces, segments)

    CALLS[f"xspace.XSpace.{name}"] = built


def keys() -> np.ndarray:
    capture, pieces, segments = opened()
    found = np.zeros(2, records.EVENT_KEY)
    capture.event_keys(pieces, segments[:1].copy(), found)
    return found


CALLS["riegeli.RiegeliHash"] = lambda: (riegeli.RiegeliHash, [])
CALLS["riegeli.RiegeliHash.add"] = lambda: (riegeli.RiegeliHash().add, [free(u8(1, 2, 3))])
SPANS = structs("u8 u8 i8")
of_xspace("hold", lambda *_: [3, 8])
of_xspace("declare_stats", lambda *_: [0, free(i64(5, 6))])
of_xspace("intern", lambda *_: [index(u64(0, 1)), index(u64(1, 1)), b"XPlane.name", xspace.Pool(xspace.Memory())])
of_xspace("copies", lambda *_: [index(u64(0, 1)), index(u64(1, 1))])
of_xspace("index", lambda pieces, _: [Given(pieces, written=True, free=True, index=True), 0, 1, records.STATS, 1 << 20])
of_xspace("fill", lambda pieces, segments: [index(pieces, free=True), index(segments, free=True), sink()])
of_xspace(
    "count_kept",
    lambda pieces, segments: [
        index(pieces, free=True),
        Given(segments, written=True, free=True, index=True),
        xspace.Filter(np.ones(9, np.uint8), False, None),
        True,
    ],
)
of_xspace(
    "event_keys",
    lambda pieces, segments: [index(pieces, free=True), index(segments), out(np.zeros(2, records.EVENT_KEY))],
)
of_xspace("order_keys", lambda *_: [out(keys(), free=True)])
of_xspace(
    "fill_keys",
    lambda pieces, _: [index(pieces, free=True), index(keys()), read(i64(0, 1)), 0, 0, 0, sink()],
)
of_xspace("unknown_in_spans", lambda *_: [index(SPANS), index(i64(0, 0))])
of_xspace("fill_spans", lambda *_: [index(SPANS), index(i64(0, 0)), out(i64(0, 0)), sink()])
CALLS["xspace.Pool"] = lambda: (xspace.Pool, [xspace.Memory()])
CALLS["xspace.Pool.add"] = lambda: (xspace.Pool(xspace.Memory()).add, [b"a"])
CALLS["xspace.Pool.find"] = lambda: (xspace.Pool(xspace.Memory()).find, [b"a"])
CALLS["xspace.Pool.add_all"] = lambda: (xspace.Pool(xspace.Memory()).add_all, list(TEXTS))
CALLS["xspace.Memory.fail_after"] = lambda: (xspace.Memory().fail_after, [5])
CALLS["xspace.Scanner"] = lambda: (xspace.Scanner, [xspace.Memory(), "path"])
CALLS["xspace.Scanner.push"] = lambda: (
    xspace.Scanner(xspace.Memory(), "path").push,
    [free(np.frombuffer(CAPTURE, np.uint8))],
)
CALLS["xspace.Scanner.read"] = lambda: (xspace.Scanner(xspace.Memory(), "path").read, [xspace.Bytes(CAPTURE)])
CALLS["xspace.Bytes"] = lambda: (xspace.Bytes, [free(np.frombuffer(CAPTURE, np.uint8))])
CALLS["xspace.Scanner.spans"] = lambda: (xspace.Scanner(xspace.Memory(), "path").spans, [0])
CALLS["xspace.Filter"] = lambda: (xspace.Filter, [free(u8(1, 1)), True, (0, 9)])
CALLS["xspace.Picks"] = lambda: (xspace.Picks, [xspace.Memory(), 2])
CALLS["xspace.Picks.copy"] = lambda: (
    xspace.Picks(xspace.Memory(), 2).copy,
    [0, 0, out(i32(0, 0), free=True), out(u8(0, 0), free=True), out(i64(0, 0), free=True), free(i32(0, 0)), 0],
)
CALLS["xspace.Sink"] = lambda: (
    xspace.Sink,
    [
        xspace.Memory(),
        {name: Given(one.array, written=True, free=True) for name, one in columns().items()},
        {"meta_names": free(i32(0, 0)), "wide_of_stat": index(i32(0, -1), free=True)},
        None,
        [(out(u8(0, 0), free=True), out(i64(0, 0), free=True), free(u8(0, 0)), free(i64(0, 0)))],
    ],
)
CALLS["xspace.XSpace"] = lambda: (_opened_with, [free(np.frombuffer(CAPTURE, np.uint8))])


def _opened_with(data: Any) -> xspace.XSpace:
    scanner = xspace.Scanner(xspace.Memory(), "path")
    scanner.push(CAPTURE)
    scanner.finish()
    return xspace.XSpace(scanner, data)
