"""Many who ask at once: threads, what is kept, and builds that happen once."""

from __future__ import annotations

import asyncio
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from served import Served, written
from trace_builder import event, line, plane, xspace

from fastprof.viewer import server, viewed_run
from fastprof.viewer.answers import Body, make_body
from fastprof.viewer.server_state import BodyCache
from fastprof.viewer.threads import Changes, ComputedOnce, ThreadPool

CAPTURE = xspace(plane("/host:CPU", [line("main", [event("a", n * 10, 5) for n in range(50)])]))


def of(size: int) -> Body:
    return make_body(bytes(size), "application/octet-stream")


def test_bodies_are_kept_up_to_that_many_bytes_the_last_used_longest() -> None:
    kept = BodyCache(1000)
    for name in "abcd":
        kept.keep(name, of(250))
    assert kept.get("a") is not None
    kept.keep("e", of(250))
    assert kept.get("b") is None
    assert [name for name in "acde" if kept.get(name)] == list("acde")
    assert kept.size == 1000
    kept.keep("huge", of(251))
    assert kept.get("huge") is None
    assert kept.size <= 1000


def test_a_body_counts_with_its_encodings() -> None:
    kept, one = BodyCache(1000), of(100)
    kept.keep("a", one)
    one.encoded["gzip"] = bytes(60)
    kept.keep("a", one)
    assert kept.size == 160


def test_a_pool_answers_raises_and_never_has_more_threads() -> None:
    async def ask() -> list[Any]:
        pool = ThreadPool("test", 3)
        started = threading.Barrier(3, timeout=5)
        together = await asyncio.gather(*(pool.run(lambda: started.wait() >= 0) for _ in range(3)))
        many = await asyncio.gather(*(pool.run(lambda n=n: (n, threading.current_thread().name)) for n in range(50)))
        assert len({name for _, name in many}) <= 3
        with pytest.raises(ZeroDivisionError):
            await pool.run(lambda: 1 / 0)
        return [*together, *(n for n, _ in many)]

    assert asyncio.run(ask()) == [True] * 3 + list(range(50))


def test_what_nobody_waits_for_any_more_is_not_begun() -> None:
    begun: list[int] = []

    async def ask() -> None:
        pool = ThreadPool("test", 1)
        first = asyncio.create_task(pool.run(lambda: time.sleep(0.2)))
        await asyncio.sleep(0.05)
        second = asyncio.create_task(pool.run(lambda: begun.append(1)))
        await asyncio.sleep(0.05)
        second.cancel()
        await first
        await pool.run(lambda: None)

    asyncio.run(ask())
    assert begun == []


def test_a_run_is_built_once_whoever_asks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    built: list[int] = []
    real = viewed_run.open_raw_store
    monkeypatch.setattr(viewed_run, "open_raw_store", lambda *args: built.append(args[1]) or real(*args))
    served = Served(written(tmp_path, CAPTURE, CAPTURE))

    async def all_at_once() -> None:
        await asyncio.gather(*(served.client.send("/api/timeline") for _ in range(20)))

    asyncio.run(all_at_once())
    served.timeline()
    assert built == [0, 1]


def test_tiles_do_not_wait_for_reports(monkeypatch: pytest.MonkeyPatch) -> None:
    from fastprof.analyses import runner

    served = Served(CAPTURE)
    path = f"/api/tiles/{served.timeline()['key']}/0/0"
    go_on = threading.Event()
    real = runner.run
    monkeypatch.setattr(runner, "run", lambda *args, **rest: go_on.wait(10) and real(*args, **rest))

    async def ask() -> None:
        names = ("overview", "op_stats", "steps", "tf_data")
        reports = [asyncio.create_task(served.client.send(f"/api/report/{name}")) for name in names]
        await asyncio.sleep(0.1)
        assert (await asyncio.wait_for(served.client.send(path), 2)).status_code == 200
        assert (await asyncio.wait_for(served.client.send("/api/search", {"q": "a"}), 2)).status_code == 200
        assert not any(report.done() for report in reports)
        go_on.set()
        assert {answer.status_code for answer in await asyncio.gather(*reports)} == {200}

    asyncio.run(ask())


def test_a_long_poll_returns_when_there_is_more_to_show(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    go_on = threading.Event()
    real = viewed_run.open_derived_store
    monkeypatch.setattr(viewed_run, "open_derived_store", lambda *args: go_on.wait(10) and real(*args))
    monkeypatch.setattr(server, "_LONG_POLL_S", 600)  # the test would wait for an answer that no change brings
    served = Served(written(tmp_path, CAPTURE))
    first = served.get("/api/timeline")
    while not first["processes"]:
        first = served.get("/api/timeline", after=first["key"])
    assert (first["state"], first["hosts"][0]["state"], first["hosts"][0]["derived"]) == (
        "building",
        "ready",
        "building",
    )
    threading.Timer(0.2, go_on.set).start()
    second = served.get("/api/timeline", after=first["key"])
    assert (second["state"], second["key"] != first["key"]) == ("ready", True)
    assert second["processes"] == first["processes"]
    kept = served.client.get(f"/api/tiles/{first['key']}/0/0")
    assert kept.status_code == 200


def test_what_is_being_built_is_given_up_when_the_server_stops(monkeypatch: pytest.MonkeyPatch) -> None:
    def build(_tables: Any, _number: int, _cache: Any, progress: Any) -> None:
        for done in range(1000):
            progress("building", done, 1000)
            time.sleep(0.01)

    monkeypatch.setattr(viewed_run, "open_raw_store", build)
    served = Served(CAPTURE)
    served.get("/api/timeline")
    served.runs.stop()
    thread = served.runs.run(None)._thread
    assert thread is not None
    thread.join(timeout=5)
    assert not thread.is_alive()


def test_runs_that_nobody_looked_at_for_long_are_closed(tmp_path: Path) -> None:
    for number in range(7):
        folder = tmp_path / "plugins" / "profile" / f"run{number}"
        folder.mkdir(parents=True)
        (folder / "h.xplane.pb").write_bytes(CAPTURE)
    served = Served(tmp_path)
    for number in range(7):
        assert served.get("/api/timeline", run=f"run{number}")["key"]
    assert len(served.runs._open) <= 4
    assert served.runs.usual in served.runs._open


def test_a_value_is_computed_once_and_again_where_it_failed() -> None:
    kept: ComputedOnce[str, int] = ComputedOnce(2)
    computed: list[str] = []
    go_on = threading.Event()

    def compute(key: str, value: int) -> int:
        computed.append(key)
        if key == "slow":
            assert go_on.wait(10)
        return 10 // value

    found: list[int] = []
    threads = [threading.Thread(target=lambda: found.append(kept.of("slow", lambda: compute("slow", 2)))) for _ in "ab"]
    for thread in threads:
        thread.start()
    assert kept.of("other", lambda: compute("other", 1)) == 10, "another key does not wait"
    go_on.set()
    for thread in threads:
        thread.join(10)
    assert (found, computed.count("slow")) == ([5, 5], 1)
    for value, wanted in ((0, None), (5, 2)):
        try:
            assert kept.of("fails", lambda value=value: compute("fails", value)) == wanted
        except ZeroDivisionError:
            assert wanted is None
    assert computed.count("fails") == 2
    kept.of("other", lambda: compute("other", 1))
    kept.of("slow", lambda: compute("slow", 2))
    assert computed.count("slow") == 2, "of three values two are kept"


def test_changes_wake_who_waits_for_them() -> None:
    changes, seen = Changes(), [0]

    def change(value: int) -> None:
        seen[0] = value
        changes.happened()

    async def wait() -> None:
        threading.Timer(0.05, change, (1,)).start()
        threading.Timer(0.15, change, (2,)).start()
        await asyncio.gather(*(changes.until(lambda: seen[0] == 2, 600) for _ in range(3)))
        assert seen[0] == 2
        await changes.until(lambda: seen[0] == 3, 0.05)  # which no change brings

    asyncio.run(wait())
    assert changes._waiting == set()
