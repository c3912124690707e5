"""Addresses of profiler servers: as people write them, from files, and by DNS."""

from __future__ import annotations

import ipaddress
import re
import socket
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from fastprof.errors import NotFoundError, UnreadableError, UsageError
from fastprof.inputs.paths import shown
from fastprof.schema.value_classes import dataclass
from fastprof.wording.patterns import pattern_of

_MOST_BYTES: Final = 1 << 20
"""Of a file of addresses."""
_ADDRESS: Final = pattern_of(
    r"(?:grpc://)?(?:(?P<host>\[[0-9A-Fa-f:.]+(?:%[\w.-]+)?\]|[^\s/:\[\]@?#]+):)?(?P<port>\d{1,5})"
)
_BARE_IPV6: Final = pattern_of(r"[0-9A-Fa-f]*:[0-9A-Fa-f.]*:[0-9A-Fa-f:.]*")


@dataclass(frozen=True, slots=True)
class Address:
    """``host``: a name, or an IP address; of version 6 in brackets."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"{self.host}:{self.port}"

    @property
    def as_host(self) -> str:
        """The host, as servers name the file of its capture."""
        return str(self).replace(":", "_")


def parsed(text: str) -> Address:
    """ValueError: not HOST:PORT, [IPv6]:PORT or PORT, which is of this machine; ``grpc://`` may stand before it."""
    match = _ADDRESS.fullmatch(text.strip())
    if match is None or not 0 < int(match["port"]) < 1 << 16 or not (match["host"] or "").isprintable():
        advice = "; write an IPv6 address as [::1]:PORT" if _BARE_IPV6.fullmatch(text.strip()) else ""
        raise ValueError(f"{text[:200]!r} is not an address, HOST:PORT{advice}")
    host = match["host"] or "localhost"
    if host.startswith("["):
        try:
            ipaddress.IPv6Address(host[1:-1])
        except ValueError:
            raise ValueError(f"{text[:200]!r} is not an address: {host} is not one of IPv6") from None
    return Address(host, int(match["port"]))


def listed(text: str) -> list[Address]:
    """Addresses between commas. ValueError: one is not an address."""
    return [parsed(one) for one in text.split(",")]


def of_file(path: str) -> list[Address]:
    """Addresses of a file, between blanks, commas and line ends; what follows # is a comment."""
    try:
        with Path(path).open("rb") as file:
            data = file.read(_MOST_BYTES + 1)
    except FileNotFoundError as error:
        raise NotFoundError("the file does not exist", path=shown(path)) from error
    except OSError as error:
        raise UnreadableError(error.strerror or str(error), path=shown(path)) from error
    if len(data) > _MOST_BYTES:
        raise UsageError(f"a file of addresses has at most {_MOST_BYTES:,} bytes", path=shown(path))
    lines = data.decode("utf-8", "replace").splitlines()
    try:
        found = [parsed(one) for line in lines for one in re.split(r"[\s,]+", line.partition("#")[0]) if one]
    except ValueError as error:
        raise UsageError(str(error), path=shown(path)) from None
    if not found:
        raise UsageError("it has no address", path=shown(path))
    return found


def of_name(text: str) -> list[Address]:
    """NAME:PORT, one address for each that DNS has for the name, as for the headless service of Kubernetes."""
    try:
        named = parsed(text)
    except ValueError as error:
        raise UsageError(f"--dns: {error}") from None
    try:
        every = socket.getaddrinfo(named.host.strip("[]"), named.port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise NotFoundError(f"--dns: no address of {shown(named.host)}: {reason}") from error
    numbers = sorted({str(where[0]) for _, _, _, _, where in every}, key=lambda one: (":" in one, one))
    return [Address(f"[{one}]" if ":" in one else one, named.port) for one in numbers]


def each_once(every: Iterable[Address]) -> list[Address]:
    """A server takes one capture at a time, so a second request of ours would only be refused."""
    return list(dict.fromkeys(every))
