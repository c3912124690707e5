"""What travels to a worker, and back: a task a file, without its bytes, and what was kept of the file's hosts."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import field, replace
from typing import TYPE_CHECKING, Any, Final, Protocol

import numpy as np

from fastprof._version import __version__
from fastprof.decode.import_log import LogRow
from fastprof.decode.jobs import JobFacts
from fastprof.decode.selection import Selection
from fastprof.errors import FastprofError
from fastprof.inputs.resolve import ONLY_PROGRAMS, CaptureFile
from fastprof.schema.tables import VERSION
from fastprof.schema.value_classes import dataclass
from fastprof.wording.amounts import Steps

if TYPE_CHECKING:
    from fastprof.analyses.contract import Keeper
    from fastprof.derive.host import Choice
    from fastprof.inputs.open_files import SpilledPiece
    from fastprof.tables.table_set import TableSet

VERSIONS: Final = (
    f"fastprof {__version__}, tables {VERSION}, Python {sys.version_info.major}.{sys.version_info.minor}, "
    f"NumPy {np.__version__.partition('.')[0]}"
)
"""What both ends of a pickle need to have in common."""


@dataclass(frozen=True, slots=True)
class Analyses:
    """What is kept of each host for these analyses, as ``runner.make_plan`` takes it."""

    names: tuple[str, ...]
    params: Mapping[str, Any]
    steps: Steps | None
    keepers: Mapping[str, Keeper]


@dataclass(frozen=True, slots=True)
class StepsOfHosts:
    """The steps of each host, made from ``source``."""

    source: str


@dataclass(frozen=True, slots=True)
class BytesOf:
    """The bytes of the program of this id and offset."""

    program_id: int
    offset: int


class Work(Protocol):
    """What else is done with the hosts of a file."""

    def of_hosts(self, tables: TableSet, numbers: Sequence[int]) -> list[Any]:
        """Return what is returned of the hosts of these numbers. ``tables``: of the events that are selected, of all
        hosts of the file. FastprofError: a fault of the host, or the session."""


@dataclass(frozen=True, slots=True)
class Reading:
    """How captures are read, as of ``load``, and which events are selected."""

    on_error: str
    threads: int
    max_unpacked: int
    selection: Selection


@dataclass(frozen=True, slots=True)
class HostTask:
    """``number``: the place of the file; ``first``: the number of its first host in the session; ``hosts``: how many
    the session has, or are selected of it, as far as its files show it; ``names``: what the session calls its hosts,
    None: as they are called in the file. ``choices``: by place of the host in the file, the groups of the chosen steps.
    ``size_bytes``, ``changed_ns``: of the file when it was listed; None: it is none."""

    versions: str
    number: int
    first: int
    hosts: int
    names: tuple[str, ...] | None
    file: CaptureFile
    reading: Reading
    work: Analyses | StepsOfHosts | BytesOf | Work
    choices: Mapping[int, Choice] | None = None
    size_bytes: int | None = None
    changed_ns: int | None = None

    @property
    def path(self) -> str | None:
        return self.file.path

    @property
    def what(self) -> str:
        """What the task reads, as it stands in sentences."""
        return "the host"

    @property
    def travelling(self) -> int:
        """Bytes that are in memory while a worker has it: next to none."""
        return 0

    @property
    def on_error(self) -> str:
        return self.reading.on_error


@dataclass(frozen=True, slots=True)
class Packed:
    """A value on its way. ``payload``: itself, ``raw_bytes`` long when it is unpacked; ``beside``: what is set aside of
    it; or where these are stored."""

    payload: bytes | SpilledPiece
    raw_bytes: int
    beside: bytes | SpilledPiece = b""

    @property
    def size_bytes(self) -> int:
        return sum(len(part) if isinstance(part, bytes) else part.length for part in (self.payload, self.beside))


@dataclass(frozen=True, slots=True)
class GroupTask:
    """What was kept of hosts that follow each other, to be merged. ``parts``: of each a list of one HostStates;
    ``numbers``: in the session, of hosts that were kept under another one, else None; ``hosts``: how many they are."""

    versions: str
    number: int
    work: Analyses
    parts: tuple[Packed, ...]
    numbers: tuple[int | None, ...]
    hosts: int

    @property
    def path(self) -> str | None:
        return None

    @property
    def what(self) -> str:
        return f"a group of {self.hosts:,} hosts"

    @property
    def size_bytes(self) -> int:
        return sum(part.size_bytes for part in self.parts)

    @property
    def travelling(self) -> int:
        return self.size_bytes

    @property
    def on_error(self) -> str:
        return "raise"


@dataclass(slots=True)
class HostInFile:
    """A host of a file, selected or not. ``rank``, ``start_unix_ns``: None: not recorded; ``transcribed_from``: as in
    the environment of its capture; ``events``: how many it has; ``job``: what it records of its job, if anything."""

    host: str
    path: str
    rank: int | None
    start_unix_ns: int | None
    transcribed_from: str | None
    events: int
    job: JobFacts | None
    selected: bool


@dataclass(frozen=True, slots=True)
class Kept:
    """What a worker returns of a task. ``packed``: the value; None: nothing, because of ``fault``.
    ``alone``: of each host, what analyses kept that do not merge; None: ``packed`` has it. ``each``: of each host, by
    name, what analyses kept that look at one host after the other. ``in_opening``: whether the fault is one that
    ``on_error`` decides on. ``log``: rows of import_log. ``forked``: whether the worker is a fork of
    another process."""

    number: int
    hosts: tuple[HostInFile, ...] = ()
    packed: Packed | None = None
    alone: Packed | None = None
    each: tuple[Mapping[str, Packed], ...] = ()
    fault: FastprofError | None = None
    in_opening: bool = False
    log: tuple[LogRow, ...] = field(default=())
    wall_s: float = 0.0
    peak_bytes: int = 0
    worker: str = ""
    forked: bool = False


def restore_file(file: CaptureFile) -> CaptureFile:
    """Restore a pickled file: the capture of programs alone is known by its identity."""
    return replace(file, source=ONLY_PROGRAMS) if file.source == ONLY_PROGRAMS else file
