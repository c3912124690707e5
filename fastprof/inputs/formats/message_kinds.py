"""What a protobuf is, by its fields: it has no magic number, so those of a message in it have to have the numbers and
wire types of its kind, and messages in that likewise.

A kind lists the fields of a message: NUMBER, BYTES, NUMBERS (packed or not), or the kind of a message in it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Final

from fastprof.schema import message_fields as wire

NUMBER, BYTES, NUMBERS = "number", "bytes", "numbers"
Kind = Mapping[int, "str | Kind"]
_WIDTHS: Final = {wire.FIXED64: 8, wire.FIXED32: 4}
_FIELDS: Final = 4_000
"""Fields of a message that are looked at."""

_TEXTS: Final[Kind] = {1: NUMBER, 2: BYTES}
_NUMBERS: Final[Kind] = {1: NUMBER, 2: NUMBER}
_NODE: Final[Kind] = {
    1: BYTES, 2: _NUMBERS, 3: _NUMBERS, 4: NUMBERS, 5: BYTES, 6: BYTES, 7: BYTES, 8: NUMBER, 9: BYTES, 10: {1: BYTES},
    11: {1: BYTES, 2: BYTES}, 12: _TEXTS, 13: NUMBER, 14: _NUMBERS, 15: _TEXTS, 16: _TEXTS,
}  # fmt: skip
PROFILE: Final[Kind] = {1: {1: NUMBER, 2: _NODE}, 2: NUMBER, 3: NUMBERS, 4: _TEXTS, 5: NUMBER}
"""A ProfileProto of tfprof: its nodes by number."""
_CODE: Final[Kind] = {1: {1: BYTES, 2: NUMBER, 3: BYTES, 4: BYTES, 5: NUMBER, 6: NUMBER, 7: NUMBER, 8: NUMBER}}
OP_LOG: Final[Kind] = {1: {1: BYTES, 2: NUMBER, 3: BYTES, 4: _CODE}, 2: _TEXTS}
"""An OpLogProto of tfprof: nodes by name, and texts by number."""


class _MisfitError(Exception):
    pass


def begins_with(head: bytes, kind: Kind, named: tuple[int, ...]) -> bool:
    """Whether bytes that may be cut begin with fields of a message of this kind, one of them a sound message in which
    a name is not empty: ``named`` lists the numbers of fields that lead to it. Others may be damaged."""
    try:
        for number, value, is_cut in _fields(memoryview(head), True):
            what = kind.get(number)
            if what is None:
                return False
            if number == named[0] and not isinstance(what, str) and not isinstance(value, int):
                with suppress(_MisfitError):
                    if _met(value, what, named[1:], is_cut):
                        return True
    except _MisfitError:
        return False
    return False


def _met(data: memoryview, kind: Kind, named: tuple[int, ...], is_cut: bool) -> bool:
    """Whether the named field is there. _MisfitError: another field is not of the kind."""
    met = False
    for number, value, value_is_cut in _fields(data, is_cut):
        what = kind.get(number)
        is_next = named[:1] == (number,)
        if isinstance(value, int):
            if what not in (NUMBER, NUMBERS):
                raise _MisfitError
        elif isinstance(what, str) or what is None:
            if what not in (BYTES, NUMBERS):
                raise _MisfitError
            met |= is_next and len(named) == 1 and len(value) > 0
        else:
            met |= _met(value, what, named[1:] if is_next else (), value_is_cut)
    return met


def _fields(data: memoryview, is_cut: bool) -> Iterator[tuple[int, int | memoryview, bool]]:
    """Numbers, values, and whether a value is cut. _MisfitError: the bytes are no message."""
    at, size = 0, len(data)
    for _ in range(_FIELDS):
        if at >= size:
            return
        tag, at = _varint(data, at, is_cut)
        if at < 0:
            return
        number, kind = tag >> 3, tag & 7
        if kind in _WIDTHS:
            at += _WIDTHS[kind]
            yield number, 0, False
            continue
        if kind not in (wire.VARINT, wire.BYTES):
            raise _MisfitError
        value, at = _varint(data, at, is_cut)
        if at < 0:
            return
        if kind == wire.VARINT:
            yield number, value, False
            continue
        if value > size - at and not is_cut:
            raise _MisfitError
        yield number, data[at : at + value], value > size - at
        at += value


def _varint(data: memoryview, at: int, is_cut: bool) -> tuple[int, int]:
    """A number and where it ends; -1: it is cut."""
    value = 0
    for place, byte in enumerate(data[at : at + 10]):
        value |= (byte & 0x7F) << 7 * place
        if byte < 0x80:
            return value, at + place + 1
    if not is_cut or len(data) - at >= 10:
        raise _MisfitError
    return 0, -1
