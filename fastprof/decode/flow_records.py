"""Ends of flows, as the scribes of other formats write them behind the planes of an XSpace: field 1000, which other
readers pass over. docs/traces.md describes it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from typing import Final

import numpy as np
import numpy.typing as npt

from fastprof.decode.xspace_capture import Capture
from fastprof.errors import CaptureError
from fastprof.schema.columns import Int32s, Int64s, Records
from fastprof.schema.value_classes import dataclass

FIELD: Final = 1000
_ENDS, _LINES, _TEXTS, _BESIDE = 1, 2, 3, 4
END: Final = np.dtype(
    [("ns", "<i8"), ("ps", "<i4"), ("phase", "<i4"), ("line", "<i4"), ("name", "<i4"), ("category", "<i4"),
     ("id_kind", "<i4"), ("id", "<i8"), ("duration_ps", "<i8")]
)  # fmt: skip
"""An end. ``phase``: s, t or f, in capitals if it has ``bp`` e; or of an event that is one itself, whose time is its
start, IN, OUT or BOTH. Texts by number, -1: absent."""
IN, OUT, BOTH = (ord(letter) for letter in "iob")
NO_ID, INT_ID, UINT_ID, TEXT_ID = range(4)
_HEADER: Final = 20
"""Bytes of the longest tag and length."""
_MOST_BESIDE: Final = 3


@dataclass(frozen=True, slots=True)
class FlowRecords:
    """``ends`` of END, in the order of the document. ``lines``: by number, ids of a plane and of its line.
    ``beside``: by number of a line, other lines with events of the same thread, -1: none."""

    ends: Records
    lines: npt.NDArray[np.int64]
    beside: Int32s
    texts: list[str]

    def id_texts(self, rows: Int64s) -> list[str | None]:
        """Return the ids of these ends, as text."""
        kinds, ids = self.ends["id_kind"][rows].tolist(), self.ends["id"][rows].tolist()
        return [self._id(kind, value) for kind, value in zip(kinds, ids, strict=True)]

    def _id(self, kind: int, value: int) -> str | None:
        if kind == TEXT_ID:
            return self.texts[value]
        return None if kind == NO_ID else str(value % 2**64 if kind == UINT_ID else value)


def read_flow_records(capture: Capture) -> list[FlowRecords]:
    """Return the flows of the capture, one for each time that the field occurs: of a part of a file, only ends on its
    own planes. CaptureError: it is damaged."""
    parts, at = [], 0
    try:
        for number, _, begin, end in _scan_top_fields(capture):
            if number == FIELD:
                parts.append(_parse_records(capture.source.read(begin, end - begin)))
            at = end
    except _DamagedError as fault:
        raise CaptureError(f"ends of flows are damaged: {fault}", path=capture.path, offset=at) from None
    if not capture.is_part:
        return parts
    planes = [number for _, number in capture.plane_keys]
    return [replace(part, ends=part.ends[np.isin(part.lines[part.ends["line"], 0], planes)]) for part in parts]


def list_top_fields(capture: Capture) -> Iterator[tuple[int, int, int, int]]:
    """Yield the fields of the XSpace, up to one that is damaged: number, place, and where the payload begins and
    ends."""
    with suppress(_DamagedError):
        yield from _scan_top_fields(capture)


def _scan_top_fields(capture: Capture) -> Iterator[tuple[int, int, int, int]]:
    at = 0
    while at < capture.source.size:
        number, begin, end = _read_field(capture.source.read(at, _HEADER), at)
        yield number, at, begin, end
        at = end


class _DamagedError(ValueError):
    pass


def _read_varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while at < len(data) and shift < 70:
        byte = data[at]
        value |= (byte & 127) << shift
        at, shift = at + 1, shift + 7
        if byte < 128:
            return value, at
    raise _DamagedError("a field ends early")


def _read_field(data: bytes, base: int = 0, at: int = 0) -> tuple[int, int, int]:
    """Number of the field that begins at ``at``, and where its payload begins and ends, ``base`` added."""
    tag, begin = _read_varint(data, at)
    kind, length = tag & 7, 0
    if kind == 0:
        _, end = _read_varint(data, begin)
        length = end - begin
    elif kind == 2:
        length, begin = _read_varint(data, begin)
    elif kind in (1, 5):
        length = 8 if kind == 1 else 4
    else:
        raise _DamagedError("a field of an unknown wire type")
    return tag >> 3, base + begin, base + begin + length


def _parse_records(data: bytes) -> FlowRecords:
    parts: dict[int, list[bytes]] = {number: [] for number in (_ENDS, _LINES, _TEXTS, _BESIDE)}
    at = 0
    while at < len(data):
        number, begin, end = _read_field(data, at=at)
        if end > len(data):
            raise _DamagedError("a field ends early")
        parts.setdefault(number, []).append(data[begin:end])
        at = end
    for number, size in ((_ENDS, END.itemsize), (_LINES, 16), (_BESIDE, 4 * _MOST_BESIDE)):
        if any(len(part) % size for part in parts[number]):
            raise _DamagedError("records of another size")
    ends = np.frombuffer(b"".join(parts[_ENDS]), END)
    lines = np.frombuffer(b"".join(parts[_LINES]), "<i8").reshape(-1, 2)
    beside = np.frombuffer(b"".join(parts[_BESIDE]), "<i4").reshape(-1, _MOST_BESIDE)
    texts = [part.decode("utf-8", "replace") for part in parts[_TEXTS]]
    _check_numbers(ends, len(lines), beside, len(texts))
    return FlowRecords(ends, lines, beside, texts)


def _check_numbers(ends: Records, lines: int, beside: Int32s, texts: int) -> None:
    """Raise _DamagedError if a number leads nowhere."""
    of_text = ends["id"][ends["id_kind"] == TEXT_ID]
    for values, first, last in (
        (ends["line"], 0, lines), (ends["name"], -1, texts), (ends["category"], -1, texts), (of_text, 0, texts),
        (ends["id_kind"], NO_ID, TEXT_ID + 1), (ends["ps"], 0, 1000), (beside, -1, lines),
    ):  # fmt: skip
        if len(values) and not (values.min() >= first and values.max() < last):
            raise _DamagedError("a number that leads nowhere")
    if len(beside) not in (0, lines) or not np.isin(ends["phase"], [ord(phase) for phase in "stfSTFiob"]).all():
        raise _DamagedError("a record of unknown form")
