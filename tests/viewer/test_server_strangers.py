"""What connections of strangers can take from the server: limits of time, of number, of descriptors and of messages."""

from __future__ import annotations

import asyncio
import errno
import fcntl
import http.client
import os
import resource
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from demo_captures import DEMO

from fastprof.viewer import server
from fastprof.viewer.server import ConnectionLimits, Connections, Server, bind_socket

POD = DEMO / "pod"
LONG = 600.0
HALF = b"GET / HTTP/1.1\r\nhost: localhost\r\nx: "
WHOLE = b"GET / HTTP/1.1\r\nhost: localhost\r\n\r\n"


async def small(scope: Any, _receive: Any, send: Any) -> None:
    status = 200 if scope["method"] == "GET" else 405
    await send({"type": "http.response.start", "status": status, "headers": [(b"content-length", b"2")]})
    await send({"type": "http.response.body", "body": b"ok"})


class Up:
    """A server in a thread of its own. ``messages``: what it said to its operator."""

    def __init__(self, app: Any, limits: ConnectionLimits) -> None:
        self.messages: list[str] = []
        self.listening = bind_socket("127.0.0.1", 0)
        self.port = self.listening.getsockname()[1]
        ready = threading.Event()
        self.server = Server(app, limits, ready.set, self.messages.append)
        self.thread = threading.Thread(target=self.server.run, args=([self.listening],))
        self.thread.start()
        assert ready.wait(10)

    @property
    def open(self) -> int:
        return len(self.server.server_state.connections)


@contextmanager
def up(app: Any = small, **limits: float) -> Iterator[Up]:
    given: Any = {"request_s": LONG, "idle_s": LONG, "unread_s": LONG, **limits}
    running = Up(app, ConnectionLimits(**given))
    try:
        yield running
    finally:
        running.server.should_exit = True
        running.thread.join()


@contextmanager
def strangers(port: int, count: int, sent: bytes = HALF) -> Iterator[list[socket.socket]]:
    with ExitStack() as stack:
        clients = [stack.enter_context(socket.create_connection(("127.0.0.1", port), 10)) for _ in range(count)]
        for client in clients:
            with suppress(ConnectionError):  # it has been closed already
                client.sendall(sent)
        yield clients


def end_of(client: socket.socket) -> bytes:
    """All that comes until the server closes; TimeoutError: it does not."""
    found = b""
    with suppress(ConnectionResetError):
        while part := client.recv(1 << 16):
            found += part
    return found


def until(met: Callable[[], bool]) -> None:
    for _ in range(1000):
        if met():
            return
        time.sleep(0.01)
    raise AssertionError("not within ten seconds")


def answered(client: socket.socket, request: bytes = WHOLE) -> bool:
    client.sendall(request)
    found = b""
    while not found.endswith(b"\r\n\r\nok") and (part := client.recv(1 << 16)):
        found += part
    return found.startswith(b"HTTP/1.1 200 ") and found.endswith(b"ok")


# ---- time


def test_requests_that_are_never_finished_are_closed() -> None:
    with up(request_s=0.2) as here, strangers(here.port, 50) as clients:
        with socket.create_connection(("127.0.0.1", here.port), 10) as reader:
            assert answered(reader)
        assert [end_of(client) for client in clients] == [b""] * 50
        until(lambda: here.open == 0)


def test_bytes_that_trickle_in_do_not_lengthen_the_time_of_a_request() -> None:
    with up(request_s=0.2) as here, strangers(here.port, 1) as (client,), pytest.raises(OSError):
        for _ in range(1000):  # the tenth byte, or soon after it, is refused
            client.sendall(b"x")
            time.sleep(0.02)


def test_a_body_that_is_never_finished_is_closed() -> None:
    head = b"POST / HTTP/1.1\r\nhost: localhost\r\ncontent-length: 9000\r\n\r\n"
    with up(request_s=0.2) as here, strangers(here.port, 3, head) as clients:
        assert all(end_of(client).startswith(b"HTTP/1.1 405 ") for client in clients)


def test_a_connection_between_requests_stays_longer_than_one_within_a_request() -> None:
    with up(request_s=0.2) as here, strangers(here.port, 1) as (late,), strangers(here.port, 1, b"") as (reader,):
        assert answered(reader)
        assert end_of(late) == b""
        assert answered(reader)
        assert answered(reader, WHOLE + HALF)
        assert end_of(reader) == b""


def test_a_connection_that_is_idle_for_long_is_closed() -> None:
    with up(idle_s=0.2) as here, strangers(here.port, 1, WHOLE) as (client,):
        assert end_of(client).endswith(b"ok")


def test_a_client_that_does_not_read_its_answer_is_closed() -> None:
    size = 64 << 20

    async def large(_scope: Any, _receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": bytes(size)})

    with up(large, request_s=0.2, unread_s=0.2) as here, strangers(here.port, 1, WHOLE) as (client,):
        until(lambda: here.open == 1)
        until(lambda: here.open == 0)
        assert len(end_of(client)) < size


def test_an_answer_that_takes_long_is_waited_for() -> None:
    async def slow(scope: Any, receive: Any, send: Any) -> None:
        await asyncio.sleep(0.6)
        await small(scope, receive, send)

    with up(slow, request_s=0.2, idle_s=0.2, unread_s=0.2) as here, strangers(here.port, 1, WHOLE) as (client,):
        assert end_of(client).endswith(b"ok")


# ---- number


def test_strangers_above_the_limit_take_each_others_place_and_not_that_of_readers() -> None:
    with up(most=16) as here, socket.create_connection(("127.0.0.1", here.port), 10) as reader:
        assert answered(reader)
        for _ in range(5):
            with strangers(here.port, 50) as clients:
                assert [end_of(client) for client in clients[:34]] == [b""] * 34
                assert answered(reader)
                assert here.open <= 16
                with socket.create_connection(("127.0.0.1", here.port), 10) as other:
                    assert answered(other)


def test_idle_connections_make_room_and_those_that_are_being_answered_do_not() -> None:
    begin = threading.Event()

    async def waiting(scope: Any, receive: Any, send: Any) -> None:
        while scope["path"] == "/wait" and not begin.is_set():
            await asyncio.sleep(0.01)
        await small(scope, receive, send)

    with up(waiting, most=8) as here, strangers(here.port, 7, WHOLE.replace(b"/ ", b"/wait ", 1)) as waiters:
        until(lambda: len(here.server.server_state.tasks) == 7)
        with strangers(here.port, 1, b"") as (idle,), ExitStack() as stack:
            assert answered(idle)
            other = stack.enter_context(socket.create_connection(("127.0.0.1", here.port), 10))
            assert end_of(idle) == b""  # left for the other
            assert answered(other)
            other.sendall(WHOLE.replace(b"/ ", b"/wait ", 1))
            until(lambda: len(here.server.server_state.tasks) == 8)
            with strangers(here.port, 1, b"") as (refused,):
                assert end_of(refused) == b""
            begin.set()
            assert all(answered(client, b"") for client in [*waiters, other])


# ---- descriptors and messages


def test_a_lack_of_descriptors_is_counted_and_lasts_no_longer_than_it_does(monkeypatch: pytest.MonkeyPatch) -> None:
    failing = iter(range(1000))

    def accept(listening: socket.socket) -> Any:
        if next(failing, None) is not None:
            raise OSError(errno.EMFILE, "Too many open files")
        return socket.socket.accept(listening)

    monkeypatch.setattr(server._ListeningSocket, "accept", accept, raising=False)
    monkeypatch.setattr("asyncio.constants.ACCEPT_RETRY_DELAY", 0.001)
    with up() as here, socket.create_connection(("127.0.0.1", here.port), 10) as reader:
        assert answered(reader)
        until(lambda: bool(here.messages))
        assert next(failing, None) is None
    assert len(here.messages) == 1
    assert here.messages[0].endswith("times: socket.accept() out of system resource ([Errno 24] Too many open files)")


def test_messages_of_a_minute_are_one_line() -> None:
    messages: list[str] = []

    async def faults() -> None:
        connections = Connections(ConnectionLimits(request_s=0.01), messages.append)
        loop = asyncio.get_running_loop()
        for number in range(5000):
            loop.call_exception_handler({"message": f"fault {number % 50}"})
        for _ in range(20):
            await asyncio.sleep(0.01)
            loop.call_exception_handler({"message": "fault 0"})
        assert connections.most == 1000

    asyncio.run(faults())
    assert len(messages) == 1
    assert messages[0].startswith("100 times: fault 0; 100 times: fault 1; ") and len(messages[0]) < 200


def _serve(*flags: str, errors: Any, descriptors: int | None = None) -> tuple[subprocess.Popen[bytes], int]:
    """The process, and its port, which cannot be read where nobody reads its messages."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]

    def limited() -> None:
        if descriptors is not None:
            resource.setrlimit(resource.RLIMIT_NOFILE, (descriptors, descriptors))

    command = [sys.executable, "-m", "fastprof", "serve", str(POD), "--port", str(port), *flags]
    return subprocess.Popen(command, stderr=errors, stdout=errors, preexec_fn=limited), port


def _status(port: int) -> int | None:
    with closing(http.client.HTTPConnection("127.0.0.1", port, timeout=10)) as connection:
        try:
            connection.request("GET", "/api/runs")
            return connection.getresponse().status
        except OSError:
            return None


def test_a_flood_of_strangers_takes_a_bounded_part_of_the_descriptors(tmp_path: Path) -> None:
    log = tmp_path / "log"
    with log.open("wb") as errors:
        process, port = _serve(errors=errors, descriptors=80)
    with process:
        try:
            until(lambda: _status(port) == 200)
            for _ in range(3):
                with strangers(port, 200):
                    assert _status(port) == 200
                    assert len(os.listdir(f"/proc/{process.pid}/fd")) < 75  # noqa: PTH208
            process.send_signal(signal.SIGINT)
            assert process.wait(10) == 0
        finally:
            process.kill()
    assert log.stat().st_size < 2000


@pytest.mark.parametrize(("how", "code"), [(signal.SIGINT, 0), (signal.SIGTERM, 143)])
def test_a_full_pipe_for_messages_stops_neither_answers_nor_the_end(how: int, code: int) -> None:
    reading, writing = os.pipe()
    try:
        os.set_blocking(writing, False)
        fcntl.fcntl(writing, fcntl.F_SETPIPE_SZ, 8192)
        with pytest.raises(BlockingIOError):
            while True:
                os.write(writing, b"x" * 512)
        os.set_blocking(writing, True)
        process, port = _serve("-v", "--progress", "plain", errors=writing)
        with process:
            try:
                until(lambda: _status(port) == 200)
                process.send_signal(how)
                assert process.wait(10) == code
            finally:
                process.kill()
    finally:
        os.close(reading)
        os.close(writing)
