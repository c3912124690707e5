"""Captures that a page of ``fastprof serve --capture`` begins."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import grpc
import pytest
from profiler_server import ProfilerServer, captured, free_port, serving
from test_capture_workers import sample, until_left
from trace_builder import xspace

from fastprof.cli.main import main
from fastprof.inputs.profiler_client.profiler_servers import parse_address
from fastprof.viewer import page_capture, run_answers
from fastprof.viewer.page_capture import PageCapture
from fastprof.viewer.server import make_application
from tests.viewer.served import Answer, Served

TOKEN = "a long token"
SENT = {"authorization": f"Bearer {TOKEN}", "x-fastprof": "page"}


class Page:
    """A page of a server that may capture these addresses into a log directory."""

    def __init__(self, logs: Path, addresses: Sequence[str]) -> None:
        logs.mkdir()
        self.capture = PageCapture([parse_address(one) for one in addresses], str(logs))
        served = Served(str(logs), token=TOKEN, opened=False, capture=self.capture)
        self.runs, self.client = served.runs, served.client

    def post(self, headers: dict[str, str] | None = None, **options: Any) -> Answer:
        usual = {"duration_ms": 20} if "stop" not in options else {}
        return self.client.get("/api/capture", usual | options, SENT if headers is None else headers, method="POST")

    def ended(self) -> dict[str, Any]:
        return self.until(lambda state: state["stage"] is None)

    def until(self, wanted: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
        for _ in range(2000):
            state: dict[str, Any] = self.client.get("/api/capture", headers=SENT).json()
            if wanted(state):
                return state
            time.sleep(0.005)
        raise AssertionError(f"it stays so: {state}")


def test_a_page_captures_what_the_server_was_given(tmp_path: Path) -> None:
    server = ProfilerServer(captured(sample()))
    with serving(server) as address:
        page = Page(tmp_path / "logs", [address])
        assert page.client.get("/api/runs", headers=SENT).json()["captures"] is True
        assert page.ended()["addresses"] == [address] and not server.requests  # GET begins nothing
        options = {"host_level": 3, "device_level": 0, "python_level": 1, "address": address}
        assert page.post(**options).json()["stage"] is not None
        state = page.ended()
        (request,) = server.requests
        assert state["workers"] == [{"address": address, "status": "written", "reason": ""}]
        (file,) = (tmp_path / "logs").rglob("*.pb")
        assert file.read_bytes() == sample() and file.parent.name == state["run"] == request.session_id
        opts = request.opts
        assert (opts.host_tracer_level, opts.device_tracer_level, opts.python_tracer_level) == (3, 0, 1)
        (run,) = page.client.get("/api/runs", headers=SENT).json()["runs"]
        assert run["name"] == state["run"]
        assert page.post().status_code == 200 and page.ended()["run"] != state["run"]  # all servers; a run of its own


def test_hosts_that_were_not_allowed_are_never_reached(tmp_path: Path) -> None:
    good, stranger = ProfilerServer(captured(xspace(b"x"))), ProfilerServer(captured(xspace(b"x")))
    with serving(good) as one, serving(stranger) as other:
        page = Page(tmp_path / "logs", [one])
        for address in (other, f"{one}@{other}", f"{one} ", one.replace("127.0.0.1", "localhost"), "../x"):
            refused = page.post(address=[one, address])
            assert refused.status_code == 403 and "was given" in refused.json()["error"]
        assert page.ended()["workers"] == [] and not good.requests and not stranger.requests
    assert list((tmp_path / "logs").iterdir()) == []


def test_requests_of_strangers_begin_nothing(tmp_path: Path) -> None:
    server = ProfilerServer(captured(xspace(b"x")))
    with serving(server) as address:
        page = Page(tmp_path / "logs", [address])
        token = {"authorization": f"Bearer {TOKEN}"}
        assert page.post({"x-fastprof": "page"}).status_code == 401
        assert page.post(token).status_code == 403  # as a form of another page would be sent
        assert page.post(SENT | {"sec-fetch-site": "cross-site"}).status_code == 403
        assert page.client.get("/api/capture", headers=SENT, method="OPTIONS").status_code == 405
        for wrong in ({"duration_ms": 0}, {"duration_ms": 10**7}, {"host_level": 4}, {"python_level": "on"}):
            assert page.post(**wrong).status_code == 400
        assert page.ended()["run"] is None and not server.requests


def test_a_page_of_another_name_begins_nothing(tmp_path: Path) -> None:
    """As one that has its name lead to this machine, even if it knows the token."""
    server = ProfilerServer(captured(xspace(b"x")))
    with serving(server) as address:
        page = Page(tmp_path / "logs", [address])
        page.client.app = make_application(page.runs, TOKEN, capture=page.capture, is_local=True)
        assert page.post(SENT | {"host": "evil.example"}).status_code == 421
        assert page.ended()["run"] is None and not server.requests


def test_one_at_a_time_and_it_can_be_stopped(tmp_path: Path) -> None:
    def profile(_request: Any, _context: object) -> bytes:
        assert server.terminated.wait(30)
        return captured(xspace(b"until then"))

    server = ProfilerServer(profile)
    with serving(server) as address:
        page = Page(tmp_path / "logs", [address])
        page.post(duration_ms=60_000)
        assert server.began.wait(30)
        assert page.post().status_code == 409
        going = page.client.get("/api/capture", headers=SENT).json()
        assert going["stage"] == "capturing" and 0 <= going["done"] < going["total"] == 60_000
        page.post(stop=1)
        assert page.ended()["workers"][0]["status"] == "written"
    assert len(server.requests) == 1
    assert [path.read_bytes() for path in (tmp_path / "logs").rglob("*.pb")] == [xspace(b"until then")]


def test_failures_are_shown_and_leave_nothing(tmp_path: Path) -> None:
    server = ProfilerServer(lambda _request, context: context.abort(grpc.StatusCode.INTERNAL, "no disk"))
    with serving(server) as address:
        page = Page(tmp_path / "logs", [address])
        page.post()
        (worker,) = page.ended()["workers"]
        assert worker == {"address": address, "status": "refused", "reason": "INTERNAL: no disk"}
    assert list((tmp_path / "logs").iterdir()) == []


def test_without_the_flag_no_page_captures(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "logs").mkdir()
    client = Served(str(tmp_path / "logs"), token=TOKEN, opened=False).client
    assert client.get("/api/runs", headers=SENT).json()["captures"] is False
    for method in ("GET", "POST"):
        assert client.get("/api/capture", headers=SENT, method=method).status_code == 404
    (tmp_path / "one.xplane.pb").write_bytes(sample())
    assert main(["serve", str(tmp_path / "one.xplane.pb"), "--capture", f"localhost:{free_port()}"]) == 2
    assert "log directory" in capsys.readouterr().err


def test_captures_again_and_again_survive_a_server_that_falls_silent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(page_capture, "_COMMON_DELAY_S", 0.0)
    monkeypatch.setattr(page_capture, "_GRACE_S", 0.3)
    monkeypatch.setattr(run_answers, "_LEAST_EVERY_MS", 1)

    def silent_at_first(request: Any, context: grpc.ServicerContext) -> bytes:
        return until_left(request, context) if len(ailing.requests) == 1 else captured(xspace(b"ailing"))

    sound, ailing = ProfilerServer(captured(xspace(b"sound"))), ProfilerServer(silent_at_first)
    with serving(sound) as one, serving(ailing) as other:
        page = Page(tmp_path / "logs", [one, other])
        state = page.post(every_ms=50, keep=2).json()
        assert (state["every_ms"], state["keep"], state["stage"] is not None) == (50, 2, True)
        assert page.post().status_code == 409
        seen = page.until(lambda state: state["taken"] >= 1)
        assert [worker["status"] for worker in seen["workers"]] == ["written", "late"] and seen["failed"] == 1
        seen = page.until(lambda state: state["taken"] >= 4)
        assert {worker["status"] for worker in seen["workers"]} == {"written"} and seen["stage"] is not None
        page.post(stop=1)
        ended = page.ended()
    runs = sorted((tmp_path / "logs").rglob("*.pb"))
    assert ended["failed"] == 1 and len({path.parent for path in runs}) == 2  # the newest
    assert sorted(path.read_bytes() for path in runs) == [xspace(b"sound")] * 2 + [xspace(b"ailing")] * 2
    assert ended["run"] == runs[-1].parent.name  # although runs before it went within its second
    assert len(sound.requests) == ended["taken"] == len(ailing.requests)


def test_captures_again_and_again_need_sound_numbers(tmp_path: Path) -> None:
    server = ProfilerServer(captured(xspace(b"x")))
    with serving(server) as address:
        page = Page(tmp_path / "logs", [address])
        for wrong in ({"keep": 3}, {"every_ms": 999}, {"every_ms": "x"}, {"every_ms": 1000, "keep": 0}):
            assert page.post(**wrong).status_code == 400
        assert not server.requests
        page.post(every_ms=3_600_000)
        waiting = page.until(lambda state: state["stage"] == "until the next capture")
        assert waiting["keep"] == 10 and waiting["total"] == 3_600_000 and waiting["run"] is not None
        page.post(stop=1)
        assert page.ended()["taken"] == len(server.requests) == 1
