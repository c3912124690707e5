"""The xprof form of tf.data prints up to a hundred iterators for each call: it is written in pieces, so that memory
does not grow with it. Counted in bytes."""

from __future__ import annotations

import json
import tracemalloc

import numpy as np
import pytest
from kept import events_of
from trace_builder import event, line, plane, xspace

import fastprof
from fastprof.decode.workers import Workers
from fastprof.errors import CaptureError, MemoryLimitError
from fastprof.xprof import pipelines_as_xprof, report_xprof
from fastprof.xprof.pages import tf_data

CALLS = 160


def calls_in_calls(count: int) -> bytes:
    """Each call encloses the next: XProf counts the next hundred iterators for each."""
    nest = [event("Iterator::Root", i, 2 * (count - i), {"id": i + 1}) for i in range(count)]
    return xspace(plane("/host:CPU", [line("thread", nest, id=1)]))


def test_pieces_are_small_and_make_the_text() -> None:
    report = fastprof.load(calls_in_calls(CALLS)).tf_data()
    text = report.to_xprof()
    pieces = list(report_xprof.write_report(report.answer))
    assert "".join(pieces) == text == json.dumps(json.loads(text), sort_keys=True)
    rows = len(json.loads(text)[0]["rows"])
    assert rows == 101 * (CALLS - 100) + 5050
    assert len(text) > 200 * rows and max(map(len, pieces)) < 300_000


def test_memory_is_far_less_than_what_is_written() -> None:
    report = fastprof.load(calls_in_calls(CALLS)).tf_data()
    report.to_xprof()
    tracemalloc.start()
    try:
        written = sum(map(len, report_xprof.write_report(report.answer)))
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


def read(count: int) -> pipelines_as_xprof.XprofReading:
    return pipelines_as_xprof.read_as_xprof(
        pipelines_as_xprof.record_links(events_of(calls_in_calls(count)), Workers(1))
    )


def test_records_of_a_few_calls_are_in_memory_at_once() -> None:
    reading = read(CALLS)
    pieces = list(reading.records(some=500))
    assert max(map(len, pieces)) <= 500 + 101 and len(pieces) > 20
    (whole,) = reading.records()
    for column in ("call", "iterator", "self_ps", "count"):
        assert np.concatenate([getattr(one, column) for one in pieces]).tolist() == getattr(whole, column).tolist()
    some = np.concatenate([one.call for one in reading.records(10, 13, some=150)])
    assert np.unique(some).tolist() == [10, 11, 12]


def test_memory_of_records_does_not_grow_with_calls(monkeypatch: pytest.MonkeyPatch) -> None:
    reading = read(3000)
    monkeypatch.setattr(pipelines_as_xprof.XprofReading.records, "__defaults__", (0, None, 5000))
    tracemalloc.start()
    try:
        answered = tf_data._read_capture(reading)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert np.count_nonzero(answered.bottleneck_ps) == 3000
    assert peak < 2_000_000  # 300,000 records of 48 bytes are 14,000,000


def calls_of_their_own(count: int) -> bytes:
    """Calls of iterators that no other call has: each is a pipeline."""
    calls = [event("Iterator::Root", 3 * i, 2, {"id": i + 1}) for i in range(count)]
    return xspace(plane("/host:CPU", [line("thread", calls, id=1)]))


def test_pipelines_are_objects_only_while_they_are_written() -> None:
    report = fastprof.load(calls_of_their_own(3000)).tf_data()
    report.to_xprof()
    tracemalloc.start()
    try:
        longest = max(map(len, report_xprof.write_report(report.answer)))
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert longest < 400_000
    assert peak < 9_000_000  # 16,000,000 with objects of all pipelines and the rows of two tables


def test_the_steps_of_a_walk_are_counted_over_all_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pipelines_as_xprof, "MOST_VISITS", 2000)
    with pytest.raises(CaptureError, match="more than 2,000 steps"):
        list(read(CALLS).records(some=500))
