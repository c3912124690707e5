"""Threads that share one opened run: none waits for what another decodes, and each capture is opened once."""

from __future__ import annotations

import asyncio
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from served import Served, written
from trace_builder import event, line, plane, xspace

import fastprof
from fastprof.decode import xspace_capture
from fastprof.decode.blocks import Block
from fastprof.decode.decoder import Request
from fastprof.decode.index import CaptureIndex
from fastprof.decode.span_stats import CaptureTexts
from fastprof.tables import host_reader, table_set
from fastprof.tables.table_set import TableSet
from fastprof.viewer import viewed_run

NAMELESS = b"\x08\x63\x20\x05"
"""A stat of id 99, which the plane does not declare."""
CAPTURE = xspace(
    plane(
        "/host:CPU",
        [
            line("main", [event(f"op {n % 7}", n * 10, 5, stats={"n": n}) for n in range(60)]),
            line("odd", [event("odd", n * 10, 5, stats=[NAMELESS]) for n in range(20)]),
        ],
    )
)
REQUESTS = ("/api/search?q=op", "/api/report/op_stats", "/api/report/overview", "/api/hlo")


@contextmanager
def held_up(patch: pytest.MonkeyPatch, owner: type, method: str) -> Iterator[tuple[threading.Event, threading.Event]]:
    """While it lasts, threads called "slow" stop in a method. Events: one is there, and it may go on."""
    there, go_on = threading.Event(), threading.Event()
    real = getattr(owner, method)

    def slowly(*args: Any, **named: Any) -> Any:
        if threading.current_thread().name == "slow":
            there.set()
            assert go_on.wait(60)
        return real(*args, **named)

    with patch.context() as patched:
        patched.setattr(owner, method, slowly)
        try:
            yield there, go_on
        finally:
            go_on.set()


def in_the_slow_thread(work: Any) -> tuple[threading.Thread, list[Any]]:
    found: list[Any] = []
    thread = threading.Thread(target=lambda: found.append(work()), name="slow", daemon=True)
    thread.start()
    return thread, found


def answers(served: Served, paths: list[str]) -> list[bytes]:
    """What is answered to requests that are all sent at once."""

    async def ask() -> list[bytes]:
        sent = [served.client.send(path) for path in paths]
        found = await asyncio.wait_for(asyncio.gather(*sent), 30)
        assert {answer.status_code for answer in found} == {200}
        return [answer.content for answer in found]

    return asyncio.run(ask())


def all_paths(served: Served) -> list[str]:
    """Tiles, each event, and the other requests, reports among them, of a timeline that is ready."""
    timeline = served.timeline()
    events = [f"/api/event?host=host0&at={at}" for at in range(0, 80, 7)]
    return [f"/api/tiles/{timeline['key']}/0/0", *events, *REQUESTS]


def test_tiles_events_and_reports_do_not_wait_for_a_decode(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    expected_of = Served(written(tmp_path / "quiet", CAPTURE))
    expected = answers(expected_of, all_paths(expected_of))[1:]
    served = Served(written(tmp_path / "busy", CAPTURE))
    paths = all_paths(served)
    with held_up(monkeypatch, Block, "fill") as (there, go_on):
        every = Request(("event_id", "start_ps", "name"), ("event_id", "stat", "int_value"))
        tables = served.profile.table_set
        slow, found = in_the_slow_thread(lambda: tables.decode(every))
        assert there.wait(30)
        assert answers(served, paths)[1:] == expected
        assert slow.is_alive()
        go_on.set()
        slow.join(30)
    alone = fastprof.load(CAPTURE).table_set.decode(every)
    assert found[0].events["event_id"].equals(alone.events["event_id"])
    for name in every.stats:
        values, wanted = found[0].stats[name], alone.stats[name]
        assert values.to_pylist() == wanted.to_pylist()


def test_events_of_one_host_do_not_wait_while_another_is_indexed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    served = Served(written(tmp_path, CAPTURE, CAPTURE))
    served.timeline()
    fresh = fastprof.load(tmp_path)
    index = fresh.table_set.session.index
    first = TableSet(fresh.table_set.session, fresh.table_set.selection.narrowed("host0"))
    second = TableSet(fresh.table_set.session, fresh.table_set.selection.narrowed("host1"))
    first.decode(Request(("event_id",)))
    with held_up(monkeypatch, CaptureIndex, "index_tasks") as (there, go_on):
        slow, found = in_the_slow_thread(lambda: second.decode(Request(("event_id",))))
        assert there.wait(30)
        assert first.decode(Request(("event_id", "start_ps"))).rows == 80
        assert index.captures[1].known.least_depth < index.captures[0].known.least_depth
        assert slow.is_alive()
        go_on.set()
        slow.join(30)
    assert found[0].rows == 80


def test_stats_may_be_declared_while_events_are_decoded(monkeypatch: pytest.MonkeyPatch) -> None:
    """A decode that began before a stat was met for the first time reads what it would have read alone."""
    profile, alone = fastprof.load(CAPTURE, threads=1), fastprof.load(CAPTURE, threads=1)
    named = Request(("event_id",), ("event_id", "stat", "int_value"))
    tables = profile.select(lines="main").table_set
    with held_up(monkeypatch, Block, "fill") as (there, go_on):
        slow, found = in_the_slow_thread(lambda: tables.decode(named))
        assert there.wait(30)
        odd = profile.select(lines="odd").event_stats.to_pylist()
        go_on.set()
        slow.join(30)
    assert {row["stat"] for row in odd} == {"#99"}
    assert found[0].stats["int_value"].to_pylist() == list(range(60))
    assert odd == alone.select(lines="odd").event_stats.to_pylist()
    assert profile.event_stats.to_pylist() == alone.event_stats.to_pylist()


def test_stats_may_be_declared_while_a_host_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """A name that ends in * reads the stats declared by then, also by threads that read other lines meanwhile."""
    profile = fastprof.load(CAPTURE, threads=1)
    tables = profile.table_set
    with held_up(monkeypatch, CaptureTexts, "now") as (there, go_on):
        slow, found = in_the_slow_thread(lambda: host_reader.read_host(tables, 0, (), ("n*", "#*"), ()))
        assert there.wait(30)
        assert {row["stat"] for row in profile.select(lines="odd").event_stats.to_pylist()} == {"#99"}
        go_on.set()
        slow.join(30)
    assert [sorted(host.stats) for host in found] == [["#99", "n"]]


def test_threads_that_read_one_profile_at_once_read_what_one_reads_alone() -> None:
    alone, shared = fastprof.load(CAPTURE), fastprof.load(CAPTURE)
    names = ("events", "event_stats", "nesting", "lines", "import_log", "plane_stats", "event_metadata")
    expected = {name: alone.tables[name].to_pylist() for name in names}
    wrong: list[str] = []
    begin = threading.Barrier(12)

    def read(offset: int) -> None:
        begin.wait(30)
        for name in (*names[offset:], *names[:offset]):
            if shared.select().tables[name].to_pylist() != expected[name]:
                wrong.append(name)

    threads = [threading.Thread(target=read, args=(n % len(names),)) for n in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert wrong == [] and not any(thread.is_alive() for thread in threads)


def test_a_run_is_opened_once_and_each_host_decoded_once_a_stage(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: Counter[str] = Counter()
    decoded: Counter[int] = Counter()

    class Counted(xspace_capture.Capture):
        def __init__(self, file: Any, *rest: Any) -> None:
            opened[file.host] += 1
            super().__init__(file, *rest)

    real = viewed_run.read_host

    def read_host(tables: TableSet, number: int, *needs: Any) -> Any:
        decoded[number] += 1
        return real(tables, number, *needs)

    monkeypatch.setattr(table_set, "Capture", Counted)
    monkeypatch.setattr(viewed_run, "read_host", read_host)
    served = Served(written(tmp_path, CAPTURE, CAPTURE))
    answers(served, all_paths(served))
    assert opened == {"host0": 1, "host1": 1}
    assert decoded == {0: 2, 1: 2}, "first what is drawn, then with the stats that tracks are derived from"
