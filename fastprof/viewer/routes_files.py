"""Routes of the page itself: its modules and styles, and the chart library, all from this server."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from fastprof.viewer.answers import Body, RequestError, answer, body, error_answer
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
NO_CHARTS = "charts need plotly: pip install 'fastprof-arrow[serve]'"


def routes(state: ServerState) -> list[Route]:
    return [
        Route("/", state.route(lambda asked: _file(asked, "index.html"))),
        Route("/favicon.ico", _favicon),
        Route("/static/{path:path}", state.route(lambda asked: _file(asked, asked.request.path_params["path"]))),
        Route("/lib/plotly.min.js", state.route(_plotly)),
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


def plotly_path() -> Path | None:
    """The library's own file, minified; None: the package is not installed."""
    from importlib.util import find_spec

    found = find_spec("plotly")
    if found is None or not found.submodule_search_locations:
        return None
    path = Path(found.submodule_search_locations[0], "package_data", "plotly.min.js")
    return path if path.is_file() else None


def _plotly(asked: Asked) -> Response:
    path = plotly_path()
    if path is None:
        return error_answer(501, NO_CHARTS)
    return answer(asked.request, _read(path, path.stat().st_mtime_ns))
