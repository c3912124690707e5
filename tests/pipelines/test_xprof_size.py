"""The xprof form of tf.data prints up to a hundred iterators for each call: it is written in pieces, so that memory
does not grow with it. Counted in bytes."""

from __future__ import annotations

import json
import tracemalloc

import pytest
from trace_builder import event, line, plane, xspace

import fastprof
from fastprof.errors import MemoryLimitError
from fastprof.xprof import report_xprof

CALLS = 160


def calls_in_calls(count: int) -> bytes:
    """Each call encloses the next: XProf counts the next hundred iterators for each."""
    nest = [event("Iterator::Root", i, 2 * (count - i), {"id": i + 1}) for i in range(count)]
    return xspace(plane("/host:CPU", [line("thread", nest, id=1)]))


def test_pieces_are_small_and_make_the_text() -> None:
    report = fastprof.load(calls_in_calls(CALLS)).tf_data()
    text = report.to_xprof()
    pieces = list(report_xprof.chunks(report.answer))
    assert "".join(pieces) == text == json.dumps(json.loads(text), sort_keys=True)
    rows = len(json.loads(text)[0]["rows"])
    assert rows == 101 * (CALLS - 100) + 5050
    assert len(text) > 200 * rows and max(map(len, pieces)) < 300_000


def test_memory_is_far_less_than_what_is_written() -> None:
    report = fastprof.load(calls_in_calls(CALLS)).tf_data()
    report.to_xprof()
    tracemalloc.start()
    try:
        written = sum(map(len, report_xprof.chunks(report.answer)))
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 1.5 * written  # all rows as objects take ten times as much


def test_json_that_runs_out_of_memory_is_an_error_of_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_args: object, **_options: object) -> str:
        raise SystemError("returned NULL without setting an exception")

    report = fastprof.load(calls_in_calls(2)).tf_data()
    monkeypatch.setattr(report_xprof.json, "dumps", fails)
    with pytest.raises(MemoryLimitError, match="command line"):
        report.to_xprof()
