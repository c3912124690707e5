"""The verb serve: the process, its address, and how it ends."""

from __future__ import annotations

import http.client
import json
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from demo_captures import DEMO

from fastprof.cli.main import main

POD = DEMO / "pod"


class Process:
    """``fastprof serve``; ``said``: what it said when it was up."""

    def __init__(self, process: subprocess.Popen[str], said: str) -> None:
        self.process = process
        self.said = said
        self.port = int(re.search(r":(\d+)/", said)[1])  # type: ignore[index]

    def get(self, path: str, **headers: str) -> tuple[int, bytes]:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=10)
        connection.request("GET", path, headers=headers)
        answer = connection.getresponse()
        found = answer.status, answer.read()
        connection.close()
        return found

    def end(self, how: int) -> tuple[int, str]:
        self.process.send_signal(how)
        _, rest = self.process.communicate(timeout=10)
        return self.process.returncode, rest


@contextmanager
def serving(*args: Any, standard_input: Any = None) -> Iterator[Process]:
    command = [sys.executable, "-m", "fastprof", "serve", *map(str, args), "--port", "0"]
    with subprocess.Popen(command, stdin=standard_input, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        line = process.stderr.readline()
        while line and "serving" not in line:
            line = process.stderr.readline()
        try:
            yield Process(process, line)
        finally:
            process.kill()


def test_it_says_where_it_serves_and_ends_when_it_is_interrupted() -> None:
    with serving(POD) as server:
        assert f"http://127.0.0.1:{server.port}/" in server.said
        assert server.get("/")[0] == 200
        status, body = server.get("/api/timeline")
        assert status == 200
        assert json.loads(body)["key"]
        assert server.get("/api/runs", Host="evil.example")[0] == 421
        began = time.monotonic()
        assert server.end(signal.SIGINT) == (0, "")
        assert time.monotonic() - began < 5


@pytest.mark.parametrize("host", ["", " "])
def test_an_empty_address_is_refused(host: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["serve", str(POD), "--host", host]) == 2
    assert "the address is empty; 0.0.0.0 means all addresses of this machine" in capsys.readouterr().err


def test_it_can_be_terminated() -> None:
    """Until then it answers under names of this machine only, also with a token."""
    token = {"Authorization": "Bearer a long token"}
    with serving(POD, "--token", "a long token") as server:
        assert server.get("/api/runs", **token)[0] == 200
        assert server.get("/api/runs", Host="evil.example", **token)[0] == 421
        code, rest = server.end(signal.SIGTERM)
        assert code == 143
        assert "Traceback" not in rest


def test_it_ends_while_pages_wait() -> None:
    with serving(POD) as server:
        server.get("/api/report/overview")
        key = json.loads(server.get("/api/timeline")[1])["key"]
        waiting = threading.Thread(target=lambda: server.get(f"/api/timeline?after={key}"), daemon=True)
        waiting.start()
        idle = socket.create_connection(("127.0.0.1", server.port))
        began = time.monotonic()
        code, rest = server.end(signal.SIGINT)
        assert time.monotonic() - began < 5
        assert (code, rest) == (0, "")
        idle.close()


def test_clients_that_go_away_or_talk_nonsense_leave_no_traceback() -> None:
    with serving(POD) as server:
        for sent in (
            b"GET /api/report/op_stats HTTP/1.1\r\nhost: localhost\r\n\r\n",
            b"\x16\x03\x01 nonsense\r\n\r\n",
            b"",
        ):
            with socket.create_connection(("127.0.0.1", server.port)) as client:
                client.sendall(sent)
        time.sleep(0.5)
        assert server.get("/api/runs")[0] == 200
        assert server.end(signal.SIGINT) == (0, "")


@pytest.mark.parametrize(
    "sent", [b"nonsense\r\n\r\n", b"GET / HTTP/1.1\r\n\r\n", b"GET / HTTP/1.1\r\nhost: a\r\nlong: " + b"x" * (1 << 19)]
)
def test_a_request_that_cannot_be_parsed_is_refused_as_others_are(sent: bytes) -> None:
    with serving(POD) as server, socket.create_connection(("127.0.0.1", server.port), timeout=10) as client:
        client.sendall(sent)
        answer = http.client.HTTPResponse(client)
        answer.begin()
        assert (answer.status, json.loads(answer.read())) == (400, {"error": "this is not a valid HTTP/1.1 request"})
        named = ("content-type", "cache-control", "x-content-type-options", "connection")
        assert [answer.getheader(name) for name in named] == ["application/json", "no-store", "nosniff", "close"]


def test_another_address_asks_for_a_token() -> None:
    with serving(POD, "--host", "0.0.0.0") as server:
        token = re.search(r"token=(\S+)", server.said)
        assert token is not None
        assert server.get("/api/runs")[0] == 401
        assert server.get("/api/runs", Authorization=f"Bearer {token[1]}")[0] == 200
        assert server.get("/api/runs", Host="gpu-box.example", Authorization=f"Bearer {token[1]}")[0] == 200
        assert server.get(f"/?token={token[1]}")[0] == 303


def test_a_capture_from_standard_input_is_shown() -> None:
    path = next(POD.rglob("*.xplane.pb"))
    with path.open("rb") as capture, serving("-", standard_input=capture) as server:
        found: Any = {"state": "building"}
        for _ in range(100):
            found = json.loads(server.get("/api/timeline")[1])
            if found["state"] == "ready":
                break
            time.sleep(0.05)
        assert found["hosts"][0]["state"] == "ready"
        assert server.get("/api/event?at=0")[0] == 200
        assert server.get("/api/report/overview")[0] == 200


def test_a_port_that_is_taken_is_reported(capsys: pytest.CaptureFixture[str]) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        assert main(["serve", str(POD), "--port", str(port)]) == 3
    assert f"port {port} of 127.0.0.1 is in use: --port 0 selects a free port" in capsys.readouterr().err


@pytest.mark.parametrize(("flags", "words"), [
    (["--port", "70000"], "is not a port"),
    (["--port", "x"], "is not a port"),
    (["--token", "short"], "8 or more"),
    (["--host", "no such host.example"], "is no address of this machine"),
    (["--cache-limit", "lots"], "lots"),
])  # fmt: skip
def test_flags_that_make_no_sense_are_refused(flags: list[str], words: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["serve", str(POD), *flags]) == 2
    assert words in capsys.readouterr().err


def test_what_is_missing_is_reported(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    import importlib.util

    real = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name, *rest: None if name == "uvicorn" else real(name, *rest)
    )
    assert main(["serve", str(POD)]) == 2
    assert "pip install starlette uvicorn" in capsys.readouterr().err


def test_a_capture_that_is_not_there_is_reported(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert main(["serve", str(tmp_path / "nothing")]) == 3
    assert "nothing" in capsys.readouterr().err


def test_the_other_runs_of_a_directory_are_offered(tmp_path: Path) -> None:
    (capture,) = sorted((POD / "plugins" / "profile").glob("*/*.xplane.pb"))[:1]
    for run in ("2026_11_21_00_00_00", "2026_11_22_00_00_00"):
        folder = tmp_path / "plugins" / "profile" / run
        folder.mkdir(parents=True)
        (folder / "host0.xplane.pb").write_bytes(capture.read_bytes())
    command = [sys.executable, "-m", "fastprof", "serve", str(tmp_path), "--port", "0"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        said = [process.stderr.readline()]
        while "serving" not in said[-1] and said[-1]:
            said.append(process.stderr.readline())
        process.kill()
    printed = "".join(said)
    assert "2026_11_22_00_00_00: showing the newest run; choose another on the page" in printed
    assert "left out" not in printed
