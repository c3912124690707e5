"""Who may send requests: pages of this server on this machine; from elsewhere, clients that have the token."""

from __future__ import annotations

import hashlib
import hmac
import ipaddress
import re
import secrets
from collections.abc import Iterator
from urllib.parse import parse_qsl, urlencode

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from fastprof.errors import UsageError
from fastprof.viewer.answers import error_answer

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
"""Of each answer."""


def new_token() -> str:
    return secrets.token_urlsafe(24)


def checked_token(token: str) -> str:
    """Raises UsageError for a token that is too easy to guess, or that no address can carry."""
    if len(token) < LEAST_TOKEN or not token.isascii() or not token.isprintable():
        raise UsageError(f"a token has {LEAST_TOKEN} or more printable ASCII characters")
    return token


def is_loopback(host: str) -> bool:
    """Whether a name, or an address, is this machine's own that no other reaches."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


class Gate:
    """Lets requests through to ``app``, and says on each answer what a browser may do with it.

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
        """The answer if the request is refused; None: it is not."""
        headers = Headers(scope=scope)
        if headers.get("sec-fetch-site") == "cross-site" and headers.get("sec-fetch-mode") != "navigate":
            return error_answer(403, "pages of other sites may not read this server")
        if self._is_local:
            name = _host_name(headers.get("host", ""))
            if not (is_loopback(name) or name.endswith(".localhost")):
                text = "this server answers under localhost and 127.0.0.1; start it with --host to serve another name"
                return error_answer(421, text)
        if self.token is None:
            return None
        query = parse_qsl(scope.get("query_string", b"").decode("latin-1"), keep_blank_values=True)
        given = [value for name, value in query if name == "token"]
        if given:
            return self._admitted(scope, query) if self._is_token(given[-1]) else _NO_TOKEN
        bearer = headers.get("authorization", "").partition(" ")
        if bearer[0].lower() == "bearer" and self._is_token(bearer[2].strip()):
            return None
        cookies = [value for value in _cookies(headers, self.cookie) if _same(value, self._secret)]
        return None if cookies else _NO_TOKEN

    def _is_token(self, given: str) -> bool:
        assert self.token is not None
        return _same(given, self.token)

    def _admitted(self, scope: Scope, query: list[tuple[str, str]]) -> ASGIApp:
        """Gives the cookie, and leads to the same address without the token."""
        rest = urlencode([(name, value) for name, value in query if name != "token"])
        path = "/" + scope.get("raw_path", b"/").decode("latin-1").lstrip("/")  # //name would lead elsewhere
        target = path + (f"?{rest}" if rest else "")
        cookie = f"{self.cookie}={self._secret}; Path=/; HttpOnly; SameSite=Strict"
        answer = error_answer(303, "the token is in a cookie now", {"location": target})
        answer.headers["set-cookie"] = cookie
        return answer


_NO_TOKEN = error_answer(
    401,
    "this server wants its token: open the address with ?token=… that it printed when it started",
    {"www-authenticate": "Bearer"},
)


def _same(given: str, wanted: str) -> bool:
    """In a time that does not reveal how much of it is right."""
    return hmac.compare_digest(given.encode("utf-8", "surrogatepass"), wanted.encode())


def _host_name(host: str) -> str:
    """The name in a Host header, without the port."""
    name = host.strip().lower()
    if name.startswith("["):
        inside = re.fullmatch(r"\[([^\[\]]*)\](?::\d*)?", name, re.ASCII)
        return inside[1] if inside else ""
    return name.rpartition(":")[0] if name.count(":") == 1 else name


def _cookies(headers: Headers, name: str) -> Iterator[str]:
    """All values of a cookie: an earlier server's may come beside this one's."""
    for header in headers.getlist("cookie"):
        for part in header.split(";"):
            key, _, value = part.strip().partition("=")
            if key == name:
                yield value
