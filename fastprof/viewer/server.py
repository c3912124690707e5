"""The server of the viewer: its addresses and who answers each, its connections, and the process that serves.

Clients are strangers until their request has arrived and shown a token, so what they can take before that is bounded: a
connection at the limit is made room for by the one that has kept the server waiting longest.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import sys
from collections import OrderedDict
from collections.abc import Callable
from functools import lru_cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import h11
import uvicorn
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from uvicorn.protocols.http.h11_impl import H11Protocol

from fastprof.errors import FastprofError, UnreadableError, UsageError
from fastprof.schema.value_classes import dataclass
from fastprof.viewer import run_answers, timeline_answers
from fastprof.viewer.answers import HEADERS, Body, Gate, get_status, make_answer, make_body, make_error_answer
from fastprof.viewer.query import RequestError, name_internal_error
from fastprof.viewer.server_state import ApiCall, ServerState, make_endpoint
from fastprof.viewer.viewed_runs import ViewedRuns

if TYPE_CHECKING:
    from fastprof.viewer.page_capture import PageCapture


_STATIC = Path(__file__).parent / "static"
_PERIOD_S = 1.0
_REPORT_S = 60.0
_MOST_DESCRIPTORS = 8192

Note = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class ConnectionLimits:
    """Limits of connections. ``most``: connections at once. ``request_s``: from the start of a connection, or the first
    byte of a request on it, until the request has arrived. ``idle_s``: until the first byte of the next. ``unread_s``:
    while a client takes nothing of an answer. ``header_bytes``: size of a request's header."""

    most: int = 1000
    request_s: float = 10.0
    idle_s: float = 60.0
    unread_s: float = 60.0
    header_bytes: int = 1 << 18


class Connections:
    """Open connections by what they are at, each group in the order in which they came to it.

    ``asking``: the request is not there; ``answered``: it is being answered; ``idle``: no request has begun. All run on
    the loop's thread. ``note``: receives what operators should know, at most once a minute.
    """

    def __init__(self, limits: ConnectionLimits, note: Note) -> None:
        self.limits = limits
        self.most = min(limits.most, _count_descriptors() // 2)  # the other half: captures and stores
        self.asking: OrderedDict[ClientConnection, float] = OrderedDict()
        self.answered: OrderedDict[ClientConnection, float] = OrderedDict()
        self.idle: OrderedDict[ClientConnection, float] = OrderedDict()
        self._note = note
        self._counts: dict[str, int] = {}
        self._loop = asyncio.get_running_loop()
        self._reported = self._loop.time() - _REPORT_S
        self._loop.set_exception_handler(self._note_fault)
        self._look()

    @property
    def batch(self) -> int:
        """Connections accepted in one go: these may be above the limit for a short time."""
        return max(1, min(64, self.most // 8))

    def put(self, connection: ClientConnection, group: OrderedDict[ClientConnection, float]) -> None:
        """Move a connection to this group; one that is in it keeps its place."""
        if connection not in group:
            self.remove(connection)
            group[connection] = self._loop.time()

    def add(self, connection: ClientConnection) -> None:
        """Add a connection, and close one if there are too many: this one if all others are being answered."""
        self.put(connection, self.asking)
        if len(self.asking) + len(self.answered) + len(self.idle) > self.most:
            unread = (client for client in self.answered if client.unread)
            others = (client for client in self.asking if client is not connection)
            leaving = next(others, None) or next(iter(self.idle), None) or next(unread, connection)
            self._close(leaving, f"connections were closed because more than {self.most:,} were open")

    def remove(self, connection: ClientConnection) -> None:
        for group in (self.asking, self.answered, self.idle):
            group.pop(connection, None)

    def _close(self, connection: ClientConnection, why: str) -> None:
        self._count(why)
        self.remove(connection)
        connection.transport.abort()

    def _look(self) -> None:
        """Close connections that are over their time, again and again."""
        now, limits = self._loop.time(), self.limits
        while self.asking and now - next(iter(self.asking.values())) > limits.request_s:
            late = f"connections were closed because their request was not there within {limits.request_s:g} s"
            self._close(next(iter(self.asking)), late)
        for connection in [*self.answered, *self.idle]:
            if now - connection.last_read(now) > limits.unread_s:
                self._close(connection, f"connections were closed because they read nothing for {limits.unread_s:g} s")
        if self._counts and now - self._reported > _REPORT_S:
            self._reported, counts, self._counts = now, self._counts, {}
            self._note("; ".join(f"{count:,} {what}" for what, count in counts.items()))
        self._loop.call_later(min(_PERIOD_S, limits.request_s / 4), self._look)

    def _note_fault(self, _loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        """Note what asyncio would log at once, such as each connection that it cannot accept; it tries again in a
        second."""
        error = context.get("exception")
        self._count(f"times: {context.get('message', 'a fault')}" + (f" ({error})" if error else ""))

    def _count(self, what: str) -> None:
        if what in self._counts or len(self._counts) < 8:
            self._counts[what] = self._counts.get(what, 0) + 1


class ClientConnection(H11Protocol):
    """Connection of ``all``. ``unread``: bytes of answers that the client has not taken, when last looked at."""

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
        """Refuse a request that cannot be parsed, as ``Gate`` and the application refuse others."""
        answer = make_error_answer(400, "this is not a valid HTTP/1.1 request", HEADERS | {"connection": "close"})
        head = h11.Response(status_code=400, headers=answer.raw_headers, reason=b"Bad Request")
        for event in (head, h11.Data(data=bytes(answer.body)), h11.EndOfMessage()):
            self.transport.write(self.conn.send(event) or b"")
        self.transport.close()

    def on_response_complete(self) -> None:
        super().on_response_complete()  # begins with the next request, if that is there
        if not (self._settle() or self.transport.is_closing()):
            begun = self.conn.their_state is h11.SEND_BODY or self.conn.trailing_data[0]
            self.all.put(self, self.all.asking if begun else self.all.idle)

    def _settle(self) -> bool:
        """Return whether a request is being answered."""
        if self.cycle is None or self.cycle.response_complete or self.transport.is_closing():
            return False
        self.all.put(self, self.all.answered)
        return True

    def last_read(self, now: float) -> float:
        """Return when the client last took something of an answer, or ``now`` if it has all."""
        unread = self.transport.get_write_buffer_size()
        if unread != self.unread or not unread:
            self.unread, self._read_at = unread, now
        return self._read_at


def _count_descriptors() -> int:
    """Return how many descriptors the process may have, after raising the limit if the system allows it."""
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


_TYPES = {
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".json": "application/json",
    ".svg": "image/svg+xml",
    ".png": "image/png",
    ".ico": "image/x-icon",
}


def answer_page_file(request: Request, name: str) -> Response:
    path = (_STATIC / name.replace("\0", "?")).resolve()
    # os.path.isfile is False for a name that is too long; Path.is_file raises
    if not path.is_relative_to(_STATIC.resolve()) or path.suffix not in _TYPES or not os.path.isfile(path):  # noqa: PTH113
        raise RequestError(404, f"there is no file {name[:200]!r}")
    return make_answer(request, _read_page_file(path, path.stat().st_mtime_ns))


@lru_cache(maxsize=256)
def _read_page_file(path: Path, changed: int) -> Body:  # noqa: ARG001  a file that was changed is read again
    return make_body(path.read_bytes(), _TYPES[path.suffix])


def _answer_programs(call: ApiCall) -> Any:
    from fastprof.viewer import hlo_answers  # late: the first picture does not wait for it

    return hlo_answers.answer_hlo(call)


def _find_sql_answer(name: str) -> Callable[[ApiCall], Any]:
    def answer(call: ApiCall) -> Any:
        from fastprof.viewer import sql_answers  # late, as above

        return getattr(sql_answers, name)(call)

    return answer


_LONG_POLL_S = 2.0
"""Time that a page with all there is waits for more."""
_FRESH_S = 0.25
"""Time for which answers that read no file of a run with many files may miss a change."""
_PAGE = {
    "/": lambda call: answer_page_file(call.request, "index.html"),
    "/favicon.ico": lambda _call: Response(status_code=204),  # the page has its icon in itself
    "/static/{path:path}": lambda call: answer_page_file(call.request, call.request.path_params["path"]),
    "/api/analyses": run_answers.answer_analyses,
    "/api/capture": run_answers.answer_capture_state,
}
_LISTING = {"/api/runs": run_answers.answer_runs, "/api/trends": run_answers.answer_trends}
_OPENING = {"/api/open": run_answers.answer_open}
_MADE = {
    "/api/tiles/{key}/{level}/{index}": timeline_answers.answer_tile,
    "/api/analysed": run_answers.answer_progress,
    "/api/names": timeline_answers.answer_names,
    "/api/lanes": timeline_answers.answer_lanes,
    "/api/slice": timeline_answers.answer_slice_sums,
    "/api/range": timeline_answers.answer_range_sums,
    "/api/flows": timeline_answers.answer_flows,
    "/api/steps": timeline_answers.answer_steps,
    "/api/counters": timeline_answers.answer_counters,
}
_SEARCH = {
    "/api/search": timeline_answers.answer_search,
    "/api/search/hits": timeline_answers.answer_hits,
    "/api/search/next": timeline_answers.answer_next_hit,
}
_READ = {"/api/event": timeline_answers.answer_event, "/api/event/text": timeline_answers.answer_event_text}
_SLOW = {
    "/api/compare": run_answers.answer_comparison,
    "/api/empty": run_answers.answer_empty_pages,
    "/api/hlo": _answer_programs,
    "/api/save/{file}": run_answers.answer_save,
    "/api/report/{name}.svg": run_answers.answer_svg,
    "/api/report/{name}/xprof": run_answers.answer_xprof,
    "/api/report/{name}/{table}.csv": run_answers.answer_csv,
    "/api/report/{name}": run_answers.answer_json,
}
_QUERIES = {
    "/api/sql": _find_sql_answer("answer_query"),
    "/api/sql.csv": _find_sql_answer("answer_query_as_csv"),
    "/api/sql/tables": _find_sql_answer("answer_tables"),
}
_VIEWING = ("about", "rows", "row", "name", "find", "stacks", "advice", "save/{form}")


def make_routes(state: ServerState) -> list[Route]:
    async def timeline(request: Request) -> Response:
        def call() -> ApiCall:
            return ApiCall(state, request)

        run = await state.on_open_run(state.quick, call, lambda call: call.run)
        after = call().given("after")
        await run.changes.until(lambda: run.snapshot.key != after or run.is_over, _LONG_POLL_S)
        return await state.on_open_run(state.quick, call, lambda call: call.answered(timeline_answers.answer_timeline))

    groups = (
        (state.quick, 0.0, _PAGE),
        (state.quick, _FRESH_S, _MADE),
        (state.quick, 0.0, _READ),
        (state.search, _FRESH_S, _SEARCH),
        (state.slow, 0.0, _SLOW),
        (state.querying, 0.0, _QUERIES),
        (state.viewing, 0.0, {f"/api/tfprof/{path}": _find_tfprof_answer(path) for path in _VIEWING}),
        (state.listing, 0.0, _LISTING),
        (state.opening, 0.0, _OPENING),
    )
    routes = [
        Route(path, make_endpoint(state, answer, pool, fresh_s))
        for pool, fresh_s, answers in groups
        for path, answer in answers.items()
    ]
    beginning = make_endpoint(state, run_answers.begin_or_stop_capture, state.quick)
    return [Route("/api/timeline", timeline), Route("/api/capture", beginning, methods=["POST"]), *routes]


def _find_tfprof_answer(path: str) -> Callable[[ApiCall], Any]:
    def answer(call: ApiCall) -> Any:
        from fastprof.viewer import tfprof_answers  # late, as above

        return tfprof_answers.ANSWERS[path](call)

    return answer


_SWITCH_S = 0.0005
"""Time that one thread computes while others wait: tiles are to be answered while analyses run."""
_QUEUE = 4096
"""Connections that the system may hold until they are accepted."""


Report = Callable[[BaseException], None]


def make_application(
    runs: ViewedRuns,
    token: str | None = None,
    report: Report | None = None,
    capture: PageCapture | None = None,
    *,
    is_local: bool = False,
) -> Gate:
    """Return the application that answers for ``runs``. ``report``: receives internal errors; ``capture``: takes
    captures for pages, which need a token then; ``is_local``: it is served to this machine only."""
    assert capture is None or token is not None

    async def known(_request: Request, error: Exception) -> Response:
        text = error.sentence if isinstance(error, RequestError) else str(error)
        return make_error_answer(get_status(error), text)

    async def refused(_request: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        text = {404: "there is nothing at this address", 405: "this server only answers GET and HEAD"}
        headers = dict(error.headers or {})
        return make_error_answer(error.status_code, text.get(error.status_code, str(error.detail)), headers)

    async def internal(_request: Request, error: Exception) -> Response:
        if report is not None:
            report(error)
        return make_error_answer(500, f"{name_internal_error(error)}; fastprof serve -v shows where")

    handlers: dict[Any, Any] = {
        RequestError: known,
        FastprofError: known,
        HTTPException: refused,
        OverflowError: known,
        Exception: internal,
    }
    return Gate(
        Starlette(routes=make_routes(ServerState(runs, capture)), exception_handlers=handlers), token, is_local=is_local
    )


def bind_socket(host: str, port: int) -> socket.socket:
    """Return a socket that listens there, at any free port for 0. UsageError, UnreadableError: the address is not
    available."""
    try:
        (family, kind, protocol, _, address), *_ = socket.getaddrinfo(
            host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )
    except (socket.gaierror, UnicodeError) as error:
        raise UsageError(f"--host {host!r} is no address of this machine: {error}") from None
    listening = _ListeningSocket(family, kind, protocol)
    try:
        if sys.platform != "win32":
            listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind(address)
        listening.listen()
    except OSError as error:
        listening.close()
        raise _explain_unbound(error, host, port) from None
    return listening


class _ListeningSocket(socket.socket):
    """Socket that holds many connections. asyncio accepts few of them in one go: it takes one number for both."""

    def listen(self, _batch: int = 0) -> None:
        super().listen(_QUEUE)


def _explain_unbound(error: OSError, host: str, port: int) -> FastprofError:
    import errno

    if error.errno == errno.EADDRINUSE:
        return UnreadableError(f"port {port} of {host} is in use: --port 0 selects a free port")
    if error.errno == errno.EACCES:
        return UnreadableError(f"port {port} may not be used: choose 1024 or above, or --port 0")
    return UnreadableError(f"cannot listen at {host} port {port}: {error.strerror or error}")


def get_address(listening: socket.socket, host: str, token: str | None) -> str:
    """Return the address to open in a browser."""
    from urllib.parse import quote

    port = listening.getsockname()[1]
    name = {"0.0.0.0": socket.gethostname(), "::": socket.gethostname()}.get(host, host)
    shown = f"[{name}]" if ":" in name else name
    return f"http://{shown}:{port}/" + (f"?token={quote(token, safe='')}" if token else "")


def run_server(app: Gate, listening: socket.socket, started: Callable[[], None], note: Note) -> None:
    """Answer until the process is interrupted or terminated. ``started``: called once the server answers. ``note``:
    receives what operators should know."""
    sys.setswitchinterval(_SWITCH_S)
    server = Server(app, ConnectionLimits(), started, note)
    with contextlib.closing(listening):
        server.run(sockets=[listening])


class Server(uvicorn.Server):
    """Server that answers on sockets until ``should_exit``."""

    def __init__(self, app: Gate, limits: ConnectionLimits, started: Callable[[], None], note: Note) -> None:
        self._limits, self._on_start, self._note = limits, started, note
        config = uvicorn.Config(
            app,
            http=ClientConnection,
            ws="none",
            log_config=None,
            log_level="critical",
            access_log=False,
            lifespan="off",
            server_header=False,
            timeout_keep_alive=limits.idle_s,  # type: ignore[arg-type]
            timeout_graceful_shutdown=1,
            h11_max_incomplete_event_size=limits.header_bytes,
        )
        super().__init__(config)

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        connections = Connections(self._limits, self._note)
        self.config.http_protocol_class = partial(ClientConnection, connections)  # type: ignore[assignment]
        self.config.backlog = connections.batch
        await super().startup(sockets)
        self._on_start()
