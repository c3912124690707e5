"""One call of a gRPC server over a socket of its own. The frames are h2's business; ours is what a call is.

    client                                            server
      settings, window  ──────────────────────────────►
                                        ◄──────────────  settings
      header fields, the request        ──────────────►            from here on it may have begun
                                        ◄──────────────  header fields, data …: the answer
      the window moves on               ──────────────►
                                        ◄──────────────  header fields: the status

The answer is received into memory of its own size, once: it begins with its length, and memory that nothing was written
to takes no room, so a length that is a lie costs nothing. grpcio holds an answer three times.
"""

from __future__ import annotations

import mmap
import socket
import struct
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from fastprof.schema.value_classes import dataclass

if TYPE_CHECKING:
    from h2.events import Event

STATUS: Final = ":status"
_WINDOW: Final = 8 << 20
"""How many bytes of the answer may be on their way."""
_USUAL_WINDOW: Final = 65_535
_READ: Final = 1 << 18
_STREAM: Final = 1
_PREFIX: Final = 5
"""Before a message: whether it is compressed, and its length in four bytes."""


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


class Call:
    """On a connected socket. ``deadline``: of ``time.monotonic``; None: none. Raises OSError, TimeoutError at the
    deadline, and ProtocolError."""

    def __init__(self, connected: socket.socket, deadline: float | None) -> None:
        from h2.config import H2Configuration
        from h2.connection import H2Connection
        from h2.settings import SettingCodes, Settings

        self.deadline = deadline
        self._socket = connected
        self._h2 = H2Connection(H2Configuration(client_side=True, header_encoding=None))
        self._h2.local_settings = Settings(
            client=True,
            initial_values={SettingCodes.ENABLE_PUSH: 0, SettingCodes.INITIAL_WINDOW_SIZE: _WINDOW},
        )
        self._message = _Message()
        self._unread = bytearray()
        self._fields: dict[str, str] = {}
        self._is_open = self._has_ended = False

    def open(self) -> None:
        """Returns when the server has shown that it speaks HTTP/2."""
        self._h2.initiate_connection()
        self._h2.increment_flow_control_window(_WINDOW - _USUAL_WINDOW)
        self._send()
        while not self._is_open:
            self._receive()

    def reply(self, authority: str, path: str, request: bytes) -> Reply:
        fields = [
            (":method", "POST"),
            (":scheme", "http"),
            (":path", path),
            (":authority", authority),
            ("te", "trailers"),
            ("content-type", "application/grpc"),
            ("user-agent", "fastprof"),
        ]
        if self.deadline is not None:
            fields.append(("grpc-timeout", _timeout(self.deadline - time.monotonic())))
        body = struct.pack(">BI", 0, len(request)) + request
        if len(body) > self._h2.outbound_flow_control_window:
            raise ProtocolError("the request is too large", has_begun=False)
        self._h2.send_headers(_STREAM, fields)
        most = self._h2.max_outbound_frame_size
        for at in range(0, len(body), most):
            self._h2.send_data(_STREAM, body[at : at + most], end_stream=at + most >= len(body))
        self._send()
        while not self._has_ended:
            self._receive()
        return Reply(self._fields, self._message.whole())

    def _receive(self) -> None:
        from h2.exceptions import ProtocolError as Broken

        self._await()
        data = self._socket.recv(_READ)
        if not data:
            raise ProtocolError("the connection was closed")
        try:
            self._unread += data
            while frame := self._frame():
                for event in self._h2.receive_data(frame):
                    self._on(event)
            self._send()
        except (Broken, UnicodeDecodeError) as error:
            raise ProtocolError(f"the server does not speak HTTP/2: {error or type(error).__name__}") from None

    def _frame(self) -> bytes:
        """The next frame; nothing if it has not come. h2 takes one at a time, so that it goes on after a GOAWAY."""
        end = 9 + int.from_bytes(self._unread[:3], "big")
        if len(self._unread) < 9 or len(self._unread) < end <= 9 + self._h2.max_inbound_frame_size:
            return b""
        frame = bytes(self._unread[:end])
        del self._unread[:end]
        return frame

    def _on(self, event: Event) -> None:
        from h2 import events

        if isinstance(event, events.DataReceived):
            self._message.add(event.data)
            self._h2.acknowledge_received_data(event.flow_controlled_length, _STREAM)
        elif isinstance(event, events.ResponseReceived | events.TrailersReceived):
            fields = event.headers or ()
            self._fields |= {name.decode(): value.decode("utf-8", "replace") for name, value in fields}
        elif isinstance(event, events.StreamEnded):
            self._has_ended = True
        elif isinstance(event, events.RemoteSettingsChanged):
            self._is_open = True
        elif isinstance(event, events.StreamReset) and not self._has_ended:
            refused = event.error_code == 7  # REFUSED_STREAM
            reason = _error(event.error_code) or "no reason"
            raise ProtocolError(f"the server ended the call: {reason}", has_begun=not refused)
        elif isinstance(event, events.ConnectionTerminated) and not self._has_ended:
            self._on_end(event.last_stream_id or 0, event.error_code, event.additional_data or b"")

    def _on_end(self, last_stream: int, error: int | None, text: bytes) -> None:
        """The server ends the connection, after the streams up to ``last_stream``."""
        from h2.connection import ConnectionState

        if last_stream < _STREAM or error:
            reason = " ".join(one for one in (_error(error), text[:200].decode("utf-8", "replace")) if one)
            raise ProtocolError(f"the server closed the connection: {reason}", has_begun=last_stream >= _STREAM)
        self._h2.state_machine.state = ConnectionState.CLIENT_OPEN  # it finishes our call; h2 takes it for closed

    def _send(self) -> None:
        data = self._h2.data_to_send()
        if data:
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
        self._prefix = b""
        self._body: memoryview | None = None
        self._at = 0

    def add(self, data: bytes) -> None:
        own = _PREFIX - len(self._prefix)
        self._prefix += data[:own]
        data = data[own:] if own else data
        if self._body is None and len(self._prefix) == _PREFIX:
            compressed, length = struct.unpack(">BI", self._prefix)
            if compressed:
                raise ProtocolError("an answer that is compressed, which was not requested")
            self._body = _memory(length)
        if data and self._body is not None:
            if len(data) > len(self._body) - self._at:
                raise ProtocolError("an answer of several messages")
            self._body[self._at : self._at + len(data)] = data
            self._at += len(data)

    def whole(self) -> memoryview | None:
        if not self._prefix:
            return None
        if self._body is None or self._at < len(self._body):
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


def _error(code: Any) -> str:
    """The name of an error of HTTP/2; nothing for none."""
    return "" if not code else getattr(code, "name", f"error {code}")
