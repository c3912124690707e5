"""Captures drawn by lot: every freedom of the wire format and every odd case of XSpace, in small files.

random_space(seed)                      the same bytes for the same seed, on every machine
random_space(seed, well_written=True)   written as the profilers write: fields in order, nothing unknown
"""

from __future__ import annotations

import random
from collections.abc import Sequence

from trace_builder import (
    PLAIN,
    UNKNOWN_FIELDS,
    Entry,
    Event,
    Line,
    Metadata,
    Plane,
    Stat,
    StatMetadata,
    Value,
    Wire,
    double_field,
    event,
    fixed32_field,
    int_field,
    len_field,
    line,
    plane,
    ref,
    several,
    stat,
    task_environment,
    u64,
    xspace,
)

START_UNIX_NS = 1_700_000_000_000_000_000
_EVENT_NAMES = ("step", "matmul", "copy", "", "größer", "fusion.12", "a" * 300)
_STAT_NAMES = ("_a", "bytes", "flow", "hlo_op", "größe", "group_id", "")
_TEXTS = ("text", "", "matmul", "日本語 🎉", "x" * 200, "_a")
_PLANE_NAMES = ("/host:CPU", "/device:GPU:0", "/device:TPU:1", "Task Environment", "", "/device:CUSTOM:x")
_INTEGERS = (0, 1, 2, 127, 128, 300, 1 << 20, (1 << 31) - 1, 1 << 40, (1 << 63) - 1, -1, -300, -(1 << 63))
_DOUBLES = (0.0, -0.0, 1.5, -2.25e300, float("inf"), float("-inf"), float("nan"), 5e-324)
_ODD_IDS = (0, -1, 1 << 40, (1 << 63) - 1, -(1 << 63))


class _Lot:
    def __init__(self, seed: int, well_written: bool) -> None:
        self.random = random.Random(seed)
        self.well_written = well_written

    def once_in(self, times: int) -> bool:
        return self.random.randrange(times) == 0

    def wire(self, numbers: Sequence[int] = ()) -> Wire:
        """How a message is written; mostly plainly. `numbers`: varint fields that may be written twice."""
        if self.well_written or not self.once_in(4):
            return PLAIN
        draw = self.random
        before = after = b""
        if numbers and self.once_in(2):
            number = draw.choice(numbers)
            before = int_field(number, draw.choice(_INTEGERS) if number == 1 else draw.randrange(1000))
        if self.once_in(3):
            after = UNKNOWN_FIELDS
        if self.once_in(6):  # a known field in a wire type that it does not have is an unknown field
            before += fixed32_field(draw.randint(1, 7))
        order = tuple(draw.sample(range(1, 12), 11)) if self.once_in(3) else ()
        shuffle = draw.randrange(1 << 30) if self.once_in(3) else None
        return Wire(order, shuffle, before, after, explicit=self.once_in(3), pad=draw.choice((0, 0, 1, 9)))

    def value(self) -> Value:
        draw = self.random
        kinds: list[Value] = [
            draw.choice(_INTEGERS),
            u64(draw.choice(_INTEGERS) & (1 << 64) - 1),
            draw.choice(_DOUBLES),
            draw.choice(_TEXTS),
            draw.randbytes(draw.choice((0, 1, 20, 200))),
            ref(draw.choice(_TEXTS)),
        ]
        if self.once_in(12):
            return None
        if self.once_in(12):
            return ref(draw.choice((999, 0, 1, (1 << 64) - 1)))
        if self.once_in(12) and not self.well_written:
            return several(tuple(draw.sample(kinds, draw.randint(2, 3))))
        return draw.choice(kinds)

    def stats(self, most: int) -> list[Stat | bytes]:
        draw = self.random
        listed: list[Stat | bytes] = []
        for _ in range(draw.randint(0, most)):
            name: str | int = draw.choice(_STAT_NAMES)
            if self.once_in(15):
                name = draw.choice((77, *_ODD_IDS))
            wire = self.wire((1, 3, 4, 7))
            if wire.after and self.once_in(2):
                wire = Wire(wire.order, wire.shuffle, wire.before + double_field(2, 2.5), wire.after)
            listed.append(stat(name, self.value() if name != "_a" else draw.choice((0, 1, 1, u64(1))), wire))
        return listed

    def event(self) -> Event:
        draw = self.random
        name: str | int = draw.choice(_EVENT_NAMES) if not self.once_in(20) else draw.choice((88, *_ODD_IDS))
        offset: int | None = draw.choice((draw.randrange(40), draw.randrange(40), draw.randrange(10**12)))
        duration = draw.choice((0, draw.randrange(20), draw.randrange(20), draw.randrange(10**12)))
        occurrences = draw.choice((0, 1, 5, 1 << 40, -3)) if self.once_in(12) else None
        if self.once_in(30):
            offset = draw.choice((None, -7, -(10**15)))
        if occurrences is not None and self.once_in(2):
            offset = None
        return event(name, offset, duration, self.stats(3), num_occurrences=occurrences, wire=self.wire((1, 2, 3, 5)))

    def line(self) -> Line:
        draw = self.random
        events: list[Event | bytes] = [self.event() for _ in range(draw.choice((0, 1, 3, 12, 40)))]
        if self.once_in(2):
            events.sort(key=lambda e: e.offset_ps or 0 if isinstance(e, Event) else 0)
        stamp = draw.choice((0, 0, 5, 123_456, -9))
        if self.once_in(6):
            stamp = START_UNIX_NS + draw.randrange(-3, 1000)
        return line(
            draw.choice(("main", "worker", "Steps", "")),
            events,
            id=draw.choice((None, 1, 2, 7, -5, (1 << 63) - 1)),
            timestamp_ns=stamp,
            duration_ps=draw.choice((0, 0, 99)),
            display_id=draw.choice((0, 0, 3, -3)),
            display_name=draw.choice(("", "", "shown", "größer")),
            wire=self.wire((1, 9, 10)),
        )

    def entry(self, value: bytes) -> Entry:
        if self.well_written or not self.once_in(10):
            return Entry()
        draw = self.random
        return Entry(
            key=draw.choice((None, 1, 2, 50)),
            omit_key=self.once_in(5),
            omit_value=self.once_in(5),
            first=value if self.once_in(2) else None,
            wire=Wire(order=(2, 1), pad=2) if self.once_in(2) else PLAIN,
        )

    def metadata(self) -> list[Metadata]:
        draw = self.random
        listed = []
        for name in draw.sample(_EVENT_NAMES, draw.randint(0, 4)):
            extra = int_field(6, 4) + len_field(5, int_field(1, 1) + int_field(4, 9)) + len_field(2, "first")
            listed.append(
                Metadata(
                    name,
                    id=draw.choice((None, 0, 3, 4, -1, 1 << 40)),
                    display_name=draw.choice(("", "short")),
                    metadata=draw.choice((b"", b"\0\xff opaque")),
                    stats=self.stats(2),
                    child_ids=draw.choice(((), (1, 2), (0, -1, 1 << 40))),
                    packed=self.once_in(2),
                    inner_id=not self.once_in(4),
                    entry=self.entry(extra),
                    wire=self.wire((1, 6)),
                )
            )
        return listed

    def texts(self) -> list[StatMetadata]:
        draw = self.random
        return [
            StatMetadata(
                name,
                id=draw.choice((None, 0, 2, 5, -1)),
                description=draw.choice(("", "what it is")),
                inner_id=not self.once_in(4),
                entry=self.entry(len_field(2, "first") + len_field(3, "second")),
                wire=self.wire((1,)),
            )
            for name in draw.sample(_STAT_NAMES, draw.randint(0, 3))
        ]

    def plane(self) -> Plane:
        draw = self.random
        return plane(
            draw.choice(_PLANE_NAMES),
            [self.line() for _ in range(draw.choice((0, 1, 2, 4)))],
            id=draw.choice((0, 0, 1, -1)),
            stats=self.stats(3),
            event_metadata=self.metadata(),
            stat_metadata=self.texts(),
            wire=self.wire((1,)),
        )


def random_space(seed: int, *, well_written: bool = False) -> bytes:
    """A capture of up to four planes, some of one name and id."""
    lot = _Lot(seed, well_written)
    planes = [lot.plane() for _ in range(lot.random.randint(0, 4))]
    if lot.once_in(2):
        stop = lot.random.choice((None, START_UNIX_NS + 10**9))
        planes.insert(lot.random.randint(0, len(planes)), task_environment(START_UNIX_NS, stop))
    return xspace(
        *planes,
        errors=lot.random.choice(((), ("an error", ""))),
        warnings=lot.random.choice(((), ("a warning",))),
        hostnames=lot.random.choice(((), ("vm",), ("a", "b"))),
        wire=lot.wire(),
    )
