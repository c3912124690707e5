"""Builds XSpace bytes from a short description, with a say in every byte that the wire format leaves open.

The common case is plain::

    xspace(plane("/host:CPU", lines=[line("main", [event("step", 0, 10, stats={"x": 1, "r": ref("text")})])]))

Names are interned into the metadata maps of their plane, numbered from 1 in order of first use;
`event_ids` and `stat_ids` of a plane pin the numbers of names, and an int in place of a name is an id as
it stands.

Every builder takes a `Wire`, which says how that one message is written. Parts given as bytes are taken as
they stand, so that a test can hand in anything. The same description always gives the same bytes.
"""

from __future__ import annotations

import random
import struct
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache

Piece = tuple[int, bytes]
"""A field of a message: its number, and its bytes with the tag."""


# ---- the wire format ------------------------------------------------------------------------------


_SMALL = [bytes([value]) for value in range(0x80)]


def varint(value: int, pad: int = 0) -> bytes:
    """A varint; negative numbers take ten bytes, `pad` adds bytes that say nothing, up to ten in all."""
    if 0 <= value < 0x80 and not pad:
        return _SMALL[value]
    value &= (1 << 64) - 1
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    for _ in range(min(pad, 10 - len(out))):
        out[-1] |= 0x80
        out.append(0)
    return bytes(out)


@cache
def tag(number: int, wire_type: int) -> bytes:
    return varint(number << 3 | wire_type)


def int_field(number: int, value: int, pad: int = 0) -> bytes:
    return tag(number, 0) + varint(value, pad)


def fixed64_field(number: int, payload: bytes) -> bytes:
    return tag(number, 1) + payload


def double_field(number: int, value: float) -> bytes:
    return fixed64_field(number, struct.pack("<d", value))


def len_field(number: int, payload: bytes | str, pad: int = 0) -> bytes:
    """A length-delimited field; `pad` lengthens the length, to the five bytes that protobuf reads at most."""
    raw = payload.encode() if isinstance(payload, str) else payload
    return tag(number, 2) + varint(len(raw), pad and min(pad, 5 - len(varint(len(raw))))) + raw


def fixed32_field(number: int, payload: bytes = b"\1\2\3\4") -> bytes:
    return tag(number, 5) + payload


def group_field(number: int, inside: bytes = b"") -> bytes:
    return tag(number, 3) + inside + tag(number, 4)


UNKNOWN_FIELDS = (
    int_field(100, -1)
    + fixed64_field(101, b"unknown8")
    + len_field(102, b"\x08\x01 not a message")
    + group_field(103, int_field(1, 7) + group_field(2, len_field(3, b"deep")) + fixed32_field(4))
    + fixed32_field(104)
    + int_field((1 << 29) - 1, 3)
)
"""One unknown field of every wire type; the largest field number too."""


@dataclass(frozen=True, slots=True)
class Wire:
    """How one message is written.

    order: field numbers that come first, in this order; the others follow in the usual order.
    shuffle: a seed; the fields are written in any order, repeated ones too.
    before, after: raw fields around the message's own, such as a value that the own one overrides.
    explicit: scalars that are zero or empty are written, which proto3 leaves out.
    pad: bytes added to each varint of the message, as far as they are legal.
    """

    order: tuple[int, ...] = ()
    shuffle: int | None = None
    before: bytes = b""
    after: bytes = b""
    explicit: bool = False
    pad: int = 0


PLAIN = Wire()
_NUMBERS = {f"f{number}": number for number in range(1, 12)}


def _message(pieces: Sequence[Piece], wire: Wire) -> bytes:
    if wire is PLAIN:
        return b"".join([written for _, written in pieces])
    places = {number: place for place, number in enumerate(wire.order)}
    laid = sorted(pieces, key=lambda piece: places.get(piece[0], len(places)))
    if wire.shuffle is not None:
        random.Random(wire.shuffle).shuffle(laid)
    return wire.before + b"".join(written for _, written in laid) + wire.after


def _ints(wire: Wire, **numbered: int) -> list[Piece]:
    """Scalars named f1, f2, …: written unless zero, or all of them where the wire is explicit."""
    return [
        (number := _NUMBERS[name], int_field(number, value, wire.pad))
        for name, value in numbered.items()
        if value or wire.explicit
    ]


def _texts(wire: Wire, **numbered: bytes | str) -> list[Piece]:
    return [
        (number := _NUMBERS[name], len_field(number, value, wire.pad))
        for name, value in numbered.items()
        if value or wire.explicit
    ]


# ---- stats ----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class u64:  # noqa: N801 - reads like the literal that it is
    """A uint64 value; plain ints are int64."""

    value: int


@dataclass(frozen=True, slots=True)
class ref:  # noqa: N801 - reads like the literal that it is
    """A reference: to a text, interned into the stat metadata, or to an id as it stands."""

    target: str | int


@dataclass(frozen=True, slots=True)
class several:  # noqa: N801 - reads like the literal that it is
    """Several members of the oneof in one stat; the last one is its value."""

    values: tuple[Value, ...]


Value = int | float | str | bytes | u64 | ref | several | None


@dataclass(frozen=True, slots=True)
class Stat:
    name: str | int
    value: Value
    wire: Wire = PLAIN


Stats = Mapping[str | int, Value] | Sequence[Stat | bytes]


def stat(name: str | int, value: Value, wire: Wire = PLAIN) -> Stat:
    return Stat(name, value, wire)


class _Interner:
    """The ids of names in one plane."""

    def __init__(self, pinned: Mapping[str, int]) -> None:
        self.ids = dict(pinned)
        self._taken = set(pinned.values())
        self._next = 1

    def id_of(self, name: str | int) -> int:
        if isinstance(name, int):
            return name
        if name not in self.ids:
            while self._next in self._taken:
                self._next += 1
            self.ids[name] = self._next
            self._taken.add(self._next)
        return self.ids[name]


def _value_pieces(value: Value, names: _Interner, pad: int) -> list[Piece]:
    match value:
        case None:
            return []
        case several(values):
            return [piece for one in values for piece in _value_pieces(one, names, pad)]
        case u64(number):
            return [(3, int_field(3, number, pad))]
        case ref(target):
            return [(7, int_field(7, names.id_of(target), pad))]
        case int(number):
            return [(4, int_field(4, number, pad))]
        case float(number):
            return [(2, double_field(2, number))]
        case str(text):
            return [(5, len_field(5, text, pad))]
        case bytes(raw):
            return [(6, len_field(6, raw, pad))]
    raise TypeError(f"a stat cannot hold {value!r}")


def _stats(stats: Stats, names: _Interner) -> list[bytes]:
    if isinstance(stats, Mapping):  # those of most events, so without objects for them
        return [
            (int_field(1, id) if (id := names.id_of(name)) else b"")
            + b"".join([written for _, written in _value_pieces(value, names, 0)])
            for name, value in stats.items()
        ]
    written = []
    for one in stats:
        if isinstance(one, bytes):
            written.append(one)
            continue
        pieces = _ints(one.wire, f1=names.id_of(one.name)) + _value_pieces(one.value, names, one.wire.pad)
        written.append(_message(pieces, one.wire))
    return written


# ---- events and lines -----------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Event:
    name: str | int
    offset_ps: int | None = 0
    duration_ps: int = 0
    stats: Stats = ()
    num_occurrences: int | None = None
    wire: Wire = PLAIN


def event(
    name: str | int,
    offset_ps: int | None = 0,
    duration_ps: int = 0,
    stats: Stats = (),
    *,
    num_occurrences: int | None = None,
    wire: Wire = PLAIN,
) -> Event:
    """offset_ps None: not written. num_occurrences makes it aggregated; it is written after an offset."""
    return Event(name, offset_ps, duration_ps, stats, num_occurrences, wire)


def aggregated(name: str | int, num_occurrences: int, duration_ps: int = 0, stats: Stats = ()) -> Event:
    return Event(name, None, duration_ps, stats, num_occurrences)


@dataclass(frozen=True, slots=True)
class Line:
    name: str | bytes
    events: Sequence[Event | bytes] = ()
    id: int = 0
    timestamp_ns: int = 0
    duration_ps: int = 0
    display_id: int = 0
    display_name: str | bytes = ""
    wire: Wire = PLAIN


def line(name: str | bytes, events: Sequence[Event | bytes] = (), *, id: int | None = None, **rest: object) -> Line:
    """A line; `rest` are the fields of Line. Lines without an id get 1, 2, … in their plane."""
    return Line(name, events, _UNNUMBERED if id is None else id, **rest)  # type: ignore[arg-type]


_UNNUMBERED = 1 << 64


def _event_bytes(one: Event, events: _Interner, stats: _Interner) -> bytes:
    pad = one.wire.pad
    pieces = _ints(one.wire, f1=events.id_of(one.name))
    if one.offset_ps is not None:
        pieces.append((2, int_field(2, one.offset_ps, pad)))
    pieces += _ints(one.wire, f3=one.duration_ps)
    pieces += [(4, len_field(4, written, pad)) for written in _stats(one.stats, stats)]
    if one.num_occurrences is not None:
        pieces.append((5, int_field(5, one.num_occurrences, pad)))
    return _message(pieces, one.wire)


def _line_bytes(one: Line, number: int, events: _Interner, stats: _Interner) -> bytes:
    wire = one.wire
    pieces = _ints(wire, f1=number if one.id == _UNNUMBERED else one.id)
    pieces += _texts(wire, f2=one.name) + _ints(wire, f3=one.timestamp_ns)
    for inner in one.events:
        written = inner if isinstance(inner, bytes) else _event_bytes(inner, events, stats)
        pieces.append((4, len_field(4, written, wire.pad)))
    pieces += _ints(wire, f9=one.duration_ps, f10=one.display_id) + _texts(wire, f11=one.display_name)
    return _message(pieces, wire)


# ---- metadata -------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Entry:
    """How a map entry is written around its value: the key, and the value, may be missing or come twice.

    key: written in place of the id.
    first: a value written before the real one; protobuf merges the two.
    """

    key: int | None = None
    omit_key: bool = False
    omit_value: bool = False
    first: bytes | None = None
    wire: Wire = PLAIN


USUAL = Entry()


def _entry(id: int, value: bytes, entry: Entry) -> bytes:
    pieces: list[Piece] = []
    if not entry.omit_key:
        pieces.append((1, int_field(1, id if entry.key is None else entry.key, entry.wire.pad)))
    if entry.first is not None:
        pieces.append((2, len_field(2, entry.first, entry.wire.pad)))
    if not entry.omit_value:
        pieces.append((2, len_field(2, value, entry.wire.pad)))
    return _message(pieces, entry.wire)


@dataclass(frozen=True, slots=True)
class Metadata:
    """An XEventMetadata. packed: how child_ids are written; inner_id False leaves its own id field out."""

    name: str
    id: int | None = None
    display_name: str = ""
    metadata: bytes = b""
    stats: Stats = ()
    child_ids: Sequence[int] = ()
    packed: bool = True
    inner_id: bool = True
    entry: Entry = USUAL
    wire: Wire = PLAIN


@dataclass(frozen=True, slots=True)
class StatMetadata:
    name: str
    id: int | None = None
    description: str = ""
    inner_id: bool = True
    entry: Entry = USUAL
    wire: Wire = PLAIN


def _event_metadata_bytes(one: Metadata, id: int, names: _Interner) -> bytes:
    wire = one.wire
    pieces = (_ints(wire, f1=id) if one.inner_id else []) + _texts(wire, f2=one.name, f3=one.metadata)
    pieces += _texts(wire, f4=one.display_name)
    pieces += [(5, len_field(5, written, wire.pad)) for written in _stats(one.stats, names)]
    if one.packed and one.child_ids:
        packed = b"".join(varint(child, wire.pad) for child in one.child_ids)
        pieces.append((6, len_field(6, packed, wire.pad)))
    elif one.child_ids:
        pieces += [(6, int_field(6, child, wire.pad)) for child in one.child_ids]
    return _entry(id, _message(pieces, wire), one.entry)


def _stat_metadata_bytes(one: StatMetadata, id: int) -> bytes:
    pieces = (_ints(one.wire, f1=id) if one.inner_id else []) + _texts(one.wire, f2=one.name)
    return _entry(id, _message(pieces + _texts(one.wire, f3=one.description), one.wire), one.entry)


# ---- planes and the space -------------------------------------------------------------------------

LINES, EVENT_METADATA, STAT_METADATA, PLANE_STATS = 3, 4, 5, 6
MAPS_FIRST = Wire(order=(STAT_METADATA, EVENT_METADATA, LINES))
REVERSED = Wire(order=(6, 5, 4, 3, 2, 1))


@dataclass(frozen=True, slots=True)
class Plane:
    name: str | bytes
    lines: Sequence[Line | bytes] = ()
    id: int = 0
    stats: Stats = ()
    event_metadata: Sequence[Metadata] = ()
    stat_metadata: Sequence[StatMetadata] = ()
    event_ids: Mapping[str, int] = field(default_factory=dict)
    stat_ids: Mapping[str, int] = field(default_factory=dict)
    wire: Wire = PLAIN


def plane(name: str | bytes, lines: Sequence[Line | bytes] = (), **rest: object) -> Plane:
    """A plane; `rest` are the fields of Plane. Metadata listed is written first, then interned names."""
    return Plane(name, lines, **rest)  # type: ignore[arg-type]


def _plane_bytes(one: Plane) -> bytes:
    wire = one.wire
    events = _Interner({**one.event_ids, **{m.name: m.id for m in one.event_metadata if m.id is not None}})
    stats = _Interner({**one.stat_ids, **{m.name: m.id for m in one.stat_metadata if m.id is not None}})
    pieces = _ints(wire, f1=one.id) + _texts(wire, f2=one.name)
    for number, inner in enumerate(one.lines, 1):
        written = inner if isinstance(inner, bytes) else _line_bytes(inner, number, events, stats)
        pieces.append((LINES, len_field(LINES, written, wire.pad)))
    plane_stats = [(PLANE_STATS, len_field(PLANE_STATS, raw, wire.pad)) for raw in _stats(one.stats, stats)]
    listed = list(one.event_metadata)
    named = {m.name for m in listed}
    listed += [Metadata(name, id) for name, id in list(events.ids.items()) if name not in named]
    for meta in listed:
        raw = _event_metadata_bytes(meta, events.id_of(meta.name) if meta.id is None else meta.id, stats)
        pieces.append((EVENT_METADATA, len_field(EVENT_METADATA, raw, wire.pad)))
    texts = list(one.stat_metadata)
    named = {m.name for m in texts}
    texts += [StatMetadata(name, id) for name, id in stats.ids.items() if name not in named]
    for text in texts:
        raw = _stat_metadata_bytes(text, stats.id_of(text.name) if text.id is None else text.id)
        pieces.append((STAT_METADATA, len_field(STAT_METADATA, raw, wire.pad)))
    return _message(pieces + plane_stats, wire)


def xspace(
    *planes: Plane | bytes,
    errors: Iterable[str | bytes] = (),
    warnings: Iterable[str | bytes] = (),
    hostnames: Iterable[str | bytes] = (),
    wire: Wire = PLAIN,
) -> bytes:
    pieces = [(1, len_field(1, one if isinstance(one, bytes) else _plane_bytes(one), wire.pad)) for one in planes]
    for number, texts in ((2, errors), (3, warnings), (4, hostnames)):
        pieces += [(number, len_field(number, text, wire.pad)) for text in texts]
    return _message(pieces, wire)


def task_environment(start_unix_ns: int | None, stop_unix_ns: int | None = None, **stats: Value) -> Plane:
    """The plane that says when profiling started and stopped."""
    known = {"profile_start_time": start_unix_ns, "profile_stop_time": stop_unix_ns}
    given: dict[str | int, Value] = {name: u64(value) for name, value in known.items() if value is not None}
    given.update(stats)
    return plane("Task Environment", stats=given)
