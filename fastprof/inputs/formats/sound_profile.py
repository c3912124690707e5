"""A ProfileProto whose columns all decode, where damage is salvaged: without the nodes that do not.

A damaged field becomes one of a number that nobody reads: all others stay where they are.

    | 1 node | 1 node | 1 no|e | 1 node | 4 text |  ->  | 1 node | 1 node | 15 no|e | 1 node | 4 text |
"""

from __future__ import annotations

from typing import Final

import numpy as np

from fastprof.errors import CaptureError
from fastprof.inputs.formats.contract import Remark
from fastprof.inputs.message_columns import MessageColumns, all_of
from fastprof.inputs.profile_columns import DOING, ProfileColumns
from fastprof.schema.message_fields import BYTES

_IGNORED: Final = 15 << 3 | BYTES
_MOST_FAULTS: Final = 200
"""Each takes another reading of the profile."""


def sound_profile(document: bytearray, path: str, salvage: bool, remarks: list[Remark]) -> ProfileColumns:
    """CaptureError: the document is damaged and not to be salvaged, or damaged in too many places."""
    for _ in range(_MOST_FAULTS):
        try:
            profile = ProfileColumns(document, tolerant=salvage)
            if salvage:
                profile.check()
                remarks.extend(_lost(profile))
            else:
                assert profile.executions is not None  # the rest is read when a table needs it
            return profile
        except CaptureError as fault:
            if not salvage or fault.offset is None:
                raise CaptureError(fault.message, path=path, offset=fault.offset) from None
            remarks.append(_left_out(document, fault.message, fault.offset))
    raise CaptureError(f"more than {_MOST_FAULTS} fields are damaged, {DOING}", path=path, offset=0, salvageable=False)


def _left_out(document: bytearray, what: str, offset: int) -> Remark:
    """Takes the damaged field out of the document, or all that follows it if it does not end."""
    try:
        MessageColumns(document, all_of(document), DOING)
    except CaptureError as fault:
        assert fault.offset is not None
        del document[fault.offset :]
        return Remark("data_loss", "truncated", f"the rest is not read: {what}", 1, fault.offset)
    at = _field_at(document, offset)
    document[at] = _IGNORED
    return Remark("data_loss", "damaged_node", f"what is damaged is left out: {what}", 1, at)


def _field_at(document: bytearray, offset: int) -> int:
    """Where the field of the profile begins that has a byte; its number is below 16."""
    top = MessageColumns(document, all_of(document), DOING)
    begins = np.sort(np.concatenate([top.each(number).at.offset for number in range(1, 16)]))
    place = int(np.searchsorted(begins, offset, "right")) - 1
    at = int(begins[max(place, 0)]) - 2
    while document[at] & 0x80:
        at -= 1
    return at


def _lost(profile: ProfileColumns) -> list[Remark]:
    return [
        Remark("data_loss", "unknown_id", f"{what} have ids that the profile does not have", count, None)
        for what, count in profile.lost.items()
    ]
