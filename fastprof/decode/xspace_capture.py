"""One capture, opened: its planes, its name tables, and where its lines lie. No event is read here. Planes that stand
in a file several times, as in concatenated files, are one."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from fastprof._native import records
from fastprof._native.xspace import TOO_MANY, Bytes, Memory, Scanner, XSpace
from fastprof.decode.import_log import ImportLog
from fastprof.decode.text_pools import TextTable
from fastprof.errors import CaptureError
from fastprof.inputs import open_files
from fastprof.inputs.foreign_files import explain_error, refuse_other, refuse_other_protobuf
from fastprof.inputs.formats.contract import GRAPH_PLANE
from fastprof.inputs.resolve import ONLY_PROGRAMS, CaptureFile
from fastprof.inputs.source import CaptureSource, open_source
from fastprof.schema.columns import Int32s, Int64s, Records, find_runs, number_values, sort_rows
from fastprof.schema.value_classes import dataclass


def find_clashes(ids: Int64s, planes: Int64s, names: Int32s) -> npt.NDArray[np.intp]:
    """Return the rows of planes in which an id has several names."""
    order = sort_rows(planes, ids)
    plane, number, name = planes[order], ids[order], names[order]
    differs = (plane[1:] == plane[:-1]) & (number[1:] == number[:-1]) & (name[1:] != name[:-1])
    return np.flatnonzero(np.isin(planes, np.unique(plane[1:][differs])))


def renumber_metadata(ids: Int64s, planes: Int64s, names: Int32s) -> Int64s:
    """Return the ids that metadata get, row by row in the order of parts; ``planes``: the plane of each row."""
    fresh = ids.copy()
    by_id: dict[int, dict[int, int]] = {}
    by_name: dict[int, dict[int, int]] = {}
    top: dict[int, int] = {}
    for row, (plane, number, name) in enumerate(zip(planes.tolist(), ids.tolist(), names.tolist(), strict=True)):
        known, named = by_id.setdefault(plane, {}), by_name.setdefault(plane, {})
        if known.get(number, name) != name:
            number = named[name] if name in named else _find_free_id(top[plane], known)
            fresh[row] = number
        known.setdefault(number, name)
        named.setdefault(name, number)
        top[plane] = max(top.get(plane, number), number)
    return fresh


def _find_free_id(top: int, known: dict[int, int]) -> int:
    """Return an id that is not taken: the next one, or where ids end there, the largest that is free."""
    number = top + 1
    while number >= 2**63 or number in known:
        number = min(number, 2**63) - 1
    return number


def take_new_ids(metas: Records, fresh: Int64s, ids: Int64s, parts: Int64s) -> Int64s:
    """Return ids as parts use them as ids in their planes. ``fresh``: the new id of each of the ``metas``."""
    changed = np.flatnonzero(metas["id"] != fresh)
    if not len(changed):
        return ids
    keys = zip(metas["part"][changed].tolist(), metas["id"][changed].tolist(), strict=True)
    known = dict(zip(keys, fresh[changed].tolist(), strict=True))
    return np.array([known.get(pair, pair[1]) for pair in zip(parts.tolist(), ids.tolist(), strict=True)], np.int64)


def mark_first_of_each(planes: Int64s, ids: Int64s) -> npt.NDArray[np.bool_]:
    """Return whether each row is the first of its plane and id."""
    order = sort_rows(planes, ids)
    first = np.zeros(len(ids), bool)
    first[order[find_runs(planes[order], ids[order])]] = True
    return first


Kinds = npt.NDArray[np.uint8]
_HEAD = 512
"""Bytes by which files of other kinds are known."""
_NAMED, _RENUMBERED = 100, 600
"""Bytes of memory that metadata of merged planes take while their names and ids are compared, and if ids clash."""
_UNDECLARED = 600
"""Bytes of memory that a stat id takes that its part uses and does not declare."""
_TRANSCRIBED = 1 << 30
"""Bytes of memory that planes and names of a file in another format may take: its text is larger than the XSpace."""


@dataclass(frozen=True, slots=True)
class DeclaredStats:
    """The stat metadata of a capture at one time, and the view of its bytes that knows exactly these. It never changes:
    a stat that is used without a declaration gets a row in the next one."""

    xspace: XSpace
    metas: Records


class Capture:
    """The XSpace of one host. Arrays are in the order of the file. Threads may share it.

    ``parts``    XPlanes as they stand in the file; ``plane_of_part`` numbers the planes they make up
    ``pieces``   XLines as they stand in the file; their headers are filled in by the index
    ``metas``    event metadata, ``stats`` stat metadata of all parts
    """

    def __init__(
        self,
        file: CaptureFile,
        memory: Memory,
        log: ImportLog,
        salvage: bool = False,
        max_unpacked: int = open_files.MOST_UNPACKED,
    ) -> None:
        self.path = file.path
        self.run = file.run
        self.only_programs = file.source is ONLY_PROGRAMS
        self.program_files = file.programs
        self.is_part = isinstance(file.source, CaptureSource)
        """True if the file has other hosts, too, and this is the part of it that one host has."""
        self._before_planes = file.before_planes
        self.memory = memory
        self.log = log
        self.salvage = salvage
        self._head = b""
        self._declaring = threading.Lock()
        raised = max_unpacked if max_unpacked > open_files.MOST_UNPACKED else 0
        self._scanner = Scanner(memory, file.path, salvage, raised)
        try:
            self.source = open_source(file.source, file.path, self._push, salvage, max_unpacked, pipe=file.pipe)
            data = self._bytes()
            if not self.source.pushed:
                self._head = self.source.read(0, _HEAD)
                refuse_other_protobuf(self._head, self.path)
                if self.source.is_transcribed:
                    self._scanner = Scanner(memory, file.path, salvage, max(raised, _TRANSCRIBED))
                self._scanner.read(data)
            refuse_other_protobuf(self._head, self.path)
            self._scanner.finish()
            xspace = XSpace(self._scanner, data, salvage)
            self.stats = DeclaredStats(xspace, np.frombuffer(xspace.stat_metas(), records.STAT_META))
        except CaptureError as error:
            raise explain_error(error, self._head) from None
        if salvage and self._scanner.faults():
            refuse_other(self._head, self.path)
        self.size_bytes = self.source.read_size
        self._read_structure()
        self.host = file.host or next(iter(self.hostnames), "") or "unknown"
        if self.source.damage:
            log.add("data_loss", "damaged_stream", self.source.damage, self.path, offset=self.source.size)
        for remark in self.source.remarks:
            log.add(remark.severity, remark.code, remark.text, self.path, remark.count, remark.first_offset)
        log.add_faults(self._scanner.faults() + self.xspace.faults(), self.path)
        del self._scanner

    def _bytes(self) -> Bytes:
        source = self.source
        if source.memory is not None:
            return Bytes(source.memory)
        assert source.stored is not None
        return Bytes(source.stored, source.size, source.stored.parts)

    def _push(self, chunk: Any) -> None:
        if len(self._head) < _HEAD:
            self._head += bytes(memoryview(chunk)[: _HEAD - len(self._head)])
            refuse_other_protobuf(self._head, self.path)
        self._scanner.push(chunk)

    def _read_structure(self) -> None:
        self.parts = np.frombuffer(self._scanner.parts(), records.PART)
        kinds = (records.LINES, records.PLANE_STATS, records.ERRORS, records.WARNINGS, records.HOSTNAMES)
        spans = {kind: np.frombuffer(self._scanner.spans(kind), records.SPAN) for kind in kinds}
        if not len(self.parts) and not any(map(len, spans.values())):
            text = "the file has no field of an XSpace"
            raise explain_error(CaptureError(text, path=self.path, offset=0, salvageable=False), self._head)
        self.plane_stat_spans = spans[records.PLANE_STATS]
        self.errors = self.texts(spans[records.ERRORS], b"XSpace.errors")
        self.warnings = self.texts(spans[records.WARNINGS], b"XSpace.warnings")
        self.hostnames = self.texts(spans[records.HOSTNAMES], b"XSpace.hostnames")
        self.pieces = np.zeros(len(spans[records.LINES]), records.PIECE)
        for name in ("offset", "length", "part"):
            self.pieces[name] = spans[records.LINES][name]
        self.metas = np.frombuffer(self.xspace.event_metas(), records.EVENT_META)
        self._number_planes()

    @property
    def xspace(self) -> XSpace:
        """The bytes and their name tables, with all stats that are declared by now."""
        return self.stats.xspace

    def hold(self, size: int, places: Int64s, what: str, all_or_none: bool = False) -> int:
        """Count the memory of rows of ``size`` bytes each, and return how many of them may be held: to salvage, only
        the first ones unless ``all_or_none``. ``places``: where the rows are in the file. CaptureError: too many."""
        count = len(places)
        fits = self.xspace.hold(count, size)
        if fits < count:
            code, text, offset = *TOO_MANY, int(places[fits])
            if all_or_none or not self.salvage:
                raise CaptureError(f"{text}, reading {what}", path=self.path, offset=offset)
            self.log.add_faults([(code, text, what, count - fits, offset)], self.path)
        return fits

    # ---- bytes and texts

    def copies(self, places: Sequence[tuple[int, int]]) -> list[bytes]:
        """Return the bytes at these places: offset and length."""
        at = np.array(places, np.uint64).reshape(-1, 2)
        return self.xspace.copies(np.ascontiguousarray(at[:, 0]), np.ascontiguousarray(at[:, 1])) if len(at) else []

    def intern(self, offsets: Any, lengths: Any, what: bytes, table: TextTable) -> Int32s:
        """Return numbers in the table of the texts at these places; -1 where the length is NO_TEXT."""
        self.source.check_unchanged()
        at, sizes = np.ascontiguousarray(offsets, np.uint64), np.ascontiguousarray(lengths, np.uint64)
        numbers, faults = table.intern(self.xspace, at, sizes, what)
        self.log.add_faults(faults, self.path)
        return numbers

    def texts(self, rows: Records, what: bytes, prefix: str = "") -> list[str]:
        """Return the texts at the places that records give as ``PREFIXoffset`` and ``PREFIXlength``."""
        if not len(rows):
            return []
        table = TextTable(self.memory)
        numbers = self.intern(rows[prefix + "offset"], rows[prefix + "length"], what, table)
        distinct: list[str] = table.array().to_pylist()
        return [distinct[number] for number in numbers]

    # ---- planes

    def _number_planes(self) -> None:
        """Parts of equal name and id are one plane; planes are numbered in the order of their first part."""
        names = self.texts(self.parts, b"XPlane.name", "name_")
        self.part_names = [name.removeprefix(self._before_planes) for name in names]
        numbers: dict[tuple[str, int], int] = {}
        keys = zip(self.part_names, self.parts["id"].tolist(), strict=True)
        self.plane_of_part = np.array([numbers.setdefault(key, len(numbers)) for key in keys], np.int64)
        self.plane_keys = list(numbers)
        self.meta_ids: Int64s | None = None
        self._stat_ids: Int64s | None = None
        if len(numbers) == len(self.parts):
            return
        graph_parts = self.part_names.count(GRAPH_PLANE)  # always written in parts
        merged = len(self.parts) - len(numbers) - max(graph_parts - 1, 0)
        if merged:
            self.log.add("notice", "merged_planes", "planes of equal name and id are read as one", self.path, merged)
        self.meta_ids = self._renumbered(self.metas, b"XEventMetadata.name")
        self._stat_ids = self._renumbered(self.stats.metas, b"XStatMetadata.name")

    def _renumbered(self, metas: Records, what: bytes) -> Int64s:
        ids: Int64s = metas["id"].copy()
        rows = np.flatnonzero((np.bincount(self.plane_of_part) > 1)[self.plane_of_part[metas["part"]]])
        rows = rows[: self.hold(_NAMED, metas["name_offset"][rows], what.decode())]
        named, planes = metas[rows], self.plane_of_part[metas["part"][rows]]
        names = self.intern(named["name_offset"], named["name_length"], what, TextTable(self.memory))
        clashing = find_clashes(named["id"], planes, names)
        fits = self.hold(_RENUMBERED, named["name_offset"][clashing], what.decode())
        clashing = clashing[:fits]
        ids[rows[clashing]] = renumber_metadata(named["id"][clashing], planes[clashing], names[clashing])
        changed = int((ids != metas["id"]).sum())
        if changed:
            text = "metadata ids of merged planes that clashed have been replaced"
            self.log.add("notice", "renumbered_metadata", text, self.path, changed)
        return ids

    def event_metadata_ids(self) -> Int64s:
        """Return the id of each of ``metas`` in its plane."""
        ids: Int64s = self.metas["id"] if self.meta_ids is None else self.meta_ids
        return ids

    def stat_metadata_ids(self) -> Int64s:
        """Return the id of each of the stat metadata in its plane; stats declared since keep theirs."""
        ids: Int64s = self.stats.metas["id"]
        if self._stat_ids is None:
            return ids
        return np.concatenate([self._stat_ids, ids[len(self._stat_ids) :]])

    def stat_ids_of(self, ids: Int64s, parts: Int64s) -> Int64s:
        """Ids as a part's stats use them, as ids in its plane."""
        if self._stat_ids is None:
            return ids
        return take_new_ids(self.stats.metas[: len(self._stat_ids)], self._stat_ids, ids, parts)

    def declares(self, stat: str) -> npt.NDArray[np.bool_]:
        """Return, per plane, whether its stat metadata names the stat, which is ASCII."""
        metas = self.stats.metas
        likely = metas[metas["name_length"] == len(stat)]
        named = np.array([name == stat for name in self.texts(likely, b"XStatMetadata.name", "name_")], bool)
        is_wanted = np.zeros(len(self.plane_keys), bool)
        is_wanted[self.plane_of_part[likely["part"][named]]] = True
        return is_wanted

    # ---- stats that a part uses and does not declare

    def declare(self, unknown: Records) -> tuple[npt.NDArray[np.intp], Kinds]:
        """Give rows to stat ids without metadata. Return the row of each, and the kinds of its values."""
        pairs, place = number_values(unknown[["part", "id"]])
        kinds = np.zeros(len(pairs), np.uint8)
        np.bitwise_or.at(kinds, place, unknown["kinds"].astype(np.uint8))
        if not len(pairs):
            return np.zeros(0, np.intp), kinds
        with self._declaring:
            known = self._nameless()
            fresh = np.array([pair not in known for pair in pairs.tolist()], bool)
            if fresh.any():
                places = self.parts["offset"][pairs["part"][fresh]]
                self.hold(_UNDECLARED, places, "XStat.metadata_id", all_or_none=True)
                added = pairs[fresh]
                xspace = self.xspace.forked()
                groups = np.split(added, np.flatnonzero(np.diff(added["part"])) + 1)
                for group in groups:
                    xspace.declare_stats(int(group["part"][0]), np.ascontiguousarray(group["id"], np.int64))
                for group in groups:
                    plane = self.part_names[group["part"][0]]
                    example = f"stats of plane {plane!r} have no name, such as #{group['id'][0]}"
                    self.log.add("notice", "no_stat_name", example, self.path, len(group))
                self.stats = DeclaredStats(xspace, np.frombuffer(xspace.stat_metas(), records.STAT_META))
                known = self._nameless()
        return np.array([known[pair] for pair in pairs.tolist()], np.intp), kinds

    def _nameless(self) -> dict[tuple[int, int], int]:
        """Return the rows of stat metadata that no part has declared, by part and id."""
        metas = self.stats.metas
        rows = np.flatnonzero(metas["name_length"] == records.NO_TEXT)
        return dict(zip(metas[rows][["part", "id"]].tolist(), rows.tolist(), strict=True))


class NamedHost(Protocol):
    """A capture, or what another process says of one."""

    host: str
    path: str


def name_hosts(captures: Sequence[NamedHost], log: ImportLog) -> None:
    """Give captures whose recorded host names repeat a name of their own: the second ``vm`` becomes ``vm#2``."""
    recorded = {capture.host for capture in captures}
    seen: dict[str, int] = {}
    for capture in captures:
        number = seen[capture.host] = seen.get(capture.host, 0) + 1
        if number > 1:
            while f"{capture.host}#{number}" in recorded:
                number += 1
            seen[capture.host] = number
            text = f"several captures are of host {capture.host!r}; tables call this one {capture.host}#{number}"
            log.add("notice", "duplicate_host", text, capture.path)
            capture.host = f"{capture.host}#{number}"
