"""Which lanes have events in a window of time."""

from __future__ import annotations

import random

import numpy as np
from served import Served, Tile
from trace_builder import event, line, plane, xspace

from fastprof.viewer.query import format_numbers


def lanes_by_tile(tile: Tile, start: int, end: int) -> dict[int, set[int]]:
    """By track, the lanes with a slice that overlaps the window, in a tile in which each event is one."""
    found: dict[int, set[int]] = {}
    firsts = np.append(0, tile.end[:-1]).tolist()
    for track, lane, first, last in zip(
        tile.track.tolist(), tile.lane.tolist(), firsts, tile.end.tolist(), strict=True
    ):
        begin, duration = tile.start[first:last], tile.duration[first:last]
        if ((begin < end) & ((begin >= start) | (begin + duration > start))).any():
            found.setdefault(track, set()).add(lane)
    return found


def numbers(text: str) -> set[int]:
    spans = [part.split("-") for part in text.split(",") if part]
    return {number for span in spans for number in range(int(span[0]), int(span[-1]) + 1)}


def test_the_lanes_of_a_window_are_those_with_events_in_it() -> None:
    draw = random.Random(3)
    lines = [
        line(f"t{n}", [event("e", draw.randrange(900), draw.choice([0, 1, 20, 200])) for _ in range(40)], id=n)
        for n in range(1, 9)
    ]
    served = Served(xspace(plane("/host:CPU", lines)))
    (process,) = served.timeline()["processes"]
    count = dict(zip(process["tracks"]["id"], process["tracks"]["lanes"], strict=True))
    tile = served.tile(0)
    for _ in range(40):
        start = draw.randrange(-50, 1000)
        end = start + draw.choice([1, 5, 60, 400])
        answer = served.get("/api/lanes", start_ps=start, end_ps=end)
        found = {track: set(range(count[track])) for track in numbers(answer["all"])}
        found |= {int(track): numbers(lanes) for track, lanes in answer["some"].items()}
        assert found == lanes_by_tile(tile, start, end)
        assert all(len(found[int(track)]) < count[int(track)] for track in answer["some"])


def test_a_window_of_all_that_64_bits_record_has_all_lanes() -> None:
    starts = [-(2**63) + 10, 2**63 - 1]
    served = Served(xspace(plane("/host:CPU", [line("t", [event("op", start, 0) for start in starts])])))
    served.timeline()
    assert served.get("/api/lanes", start_ps=-(2**64), end_ps=2**64) == {"all": "0", "some": {}}
    assert served.get("/api/lanes", start_ps=1, end_ps=2**63) == {"all": "", "some": {}}
    assert served.refused("/api/lanes", start_ps=0)[0] == 400


def test_numbers_are_written_as_arguments_take_them() -> None:
    assert format_numbers(np.array([1, 2, 5, 6, 7, 9])) == "1-2,5-7,9"
    assert format_numbers(np.array([], np.int64)) == ""
