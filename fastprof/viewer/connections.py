"""Connections of the server: how many are open at once, and how long each may keep the server waiting.

Clients are strangers until their request has arrived and shown a token, so what they can take before that is bounded:
a connection at the limit is made room for by the one that has kept the server waiting longest.
"""

from __future__ import annotations

import asyncio
import contextlib
import sys
from collections import OrderedDict
from collections.abc import Callable
from typing import Any

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

from fastprof.schema.value_classes import dataclass
from fastprof.viewer.access import HEADERS
from fastprof.viewer.answers import error_answer

_PERIOD_S = 1.0
_REPORT_S = 60.0
_MOST_DESCRIPTORS = 8192

Note = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Limits:
    """``most``: connections at once. ``request_s``: from the start of a connection, or the first byte of a request on
    it, until the request has arrived. ``idle_s``: until the first byte of the next. ``unread_s``: while a client takes
    nothing of an answer. ``header_bytes``: of a request."""

    most: int = 1000
    request_s: float = 10.0
    idle_s: float = 60.0
    unread_s: float = 60.0
    header_bytes: int = 1 << 18


class Connections:
    """The open connections by what they are at, each group in the order in which they came to it.

    ``asking``: the request is not there; ``answered``: it is being answered; ``idle``: no request has begun. All run on
    the loop's thread. ``note``: receives what operators should know, at most once a minute.
    """

    def __init__(self, limits: Limits, note: Note) -> None:
        self.limits = limits
        self.most = min(limits.most, _descriptors() // 2)  # the other half: captures and stores
        self.asking: OrderedDict[Connection, float] = OrderedDict()
        self.answered: OrderedDict[Connection, float] = OrderedDict()
        self.idle: OrderedDict[Connection, float] = OrderedDict()
        self._note = note
        self._counts: dict[str, int] = {}
        self._loop = asyncio.get_running_loop()
        self._reported = self._loop.time() - _REPORT_S
        self._loop.set_exception_handler(self._note_fault)
        self._look()

    @property
    def batch(self) -> int:
        """Connections accepted in one go: these may be above the limit for a moment."""
        return max(1, min(64, self.most // 8))

    def put(self, connection: Connection, group: OrderedDict[Connection, float]) -> None:
        """Now in this group; one that is in it keeps its place."""
        if connection not in group:
            self.remove(connection)
            group[connection] = self._loop.time()

    def add(self, connection: Connection) -> None:
        """Makes room if there are too many: the one that came last, if all others are being answered."""
        self.put(connection, self.asking)
        if len(self.asking) + len(self.answered) + len(self.idle) > self.most:
            unread = (one for one in self.answered if one.unread)
            others = (one for one in self.asking if one is not connection)
            leaving = next(others, None) or next(iter(self.idle), None) or next(unread, connection)
            self._close(leaving, f"connections were closed because more than {self.most:,} were open")

    def remove(self, connection: Connection) -> None:
        for group in (self.asking, self.answered, self.idle):
            group.pop(connection, None)

    def _close(self, connection: Connection, why: str) -> None:
        self._count(why)
        self.remove(connection)
        connection.transport.abort()

    def _look(self) -> None:
        """Closes connections that are over their time, again and again."""
        now, limits = self._loop.time(), self.limits
        while self.asking and now - next(iter(self.asking.values())) > limits.request_s:
            late = f"connections were closed because their request was not there within {limits.request_s:g} s"
            self._close(next(iter(self.asking)), late)
        for one in [*self.answered, *self.idle]:
            if now - one.last_read(now) > limits.unread_s:
                self._close(one, f"connections were closed because they read nothing for {limits.unread_s:g} s")
        if self._counts and now - self._reported > _REPORT_S:
            self._reported, counts, self._counts = now, self._counts, {}
            self._note("; ".join(f"{count:,} {what}" for what, count in counts.items()))
        self._loop.call_later(min(_PERIOD_S, limits.request_s / 4), self._look)

    def _note_fault(self, _loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        """What asyncio would log at once, such as each connection that it cannot accept; it tries again in a second."""
        error = context.get("exception")
        self._count(f"times: {context.get('message', 'a fault')}" + (f" ({error})" if error else ""))

    def _count(self, what: str) -> None:
        if what in self._counts or len(self._counts) < 8:
            self._counts[what] = self._counts.get(what, 0) + 1


class Connection(H11Protocol):
    """One of ``all``. ``unread``: bytes of answers that the client has not taken, when last looked at."""

    def __init__(self, connections: Connections, **of_uvicorn: Any) -> None:
        super().__init__(**of_uvicorn)
        self.all = connections
        self.unread = 0
        self._read_at = 0.0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)  # type: ignore[arg-type]
        self.all.add(self)

    def connection_lost(self, exc: Exception | None) -> None:
        self.all.remove(self)
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self in self.all.idle:
            self.all.put(self, self.all.asking)
        super().data_received(data)
        self._settle()

    def send_400_response(self, _msg: str) -> None:
        """Refuses a request that cannot be parsed, as ``Gate`` and the application refuse others."""
        answer = error_answer(400, "this is not a valid HTTP/1.1 request", HEADERS | {"connection": "close"})
        head = h11.Response(status_code=400, headers=answer.raw_headers, reason=b"Bad Request")
        for event in (head, h11.Data(data=bytes(answer.body)), h11.EndOfMessage()):
            self.transport.write(self.conn.send(event) or b"")
        self.transport.close()

    def on_response_complete(self) -> None:
        super().on_response_complete()  # which begins with the next request, if that is there
        if not (self._settle() or self.transport.is_closing()):
            begun = self.conn.their_state is h11.SEND_BODY or self.conn.trailing_data[0]
            self.all.put(self, self.all.asking if begun else self.all.idle)

    def _settle(self) -> bool:
        """Whether a request is being answered."""
        if self.cycle is None or self.cycle.response_complete or self.transport.is_closing():
            return False
        self.all.put(self, self.all.answered)
        return True

    def last_read(self, now: float) -> float:
        """When the client last took something of an answer; now: it has all."""
        unread = self.transport.get_write_buffer_size()
        if unread != self.unread or not unread:
            self.unread, self._read_at = unread, now
        return self._read_at


def _descriptors() -> int:
    """How many the process may have, which is raised if the system allows it."""
    if sys.platform == "win32":
        return _MOST_DESCRIPTORS
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _MOST_DESCRIPTORS if hard == resource.RLIM_INFINITY else min(_MOST_DESCRIPTORS, hard)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        with contextlib.suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
            soft = wanted
    return _MOST_DESCRIPTORS if soft == resource.RLIM_INFINITY else soft
