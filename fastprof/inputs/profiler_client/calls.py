"""Calls of one server: what it answers, or why it does not."""

from __future__ import annotations

import importlib.util
import re
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Final
from urllib.parse import unquote

from fastprof.errors import UsageError
from fastprof.inputs.profiler_client.http2 import STATUS, Call, ProtocolError, Reply
from fastprof.inputs.profiler_client.statuses import (
    BUSY,
    CANCELLED,
    LATE,
    LOST,
    REFUSED,
    TOO_LARGE,
    UNREACHABLE,
    UNSUPPORTED,
)
from fastprof.wording.patterns import pattern_of

if TYPE_CHECKING:
    from fastprof.inputs.profiler_client.addresses import Address

_CONNECTING_S: Final = 20.0
_BUSY: Final = pattern_of(r"another profil|already running", re.I)
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
        raise UsageError("capturing needs h2; install it with: pip install 'fastprof-arrow[capture]'")


class Connection:
    """To one server, for calls from several threads, each over a socket of its own. A context manager; leaving it ends
    the calls."""

    def __init__(self, address: Address) -> None:
        self._address = address
        self._lock = threading.Lock()
        self._sockets: list[socket.socket] = []
        self._is_cancelled = False

    def __enter__(self) -> Connection:
        return self

    def __exit__(self, *_: object) -> None:
        self.cancel()

    def answer(self, method: str, request: bytes, timeout_s: float | None) -> memoryview:
        """Blocks. Raises CallError."""
        deadline = None if timeout_s is None else time.monotonic() + timeout_s
        try:
            return _answer(self._reply(method, request, deadline))
        except CallError:
            if self._is_cancelled:
                raise CallError(CANCELLED) from None
            raise

    def cancel(self) -> None:
        """End the calls: their servers end what they record, and calls that follow are not made."""
        with self._lock:
            self._is_cancelled = True
            for one in self._sockets:
                with suppress(OSError):
                    one.shutdown(socket.SHUT_RDWR)

    def _reply(self, method: str, request: bytes, deadline: float | None) -> Reply:
        """Until the server has shown that it speaks HTTP/2 it has no request, so it is unreachable; then it is lost."""
        until = time.monotonic() + _CONNECTING_S
        until = until if deadline is None else min(until, deadline)
        status = UNREACHABLE
        try:
            with self._connected(until) as connected:
                call = Call(connected, until)
                call.open()
                status, call.deadline = LOST, deadline
                return call.reply(str(self._address), method, request)
        except ProtocolError as error:
            raise CallError(status if error.has_begun else UNREACHABLE, str(error)) from None
        except OSError as error:
            if isinstance(error, TimeoutError) and deadline is not None and time.monotonic() >= deadline:
                raise CallError(LATE) from None
            raise CallError(status, _reason(error)) from None

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


def _answer(reply: Reply) -> memoryview:
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


def _reason(error: OSError) -> str:
    return "it did not answer in time" if isinstance(error, TimeoutError) else error.strerror or str(error)
