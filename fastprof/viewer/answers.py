"""Answers to requests: who may have them, bodies with strong ETags, compressed if it is worth it, errors as sentences.

Pages of this server on this machine may send requests; from elsewhere, clients that have the token.
"""

from __future__ import annotations

import gzip
import hashlib
import hmac
import ipaddress
import json
import re
import secrets
from collections.abc import Iterator
from typing import Any
from urllib.parse import parse_qsl, urlencode

import pyarrow as pa
from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from fastprof import errors
from fastprof.errors import UsageError
from fastprof.schema.value_classes import dataclass
from fastprof.viewer.query import RequestError
from fastprof.wording.patterns import compile_late

FRESH = "no-cache"
"""Cache control of answers that the browser checks each time: 304 if they are unchanged."""
FOREVER = "private, max-age=31536000, immutable"
"""Cache control of addresses that name their content."""

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


def make_body(content: bytes, media_type: str, name: object = None, version: str | None = None) -> Body:
    """Make the body of an answer. ``name``: identifies the content, if anything shorter than itself does. ``version``:
    that of the content's run."""
    digest = hashlib.blake2b(content if name is None else repr(name).encode(), digest_size=12)
    digest.update(b"" if version is None else version.encode())
    return Body(content, media_type, digest.hexdigest(), {})


def make_answer(request: Request, what: Body, cache: str = FRESH, **headers: str) -> Response:
    """Answer with ``what`` in an encoding that the client takes; 304 without a body if the client has it."""
    encoding = _choose_encoding(request, what)
    tag = f'"{what.tag}{f"-{encoding}" if encoding else ""}"'
    sent = {"etag": tag, "cache-control": cache, "vary": "Accept-Encoding", **headers}
    listed = [part.strip().removeprefix("W/") for part in request.headers.get("if-none-match", "").split(",")]
    if tag in listed or "*" in listed:
        return Response(status_code=304, headers=sent)
    sent["content-type"] = what.media_type
    if encoding is None:
        return Response(what.content, headers=sent)
    return Response(_encode_body(what, encoding), headers={**sent, "content-encoding": encoding})


def make_json_answer(request: Request, value: Any, version: str | None = None) -> Response:
    """Answer with ``value`` as JSON in ASCII, so that any text of a capture can be sent, even half a surrogate pair.
    ``version``: that of the run, part of the ETag."""
    content = json.dumps(value, separators=(",", ":"), allow_nan=False).encode("ascii")
    return make_answer(request, make_body(content, "application/json", version=version))


def make_error_answer(status: int, sentence: str, headers: dict[str, str] | None = None) -> Response:
    """Answer ``{"error": sentence}``, which the browser does not cache, because the fault may pass."""
    content = json.dumps({"error": sentence}, separators=(",", ":")).encode("ascii")
    sent = {"cache-control": "no-store", "content-type": "application/json", **(headers or {})}
    return Response(content, status_code=status, headers=sent)


def get_status(error: BaseException) -> int:
    """Return the status for an error of the request or the capture."""
    if isinstance(error, RequestError):
        return error.status
    return next((status for kind, status in _STATUS if isinstance(error, kind)), 500)


def _choose_encoding(request: Request, what: Body) -> str | None:
    """Return the quickest encoding that the client takes, or None."""
    if len(what.content) < _LEAST_COMPRESSED or what.media_type.startswith("image/png"):
        return None
    accepted = _list_accepted(request.headers.get("accept-encoding", ""))
    return next((name for name in ("zstd", "gzip") if name in accepted), None)


def _list_accepted(header: str) -> set[str]:
    """Return the encodings that are named without a weight of 0."""
    parts = [part.partition(";") for part in header.lower().split(",")]
    refused = ("q=", "q=0")
    return {name.strip() for name, _, q in parts if q.replace(" ", "").rstrip("0").rstrip(".") not in refused}


def _encode_body(what: Body, encoding: str) -> bytes:
    if encoding not in what.encoded:
        what.encoded[encoding] = (
            pa.Codec("zstd", compression_level=1).compress(what.content, asbytes=True)
            if encoding == "zstd"
            else gzip.compress(what.content, 1, mtime=0)
        )
    return what.encoded[encoding]


LEAST_TOKEN = 8

_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data: blob:; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
HEADERS = {
    "content-security-policy": _POLICY,
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-resource-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    "x-frame-options": "DENY",
}
"""Headers of each answer."""


def make_token() -> str:
    return secrets.token_urlsafe(24)


def check_token(token: str) -> str:
    """Return the token. UsageError: it is too easy to guess, or no address can carry it."""
    if len(token) < LEAST_TOKEN or not token.isascii() or not token.isprintable():
        raise UsageError(f"a token has {LEAST_TOKEN} or more printable ASCII characters")
    return token


def is_loopback(host: str) -> bool:
    """Return whether a name, or an address, is this machine's own that no other reaches."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


class Gate:
    """Application that lets requests through to ``app``, and says on each answer what a browser may do with it.

    Without a token, and on a server that listens on this machine only (``is_local``), the address must be one of this
    machine's own names, so that no page on the network that has its name lead here reads anything. With a token each
    request brings it: as ``?token=``, which is turned into a cookie and taken out of the address, as that cookie, or as
    ``Authorization: Bearer``.
    """

    def __init__(self, app: ASGIApp, token: str | None = None, *, is_local: bool = False) -> None:
        self.app = app
        self.token = token
        self._is_local = is_local or token is None
        digest = "" if token is None else hashlib.sha256(token.encode()).hexdigest()
        self.cookie = f"fastprof_{digest[:8]}"  # servers on other ports of the host have cookies of their own
        self._secret = digest[8:]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            if scope["type"] == "websocket":
                await send({"type": "websocket.close", "code": 1008})
                return
            await self.app(scope, receive, send)
            return

        async def with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers.setdefault(name, value)
            await send(message)

        refused = self._refusal(scope)
        await (refused or self.app)(scope, receive, with_headers)

    def _refusal(self, scope: Scope) -> ASGIApp | None:
        """Return the answer if the request is refused, else None."""
        headers = Headers(scope=scope)
        if _is_from_other_page(headers, scope):
            return make_error_answer(403, "pages of other sites must not read this server")
        if self._is_local:
            names = [_get_host_name(host) for host in headers.getlist("host")]
            if len(names) != 1 or not (is_loopback(names[0]) or names[0].endswith(".localhost")):
                text = "this server answers under localhost and 127.0.0.1; start it with --host to serve another name"
                return make_error_answer(421, text)
        if self.token is None:
            return None
        query = parse_qsl(scope.get("query_string", b"").decode("latin-1"), keep_blank_values=True)
        given = [value for name, value in query if name == "token"]
        if given:
            return self._admitted(scope, query) if self._is_token(given[-1]) else _NO_TOKEN
        bearer = headers.get("authorization", "").partition(" ")
        if bearer[0].lower() == "bearer" and self._is_token(bearer[2].strip()):
            return None
        cookies = [value for value in _list_cookies(headers, self.cookie) if _is_same_text(value, self._secret)]
        return None if cookies else _NO_TOKEN

    def _is_token(self, given: str) -> bool:
        assert self.token is not None
        return _is_same_text(given, self.token)

    def _admitted(self, scope: Scope, query: list[tuple[str, str]]) -> ASGIApp:
        """Set the cookie, and redirect to the address without the token."""
        rest = urlencode([(name, value) for name, value in query if name != "token"])
        path = "/" + scope.get("raw_path", b"/").decode("latin-1").lstrip("/")  # //name would lead elsewhere
        target = path + (f"?{rest}" if rest else "")
        cookie = f"{self.cookie}={self._secret}; Path=/; HttpOnly; SameSite=Strict"
        answer = make_error_answer(303, "the token is in a cookie now", {"location": target})
        answer.headers["set-cookie"] = cookie
        return answer


_NO_TOKEN = make_error_answer(
    401,
    "this server needs its token: open the address with ?token=… that it printed at the start",
    {"www-authenticate": "Bearer"},
)


def _is_same_text(given: str, wanted: str) -> bool:
    """Compare in a time that does not reveal how much is right."""
    return hmac.compare_digest(given.encode("utf-8", "surrogatepass"), wanted.encode())


_HOST = compile_late(
    r"(?:\[(?P<ipv6>[0-9a-f:.]+)\]|(?P<name>[a-z0-9_-]+(?:\.[a-z0-9_-]+)*)\.?)(?::[0-9]{0,5})?",
    re.IGNORECASE | re.ASCII,
)


def _get_host_name(host: str) -> str:
    """Return the name or address in a Host header, without brackets and port, or "" if the header is
    malformed."""
    match = _HOST.fullmatch(host.strip(" \t"))
    if match is None:
        return ""
    if (address := match["ipv6"]) is not None:
        return address if ":" in address else ""
    return match["name"].lower()


def _is_from_other_page(headers: Headers, scope: Scope) -> bool:
    """Return whether a page of another origin sends the request, by Sec-Fetch-Site, else by Origin. Links to the page
    are allowed from anywhere. Links to API answers are not: they could start work that the user does not see."""
    sites = headers.getlist("sec-fetch-site")
    if sites:
        way = headers.get("sec-fetch-mode"), headers.get("sec-fetch-dest", "document")
        is_link = way == ("navigate", "document") and scope["path"] == "/" and scope["method"] in ("GET", "HEAD")
        return not (is_link or set(sites) <= {"same-origin", "none"})
    own = {f"{scheme}://{headers.get('host', '')}".lower() for scheme in ("http", "https")}
    return any(origin.lower() not in own for origin in headers.getlist("origin"))


def _list_cookies(headers: Headers, name: str) -> Iterator[str]:
    """Yield all values of a cookie: an earlier server's may come beside this one's."""
    for header in headers.getlist("cookie"):
        for part in header.split(";"):
            key, _, value = part.strip().partition("=")
            if key == name:
                yield value
