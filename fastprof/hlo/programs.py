"""The compiled programs of a capture, undecoded: those in its metadata plane, and those in files beside it.

XProf writes ``jit_f(12).hlo_proto.pb`` beside a capture for each program in it. Such files are used where the capture
has no program of their id: programs are sometimes removed from captures to make these smaller.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from fastprof._native import records
from fastprof.decode.import_log import ImportLog
from fastprof.decode.span_stats import SpanStats
from fastprof.decode.xspace_capture import Capture
from fastprof.errors import CaptureError, ChangedError, FastprofError, UnreadableError
from fastprof.hlo.message import varint
from fastprof.inputs.log_directory import PROGRAM_SUFFIXES
from fastprof.inputs.other_files import explained
from fastprof.inputs.paths import shown
from fastprof.inputs.source import Source, open_source
from fastprof.schema.array_types import Int64s
from fastprof.schema.value_classes import dataclass
from fastprof.wording.patterns import pattern_of

if TYPE_CHECKING:
    from fastprof.hlo.module import HloModule

METADATA_PLANE = "/host:metadata"
PROTO_STATS = ("Hlo Proto", "HLO Proto")
OWN_ID = "program_id"
STATS = (*PROTO_STATS, OWN_ID)
"""Stats of event metadata that are read."""
_PIECE = 1 << 20
_MODULE_TAG = b"\x0a"
"""Of field 1: of an HloProto the module, of an HloModuleProto its name."""
_NAMED = pattern_of(r".*\((\d+)\)", re.DOTALL)


class BytesOfProgram:
    """What a program is read from where its capture is not open. ``fetch``: returns its bytes, which the capture has
    from ``offset`` on."""

    def __init__(self, offset: int, fetch: Callable[[], bytes]) -> None:
        self._offset = offset
        self._fetch = fetch

    def check_unchanged(self) -> None:
        """They stay what they are."""

    def read(self, offset: int, length: int) -> bytes:
        at = offset - self._offset
        return self._fetch()[at : at + length]


@dataclass(frozen=True, slots=True, eq=False)
class Program:
    """``id``: a uint64 as an int64 (two's complement). ``title``: how it is listed, ``jit_f(12)``. ``path``: its file,
    from byte ``offset`` on; ``embedded``: whether that is the capture. ``head``: bytes put before those of a file that
    holds only an HloModuleProto, to make it an HloProto. ``known_digest``: its digest, if another process computed it.

    A pickled program has its bytes with it.
    """

    id: int
    title: str
    path: str
    offset: int
    length: int
    embedded: bool
    source: Source | BytesOfProgram
    head: bytes = b""
    known_digest: bytes = b""

    def __reduce__(self) -> tuple[Any, ...]:
        own = self.source.read(self.offset, self.length)
        return program_of_bytes, (self.described(), own)

    def described(self) -> tuple[Any, ...]:
        """All but the source, for ``program_of_bytes``. Reads it once, for the digest."""
        return self.id, self.title, self.path, self.offset, self.length, self.embedded, self.head, self.digest

    @property
    def digest(self) -> bytes:
        """Equal for programs that are the same to the byte."""
        return self.known_digest or hashlib.blake2b(self.data, digest_size=16).digest()

    @property
    def data(self) -> memoryview:
        """The HloProto, read again each time. Raises ChangedError."""
        self.source.check_unchanged()
        own = self.source.read(self.offset, self.length)
        return memoryview(self.head + own) if self.head else memoryview(own)

    def is_same(self, other: Program) -> bool:
        """To the byte."""
        if self is other or self.length != other.length:
            return self is other
        pieces = zip(self._pieces(), other._pieces(), strict=True)
        return self.head == other.head and all(mine == theirs for mine, theirs in pieces)

    def _pieces(self) -> Iterator[bytes]:
        """Its bytes, a few at a time."""
        for at in range(0, self.length, _PIECE):
            yield self.source.read(self.offset + at, min(_PIECE, self.length - at))

    def read(self, log: ImportLog) -> HloModule:
        """CaptureError: it does not decode, which is logged, too."""
        from fastprof.hlo.module import HloModule  # most captures carry no programs

        try:
            return HloModule(self.data)
        except CaptureError as error:
            self.note(log, error)
            raise

    def note(self, log: ImportLog, error: CaptureError) -> None:
        """Logs, once, what part of the program does not decode."""
        fault, _, what = error.message.rpartition(", reading ")
        text = f"the program {self.title} does not decode: {fault}"
        log.add_faults([("broken_program", text, what, 1, self.offset + self.place(error))], self.path)

    def problem(self, error: CaptureError) -> str:
        """Why it could not be read, in words."""
        at = f"at byte {self.place(error):,} of its HLO"
        return f"the program {self.title} does not decode: {error.message}, {at}"

    def place(self, error: CaptureError) -> int:
        """The offset of an error in its bytes."""
        return max((error.offset or 0) - len(self.head), 0)


def program_of_bytes(described: tuple[Any, ...], own: bytes | Callable[[], bytes]) -> Program:
    """A program that was described. ``own``: its bytes, or what returns them."""
    number, title, path, offset, length, embedded, head, digest = described
    source = BytesOfProgram(offset, own if callable(own) else lambda: own)
    return Program(number, title, path, offset, length, embedded, source, head, digest)


def programs_of(capture: Capture, owners: Int64s, stats: SpanStats, numbers: Mapping[str, int]) -> list[Program]:
    """The programs of a capture, then of files beside it, the first of several of one id.

    ``owners``, ``stats``: of event metadata; ``numbers``: the number of each of ``STATS`` in ``stats``.
    """
    programs: dict[int, Program] = {}
    for program in _embedded(capture, owners, stats, numbers):
        _add(program, programs, capture.log)
    own = set(programs)
    for file in capture.program_files:
        named = program_id(stem(file))
        if named is None or named not in own:
            one = _of_file(file, named, capture.log)
            if one is not None and one.id not in own:
                _add(one, programs, capture.log)
    return list(programs.values())


def _add(program: Program, programs: dict[int, Program], log: ImportLog) -> None:
    first = programs.setdefault(program.id, program)
    if first.is_same(program):
        return
    title, number = program.title, program.id % 2**64
    text = f"two programs have the id {number}: {title} is ignored, the earlier {first.title} is used"
    log.add("data_loss", "duplicate_program", text, program.path, offset=program.offset)


# ---- in the capture


def _embedded(capture: Capture, owners: Int64s, stats: SpanStats, numbers: Mapping[str, int]) -> Iterator[Program]:
    """In the order of the metadata."""
    protos: dict[int, tuple[int, int]] = {}
    for name in reversed(PROTO_STATS):
        places = stats.places_of_bytes(stats.first_rows(owners, numbers[name]))
        protos |= {int(owners[row]): place for row, place in places.items()}
    chosen = np.array(sorted(protos), np.int64)
    rows = stats.first_rows(owners, numbers[OWN_ID])
    rows = rows[np.isin(owners[rows], chosen)]
    own_ids = dict(zip(owners[rows].tolist(), rows.tolist(), strict=True))
    metas = capture.metas[chosen]
    planes = capture.plane_of_part[metas["part"]].tolist()
    ids = capture.event_metadata_ids()
    titles = capture.texts(metas, b"XEventMetadata.name", "name_")
    for owner, plane, title in zip(chosen.tolist(), planes, titles, strict=True):
        if capture.plane_keys[plane][0] != METADATA_PLANE:
            continue
        own = own_ids.get(owner)
        if own is not None and stats.kind[own] in (records.INT64, records.UINT64):
            number = int(stats.int_value[own])
        else:
            named = program_id(title)
            number = int(ids[owner]) if named is None else named
        yield Program(number, title, capture.path, *protos[owner], True, capture.source)


def program_id(title: str) -> int | None:
    """The number in parentheses at the end of a title; None: no number, or not a program id."""
    named = _NAMED.fullmatch(title)
    if named is None or len(named.group(1)) > 20 or (number := int(named.group(1))) >= 1 << 64:
        return None
    return number - (1 << 64) if number >> 63 else number


# ---- in files


def stem(path: str) -> str:
    """The title of the program that a file is named after."""
    name = Path(path).name
    for ending in (".gz", ".zst", *PROGRAM_SUFFIXES):
        name = name.removesuffix(ending)
    return name


def _of_file(file: str, named: int | None, log: ImportLog) -> Program | None:
    """The program of a file, with the id in the file's name or else its own. None: it cannot be read, which is
    logged."""
    path = shown(file)
    try:
        source = open_program(file)
        program = Program(named or 0, shown(stem(file)), path, 0, source.size, False, source, head_of(source))
        return program if named is not None else replace(program, id=program.read(log).id)
    except ChangedError:
        raise
    except FastprofError as error:
        if not isinstance(error, CaptureError) or error.path is not None:
            log.add("error", "unreadable_program", error.message, path, offset=error.offset)
    return None


def open_program(file: str) -> Source:
    """The bytes of a file that holds a program. Raises UnreadableError, CaptureError."""
    try:
        return open_source(file, shown(file), lambda _: None)
    except CaptureError as error:
        if not error.message.startswith("the file is empty"):
            raise
        text = "the file is empty; XProf writes an empty file beside captures without programs"
        raise CaptureError(text, path=error.path, offset=0) from None


def head_of(source: Source) -> bytes:
    """Bytes that make a file an HloProto: empty, or for a file of an HloModuleProto alone, as written from
    ``as_serialized_hlo_module_proto``, its tag and length. An HloModuleProto begins with its name, a text; an HloProto
    begins with a module, whose first byte no text begins with."""
    start = source.read(0, 12)
    try:
        length, at = varint(memoryview(start), 1)
    except CaptureError:
        return b""
    is_module = start[:1] == _MODULE_TAG and length > 0 and at < len(start) and start[at] >= ord("0")
    return _MODULE_TAG + _as_varint(source.size) if is_module else b""


def _as_varint(number: int) -> bytes:
    digits = [number >> shift & 0x7F for shift in range(0, max(number.bit_length(), 1), 7)]
    return bytes([*(digit | 0x80 for digit in digits[:-1]), digits[-1]])


def checked_sizes(files: Sequence[str]) -> list[int]:
    """Decompressed sizes of the programs of those files that can be read. UnreadableError, CaptureError: no file can be
    read, for the first one."""
    sizes: list[int] = []
    failures: list[FastprofError] = []
    for file in files:
        try:
            sizes.append(_checked_size(file))
        except (CaptureError, UnreadableError) as error:
            failures.append(error)
    if not sizes and failures:
        raise failures[0]
    return sizes


def _checked_size(file: str) -> int:
    source = open_program(file)
    program = Program(0, "", shown(file), 0, source.size, False, source, head_of(source))
    try:
        if not len(program.read(ImportLog()).computations):
            raise CaptureError("the file holds no compiled program: no computation", offset=0)
    except CaptureError as error:
        placed = CaptureError(error.message, path=shown(file), offset=program.place(error))
        raise explained(placed, source.read(0, 64), is_program=True) from None
    return source.size
