"""What is to be decoded of events, and what comes of it."""

from __future__ import annotations

import pyarrow as pa

from fastprof._native import records
from fastprof.decode.picked_stats import Columns
from fastprof.schema.array_types import Bools, Int32s
from fastprof.schema.capture_tables import CAPTURE_TABLES
from fastprof.schema.value_classes import dataclass

EVENT_COLUMNS = tuple(CAPTURE_TABLES["events"].names())
STAT_COLUMNS = tuple(CAPTURE_TABLES["event_stats"].names())


@dataclass(frozen=True, slots=True)
class Request:
    """What to decode.

    ``events``, ``stats``: columns of the tables events and event_stats. ``wide``: stats, by name, as columns beside
    the events. ``flags``: stats, by name, as one truth per event: an integer other than zero. ``picks``: stats, by
    name, that few events may have. ``metas``: also the row of each event's metadata in the capture.
    """

    events: tuple[str, ...] = ()
    stats: tuple[str, ...] = ()
    wide: tuple[str, ...] = ()
    flags: tuple[str, ...] = ()
    picks: tuple[str, ...] = ()
    metas: bool = False

    @property
    def depth(self) -> int:
        return records.STATS if self.stats or self.wide or self.flags else records.EVENTS


@dataclass(frozen=True, slots=True)
class Decoded:
    """Arrays by column name; ``rows`` and ``stat_rows`` say how long they are. ``picks``: as Request.picks. Where their
    kind is STR or REF, the value is the number of one of ``texts``."""

    rows: int
    stat_rows: int
    events: dict[str, pa.Array]
    stats: dict[str, pa.Array]
    wide: dict[str, pa.Array]
    flags: dict[str, Bools]
    metas: Int32s
    picks: list[Columns]
    texts: pa.Array
