"""An XSpace as a transposed chunk of Riegeli: the values of each field in a buffer of their own, behind a small machine
that says which field comes next.

Records are written from their last byte to their first, so fields are recorded in that order. Each step of the machine
here takes a byte of transitions; the writers in use leave out some of these.
"""

from __future__ import annotations

from functools import cache

from trace_writer import varint

_INSIDE = {
    (0, 1): 1, (1, 3): 3, (1, 4): 4, (1, 5): 5, (1, 6): 9, (3, 4): 34, (34, 4): 9, (4, 2): 42, (42, 5): 9, (5, 2): 9,
}  # fmt: skip
"""What a field is that is a message, by what it is in. 0: an XSpace, 1: an XPlane, 3: an XLine, 34: an XEvent, 4 and 5:
entries of the maps, 42: XEventMetadata, 9: messages without messages."""
_START_OF_MESSAGE, _START_OF_RECORD, _END_OF_MESSAGE, _FAR = 2, 3, 6, 63


class _Machine:
    """Nodes by tag and subtype, in the order in which they were first met; values of each; which came when."""

    def __init__(self) -> None:
        self.numbers: dict[tuple[int, int], int] = {}
        self.values: list[list[bytes]] = []
        self.steps: list[int] = []

    def step(self, tag: int, subtype: int = 0, value: bytes = b"") -> None:
        key = (tag, subtype)
        number = self.numbers.get(key)
        if number is None:
            number = self.numbers[key] = len(self.numbers)
            self.values.append([])
        self.steps.append(number)
        if value:
            self.values[number].append(value)


def _walk(machine: _Machine, record: bytes, begin: int, end: int, kind: int) -> None:
    found = []
    at = begin
    while at < end:
        tag = record[at]  # fields of an XSpace have numbers of one byte
        at += 1
        start = at
        if tag & 7 == 1:
            at += 8
        else:
            while record[at] & 0x80:
                at += 1
            at += 1
        if tag & 7 == 2:
            length = sum((byte & 0x7F) << 7 * place for place, byte in enumerate(record[start:at]))
            found.append((tag, start, at, at + length))
            at += length
        else:
            found.append((tag, start, at, at))
    for tag, start, middle, stop in reversed(found):
        if tag & 7 == 0:
            value = record[start:middle]
            if len(value) == 1:
                machine.step(tag, 10 + value[0])
            else:
                machine.step(tag, len(value) - 1, bytes(byte & 0x7F for byte in value))
        elif tag & 7 == 2 and (kind, tag >> 3) in _INSIDE:
            machine.step(tag + _END_OF_MESSAGE - 2)
            _walk(machine, record, middle, stop, _INSIDE[kind, tag >> 3])
            machine.step(_START_OF_MESSAGE)
        else:
            machine.step(tag, 0, record[start:stop])


@cache
def transposed(record: bytes) -> bytes:
    """The data of a chunk of one record, uncompressed."""
    machine = _Machine()
    _walk(machine, record, 0, len(record), 0)
    machine.step(_START_OF_RECORD)
    return _packed(machine)


def _packed(machine: _Machine) -> bytes:
    nodes: list[tuple[int, int, int]] = []  # tag, subtype, where its values are; every 64th leads on
    place: list[int] = []
    for number, (tag, subtype) in enumerate(machine.numbers):
        if len(nodes) % _FAR == 0 and nodes:
            nodes.append((0, 0, -1))
        place.append(len(nodes))
        nodes.append((tag, subtype, number))
    buffers = [b"".join(values) for values in machine.values]
    lengths = [number for number, values in enumerate(machine.values) if values]
    buffer_of = {number: at for at, number in enumerate(lengths)}
    bucket = b"".join(buffers[number] for number in lengths)
    header = bytearray(varint(1) + varint(len(lengths)) + varint(len(bucket)))
    header += b"".join(varint(len(buffers[number])) for number in lengths)
    header += varint(len(nodes)) + b"".join(varint(tag) for tag, _, _ in nodes)
    header += b"".join(varint(at if tag == 0 else 0) for at, (tag, _, _) in enumerate(nodes))
    header += bytes(subtype for tag, subtype, _ in nodes if tag >= 8 and tag & 7 == 0)
    header += b"".join(varint(buffer_of[number]) for tag, _, number in nodes if number in buffer_of)
    first = machine.steps[0]
    header += varint(place[first])
    transitions = b"".join(_bytes_to(place[step]) for step in machine.steps[1:])
    return b"\0" + varint(len(header)) + bytes(header) + bucket + transitions


def _bytes_to(place: int) -> bytes:
    return bytes([_FAR << 2] * (place // _FAR)) + bytes([place % _FAR << 2])
