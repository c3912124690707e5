"""The files of the page itself: its modules and styles, all from this server."""

from __future__ import annotations

import os
from functools import lru_cache
from pathlib import Path

from starlette.requests import Request
from starlette.responses import Response

from fastprof.viewer.answers import Body, answer, body
from fastprof.viewer.html_modules import STATIC
from fastprof.viewer.query import RequestError

_TYPES = {
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".json": "application/json",
    ".svg": "image/svg+xml",
    ".png": "image/png",
    ".ico": "image/x-icon",
}


def page_file(request: Request, name: str) -> Response:
    path = (STATIC / name.replace("\0", "?")).resolve()
    # os.path.isfile is False for a name that is too long; Path.is_file raises
    if not path.is_relative_to(STATIC.resolve()) or path.suffix not in _TYPES or not os.path.isfile(path):  # noqa: PTH113
        raise RequestError(404, f"there is no file {name[:200]!r}")
    return answer(request, _read(path, path.stat().st_mtime_ns))


@lru_cache(maxsize=256)
def _read(path: Path, changed: int) -> Body:  # noqa: ARG001  a file that was changed is read again
    return body(path.read_bytes(), _TYPES[path.suffix])
