"""Files on HTTP servers, by the standard library. A signature in the query is sent and never shown."""

from __future__ import annotations

import base64
import http.client
import io
import urllib.error
import urllib.request
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from email.utils import parsedate_to_datetime
from typing import IO, Any, BinaryIO, Final
from urllib.parse import unquote, urlsplit, urlunsplit

from fastprof.inputs.stores.store_verbs import (
    PIECE,
    AbsentError,
    Level,
    OtherVersionError,
    RefusedError,
    StoredObject,
    StoreError,
)

_TIMEOUT_S: Final = 60
_PARTIAL: Final = 206
_STATUS: Final[dict[type[StoreError], tuple[int, ...]]] = {
    RefusedError: (401, 403, 407),
    AbsentError: (404, 410),
    OtherVersionError: (412, 416),  # the object had this version, and this size
}


class HttpServer:
    """A server. ``address``: its URL without user, path and query. ``user``: name and password of the URL, "" without;
    ``query``: what follows the question mark. Keys are paths, quoted as in URLs."""

    can_list = False
    is_guarded = True
    credentials = "user and query of the URL"

    def __init__(self, address: str, user: str, query: str) -> None:
        self._made_from = address, user, query

    def __reduce__(self) -> tuple[object, ...]:
        return HttpServer, self._made_from

    def stat(self, key: str) -> StoredObject | None:
        try:
            with self._open(key, {"Range": "bytes=0-0"}) as answer:
                has_ranges = answer.status == _PARTIAL
                total = (
                    answer.headers.get("Content-Range", "").rpartition("/")[2]
                    if has_ranges
                    else answer.headers["Content-Length"]
                )
                size = int(total) if total and total.isdecimal() else -1
                try:
                    changed = parsedate_to_datetime(answer.headers["Last-Modified"]).timestamp()
                except (TypeError, ValueError):
                    changed = 0.0
                return StoredObject(size, _get_version(answer), changed, has_ranges and size >= 0)
        except AbsentError:
            return None
        except OtherVersionError:  # an empty file has no first byte
            return StoredObject(0)

    def read(self, key: str, begin: int, end: int, version: str) -> Iterator[memoryview]:
        wanted = {"Range": f"bytes={begin}-{end - 1}"}
        if version.startswith('"'):
            wanted["If-Match"] = version
        with self._open(key, wanted) as answer:
            if answer.status != _PARTIAL:
                raise StoreError("the server no longer answers with ranges")
            if _get_version(answer) != version:
                raise OtherVersionError("the version differs")
            if answer.headers.get("Content-Range", "").removeprefix("bytes ").partition("-")[0] != str(begin):
                return
            piece = memoryview(bytearray(min(PIECE, end - begin)))
            while size := _read_piece(answer, piece):
                yield piece[:size]

    @contextmanager
    def open_reader(self, key: str) -> Generator[BinaryIO]:
        with self._open(key, {}) as answer:
            length = answer.headers["Content-Length"]
            yield _Body(answer, int(length) if length and length.isdecimal() else None)  # type: ignore[misc]

    def list_level(self, prefix: str) -> Level:
        raise StoreError(f"servers of HTTP do not list {prefix}")

    def put(self, *_: Any, **__: Any) -> bool:
        raise StoreError("files cannot be written by HTTP")

    def open_writer(self, _: str) -> Any:
        raise StoreError("files cannot be written by HTTP")

    def delete(self, _: str) -> None:
        raise StoreError("files cannot be deleted by HTTP")

    def _open(self, key: str, headers: dict[str, str]) -> Any:
        address, user, query = self._made_from
        parts = urlsplit(address)
        url = urlunsplit((parts.scheme, parts.netloc, f"/{key}", query, ""))
        request = urllib.request.Request(url, headers={"Accept-Encoding": "identity", **headers})
        if user:
            request.add_unredirected_header(
                "Authorization", "Basic " + base64.b64encode(unquote(user).encode()).decode()
            )
        try:
            return urllib.request.build_opener(_SameScheme).open(request, timeout=_TIMEOUT_S)
        except urllib.error.HTTPError as error:
            error.close()
            kind = next((kind for kind, codes in _STATUS.items() if error.code in codes), StoreError)
            raise kind(f"the server answers {error.code} {error.reason}") from None
        except (OSError, http.client.HTTPException) as error:
            reason = getattr(error, "reason", None) or error or type(error).__name__
            raise StoreError(f"no connection to the server: {reason}") from None


def _read_piece(answer: Any, piece: memoryview) -> int:
    """Read the next bytes of an answer, and return their number: 0 at the end, and where the answer is cut."""
    try:
        size: int = answer.readinto(piece)
    except http.client.IncompleteRead:
        return 0
    except (OSError, http.client.HTTPException) as error:
        raise StoreError(f"the connection broke off: {error or type(error).__name__}") from None
    return size


class _Body(io.RawIOBase):
    """The body of an answer; OSError: it ends before its length."""

    def __init__(self, answer: Any, length: int | None) -> None:
        self._answer = answer
        self._left = length

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        try:
            data: bytes = self._answer.read(size if size >= 0 else None)
        except http.client.HTTPException as error:
            raise OSError(f"the connection broke off: {error or type(error).__name__}") from None
        if self._left is not None:
            self._left -= len(data)
            if self._left and size and not data:
                raise OSError(f"the connection broke off, {self._left:,} bytes before the end")
        return data


class _SameScheme(urllib.request.HTTPRedirectHandler):
    """Follows redirects, but not to another scheme."""

    def redirect_request(
        self, req: urllib.request.Request, fp: IO[bytes], code: int, msg: str, headers: Any, newurl: str
    ) -> urllib.request.Request | None:
        scheme = urlsplit(newurl).scheme
        if scheme != req.type:
            fp.close()
            raise RefusedError(f"the server redirects to {scheme}://, which is not followed")
        return super().redirect_request(req, fp, code, msg, headers, newurl)


def _get_version(answer: Any) -> str:
    version: str = answer.headers["ETag"] or answer.headers["Last-Modified"] or ""
    return version
