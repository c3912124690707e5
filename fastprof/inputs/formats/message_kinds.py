"""What a protobuf is, by its fields: it has no magic number, so those of a message in it have to have the numbers and
wire types of its kind, and messages in that likewise.

A kind lists the fields of a message: NUMBER, BYTES, NUMBERS (packed or not), or the kind of a message in it.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import Final

from fastprof.inputs.message_bytes import BadMessageError, begun_fields

NUMBER, BYTES, NUMBERS = "number", "bytes", "numbers"
Kind = Mapping[int, "str | Kind"]
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


def begins_with(head: bytes, kind: Kind, named: tuple[int, ...]) -> bool:
    """Whether bytes that may be cut begin with fields of a message of this kind, one of them a sound message in which
    a name is not empty: ``named`` lists the numbers of fields that lead to it. Others may be damaged."""
    try:
        for number, _, value, is_cut in begun_fields(memoryview(head), True):
            what = kind.get(number)
            if what is None:
                return False
            if number == named[0] and not isinstance(what, str) and not isinstance(value, int):
                with suppress(BadMessageError):
                    if _met(value, what, named[1:], is_cut):
                        return True
    except BadMessageError:
        return False
    return False


def _met(data: memoryview, kind: Kind, named: tuple[int, ...], is_cut: bool) -> bool:
    """Whether the named field is there. BadMessageError: another field is not of the kind."""
    met = False
    for number, _, value, value_is_cut in begun_fields(data, is_cut):
        what = kind.get(number)
        is_next = named[:1] == (number,)
        if isinstance(value, int):
            if what not in (NUMBER, NUMBERS):
                raise BadMessageError("a field of another kind", 0)
        elif isinstance(what, str) or what is None:
            if what not in (BYTES, NUMBERS):
                raise BadMessageError("a field of another kind", 0)
            met |= is_next and len(named) == 1 and len(value) > 0
        else:
            met |= _met(value, what, named[1:] if is_next else (), value_is_cut)
    return met
