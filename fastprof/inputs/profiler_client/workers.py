"""Captures of several workers at once: each is called by a thread of its own, so that none waits for another. A call
goes over a socket of its own; the frames of HTTP/2 are h2's business.

All begin at one moment, on their own clocks. What a worker delivers is saved in its thread as soon as it comes; what it
does not deliver is an outcome with a reason. A worker is called again only if it cannot have begun: it could not be
reached, or was busy with another capture.

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

import importlib.util
import mmap
import re
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import field, replace
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import unquote

from fastprof.errors import FastprofError, UsageError
from fastprof.inputs.message import BadMessageError
from fastprof.inputs.profiler_client.profiler_servers import Address
from fastprof.inputs.profiler_client.service_messages import (
    MONITOR,
    PROFILE,
    SNAPSHOT,
    START,
    STOP,
    TERMINATE,
    CaptureRequest,
    check_capture,
    list_hostnames,
    make_monitor_request,
    make_terminate_request,
    parse_monitor_answer,
    parse_profile_answer,
)
from fastprof.inputs.profiler_client.statuses import (
    AGAIN,
    BAD_ANSWER,
    BUSY,
    CANCELLED,
    DELIVERED,
    DONE,
    EMPTY,
    LATE,
    LOST,
    ON_SERVER,
    REFUSED,
    TOO_LARGE,
    UNREACHABLE,
    UNSUPPORTED,
    UNWRITTEN,
    WRITTEN,
)
from fastprof.schema.value_classes import dataclass
from fastprof.wording.patterns import compile_late

if TYPE_CHECKING:
    from h2.events import Event


STATUS: Final = ":status"
_WINDOW: Final = 8 << 20
"""How many bytes of the answer may be on their way."""
_USUAL_WINDOW: Final = 65_535
_READ: Final = 1 << 18
_STREAM: Final = 1
MOST_ANSWERED: Final = 1 << 31
"""Bytes of the largest protobuf message."""
_MOST_REPORTED: Final = 1 << 24
"""Bytes of the largest answer without a capture."""
_MOST_BESIDE: Final = 1 << 20
"""Bytes that a server may send beside its answer, plus the current size of the answer: small frames and keep-alive
pings add overhead."""
_PREFIX: Final = 5
"""Header of a message: a byte, 1 if it is compressed, and its length in four bytes."""


class ProtocolError(Exception):
    """The server does not speak HTTP/2 or gRPC, or ends the call. ``has_begun``: whether it may have begun it."""

    def __init__(self, text: str, *, has_begun: bool = True) -> None:
        super().__init__(text)
        self.has_begun = has_begun


@dataclass(frozen=True, slots=True)
class GrpcReply:
    """``fields``: header fields, the last of each name. ``message``: what was answered; None: no message came."""

    fields: Mapping[str, str]
    message: memoryview | None


class GrpcCall:
    """A call on a connected socket. ``deadline``: of ``time.monotonic``, or None. ``most``: bytes that the answer may
    have. Raises OSError, TimeoutError at the deadline, and ProtocolError, also for a server that sends more."""

    def __init__(self, connected: socket.socket, deadline: float | None, most: int = MOST_ANSWERED) -> None:
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
        self._message = _Message(most)
        self._received = 0
        self._unread = bytearray()
        self._fields: dict[str, str] = {}
        self._is_open = self._has_ended = False

    def open(self) -> None:
        """Wait until the server has shown that it speaks HTTP/2."""
        self._h2.initiate_connection()
        self._h2.increment_flow_control_window(_WINDOW - _USUAL_WINDOW)
        self._send()
        while not self._is_open:
            self._receive()

    def reply(self, authority: str, path: str, request: bytes) -> GrpcReply:
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
            # A timeout has at most eight digits and a unit.
            milliseconds = max(1, int(1000 * (self.deadline - time.monotonic())))
            fields.append(("grpc-timeout", f"{milliseconds}m" if milliseconds < 10**8 else f"{milliseconds // 1000}S"))
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
        return GrpcReply(self._fields, self._message.whole())

    def _receive(self) -> None:
        from h2.exceptions import ProtocolError as Broken

        self._await()
        data = self._socket.recv(_READ)
        if not data:
            raise ProtocolError("the connection was closed")
        self._received += len(data)
        if self._received > 2 * self._message.received + _MOST_BESIDE:
            raise ProtocolError(f"{self._received:,} bytes came, most of them outside the answer")
        try:
            self._unread += data
            while frame := self._frame():
                for event in self._h2.receive_data(frame):
                    self._on(event)
            self._send()
        except (Broken, UnicodeDecodeError) as error:
            raise ProtocolError(f"the server does not speak HTTP/2: {error or type(error).__name__}") from None

    def _frame(self) -> bytes:
        """Return the next frame; nothing if it has not come. h2 takes one at a time, so that it goes on after a
        GOAWAY."""
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
            reason = _name_error(event.error_code) or "no reason"
            raise ProtocolError(f"the server ended the call: {reason}", has_begun=not refused)
        elif isinstance(event, events.ConnectionTerminated) and not self._has_ended:
            self._on_end(event.last_stream_id or 0, event.error_code, event.additional_data or b"")

    def _on_end(self, last_stream: int, error: int | None, text: bytes) -> None:
        """The server ends the connection, after the streams up to ``last_stream``."""
        from h2.connection import ConnectionState

        if last_stream < _STREAM or error:
            reason = " ".join(part for part in (_name_error(error), text[:200].decode("utf-8", "replace")) if part)
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
    """An answer on its way: the prefix, then the message, in memory of its size, which is at most ``most``."""

    def __init__(self, most: int) -> None:
        self._most = most
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
                raise ProtocolError("a compressed answer, which was not requested")
            if length > self._most:
                raise ProtocolError(f"an answer of {length:,} bytes, above the limit of {self._most:,}")
            try:
                self._body = memoryview(mmap.mmap(-1, length, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS) if length else b"")
            except OSError:
                raise ProtocolError(f"an answer of {length:,} bytes does not fit into memory") from None
        if data and self._body is not None:
            if len(data) > len(self._body) - self._at:
                raise ProtocolError("an answer of several messages")
            self._body[self._at : self._at + len(data)] = data
            self._at += len(data)

    @property
    def received(self) -> int:
        return len(self._prefix) + self._at

    def whole(self) -> memoryview | None:
        if not self._prefix:
            return None
        if self._body is None or self._at < len(self._body):
            raise ProtocolError("an answer that ends too soon")
        return self._body


def _name_error(code: Any) -> str:
    """Return the name of an error of HTTP/2; nothing for none."""
    return "" if not code else getattr(code, "name", f"error {code}")


_CONNECTING_S: Final = 20.0
_BUSY: Final = compile_late(r"another profil|already running", re.I)
_LONGEST: Final = 400
_CODES: Final = (
    "OK", "CANCELLED", "UNKNOWN", "INVALID_ARGUMENT", "DEADLINE_EXCEEDED", "NOT_FOUND", "ALREADY_EXISTS",
    "PERMISSION_DENIED", "RESOURCE_EXHAUSTED", "FAILED_PRECONDITION", "ABORTED", "OUT_OF_RANGE", "UNIMPLEMENTED",
    "INTERNAL", "UNAVAILABLE", "DATA_LOSS", "UNAUTHENTICATED",
)  # fmt: skip
"""gRPC's, by number."""
_STATUSES: Final = {
    "UNAVAILABLE": LOST,  # it has the request, and may have begun
    "ALREADY_EXISTS": BUSY,
    "DEADLINE_EXCEEDED": LATE,
    "UNIMPLEMENTED": UNSUPPORTED,
    "RESOURCE_EXHAUSTED": TOO_LARGE,
    "CANCELLED": LOST,
}


class CallError(Exception):
    """``status``: see ``statuses``. ``reason``: what the server, or the network, says."""

    def __init__(self, status: str, reason: str = "") -> None:
        super().__init__(status, reason)
        self.status = status
        self.reason = reason


def check_installed() -> None:
    if importlib.util.find_spec("h2") is None:
        raise UsageError("capturing needs h2: pip install h2")


class ServerConnection:
    """Connections to one server, for calls from several threads, each over a socket of its own. A context manager;
    leaving it ends the calls."""

    def __init__(self, address: Address) -> None:
        self._address = address
        self._lock = threading.Lock()
        self._sockets: list[socket.socket] = []
        self._is_cancelled = False

    def __enter__(self) -> ServerConnection:
        return self

    def __exit__(self, *_: object) -> None:
        self.cancel()

    def answer(self, method: str, request: bytes, timeout_s: float | None, most: int = MOST_ANSWERED) -> memoryview:
        """Blocks. ``most``: bytes that the answer may have. Raises CallError."""
        deadline = None if timeout_s is None else time.monotonic() + timeout_s
        try:
            return _get_answer(self._reply(method, request, deadline, most))
        except CallError:
            if self._is_cancelled:
                raise CallError(CANCELLED) from None
            raise

    def cancel(self) -> None:
        """End the calls: their servers end what they record, and calls that follow are not made."""
        with self._lock:
            self._is_cancelled = True
            for connection in self._sockets:
                with suppress(OSError):
                    connection.shutdown(socket.SHUT_RDWR)

    def _reply(self, method: str, request: bytes, deadline: float | None, most: int) -> GrpcReply:
        """Send a request and return the reply. A server that never showed HTTP/2 is unreachable, not lost: it has no
        request."""
        until = time.monotonic() + _CONNECTING_S
        until = until if deadline is None else min(until, deadline)
        status = UNREACHABLE
        try:
            with self._connected(until) as connected:
                call = GrpcCall(connected, until, most)
                call.open()
                status, call.deadline = LOST, deadline
                return call.reply(str(self._address), method, request)
        except ProtocolError as error:
            raise CallError(status if error.has_begun else UNREACHABLE, str(error)) from None
        except OSError as error:
            if isinstance(error, TimeoutError) and deadline is not None and time.monotonic() >= deadline:
                raise CallError(LATE) from None
            why = "it did not answer in time" if isinstance(error, TimeoutError) else error.strerror or str(error)
            raise CallError(status, why) from None

    @contextmanager
    def _connected(self, until: float) -> Iterator[socket.socket]:
        """Raises OSError."""
        where = self._address.host.strip("[]"), self._address.port
        with socket.create_connection(where, max(0.001, until - time.monotonic())) as connected:
            connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            with self._lock:
                if self._is_cancelled:
                    raise OSError
                self._sockets.append(connected)
            try:
                yield connected
            finally:
                with self._lock:
                    self._sockets.remove(connected)


def _get_answer(reply: GrpcReply) -> memoryview:
    number = reply.fields.get("grpc-status")
    if number is None:
        raise CallError(REFUSED, f"it does not speak gRPC: HTTP status {reply.fields.get(STATUS, 'unknown')[:20]}")
    code = (
        _CODES[int(number)]
        if number.isdecimal() and len(number) < 3 and int(number) < len(_CODES)
        else f"status {number[:20]}"
    )
    if code == "OK":
        if reply.message is None:
            raise CallError(REFUSED, "its answer has no message")
        return reply.message
    details = " ".join(unquote(reply.fields.get("grpc-message", "")).split())[:_LONGEST]
    status = BUSY if _BUSY.search(details) else _STATUSES.get(code, REFUSED)
    raise CallError(status, f"{code}: {details}" if details else code)


_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.5, 10.0
_LEAST_GRACE_S: Final = 300.0
"""Seconds for the answer after a capture has ended: its server makes the XSpace and sends it, and gigabytes take
minutes."""
_TERMINATE_S: Final = 5.0
"""A server that does not answer this soon will not end its capture early either."""
_GIVING_UP_S: Final = 2.0
"""A search for the address of a name cannot be ended. Its thread makes no call, and is not waited for longer."""

Save = Callable[[str, Sequence[memoryview]], str]
"""Writes the capture of a host; returns the file. Called from threads, one a worker. Raises FastprofError, OSError."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """The outcome of one worker. ``size``: bytes of its capture; ``file``: where it was written, here or on the
    server."""

    address: str
    host: str
    status: str
    reason: str = ""
    size: int = 0
    attempts: int = 1
    file: str = ""

    @property
    def delivered(self) -> bool:
        return self.status in DELIVERED


@dataclass(frozen=True, slots=True)
class CapturePlan:
    """``start_ns``: Unix time at which all begin, 0 for at once. ``grace_s``: how long after the end of the capture an
    answer may take; None: five minutes, or as long as the capture if that is longer."""

    attempts: int = 3
    start_ns: int = 0
    grace_s: float | None = None
    recorded_hosts: bool = False
    """True if captures are named after the machine that they record, instead of the address."""


@dataclass(slots=True)
class Worker:
    """A server, and what is requested of it."""

    address: Address
    request: CaptureRequest
    plan: CapturePlan
    save: Save | None
    """None: the server writes."""
    methods: tuple[str, ...] = (PROFILE,)
    """The names of the call. A server that does not know one is called by the next."""
    outcome: Outcome | None = None
    has_answer: bool = False
    _connection: ServerConnection | None = None
    _stopped: threading.Event = field(default_factory=threading.Event)

    def perform(self) -> None:
        """Set the outcome; never raises."""
        pause = _FIRST_PAUSE_S
        for attempt in range(1, self.plan.attempts + 1):
            outcome = replace(self._attempt(), attempts=attempt)
            if outcome.status not in AGAIN or attempt == self.plan.attempts or self._stopped.wait(pause):
                break
            pause = min(2 * pause, _LONGEST_PAUSE_S)
        self.outcome = outcome

    def _attempt(self) -> Outcome:
        try:
            with ServerConnection(self.address) as connection:
                self._connection = connection
                if self._stopped.is_set():  # before there was a connection to stop
                    raise CallError(CANCELLED)
                data = self._called(connection)
            self.has_answer = True
            return self.ended(DONE) if self.methods in (START, STOP) else self._saved(data)
        except CallError as failure:
            return self.ended(failure.status, failure.reason)
        except BadMessageError as error:
            return self.ended(BAD_ANSWER, f"{error.text} (at byte {error.at:,} of the answer)")
        except (FastprofError, OSError) as error:
            return self.ended(UNWRITTEN, str(error))
        except Exception as error:  # noqa: BLE001  a thread has no caller: whatever it is, it is an outcome
            return self.ended(UNWRITTEN, f"internal error: {type(error).__name__}: {error}")
        finally:
            self._connection = None

    def _called(self, connection: ServerConnection) -> memoryview:
        request = replace(self.request, start_ns=self.plan.start_ns)
        message = b"" if self.methods in (SNAPSHOT, STOP) else request.to_bytes()
        for method in self.methods[:-1]:
            try:
                return connection.answer(method, message, self._timeout_s())
            except CallError as error:
                if error.status != UNSUPPORTED:
                    raise
        return connection.answer(self.methods[-1], message, self._timeout_s())

    def _timeout_s(self) -> float:
        seconds = self.request.options.duration_ms / 1000
        lead = max(0.0, self.plan.start_ns / 1e9 - time.time())
        return lead + seconds + (max(_LEAST_GRACE_S, seconds) if self.plan.grace_s is None else self.plan.grace_s)

    def _saved(self, data: memoryview) -> Outcome:
        answer = parse_profile_answer(data)
        if self.save is None:
            file = f"{self.request.root}/{self.request.session}/{self.request.override or self.request.host}.xplane.pb"
            return self.ended(EMPTY if answer.empty else ON_SERVER, file=file)
        if not answer.size:
            reason = "" if answer.empty else "the answer has no capture: the server may be too old to send it"
            return self.ended(EMPTY if answer.empty else BAD_ANSWER, reason)
        if not answer.empty:
            try:
                check_capture(answer.pieces)
            except BadMessageError as error:
                where = f" (at byte {error.at:,})" if error.at else ""
                reason = f"{answer.size:,} bytes came that are not a capture, and were not written: {error.text}{where}"
                return self.ended(BAD_ANSWER, reason)
        names = list_hostnames(answer.pieces) if self.plan.recorded_hosts else []
        host = names[0] if names else self.request.override or self.request.host
        file = self.save(host, answer.pieces)
        return replace(self.ended(EMPTY if answer.empty else WRITTEN, size=answer.size, file=file), host=host)

    def ended(self, status: str, reason: str = "", *, size: int = 0, file: str = "") -> Outcome:
        host = self.request.override or self.request.host
        return Outcome(str(self.address), host, status, reason, size, file=file)

    def terminate(self) -> None:
        """End the capture early and keep what was recorded. A server that does not hear it is cancelled."""
        self._stopped.set()
        connection = self._connection
        if connection is None:
            return
        try:
            connection.answer(TERMINATE, make_terminate_request(self.request.session), _TERMINATE_S, _MOST_REPORTED)
        except CallError:
            connection.cancel()

    def cancel(self) -> None:
        self._stopped.set()
        connection = self._connection
        if connection is not None:
            connection.cancel()


def monitor_server(address: Address, duration_ms: int, level: int, grace_s: float) -> tuple[str, dict[str, float]]:
    """Return what a server reports of itself: the text for people, and figures. Raises CallError."""
    request = make_monitor_request(duration_ms, level, timestamp=True)
    with ServerConnection(address) as connection:
        data = connection.answer(MONITOR, request, duration_ms / 1000 + grace_s, _MOST_REPORTED)
    try:
        return parse_monitor_answer(data)
    except BadMessageError as error:
        raise CallError(BAD_ANSWER, error.text) from None


class Crew:
    """All workers of one capture. A context manager; leaving it cancels those that have not answered."""

    def __init__(self, workers: Sequence[Worker]) -> None:
        self.workers = workers
        self._threads = [threading.Thread(target=worker.perform, daemon=True) for worker in workers]

    def __enter__(self) -> Crew:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.cancel()
        end = time.monotonic() + _GIVING_UP_S
        for worker, thread in zip(self.workers, self._threads, strict=True):
            thread.join(max(0.0, end - time.monotonic()))
            if worker.has_answer:  # and saves it
                thread.join()

    @property
    def answered(self) -> int:
        return sum(not thread.is_alive() for thread in self._threads)

    def wait(self, seconds: float) -> bool:
        """Return whether all have ended, after at most this time."""
        end = time.monotonic() + seconds
        for thread in self._threads:
            thread.join(max(0.0, end - time.monotonic()))
        return self.answered == len(self._threads)

    def terminate(self) -> None:
        """Ask all sockets to end their calls; return at once."""
        for worker in self.workers:
            threading.Thread(target=worker.terminate, daemon=True).start()

    def cancel(self) -> None:
        for worker in self.workers:
            worker.cancel()

    def outcomes(self) -> list[Outcome]:
        return [worker.outcome or worker.ended(CANCELLED) for worker in self.workers]
