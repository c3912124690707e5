"""The server of the viewer: an application of routes, and the process that serves it until it is stopped."""

from __future__ import annotations

import contextlib
import socket
import sys
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

import uvicorn
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from fastprof.errors import FastprofError, UnreadableError, UsageError
from fastprof.viewer.access import Gate
from fastprof.viewer.answers import error_answer, status_of
from fastprof.viewer.connections import Connection, Connections, Limits, Note
from fastprof.viewer.query import RequestError
from fastprof.viewer.routes import routes
from fastprof.viewer.server_state import ServerState
from fastprof.viewer.viewed_runs import ViewedRuns

_SWITCH_S = 0.0005
"""How long one thread computes while others wait to: tiles are to be answered while analyses run."""
_QUEUE = 4096
"""Connections that the system may hold until they are accepted."""

if TYPE_CHECKING:
    from fastprof.viewer.page_capture import PageCapture

Report = Callable[[BaseException], None]


def application(
    runs: ViewedRuns,
    token: str | None = None,
    report: Report | None = None,
    capture: PageCapture | None = None,
    *,
    is_local: bool = False,
) -> Gate:
    """The application that answers for ``runs``; ``report``: receives internal errors; ``capture``: takes captures for
    pages, which need a token then; ``is_local``: it is served to this machine only."""
    assert capture is None or token is not None

    async def known(_request: Request, error: Exception) -> Response:
        text = error.sentence if isinstance(error, RequestError) else str(error)
        return error_answer(status_of(error), text)

    async def refused(_request: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        text = {404: "there is nothing at this address", 405: "this server only answers GET and HEAD"}
        headers = dict(error.headers or {})
        return error_answer(error.status_code, text.get(error.status_code, str(error.detail)), headers)

    async def internal(_request: Request, error: Exception) -> Response:
        if report is not None:
            report(error)
        return error_answer(500, f"internal error: {type(error).__name__}: {error}")

    handlers: dict[Any, Any] = {
        RequestError: known,
        FastprofError: known,
        HTTPException: refused,
        OverflowError: known,
        Exception: internal,
    }
    return Gate(
        Starlette(routes=routes(ServerState(runs, capture)), exception_handlers=handlers), token, is_local=is_local
    )


def bound_socket(host: str, port: int) -> socket.socket:
    """A socket that listens there; port 0: any that is free. UsageError, UnreadableError: it cannot be had."""
    try:
        (family, kind, protocol, _, address), *_ = socket.getaddrinfo(
            host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )
    except (socket.gaierror, UnicodeError) as error:
        raise UsageError(f"--host {host!r} is no address of this machine: {error}") from None
    found = _Listening(family, kind, protocol)
    try:
        if sys.platform != "win32":
            found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        found.bind(address)
        found.listen()
    except OSError as error:
        found.close()
        raise _not_bound(error, host, port) from None
    return found


class _Listening(socket.socket):
    """Holds many connections. asyncio accepts few of them in one go: it takes one number for both."""

    def listen(self, _batch: int = 0) -> None:
        super().listen(_QUEUE)


def _not_bound(error: OSError, host: str, port: int) -> FastprofError:
    import errno

    if error.errno == errno.EADDRINUSE:
        return UnreadableError(f"port {port} of {host} is in use: --port 0 takes one that is free")
    if error.errno == errno.EACCES:
        return UnreadableError(f"port {port} may not be used: choose one from 1024 on, or --port 0")
    return UnreadableError(f"cannot listen at {host} port {port}: {error.strerror or error}")


def address(listening: socket.socket, host: str, token: str | None) -> str:
    """What to open in a browser."""
    from urllib.parse import quote

    port = listening.getsockname()[1]
    name = {"0.0.0.0": socket.gethostname(), "::": socket.gethostname()}.get(host, host)
    shown = f"[{name}]" if ":" in name else name
    return f"http://{shown}:{port}/" + (f"?token={quote(token, safe='')}" if token else "")


def serve(app: Gate, listening: socket.socket, started: Callable[[], None], note: Note) -> None:
    """Answers until the process is interrupted or terminated. ``started``: called once the server answers. ``note``:
    receives what operators should know."""
    sys.setswitchinterval(_SWITCH_S)
    server = Server(app, Limits(), started, note)
    with contextlib.closing(listening):
        server.run(sockets=[listening])


class Server(uvicorn.Server):
    """Answers on sockets until ``should_exit``."""

    def __init__(self, app: Gate, limits: Limits, started: Callable[[], None], note: Note) -> None:
        self._limits, self._on_start, self._note = limits, started, note
        config = uvicorn.Config(
            app,
            http=Connection,
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
        self.config.http_protocol_class = partial(Connection, connections)  # type: ignore[assignment]
        self.config.backlog = connections.batch
        await super().startup(sockets)
        self._on_start()
