"""Routes of the page itself: its modules and styles, all from this server."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from fastprof.viewer.answers import Body, answer, body
from fastprof.viewer.request_error import RequestError
from fastprof.viewer.server_state import Asked, ServerState

STATIC = Path(__file__).parent / "static"
_TYPES = {
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".json": "application/json",
    ".svg": "image/svg+xml",
    ".png": "image/png",
    ".ico": "image/x-icon",
}


def routes(state: ServerState) -> list[Route]:
    return [
        Route("/", state.route(lambda asked: _file(asked, "index.html"))),
        Route("/favicon.ico", _favicon),
        Route("/static/{path:path}", state.route(lambda asked: _file(asked, asked.request.path_params["path"]))),
    ]


async def _favicon(request: Request) -> Response:
    path = STATIC / "icon.svg"
    return answer(request, _read(path, path.stat().st_mtime_ns)) if path.is_file() else Response(status_code=204)


def _file(asked: Asked, name: str) -> Response:
    path = (STATIC / name.replace("\0", "?")).resolve()
    if not path.is_relative_to(STATIC.resolve()) or path.suffix not in _TYPES or not path.is_file():
        raise RequestError(404, f"there is no file {name[:200]!r}")
    return answer(asked.request, _read(path, path.stat().st_mtime_ns))


@lru_cache(maxsize=256)
def _read(path: Path, changed: int) -> Body:  # noqa: ARG001  a file that was changed is read again
    return body(path.read_bytes(), _TYPES.get(path.suffix, "application/octet-stream"))
