"""Log directories with many runs: the list comes in parts, and nobody else waits while runs are listed or opened."""

from __future__ import annotations

import asyncio
import json
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from served import Answer, Served
from trace_builder import event, line, plane, xspace

import fastprof
from fastprof.viewer import run_list
from fastprof.viewer.run_list import RunList

NEWEST = "2026_01_09_00_00_00"


def capture(name: str) -> bytes:
    return xspace(plane("/host:CPU", [line("main", [event(name, 0, 10)])]))


def write(logs: Path, *runs: str) -> Path:
    for run in runs:
        folder = logs / "plugins" / "profile" / run
        folder.mkdir(parents=True)
        (folder / "vm.xplane.pb").write_bytes(capture(run))
    return logs


def test_tiles_do_not_wait_for_a_list_of_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    served = Served(write(tmp_path, NEWEST))
    key = served.timeline()["key"]
    listing, release, walks = threading.Event(), threading.Event(), []
    listed = run_list._list_runs

    def held(directory: Any) -> Any:
        walks.append(directory)
        listing.set()
        assert release.wait(10)
        return listed(directory)

    monkeypatch.setattr(run_list, "_list_runs", held)

    async def act() -> tuple[list[Answer], list[Answer]]:
        ask = served.client.send
        waiting = [asyncio.create_task(ask("/api/runs")) for _ in range(20)]
        waiting += [asyncio.create_task(ask(f"/api/timeline?run=none{number}")) for number in range(20)]
        while not listing.is_set():
            await asyncio.sleep(0.01)
        paths = [f"/api/tiles/{key}/0/0", "/api/timeline", "/api/event?at=0", "/api/search?q=a", "/api/report/overview"]
        quick = [await ask(path) for path in paths for _ in range(3)]
        assert not any(one.done() for one in waiting)
        release.set()
        return quick, list(await asyncio.gather(*waiting))

    quick, waited = asyncio.run(act())
    assert [one.status_code for one in quick] == [200] * 15
    assert [one.status_code for one in waited] == [200] * 20 + [404] * 20
    assert waited[-1].json() == {"error": f"no run 'none19'; there are: {NEWEST}"}


def test_answers_about_open_runs_do_not_wait_for_others_to_be_opened(tmp_path: Path) -> None:
    served = Served(write(tmp_path, NEWEST, "a", "b"))
    key = served.timeline()["key"]
    loading, release, loads = threading.Event(), threading.Event(), []
    load = served.runs._load

    def held(name: str | None) -> fastprof.Profile:
        loads.append(name)
        loading.set()
        assert release.wait(10)
        return load(name)

    served.runs._load = held

    async def act() -> tuple[list[Answer], list[Answer]]:
        ask = served.client.send
        paths = ["/api/timeline", "/api/event?at=0", "/api/search?q=a", "/api/report/overview", "/api/open"]
        of_a = [f"{path}{'&' if '?' in path else '?'}run=a" for path in paths]
        waiting = [asyncio.create_task(ask(path)) for path in of_a for _ in range(5)]
        while not loading.is_set():
            await asyncio.sleep(0.01)
        quick = [await ask(path) for path in (f"/api/tiles/{key}/0/0", *paths[:4], "/api/runs") for _ in range(3)]
        assert not any(one.done() for one in waiting)
        release.set()
        return quick, list(await asyncio.gather(*waiting))

    quick, waited = asyncio.run(act())
    assert [one.status_code for one in quick] == [200] * 18
    assert {one.status_code for one in waited} <= {200, 409}  # 409: its events cannot be shown yet
    assert loads == ["a"]


def test_of_many_runs_the_newest_are_listed_and_the_others_found(tmp_path: Path) -> None:
    names = [f"2026_01_01_{number // 60:02}_{number % 60:02}_00" for number in range(300)]
    served = Served(write(tmp_path, *names), run=names[7])
    newest_first = names[::-1]

    def found(**params: Any) -> tuple[list[str], int]:
        answer = served.get("/api/runs", **params)
        return [run["name"] for run in answer["runs"]], answer["count"]

    assert found() == ([*newest_first[:200], names[7]], 300)  # and the one that is shown
    assert found(first=200) == (newest_first[200:], 300)
    assert found(first=10, limit=3) == (newest_first[10:13], 300)
    assert found(limit=1, run=names[3]) == ([names[-1], names[3], names[7]], 300)
    assert found(q="26_01_01_02_", limit=5) == ([f"2026_01_01_02_{minute}_00" for minute in range(59, 54, -1)], 60)
    assert found(q="nothing") == ([], 0)


def test_a_list_that_takes_long_is_kept_for_a_while_and_made_once(monkeypatch: pytest.MonkeyPatch) -> None:
    now, walks = [0.0], []

    def listed(_directory: Any) -> dict[str, Any]:
        walks.append(now[0])
        now[0] += 2.0
        return {"old": "run"}

    monkeypatch.setattr(run_list, "_list_runs", listed)
    monkeypatch.setattr(run_list.time, "monotonic", lambda: now[0])
    runs = RunList("logs")
    for _ in range(10):
        assert runs.now() == ["run"]
        assert runs.find("old") == "run"
    now[0] += 9.9
    assert runs.now() == ["run"] and walks == [0.0]
    assert runs.find("new") is None and walks == [0.0, 11.9]  # may have been written since
    assert runs.find("new") is None and walks == [0.0, 11.9]
    now[0] += 10.1
    assert runs.now() == ["run"] and walks == [0.0, 11.9, 24.0]


SECRETS = {
    "text": b"password: %s\nuser: root\n",
    "a JSON value": b'"%s"',
    "JSON": b'{"%s": {"key": "%s"}}',
    "an unfinished text in JSON": b'{"a": "%s',
    "JSON with events": b'{"traceEvents": {"%s": 1}}',
    "events that are not": b'[{"%s": "%s"}]',
    "a number": b"12345%s",
    "a table": b'Name,Id,%s,Time\n"%s",1,2,3\n',
    "text after a mark": b"\xef\xbb\xbf%s and so on",
}


@pytest.mark.parametrize("kind", SECRETS)
@pytest.mark.parametrize(("name", "on_error"), [("vm.xplane.pb", "raise"), ("vm.trace.json", "salvage")])
def test_a_link_shows_nothing_of_a_file_that_is_no_capture(kind: str, name: str, on_error: str, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").write_bytes(SECRETS[kind].replace(b"%s", b"hunter2"))
    run = write(tmp_path / "logs", NEWEST) / "plugins" / "profile" / NEWEST
    (run / "vm.xplane.pb").unlink()
    (run / name).symlink_to(tmp_path / "elsewhere")
    served = Served(str(tmp_path / "logs"), opened=False, on_error=on_error)
    said = [
        served.client.get(path, {"run": run.name}).text for path in ("/api/open", "/api/timeline", "/api/report/steps")
    ]
    while json.loads(served.client.get("/api/trends").text)["pending"]:
        time.sleep(0.01)
    said += [served.client.get(path).text for path in ("/api/open", "/api/runs", "/api/trends")]
    assert "vm." in "".join(said) and "hunter2" not in "".join(said)
