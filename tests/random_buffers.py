"""Random buffer assignments of random programs: buffers, allocations that hold them, and heap simulator traces."""

from __future__ import annotations

from random import Random

from hlo_builder import packed
from random_modules import Made, Value
from trace_builder import int_field, len_field

ALLOC, FREE, SHARE_WITH = 0, 1, 2
Buffer = tuple[int, int, int, Value]
"""Id, size, color, and the value that it holds."""


def random_buffers(random: Random, made: Made) -> bytes:
    """A BufferAssignmentProto. Sizes have nothing to do with shapes; offsets may overlap."""
    buffers: list[Buffer] = []
    written = b""
    for number, value in enumerate(made.values):
        if value.name not in made.program.ids or random.random() < 0.3:
            continue
        size = random.choice((0, 4, 512, 4096, 16383, 16384, 1 << 20, random.randrange(1 << 26)))
        color = random.choice((0, 0, 0, 0, 1, 5))
        buffers.append((number * 3 + 1, size, color, value))
        written += len_field(1, _logical(random, buffers[-1], made.program.ids[value.name]))
    temporary, allocations = _allocations(random, buffers)
    traces = b"".join(len_field(4, _trace(random, part)) for part in temporary if random.random() < 0.9)
    return written + allocations + traces


def _logical(random: Random, buffer: Buffer, instruction: int) -> bytes:
    number, size, color, value = buffer
    index = [random.randrange(len(value.spec) + 1)] if isinstance(value.spec, list) and random.random() < 0.7 else []
    where = len_field(2, value.name) + packed(3, index) + int_field(4, instruction)
    return int_field(1, number) + int_field(2, size) + len_field(3, where) + (int_field(4, color) if color else b"")


def _allocations(random: Random, buffers: list[Buffer]) -> tuple[list[list[Buffer]], bytes]:
    """The buffers of each temporary allocation, and the BufferAllocationProtos."""
    left = buffers.copy()
    random.shuffle(left)
    temporary: list[list[Buffer]] = []
    written = b""
    index = 0
    while left:
        kind = random.choice(("temporary", "temporary", "parameter", "output", "constant", "thread", "tuple", "both"))
        taken = random.randrange(1, 30) if kind == "temporary" else random.randrange(1, 3)
        color = left[-1][2]
        part = [one for one in left[-taken:] if one[2] == color]
        left = [one for one in left if one not in part]
        if kind == "temporary":
            temporary.append(part)
        written += len_field(3, _allocation(random, index, kind, color, part))
        index += random.choice((1, 1, 1, 4))
    return temporary, written


def _allocation(random: Random, index: int, kind: str, color: int, part: list[Buffer]) -> bytes:
    flags = {"thread": (3,), "parameter": (5,), "output": (7,), "tuple": (11, 7), "constant": (12,), "both": (5, 7)}
    written = int_field(1, index) if index else b""
    offset = 0
    for number, size, _, _ in part:
        at = offset if random.random() < 0.7 else 0
        written += len_field(9, int_field(1, number) + int_field(2, at) + int_field(3, size))
        offset = max(offset, at + size)
    written += int_field(2, offset) + b"".join(int_field(field, 1) for field in flags.get(kind, ()))
    if kind in ("parameter", "both"):
        written += int_field(6, index % 4)
    return written + (int_field(8, color) if color else b"")


def _trace(random: Random, part: list[Buffer]) -> bytes:
    """Each buffer is allocated once, or shares another's place, and is freed later, mostly."""
    events: list[tuple[int, Buffer, int]] = []
    alive: list[Buffer] = []
    for buffer in part:
        while alive and random.random() < 0.4:
            events.append((FREE, alive.pop(random.randrange(len(alive))), 0))
        if alive and random.random() < 0.15:
            events.append((SHARE_WITH, buffer, random.choice(alive)[0]))
        else:
            events.append((ALLOC, buffer, 0))
        alive.append(buffer)
    while alive and random.random() < 0.95:
        events.append((FREE, alive.pop(random.randrange(len(alive))), 0))
    return b"".join(len_field(1, _event(*event)) for event in events) + int_field(2, 1)


def _event(kind: int, buffer: Buffer, canonical: int) -> bytes:
    written = (int_field(1, kind) if kind else b"") + int_field(2, buffer[0]) + len_field(3, "main")
    return written + len_field(4, buffer[3].name) + (int_field(5, canonical) if canonical else b"")
