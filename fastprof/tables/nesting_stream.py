"""The table nesting of lines of any length, in bounded memory.

An event's self time is known when it ends, which may be many row groups after its row. So there are two passes: the
first notes the self times of the few events that are open across a seam, the second writes the rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from fastprof._native.kernels import LineNesting
from fastprof.decode.decoder import Decoded, Decoder, Request
from fastprof.decode.nesting import ASYNC_STAT, find_placement, get_int64s, make_nesting_arrays
from fastprof.schema.columns import Int64s, find_equal, find_rows_within, find_runs
from fastprof.tables.table_set import TABLES, TableSet

PASSES = 2
"""How often the events of the selected lines are read."""

Passed = Callable[[int], None]
"""Receives the number of events that have been read since the last call, in either pass."""


def stream_nesting(tables: TableSet, rows: int, passed: Passed) -> Iterator[pa.Table]:
    """Yield tables of about ``rows`` events, in order; of the selected events only."""
    selection = tables.selection
    decoder = tables.decoder(tables.nesting_request(), selection.of_whole_lines())
    slack_ps = tables.session.index.lines["slack_ps"]
    parts = (stretch.late for stretch in _nest_stretches(decoder, slack_ps, rows, passed))
    late = np.concatenate([np.zeros((0, 2), np.int64), *parts])
    late = late[np.argsort(late[:, 0])]
    chosen = _SelectedIds(tables, rows) if selection.filters_events else None
    for stretch in _nest_stretches(decoder, slack_ps, rows, passed):
        stretch.complete(late)
        table = tables.table(TABLES["nesting"], dict(zip(TABLES["nesting"].names(), stretch.arrays(), strict=True)))
        if chosen is not None:
            ids = get_int64s(table["event_id"])
            table = table.take(pa.array(np.searchsorted(ids, chosen.through(int(ids[-1])))))
        yield table


@dataclass
class _Stretch:
    decoded: Decoded
    places: npt.NDArray[np.uint8] | None
    depth: npt.NDArray[np.int32]
    parent: Int64s
    self_time: Int64s
    late: Int64s

    def complete(self, late: Int64s) -> None:
        ids = get_int64s(self.decoded.events["event_id"])
        mine = late[find_rows_within(late[:, 0], int(ids[0]), int(ids[-1]) + 1)]
        self.self_time[find_equal(ids, mine[:, 0])[1]] = mine[:, 1]

    def arrays(self) -> list[pa.Array]:
        return make_nesting_arrays(
            self.decoded.events["event_id"], self.depth, self.parent, self.self_time, self.places
        )


def _nest_stretches(decoder: Decoder, slack_ps: Int64s, rows: int, passed: Passed) -> Iterator[_Stretch]:
    """Yield the nesting of each share; that of a line continues from one to the next."""
    open_line = -1
    nesting = LineNesting(0)
    shares = decoder.shares(rows)
    decoded = next((decoder.decode(share, None) for share in shares), None)
    while decoded is not None:
        following = next((decoder.decode(share, None) for share in shares), None)
        next_line = -1 if following is None else int(np.asarray(following.events["line_id"])[0])
        start, duration = get_int64s(decoded.events["start_ps"]), get_int64s(decoded.events["duration_ps"])
        ids, line = get_int64s(decoded.events["event_id"]), np.asarray(decoded.events["line_id"])
        places = find_placement(decoded.events["start_ps"], decoded.flags.get(ASYNC_STAT))
        count = decoded.rows
        depth, parent, own = np.zeros(count, np.int32), np.full(count, -1, np.int64), np.zeros(count, np.int64)
        late = [np.zeros((0, 2), np.int64)]
        cuts = [*find_runs(line).tolist(), count]
        for a, b in pairwise(cuts):
            if int(line[a]) != open_line:
                nesting, open_line = LineNesting(int(slack_ps[line[a]])), int(line[a])
            ends = b < count or next_line != open_line
            part = None if places is None else places[a:b]
            nesting.push(start[a:b], duration[a:b], part, int(ids[a]), ends, depth[a:b], parent[a:b], own[a:b])
            if ends:
                late.append(np.frombuffer(nesting.late(), np.int64).reshape(-1, 2))
        yield _Stretch(decoded, places, depth, parent, own, np.concatenate(late))
        passed(count)
        decoded = following


class _SelectedIds:
    """The ids of the selected events, ascending, read on request."""

    def __init__(self, tables: TableSet, rows: int) -> None:
        decoder = tables.decoder(Request(("event_id",)))
        self._parts = (get_int64s(decoder.decode(share, None).events["event_id"]) for share in decoder.shares(rows))
        self._pending: Int64s = np.zeros(0, np.int64)

    def through(self, last: int) -> Int64s:
        """Return the ids up to ``last`` that earlier calls have not returned."""
        while not len(self._pending) or self._pending[-1] <= last:
            more = next(self._parts, None)
            if more is None:
                break
            self._pending = np.concatenate([self._pending, more])
        count = int(np.searchsorted(self._pending, last, side="right"))
        given, self._pending = self._pending[:count], self._pending[count:]
        return given
