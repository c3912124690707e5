"""Messages to and from a worker: one task per file, without the bytes of the file, and the states of the file's hosts.

Values are pickled, then compressed, without compiled programs, which stay with the worker. Until a result is read, the
first values are in memory, the rest in a temporary file."""

from __future__ import annotations

import copyreg
import io
import pickle
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import field, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Protocol

import numpy as np
import pyarrow as pa

from fastprof._version import __version__
from fastprof.decode.import_log import ImportLog, LogRow
from fastprof.decode.jobs import JobFacts
from fastprof.decode.selection import Selection
from fastprof.errors import EngineError, FastprofError
from fastprof.hlo.programs import Program, make_program
from fastprof.inputs.open_files import Spill, SpilledPiece
from fastprof.inputs.resolve import ONLY_PROGRAMS, CaptureFile
from fastprof.schema.tables import VERSION
from fastprof.schema.value_classes import dataclass
from fastprof.tables.host_spill import Stored
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


class HostWork(Protocol):
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
    work: Analyses | StepsOfHosts | BytesOf | HostWork
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


class FilesWork(Protocol):
    """Work on a group of capture files."""

    def of_files(self, files: Iterator[tuple[int, TableSet]]) -> Any:
        """Return a value of all files. ``files``: the place of each, and its tables as of ``HostWork.of_hosts``,
        opened when it is taken; a file that the session can do without if it is faulty is left out."""


@dataclass(frozen=True, slots=True)
class FilesTask:
    """Files that one worker reads, one after the other. ``tasks``: how each is read."""

    versions: str
    number: int
    work: FilesWork
    tasks: tuple[HostTask, ...]

    @property
    def path(self) -> str | None:
        return self.tasks[0].path

    @property
    def what(self) -> str:
        return "the host" if len(self.tasks) == 1 else f"a group of {len(self.tasks):,} hosts"

    @property
    def size_bytes(self) -> int | None:
        sizes = [task.size_bytes for task in self.tasks]
        return None if None in sizes else sum(size or 0 for size in sizes)

    @property
    def travelling(self) -> int:
        return 0

    @property
    def on_error(self) -> str:
        return self.tasks[0].on_error


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


Beside = bytes | tuple[Spill, SpilledPiece]
"""The spilled part of a value: itself, or where it is in a file."""

_CODEC: Final = "zstd"

_PROTOCOL: Final = 5

_SHORT: Final = 8
"""Characters of texts that are not shared: to look them up takes longer than they are worth."""


def pack(value: object) -> tuple[bytes, int, bytes]:
    """Return the value, its size before it is compressed, and its spilled parts."""
    into, beside = io.BytesIO(), io.BytesIO()

    def put(part: Stored[Any]) -> tuple[Any, ...]:
        packed, size = part.packed()
        place = beside.getbuffer().nbytes
        return _spilled_placeholder, (place, beside.write(packed), size)

    pickler = _Pickler(into, _PROTOCOL)
    pickler.dispatch_table = copyreg.dispatch_table | {
        Program: lambda program: (_program_placeholder, (program.described(),)),
        ImportLog: lambda _: (_log_placeholder, ()),
        Stored: put,
    }
    pickler.dump(value)
    data = into.getbuffer()
    return pa.compress(data, codec=_CODEC, asbytes=True), len(data), beside.getvalue()


def unpack(
    packed: bytes,
    raw_bytes: int,
    beside: Beside,
    log: ImportLog,
    fetch: Callable[[int, int], bytes],
    texts: dict[str, str],
) -> Any:
    """Return the value. ``beside``: what is set aside of it. ``fetch``: the bytes of the program of an id, which its
    capture has at an offset. ``texts``: those of values before: hosts of a pod have the same ops, and each name is in
    memory once. EngineError: it is not what ``pack`` made."""
    try:
        data = pa.decompress(packed, raw_bytes, codec=_CODEC)
    except OSError as error:
        raise EngineError(f"an answer of a worker was damaged on its way: {error}") from error
    here: dict[str, Callable[..., Any]] = {
        _log_placeholder.__name__: lambda: log,
        _program_placeholder.__name__: lambda described: _fetch_program(described, fetch),
        _spilled_placeholder.__name__: partial(_spill_part, beside),
    }
    return _TaskUnpickler(io.BytesIO(data), here, texts).load()


def _spill_part(beside: Beside, place: int, length: int, size: int) -> Stored[Any]:
    if isinstance(beside, bytes):
        return Stored.of_bytes(beside[place : place + length], size)
    file, piece = beside
    return Stored.at((file,), SpilledPiece(piece.offset + place, length), size)


_CLASSES: Final[dict[tuple[str, str], Any]] = {}
"""Classes of earlier pickles: each pickle names its classes again, and looking them up takes longer than the rest."""


class _Pickler(pickle.Pickler):
    def persistent_id(self, value: object) -> str | None:
        return value if type(value) is str and len(value) > _SHORT else None


class _TaskUnpickler(pickle.Unpickler):
    """``here``: by name, what makes the values that this module stands in for."""

    def __init__(self, data: io.BytesIO, here: Mapping[str, Callable[..., Any]], texts: dict[str, str]) -> None:
        super().__init__(data)
        self._here, self._texts = here, texts

    def persistent_load(self, text: str) -> str:
        return self._texts.setdefault(text, text)

    def find_class(self, module: str, name: str, /) -> Any:
        if module == __name__:
            return self._here[name]
        cls = _CLASSES.get((module, name))
        if cls is None:
            cls = _CLASSES[module, name] = super().find_class(module, name)
        return cls


def _fetch_program(described: tuple[Any, ...], fetch: Callable[[int, int], bytes]) -> Program:
    number, _, _, offset, *_ = described
    return make_program(described, lambda: fetch(number, offset))


def _program_placeholder(described: tuple[Any, ...]) -> Program:
    """Stands in pickles for what ``unpack`` puts there."""
    raise NotImplementedError


def _log_placeholder() -> ImportLog:
    """Likewise."""
    raise NotImplementedError


def _spilled_placeholder(place: int, length: int, size: int) -> Stored[Any]:
    """Likewise."""
    raise NotImplementedError


_IN_MEMORY: Final = 32 << 20


class Payloads:
    """The values of one round of tasks. What is in memory is forgotten when it is taken."""

    def __init__(self) -> None:
        self._held: dict[SpilledPiece, bytes] = {}
        self.file = Spill()
        self._size = 0

    def stored(self, kept: Kept) -> Kept:
        """Return the answer of a worker, with its bytes here."""
        packed, alone = (None if part is None else self._stored(part) for part in (kept.packed, kept.alone))
        each = tuple({name: self._stored(packed) for name, packed in of_host.items()} for of_host in kept.each)
        return replace(kept, packed=packed, alone=alone, each=each)

    def _stored(self, packed: Packed) -> Packed:
        """Spill values to the file whatever their size."""
        payload = self.put(packed.payload) if isinstance(packed.payload, bytes) else packed.payload
        beside = self.file.write(packed.beside) if isinstance(packed.beside, bytes) and packed.beside else packed.beside
        return replace(packed, payload=payload, beside=beside)

    def put(self, data: bytes) -> SpilledPiece:
        """Return where it is. UnreadableError: the disk has no room for it."""
        if self._size + len(data) > _IN_MEMORY:
            return self.file.write(data)
        self._size += len(data)
        piece = SpilledPiece(-self._size, len(data))  # below the file
        self._held[piece] = data
        return piece

    def read(self, piece: bytes | SpilledPiece) -> bytes:
        """Return what is in a place, or itself."""
        if isinstance(piece, bytes):
            return piece
        return self._held[piece] if piece.offset < 0 else self.file.read(piece)

    def take(self, piece: bytes | SpilledPiece) -> bytes:
        if isinstance(piece, bytes):
            return piece
        return self._held.pop(piece) if piece.offset < 0 else self.file.read(piece)
