"""Texts that many events repeat: trace files are in proportion to a capture, however long its names are. Counted in
bytes that are written, and in the largest piece, which bounds memory."""

from __future__ import annotations

import json
from typing import Any

import pytest
from trace_builder import Metadata, event, line, plane, ref, stat, xspace

import fastprof
from fastprof.errors import UsageError
from fastprof.profile.trace_out import FORMS, Trace
from fastprof.xprof.trace.trace_forms import write_trace

MANY, LONG = 300, 200_000
XPROF = ("xprof", "xprof-streaming")


def long_name() -> bytes:
    return xspace(plane("/host:CPU", [line("t", [event("n" * LONG, 10 * i, 5) for i in range(MANY)])]))


def long_reference() -> bytes:
    said = [stat("said", ref("s" * LONG))]
    return xspace(plane("/host:CPU", [line("t", [event("n", 10 * i, 5, said) for i in range(MANY)])]))


def long_display_name() -> bytes:
    shared = Metadata("n" * LONG, 1, display_name="d" * LONG)
    events = [event("n" * LONG, 10 * i, 5) for i in range(MANY)]
    return xspace(plane("/device:TPU:0", [line("XLA Ops", events)], event_metadata=[shared]))


def many_stats_of_metadata() -> bytes:
    shared = Metadata("n", 1, stats={f"stat {i}": f"{i:060}" for i in range(LONG // 100)})
    events = [event("n", 10 * i, 5) for i in range(MANY)]
    return xspace(plane("/host:CPU", [line("t", events)], event_metadata=[shared]))


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("attack", [long_name, long_reference, long_display_name, many_stats_of_metadata])
def test_what_is_written_is_in_proportion(attack: Any, form: str) -> None:
    data = attack()
    pieces = list(Trace(fastprof.load(data).table_set, form).chunks())
    assert sum(map(len, pieces)) < 150_000 * MANY  # as much for each event, whatever the length of a text
    assert max(map(len, pieces)) < 8 << 20 or form not in XPROF


def names(data: bytes, form: str, **options: Any) -> list[str]:
    found = json.loads(b"".join(write_trace(fastprof.load(data).tables, form, **options)))  # type: ignore[arg-type]
    return [one["name"] for one in found["traceEvents"] if one.get("ph") == "X"]


@pytest.mark.parametrize("form", XPROF)
def test_long_names_are_cut_between_characters_and_a_row_counts_them(form: str) -> None:
    data = xspace(plane("/host:CPU", [line("t", [event("ä" * 9, 10 * i, 5) for i in range(3)])]))
    assert names(data, form, max_text=7) == ["äää...<truncated>"] * 3
    assert names(data, form, max_text=18) == ["ä" * 9] * 3
    assert names(data, form, max_text=0) == ["ä" * 9] * 3
    p = fastprof.load(data)
    assert b"truncated" in b"".join(Trace(p.table_set, form, max_text=4).chunks())
    (row,) = p.import_log.to_pylist()
    assert (row["code"], row["severity"]) == ("cut_texts", "notice") and row["count"] >= 3
    assert "more than 4 bytes" in row["example"] and "max_text=0" in row["example"]


@pytest.mark.parametrize("form", XPROF)
def test_without_a_limit_pieces_are_no_larger_than_an_event(form: str) -> None:
    pieces = list(Trace(fastprof.load(long_name()).table_set, form, max_text=0).chunks())
    assert sum(map(len, pieces)) > MANY * LONG
    assert max(map(len, pieces)) < (2 << 20) + LONG


def test_the_texts_of_an_event_alone_are_complete() -> None:
    events = [event("n", 10 * i, 5, {"own": "o" * 50, "shared": ref("s" * 50)}) for i in range(2)]
    data = xspace(plane("/host:CPU", [line("t", events)]))
    found = json.loads(b"".join(write_trace(fastprof.load(data).tables, "xprof", max_text=40)))  # type: ignore[arg-type]
    args = [one["args"] for one in found["traceEvents"] if one.get("ph") == "X"]
    assert args == [{"own": "o" * 50, "shared": "s" * 40 + "...<truncated>"}] * 2


def test_a_limit_below_0_is_refused() -> None:
    p = fastprof.load(long_name())
    with pytest.raises(UsageError, match="max_text"):
        Trace(p.table_set, "xprof", max_text=-1)
    with pytest.raises(UsageError, match="max_text"):
        write_trace(p.tables, "xprof", max_text=-1)  # type: ignore[arg-type]
