"""Answers to requests: bodies with strong ETags, compressed if it is worth it, and errors as sentences."""

from __future__ import annotations

import gzip
import hashlib
import json
from typing import Any

import pyarrow as pa
from starlette.requests import Request
from starlette.responses import Response

from fastprof import errors
from fastprof.schema.value_classes import dataclass
from fastprof.viewer.query import RequestError

FRESH = "no-cache"
"""Kept by the browser, which checks it each time: 304 if it is the same."""
FOREVER = "private, max-age=31536000, immutable"
"""For addresses that name their content."""

_LEAST_COMPRESSED = 1024
_STATUS: tuple[tuple[type[BaseException], int], ...] = (
    (errors.UsageError, 400),
    (errors.NotFoundError, 404),
    (errors.UnreadableError, 404),
    (errors.CaptureError, 422),
    (errors.ChangedError, 410),
    (errors.MemoryLimitError, 503),
)


@dataclass(frozen=True, slots=True)
class Body:
    """Bytes to answer with, in every encoding that has been made of them. ``tag``: a digest of the content."""

    content: bytes
    media_type: str
    tag: str
    encoded: dict[str, bytes]

    @property
    def size(self) -> int:
        """Bytes held, all encodings together."""
        return len(self.content) + sum(map(len, self.encoded.values()))


def body(content: bytes, media_type: str, name: object = None, version: str | None = None) -> Body:
    """``name``: identifies the content, if anything shorter than itself does. ``version``: of the run that it is of."""
    digest = hashlib.blake2b(content if name is None else repr(name).encode(), digest_size=12)
    digest.update(b"" if version is None else version.encode())
    return Body(content, media_type, digest.hexdigest(), {})


def answer(request: Request, what: Body, cache: str = FRESH, **headers: str) -> Response:
    """``what`` in an encoding that the client takes; 304 without a body if it has that already."""
    encoding = _encoding(request, what)
    tag = f'"{what.tag}{f"-{encoding}" if encoding else ""}"'
    sent = {"etag": tag, "cache-control": cache, "vary": "Accept-Encoding", **headers}
    if _matches(request.headers.get("if-none-match", ""), tag):
        return Response(status_code=304, headers=sent)
    sent["content-type"] = what.media_type
    if encoding is None:
        return Response(what.content, headers=sent)
    return Response(_encoded(what, encoding), headers={**sent, "content-encoding": encoding})


def json_answer(request: Request, value: Any, version: str | None = None) -> Response:
    """``value`` as JSON in ASCII, so that any text of a capture can be sent, even half a surrogate pair. ``version``:
    of the run that it is of, part of the ETag."""
    content = json.dumps(value, separators=(",", ":"), allow_nan=False).encode("ascii")
    return answer(request, body(content, "application/json", version=version))


def error_answer(status: int, sentence: str, headers: dict[str, str] | None = None) -> Response:
    """``{"error": sentence}``. What is wrong now may be right next time: it is not kept."""
    content = json.dumps({"error": sentence}, separators=(",", ":")).encode("ascii")
    sent = {"cache-control": "no-store", "content-type": "application/json", **(headers or {})}
    return Response(content, status_code=status, headers=sent)


def status_of(error: BaseException) -> int:
    """The status for an error of the request or the capture."""
    if isinstance(error, RequestError):
        return error.status
    return next((status for kind, status in _STATUS if isinstance(error, kind)), 500)


def _encoding(request: Request, what: Body) -> str | None:
    """The quickest of those that the client takes; None: as it is."""
    if len(what.content) < _LEAST_COMPRESSED or what.media_type.startswith("image/png"):
        return None
    accepted = _accepted(request.headers.get("accept-encoding", ""))
    return next((name for name in ("zstd", "gzip") if name in accepted), None)


def _accepted(header: str) -> set[str]:
    """Encodings that are named without a weight of 0."""
    parts = [part.partition(";") for part in header.lower().split(",")]
    refused = ("q=", "q=0")
    return {name.strip() for name, _, q in parts if q.replace(" ", "").rstrip("0").rstrip(".") not in refused}


def _encoded(what: Body, encoding: str) -> bytes:
    if encoding not in what.encoded:
        what.encoded[encoding] = _zstd(what.content) if encoding == "zstd" else gzip.compress(what.content, 1, mtime=0)
    return what.encoded[encoding]


def _zstd(content: bytes) -> bytes:
    packed: bytes = pa.Codec("zstd", compression_level=1).compress(content, asbytes=True)
    return packed


def _matches(header: str, tag: str) -> bool:
    listed = [one.strip().removeprefix("W/") for one in header.split(",")]
    return tag in listed or "*" in listed
