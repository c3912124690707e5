"""The workers of a job, as its scheduler lists them in the environment: SLURM, and Cloud TPU virtual machines.

SLURM_JOB_NODELIST     node[008-010,12],login1     node008 node009 node010 node12 login1
TPU_WORKER_HOSTNAMES   10.0.0.2,10.0.0.3
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import product
from typing import Final

from fastprof.errors import UsageError
from fastprof.inputs.profiler_client.addresses import Address, parsed
from fastprof.wording.patterns import pattern_of

_VARIABLES: Final = {"slurm": "SLURM_JOB_NODELIST", "tpu": "TPU_WORKER_HOSTNAMES"}
_TPU_PORT: Final = "8466"
"""At which the runtime of a TPU listens."""
_JOB: Final = pattern_of(r"(?P<kind>[a-z]+)(?::(?P<first>\d{1,5})(?:-(?P<last>\d{1,5}))?)?")
_PARTS: Final = pattern_of(r"[^\[\],]+|\[[^\[\]]*\]|,")
_RANGE: Final = pattern_of(r"(\d{1,9})(?:-(\d{1,9}))?")
_MOST: Final = 10_000


def of_job(text: str, environment: Mapping[str, str]) -> list[Address]:
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
    hosts = _nodes(listed, variable) if kind == "slurm" else [one.strip() for one in listed.split(",")]
    if len(hosts) * len(ports) > _MOST:
        raise UsageError(f"--job: {variable} lists more than {_MOST:,} servers")
    try:
        every = [parsed(f"{host}:{port}") for host in hosts for port in ports]
    except ValueError as error:
        raise UsageError(f"--job: {variable}: {error}") from None
    if not every:
        raise UsageError(f"--job: {text[:200]!r} names no port")
    return every


def _nodes(text: str, variable: str) -> list[str]:
    """Raises UsageError: it is not a list of nodes as SLURM writes it."""
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
            for one in parts:
                nodes += _expanded(one)
            return nodes
        except ValueError:
            pass
    raise UsageError(f"--job: {variable} is not a list of nodes: {text[:200]!r}")


def _expanded(parts: list[str]) -> Iterator[str]:
    """``a``, ``[1-2]``, ``b``: a1b, a2b. ValueError: it is not one, or is too many."""
    choices = [list(_numbers(part[1:-1])) if part.startswith("[") else [part] for part in parts]
    size = 1
    for one in choices:
        size *= len(one)
    if not choices or size > _MOST:
        raise ValueError
    return map("".join, product(*choices))


def _numbers(text: str) -> Iterator[str]:
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
