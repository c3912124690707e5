"""One call of a gRPC server over a socket of its own: HTTP/2 without encryption (RFC 9113), as far as a call needs it.

    client                                            server
      preface, SETTINGS, WINDOW_UPDATE  ──────────────►
                                        ◄──────────────  SETTINGS
      HEADERS, DATA: the request        ──────────────►            from here on it may have begun
                                        ◄──────────────  HEADERS, DATA …: the answer, in frames of up to a mebibyte
      WINDOW_UPDATE: more may come      ──────────────►
                                        ◄──────────────  HEADERS: the status

The answer is received into memory of its own size, once: it begins with its length, and memory that nothing was written
to takes no room, so a length that is a lie costs nothing.
"""

from __future__ import annotations

import mmap
import socket
import struct
import time
from collections.abc import Iterator, Mapping
from io import BufferedReader
from typing import Final, NamedTuple, cast

from fastprof.inputs.profiler_client import header_block
from fastprof.inputs.profiler_client.header_block import BadHeadersError
from fastprof.schema.value_classes import dataclass

DATA, HEADERS, RESET, SETTINGS, PING, GO_AWAY, WINDOW_UPDATE, CONTINUATION = 0, 1, 3, 4, 6, 7, 8, 9
_END_STREAM, _ACK, _END_HEADERS, _PADDED, _PRIORITY = 1, 1, 4, 8, 32
_PREFACE: Final = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
_TABLE_SIZE, _PUSH, _WINDOW, _FRAME_SIZE = 1, 2, 4, 5
"""Settings."""
_OUR_WINDOW: Final = 8 << 20
"""How many bytes of the answer may be on their way."""
_USUAL_WINDOW: Final = 65_535
_MOST_OF_FRAME: Final = 1 << 20
_FRAME_WITHOUT_SETTINGS: Final = 1 << 14
_MOST_HEADERS: Final = 1 << 18
_BUFFER: Final = 1 << 16
_STREAM: Final = 1
_PREFIX: Final = 5
"""Before a message: whether it is compressed, and its length in four bytes."""
_REFUSED_STREAM: Final = 7
_ERRORS: Final = {1: "PROTOCOL_ERROR", 2: "INTERNAL_ERROR", 7: "REFUSED_STREAM", 8: "CANCEL", 11: "ENHANCE_YOUR_CALM"}


class ProtocolError(Exception):
    """The server does not speak HTTP/2 or gRPC, or ends the call. ``has_begun``: whether it may have begun it."""

    def __init__(self, text: str, *, has_begun: bool = True) -> None:
        super().__init__(text)
        self.has_begun = has_begun


@dataclass(frozen=True, slots=True)
class Reply:
    """``fields``: header fields, the last of each name. ``message``: what was answered; None: no message came."""

    fields: Mapping[str, str]
    message: memoryview | None


class _Frame(NamedTuple):
    length: int
    kind: int
    flags: int
    stream: int


class Call:
    """On a connected socket. ``deadline``: of ``time.monotonic``; None: none. Raises OSError, TimeoutError at the
    deadline, and ProtocolError. A context manager; leaving it lets go of the socket."""

    def __init__(self, connected: socket.socket, deadline: float | None) -> None:
        self._socket = connected
        self.deadline = deadline
        self._file = cast(BufferedReader, connected.makefile("rb", _BUFFER))
        self._message = _Message()
        self._taken = 0
        """Bytes that came since the server was last allowed to send more."""

    def __enter__(self) -> Call:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()  # a socket is closed with the last of its files

    def open(self) -> None:
        """Returns when the server has shown that it speaks HTTP/2."""
        wanted = {_TABLE_SIZE: 0, _PUSH: 0, _WINDOW: _OUR_WINDOW, _FRAME_SIZE: _MOST_OF_FRAME}
        settings = b"".join(struct.pack(">HI", name, value) for name, value in wanted.items())
        more = struct.pack(">I", _OUR_WINDOW - _USUAL_WINDOW)
        self._send(_PREFACE + _frame(SETTINGS, 0, 0, settings) + _frame(WINDOW_UPDATE, 0, 0, more))
        frame = self._head()
        if (frame.kind, frame.stream, frame.flags & _ACK) != (SETTINGS, 0, 0) or frame.length % 6:
            raise ProtocolError("the server does not speak HTTP/2")
        self._on_control(frame, self._exactly(frame.length))

    def reply(self, authority: str, path: str, request: bytes) -> Reply:
        fields = {
            ":method": "POST",
            ":scheme": "http",
            ":path": path,
            ":authority": authority,
            "te": "trailers",
            "content-type": "application/grpc",
            "user-agent": "fastprof",
        }
        if self.deadline is not None:
            fields["grpc-timeout"] = _timeout(self.deadline - time.monotonic())
        block = header_block.written(fields)
        body = struct.pack(">BI", 0, len(request)) + request
        if len(body) > _USUAL_WINDOW or len(block) > _FRAME_WITHOUT_SETTINGS:
            raise ProtocolError("the request is too large", has_begun=False)
        parts = [body[at : at + _FRAME_WITHOUT_SETTINGS] for at in range(0, len(body), _FRAME_WITHOUT_SETTINGS)]
        frames = [_frame(DATA, _END_STREAM * (part is parts[-1]), _STREAM, part) for part in parts]
        self._send(_frame(HEADERS, _END_HEADERS, _STREAM, block) + b"".join(frames))
        answered: dict[str, str] = {}
        for block in self._header_blocks():
            answered |= header_block.read(block)
        return Reply(answered, self._message.whole())

    def _header_blocks(self) -> Iterator[bytes]:
        """Blocks of header fields, until the stream ends; the message is taken meanwhile."""
        is_end = False
        while not is_end:
            frame = self._head()
            if frame.kind == DATA and frame.stream == _STREAM:
                self._take(frame)
                is_end = bool(frame.flags & _END_STREAM)
            elif frame.kind == HEADERS and frame.stream == _STREAM:
                yield self._header_block(frame)
                is_end = bool(frame.flags & _END_STREAM)
            else:
                self._on_control(frame, self._exactly(frame.length))

    def _header_block(self, frame: _Frame) -> bytes:
        block = _unpadded(frame, self._exactly(frame.length))
        while not frame.flags & _END_HEADERS:
            frame = self._head()
            if frame.kind != CONTINUATION or len(block) + frame.length > _MOST_HEADERS:
                raise ProtocolError("header fields that have no end")
            block += self._exactly(frame.length)
        return block

    def _take(self, frame: _Frame) -> None:
        left = frame.length
        padding = 0
        if frame.flags & _PADDED:
            padding = self._exactly(1)[0]
            left -= 1 + padding
            if left < 0:
                raise ProtocolError("padding that is longer than its frame")
        while left:
            space = self._message.space(left)
            self._await()
            count = self._file.readinto(space)
            if not count:
                raise ProtocolError("the connection was closed")
            self._message.came(count)
            left -= count
        self._exactly(padding)
        self._taken += frame.length
        if self._taken >= _OUR_WINDOW // 4:
            more = struct.pack(">I", self._taken)
            self._taken = 0
            self._send(_frame(WINDOW_UPDATE, 0, 0, more) + _frame(WINDOW_UPDATE, 0, _STREAM, more))

    def _on_control(self, frame: _Frame, payload: bytes) -> None:
        """Frames about the connection, and the end of the call."""
        if frame.kind == SETTINGS and not frame.flags & _ACK:
            self._send(_frame(SETTINGS, _ACK, 0, b""))
        elif frame.kind == PING and not frame.flags & _ACK:
            self._send(_frame(PING, _ACK, 0, payload))
        elif frame.kind == RESET and frame.stream == _STREAM and len(payload) == 4:
            (error,) = struct.unpack(">I", payload)
            name = _ERRORS.get(error, f"error {error}")
            raise ProtocolError(f"the server ended the call: {name}", has_begun=error != _REFUSED_STREAM)
        elif frame.kind == GO_AWAY and len(payload) >= 8:
            last, error = struct.unpack(">II", payload[:8])
            text = payload[8:200].decode("utf-8", "replace")
            if last < _STREAM or error:
                reason = " ".join(part for part in (_ERRORS.get(error, f"error {error}"), text) if part)
                raise ProtocolError(f"the server closed the connection: {reason}", has_begun=last >= _STREAM)

    def _head(self) -> _Frame:
        high, low, kind, flags, stream = struct.unpack(">BHBBI", self._exactly(9))
        frame = _Frame(high << 16 | low, kind, flags, stream & 0x7FFF_FFFF)
        if frame.length > _MOST_OF_FRAME:
            raise ProtocolError("the server does not speak HTTP/2")
        return frame

    def _exactly(self, size: int) -> bytes:
        data = b""
        while len(data) < size:
            self._await()
            part = self._file.read1(size - len(data))
            if not part:
                raise ProtocolError("the connection was closed")
            data += part
        return data

    def _send(self, data: bytes) -> None:
        self._await()
        self._socket.sendall(data)

    def _await(self) -> None:
        """The next wait ends at the deadline."""
        if self.deadline is None:
            self._socket.settimeout(None)
            return
        left = self.deadline - time.monotonic()
        if left <= 0:
            raise TimeoutError
        self._socket.settimeout(left)


class _Message:
    """An answer on its way: the prefix, then the message, in memory of its size."""

    def __init__(self) -> None:
        self._prefix = bytearray(_PREFIX)
        self._body: memoryview | None = None
        self._at = 0

    def space(self, most: int) -> memoryview:
        """Where the next bytes go, at most ``most`` of them."""
        if self._at < _PREFIX:
            return memoryview(self._prefix)[self._at : self._at + most]
        assert self._body is not None
        begin = self._at - _PREFIX
        if begin == len(self._body):
            raise ProtocolError("an answer of several messages")
        return self._body[begin : begin + most]

    def came(self, count: int) -> None:
        self._at += count
        if self._body is None and self._at == _PREFIX:
            compressed, length = struct.unpack(">BI", self._prefix)
            if compressed:
                raise ProtocolError("an answer that is compressed, which was not requested")
            self._body = _memory(length)

    def whole(self) -> memoryview | None:
        if not self._at:
            return None
        if self._body is None or self._at - _PREFIX < len(self._body):
            raise ProtocolError("an answer that ends too soon")
        return self._body


def _memory(length: int) -> memoryview:
    try:
        return memoryview(mmap.mmap(-1, length, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS) if length else b"")
    except OSError:
        raise ProtocolError(f"an answer of {length:,} bytes does not fit into memory") from None


def _timeout(seconds: float) -> str:
    """At most eight digits and a unit."""
    milliseconds = max(1, int(1000 * seconds))
    return f"{milliseconds}m" if milliseconds < 10**8 else f"{milliseconds // 1000}S"


def _frame(kind: int, flags: int, stream: int, payload: bytes) -> bytes:
    return struct.pack(">BHBBI", len(payload) >> 16, len(payload) & 0xFFFF, kind, flags, stream) + payload


def _unpadded(frame: _Frame, payload: bytes) -> bytes:
    begin, end = 0, len(payload)
    if frame.flags & _PADDED and payload:
        begin, end = 1, end - payload[0]
    if frame.flags & _PRIORITY:
        begin += 5
    if begin > end:
        raise BadHeadersError("padding that is longer than its frame")
    return payload[begin:end]
