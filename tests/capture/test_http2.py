"""Calls over HTTP/2: frames of every shape, and servers that are not what they seem."""

from __future__ import annotations

import random
import socket
import struct
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import pytest
from gate import rounds

from fastprof.inputs import message as messages
from fastprof.inputs.message import BadMessageError
from fastprof.inputs.profiler_client import service_messages, workers
from fastprof.inputs.profiler_client.profiler_servers import parse_address
from fastprof.inputs.profiler_client.workers import CallError, ServerConnection
from fastprof.schema.message_fields import put

SETTINGS = bytes(3) + b"\4" + bytes(5)
ACKNOWLEDGED = bytes(3) + b"\4\1" + bytes(4)
END, WHOLE, PADDED, PRIORITY = 1, 4, 8, 32


def frame(kind: int, payload: bytes, flags: int = 0, stream: int = 1) -> bytes:
    return struct.pack(">I", len(payload))[1:] + bytes([kind, flags]) + struct.pack(">I", stream) + payload


def field(name: str, value: str) -> bytes:
    return b"".join((b"\x10", bytes([len(name)]), name.encode(), bytes([len(value)]), value.encode()))


def message(text: bytes) -> bytes:
    return b"\0" + struct.pack(">I", len(text)) + text


OPENING = frame(1, b"\x88" + field("content-type", "application/grpc"), WHOLE)
OK = frame(1, field("grpc-status", "0"), WHOLE | END)


@contextmanager
def saying(answer: bytes, then: bytes = b"") -> Iterator[str]:
    """The address of a server that sends its settings, waits for a request, answers it and closes. ``then``: the
    rest of the answer, when the client has read what was sent first."""

    def serve() -> None:
        with suppress(OSError):
            one, _ = listening.accept()
            with one:
                one.sendall(SETTINGS + ACKNOWLEDGED)
                data = b""
                while b"request" not in data and (part := one.recv(1 << 16)):
                    data += part
                one.sendall(answer)
                if then:
                    one.sendall(frame(6, b"read it?", stream=0))  # PING
                    while b"read it?" not in data and (part := one.recv(1 << 16)):
                        data += part
                    one.sendall(then)
                one.shutdown(socket.SHUT_WR)
                while one.recv(1 << 16):
                    pass

    with socket.create_server(("127.0.0.1", 0)) as listening:
        thread = threading.Thread(target=serve)
        thread.start()
        try:
            yield f"127.0.0.1:{listening.getsockname()[1]}"
        finally:
            listening.close()
            thread.join()


def answer(address: str, timeout_s: float = 20.0) -> bytes:
    with ServerConnection(parse_address(address)) as connection:
        return bytes(connection.answer("/a/B", b"request", timeout_s))


def failure(said: bytes) -> CallError:
    with saying(said) as address, pytest.raises(CallError) as caught:
        answer(address)
    return caught.value


def test_frames_of_every_shape() -> None:
    text = bytes(range(256)) * 300
    data = message(text)
    parts = [
        data[:1],
        data[1:3],
        data[3:5],
        b"",
        data[5:9],
        *(data[at : at + 10_000] for at in range(9, 70_009, 10_000)),
    ]
    said = frame(6, b"12345678", stream=0)  # PING
    said += frame(1, bytes([2, 0, 0, 0, 0, 1]) + b"\x88" + bytes(2), PADDED | PRIORITY)  # HEADERS that go on
    said += frame(9, field("content-type", "application/grpc"), WHOLE)
    said += b"".join(frame(0, part) for part in parts)
    said += frame(0x77, b"unknown") + frame(8, b"\0\0\1\0") + SETTINGS
    said += frame(0, b"\3" + data[70_009:] + bytes(3), PADDED)
    with saying(said + OK) as address:
        assert answer(address) == text


def test_a_server_that_ends_finishes_the_call() -> None:
    """A program that ends lets calls that it has begun end, and says that it takes no others."""
    going = frame(7, (2**31 - 1).to_bytes(4, "big") + bytes(4), stream=0)
    with saying(OPENING + frame(0, message(b"ab")[:6]) + going, frame(0, b"b") + OK) as address:
        assert answer(address) == b"ab"
    with saying(OPENING + going + frame(0, message(b"ab")) + OK) as address:
        assert answer(address) == b"ab"


def test_an_answer_without_bytes_is_an_answer() -> None:
    with saying(OPENING + frame(0, message(b"")) + OK) as address:
        assert answer(address) == b""


@pytest.mark.parametrize(
    ("said", "status", "reason"),
    [
        (b"", "lost", "the connection was closed"),
        (OPENING + frame(0, message(b"abc")[:-1]), "lost", "closed"),
        (OPENING + frame(0, message(b"abc")[:-1]) + OK, "lost", "ends too soon"),
        (OPENING + frame(0, b"\0\x80\0\0\0" + b"little") + OK, "lost", "ends too soon"),
        (OPENING + frame(0, b"\0\x80\0\0\1" + b"little") + OK, "lost", "2,147,483,649 bytes, above the limit"),
        (OPENING + frame(0, message(b"abc") + b"d") + OK, "lost", "several messages"),
        (OPENING + frame(0, b"\1" + message(b"abc")[1:]) + OK, "lost", "compressed"),
        (frame(3, b"\0\0\0\7"), "unreachable", "REFUSED_STREAM"),
        (frame(3, b"\0\0\0\x08"), "lost", "CANCEL"),
        (frame(7, bytes(8) + b"bye", stream=0), "unreachable", "bye"),
        (frame(7, b"\0\0\0\1\0\0\0\x0b", stream=0), "lost", "ENHANCE_YOUR_CALM"),
        (frame(1, b"\x8d", WHOLE | END), "refused", "HTTP status 404"),
        (frame(1, b"\x88" + field("grpc-status", "0"), WHOLE | END), "refused", "no message"),
        (frame(1, b"\x88" + field("grpc-status", "14"), WHOLE | END), "lost", "UNAVAILABLE"),
        (frame(1, b"\x88" + field("grpc-status", "13") + field("grpc-message", "no%20%C3%A4%0A disk"), WHOLE | END),
         "refused", "INTERNAL: no ä disk"),
        (frame(1, b"\x88" + field("grpc-status", "x"), WHOLE | END), "refused", "status x"),
        (frame(1, b"\xff\xff\xff\xff\xff\xff", WHOLE | END), "lost", "does not speak HTTP/2"),
        (frame(1, b"\xbe", WHOLE | END), "lost", "does not speak HTTP/2"),
        (frame(1, b"\x10\x7f", WHOLE | END), "lost", "does not speak HTTP/2"),
        (frame(1, b"\x88") + frame(0, b""), "lost", "does not speak HTTP/2"),
        (b"\xff" * 50, "lost", "closed"),
    ],
)  # fmt: skip
def test_what_goes_wrong_is_said(said: bytes, status: str, reason: str) -> None:
    error = failure(said)
    assert (error.status, reason in error.reason) == (status, True), error


@pytest.mark.parametrize(
    "part",
    [frame(6, b"a ping!!", stream=0), frame(0, b""), frame(4, b"", stream=0), frame(0x77, b"x" * 1000)]
    + [frame(0, b"\xff" + bytes(255), PADDED), frame(1, b"\x08\x03103", WHOLE)],
    ids=["pings", "no data", "settings", "unknown frames", "padding", "early hints"],
)
def test_what_is_sent_beside_an_answer_is_bounded(part: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    """However long the call may last."""
    bound = rounds(workers._MOST_BESIDE, 1 << 17)
    monkeypatch.setattr(workers, "_MOST_BESIDE", bound)
    error = failure(OPENING * (part[3] != 1) + part * (4_000_000 // len(part)))
    assert (error.status, "most of them outside the answer" in error.reason) == ("lost", True), error
    assert int(error.reason.partition(" bytes")[0].replace(",", "")) < bound + 950_000


def test_an_answer_in_small_frames_is_an_answer() -> None:
    text = bytes(300_000)
    data = message(text)
    parts = b"".join(frame(0, data[at : at + 12]) for at in range(0, len(data), 12))
    with saying(OPENING + parts + OK) as address:
        assert answer(address) == text


@pytest.mark.parametrize("settings", [b"", b"HTTP/1.1 400 Bad Request\r\n\r\n", b"SSH-2.0-x\r\n", frame(1, b"\x88")])
def test_servers_of_other_protocols_are_unreachable(settings: bytes) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        address = f"127.0.0.1:{listening.getsockname()[1]}"

        def serve() -> None:
            one, _ = listening.accept()
            with one:
                one.sendall(settings)

        thread = threading.Thread(target=serve)
        thread.start()
        with pytest.raises(CallError) as caught:
            answer(address)
        thread.join()
    assert caught.value.status == "unreachable"


def test_silence_ends_at_the_deadline_or_when_it_is_cancelled() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        address = f"127.0.0.1:{listening.getsockname()[1]}"
        with pytest.raises(CallError) as caught:
            answer(address, 0.05)
        assert caught.value.status == "late"
        with ServerConnection(parse_address(address)) as connection:
            ending = threading.Timer(0.05, connection.cancel)
            ending.start()
            with pytest.raises(CallError) as caught:
                connection.answer("/a/B", b"", None)
            assert caught.value.status == "cancelled"
            ending.join()
            with pytest.raises(CallError, match="cancelled"):
                connection.answer("/a/B", b"", None)


def test_whatever_a_server_says_is_an_answer_or_a_failure() -> None:
    chance = random.Random(18)
    sound = OPENING + frame(0, message(b"abcdefgh")) + OK
    for _ in range(60):
        said = bytearray(sound)
        for _ in range(chance.randrange(1, 4)):
            said[chance.randrange(len(said))] = chance.randrange(256)
        with saying(bytes(said)) as address, suppress(CallError):
            assert len(answer(address)) <= 8


MANY = put(1, 1) * 2000
HOSTILE = {
    "tools": (service_messages.parse_profile_answer, put(6, MANY) * 500),
    "fields": (service_messages.parse_profile_answer, MANY * 500),
    "figures": (service_messages.parse_monitor_answer, put(10, MANY) * 500),
}


@pytest.mark.parametrize("what", HOSTILE)
def test_few_fields_of_an_answer_are_read(what: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A gigabyte has room for half a billion fields."""
    count = count_fields(monkeypatch)
    parse, data = HOSTILE[what]
    with pytest.raises(BadMessageError, match="more than"):
        parse(memoryview(data))
    assert len(count) <= 10_001


def test_few_fields_of_a_capture_in_pieces_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    count = count_fields(monkeypatch)
    pieces = (memoryview(put(5, "x") * 2000),) * 500
    with pytest.raises(BadMessageError, match="it has no plane"):
        service_messages.check_capture(pieces)
    assert service_messages.list_hostnames(pieces) == []
    assert len(count) <= 20_000


def count_fields(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Return the numbers of the fields that are read from now on."""
    numbers: list[int] = []
    read = messages.read_fields

    def counted(data: memoryview, begin: int = 0) -> Iterator[messages.Field]:
        for one in read(data, begin):
            numbers.append(one.number)
            yield one

    monkeypatch.setattr(messages, "read_fields", counted)
    return numbers
