"""A capture that means ill: markup, control characters and megabytes in names, 100,000 lines, durations of no length
and of less, events all at once, times at the ends of what 64 bits hold."""

from __future__ import annotations

from tests.trace_builder import Event, Line, event, line, plane, xspace

MARKUP = '<img src=x onerror="window.stolen=1"><script>window.stolen=1</script>'
CONTROL = "tab\there\nnew line\x01\x1b[31m\u202eright-to-left\u2028"
LONG = "M" + "é" * (1 << 19)
LINES = 100_000
FARTHEST_PS = 2**62


def hostile(lines: int = LINES) -> bytes:
    return xspace(
        plane("/host:CPU", [line("main", _odd_events()), *_many(lines)]),
        plane(f"/device:GPU:0 {MARKUP}", [line(f"Stream {MARKUP}", _odd_events()), line(CONTROL, _odd_events())], id=1),
        plane(LONG, [line(LONG, [event(LONG, 0, 5_000, {LONG: LONG, MARKUP: MARKUP})])], id=2),
    )


def far_apart() -> bytes:
    """Two events at the start, and one at the end of time."""
    return xspace(
        plane("/host:CPU", [line("main", [event("a", 0, 10), event("b", 20, 5), event("far", FARTHEST_PS, 7)])])
    )


def _odd_events() -> list[Event]:
    return [
        event(MARKUP, 0, 1_000_000, {"<b>stat</b>": MARKUP, "control": CONTROL}),
        event(CONTROL, 1_000_000, 500_000),
        event(LONG, 2_000_000, 900_000, {"long": LONG}),
        event("of no length", 3_000_000, 0),
        event("of less", 3_100_000, -50_000),
        *(event(f"at once {number}", 4_000_000, 100_000) for number in range(300)),
        event("", 5_000_000, 10),
    ]


def _many(lines: int) -> list[Line]:
    return [
        line(f"thread {number} <i>", [event(f"work {number % 7}", 1000 * (number % 5000), 2_000)], id=number + 10)
        for number in range(lines)
    ]
