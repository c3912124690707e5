"""Profiler servers: their addresses as people write them, from files, by DNS, and of the workers of a job as its
scheduler lists them in the environment.

SLURM_JOB_NODELIST     node[008-010,12],login1     node008 node009 node010 node12 login1
TPU_WORKER_HOSTNAMES   10.0.0.2,10.0.0.3
"""

from __future__ import annotations

import ipaddress
import re
import socket
from collections.abc import Iterable, Iterator, Mapping
from itertools import product
from pathlib import Path
from typing import Final

from fastprof.errors import NotFoundError, UnreadableError, UsageError
from fastprof.inputs.paths import show_path
from fastprof.schema.value_classes import dataclass
from fastprof.wording.patterns import compile_late

_MOST_BYTES: Final = 1 << 20
"""Most bytes of a file of addresses."""
_ADDRESS: Final = compile_late(
    r"(?:grpc://)?(?:(?P<host>\[[0-9A-Fa-f:.]+(?:%[\w.-]+)?\]|[^\s/:\[\]@?#]+):)?(?P<port>\d{1,5})"
)
_BARE_IPV6: Final = compile_late(r"[0-9A-Fa-f]*:[0-9A-Fa-f.]*:[0-9A-Fa-f:.]*")


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


def parse_address(text: str) -> Address:
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


def parse_addresses(text: str) -> list[Address]:
    """Addresses between commas. ValueError: one is not an address."""
    return [parse_address(address) for address in text.split(",")]


def read_addresses(path: str) -> list[Address]:
    """Addresses of a file, between blanks, commas and line ends; what follows # is a comment."""
    try:
        with Path(path).open("rb") as file:
            data = file.read(_MOST_BYTES + 1)
    except FileNotFoundError as error:
        raise NotFoundError("the file does not exist", path=show_path(path)) from error
    except OSError as error:
        raise UnreadableError(error.strerror or str(error), path=show_path(path)) from error
    if len(data) > _MOST_BYTES:
        raise UsageError(f"a file of addresses has at most {_MOST_BYTES:,} bytes", path=show_path(path))
    lines = data.decode("utf-8", "replace").splitlines()
    try:
        addresses = [
            parse_address(address)
            for line in lines
            for address in re.split(r"[\s,]+", line.partition("#")[0])
            if address
        ]
    except ValueError as error:
        raise UsageError(str(error), path=show_path(path)) from None
    if not addresses:
        raise UsageError("it has no address", path=show_path(path))
    return addresses


def resolve_name(text: str) -> list[Address]:
    """NAME:PORT, one address for each that DNS has for the name, as for the headless service of Kubernetes."""
    try:
        named = parse_address(text)
    except ValueError as error:
        raise UsageError(f"--dns: {error}") from None
    try:
        every = socket.getaddrinfo(named.host.strip("[]"), named.port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise NotFoundError(f"--dns: no address of {show_path(named.host)}: {reason}") from error
    numbers = sorted({str(where[0]) for _, _, _, _, where in every}, key=lambda number: (":" in number, number))
    return [Address(f"[{number}]" if ":" in number else number, named.port) for number in numbers]


def drop_repeated(every: Iterable[Address]) -> list[Address]:
    """Drop repeated addresses: a server takes one capture at a time, so a second request of ours would only be
    refused."""
    return list(dict.fromkeys(every))


_VARIABLES: Final = {"slurm": "SLURM_JOB_NODELIST", "tpu": "TPU_WORKER_HOSTNAMES"}
_TPU_PORT: Final = "8466"
"""The port at which the runtime of a TPU listens."""
_JOB: Final = compile_late(r"(?P<kind>[a-z]+)(?::(?P<first>\d{1,5})(?:-(?P<last>\d{1,5}))?)?")
_PARTS: Final = compile_late(r"[^\[\],]+|\[[^\[\]]*\]|,")
_RANGE: Final = compile_late(r"(\d{1,9})(?:-(\d{1,9}))?")
_MOST: Final = 10_000


def list_job_addresses(text: str, environment: Mapping[str, str]) -> list[Address]:
    """``slurm:PORT``, ``slurm:FIRST-LAST`` for several processes a machine, ``tpu`` or ``tpu:PORT``. Raises
    UsageError."""
    match = _JOB.fullmatch(text)
    kind = "" if match is None else match["kind"]
    if match is None or kind not in _VARIABLES or (kind == "slurm" and not match["first"]):
        raise UsageError(f"--job: {text[:200]!r} is not slurm:PORT, slurm:FIRST-LAST, tpu or tpu:PORT")
    variable = _VARIABLES[kind]
    listed = environment.get(variable, "").strip()
    if not listed:
        raise UsageError(f"--job: {variable} is not set: this is not a job of {kind}; give addresses")
    first = int(match["first"] or _TPU_PORT)
    ports = range(first, int(match["last"] or first) + 1)
    hosts = _list_nodes(listed, variable) if kind == "slurm" else [host.strip() for host in listed.split(",")]
    if len(hosts) * len(ports) > _MOST:
        raise UsageError(f"--job: {variable} lists more than {_MOST:,} servers")
    try:
        every = [parse_address(f"{host}:{port}") for host in hosts for port in ports]
    except ValueError as error:
        raise UsageError(f"--job: {variable}: {error}") from None
    if not every:
        raise UsageError(f"--job: {text[:200]!r} names no port")
    return every


def _list_nodes(text: str, variable: str) -> list[str]:
    """Raise UsageError: it is not a list of nodes as SLURM writes it."""
    nodes: list[str] = []
    parts: list[list[str]] = [[]]
    read = _PARTS.findall(text)
    if "".join(read) == text:
        for part in read:
            if part == ",":
                parts.append([])
            else:
                parts[-1].append(part)
        try:
            for group in parts:
                nodes += _expand_nodes(group)
            return nodes
        except ValueError:
            pass
    raise UsageError(f"--job: {variable} is not a list of nodes: {text[:200]!r}")


def _expand_nodes(parts: list[str]) -> Iterator[str]:
    """``a``, ``[1-2]``, ``b``: a1b, a2b. ValueError: it is not one, or is too many."""
    choices = [list(_expand_numbers(part[1:-1])) if part.startswith("[") else [part] for part in parts]
    size = 1
    for choice in choices:
        size *= len(choice)
    if not choices or size > _MOST:
        raise ValueError
    return map("".join, product(*choices))


def _expand_numbers(text: str) -> Iterator[str]:
    """``008-010,12``: with the zeros of the first of each range."""
    for part in text.split(","):
        match = _RANGE.fullmatch(part)
        if match is None:
            raise ValueError
        first, last = match[1], match[2] or match[1]
        if not 0 <= int(last) - int(first) < _MOST:
            raise ValueError
        for number in range(int(first), int(last) + 1):
            yield f"{number:0{len(first)}d}"
