"""Flows: which event led to which, on other threads and devices, as pairs."""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt

from fastprof.derive.host import Host
from fastprof.derive.timeline.async_pairs import async_pairs
from fastprof.derive.timeline.flow_ends import ASYNC_OP, GENERIC, IN, KINDS, OUT, FlowEnds, flow_ends, flow_keys
from fastprof.schema.array_types import Int32s, Int64s
from fastprof.schema.value_classes import dataclass
from fastprof.tables.host_events import HostEvents

MOST_OF_A_CROWD: Final = 64
"""Where several events produce what several consume, and there were more pairs than this, each consumer is paired with
the last producer that began before it alone."""


@dataclass(frozen=True, slots=True)
class FlowPairs:
    """Rows of the host's events, in the order of producers. ``kind``: uint8, a place in ``flow_ends.SHOWN_KINDS``."""

    producer: Int32s
    consumer: Int32s
    kind: npt.NDArray[np.uint8]

    def __len__(self) -> int:
        return len(self.producer)


def flows(host: Host) -> FlowPairs:
    """Each pair once. Launches and kernels are paired by their correlation id, others by ids that they record or have
    in common; flows that the capture records itself (stat ``flow``, or the arrows of the table flows) go from event to
    event in the order of time; an op that starts something asynchronous leads to the one that ends it."""
    ends = flow_ends(flow_keys(host))
    found = _paired(host.raw, ends.take(ends.direction == OUT), ends.take(ends.direction == IN))
    recorded = _recorded_flows(host.raw)
    from_events, to_events = host.raw.recorded_arrows()
    arrows = (from_events, to_events, np.full(len(from_events), GENERIC, np.uint8))
    first_ops, last_ops = async_pairs(host)
    asynchronous = (first_ops, last_ops, np.full(len(first_ops), ASYNC_OP, np.uint8))
    parts = (found, recorded, arrows, asynchronous)
    producer, consumer, kind = (np.concatenate([one[place] for one in parts]) for place in range(3))
    _, first = np.unique(producer.astype(np.int64) << 32 | consumer, return_index=True)
    first = first[producer[first] != consumer[first]]
    return FlowPairs(producer[first].astype(np.int32), consumer[first].astype(np.int32), kind[first].astype(np.uint8))


def _paired(events: HostEvents, out: FlowEnds, taken: FlowEnds) -> tuple[Int32s, Int32s, npt.NDArray[np.uint8]]:
    """Producers and consumers of a flow: all of one with all of the other, in crowds the last before."""
    order = np.lexsort((out.rows, events.start_ps[out.rows], out.number))
    rows, numbers = out.rows[order], out.number[order]
    count = max(int(numbers.max(initial=-1)), int(taken.number.max(initial=-1))) + 1
    gives = np.bincount(numbers, minlength=count)
    first = np.cumsum(gives) - gives
    takes = np.bincount(taken.number, minlength=count)
    crowd = (np.minimum(gives, takes) > 1) & (gives * takes > MOST_OF_A_CROWD)
    each = np.where(crowd, 1, gives)[taken.number] * (gives[taken.number] > 0)
    consumer = np.repeat(np.arange(len(taken)), each)
    nth = np.arange(len(consumer)) - np.repeat(np.cumsum(each) - each, each)
    place = first[taken.number[consumer]] + nth
    in_crowd = crowd[taken.number[consumer]]
    if in_crowd.any():
        place[in_crowd] = _last_before(events, rows, numbers, first, taken, consumer[in_crowd])
    return rows[place], taken.rows[consumer], taken.kind[consumer]


def _last_before(
    events: HostEvents, rows: Int32s, numbers: Int64s, first: Int64s, taken: FlowEnds, consumer: Int64s
) -> Int64s:
    """The place of the last producer of the flow that begins no later than the consumer, else of the first."""
    number, start = taken.number[consumer], events.start_ps[taken.rows[consumer]]
    is_consumer = np.append(np.zeros(len(rows), bool), np.ones(len(consumer), bool))
    every = np.lexsort((is_consumer, np.append(events.start_ps[rows], start), np.append(numbers, number)))
    place = np.where(is_consumer[every], -1, every)
    last = np.empty(len(every), np.int64)
    last[every] = np.maximum.accumulate(place)
    found = last[len(rows) :]
    return np.maximum(found, first[number])


def _recorded_flows(events: HostEvents) -> tuple[Int32s, Int32s, npt.NDArray[np.uint8]]:
    """Flows recorded in a stat of events: two bits of direction, an id, and the kind above it."""
    rows, value = events.ints("flow")
    direction, number, kind = value & 3, (value >> 2) & (2**56 - 1), (value >> 58) & 63
    known = direction > 0
    rows, direction, number, kind = rows[known], direction[known], number[known], kind[known]
    order = np.lexsort((direction == 1, events.start_ps[rows], number, kind))
    rows, direction, number, kind = rows[order], direction[order], number[order], kind[order]
    linked = (number[1:] == number[:-1]) & (kind[1:] == kind[:-1])
    linked &= ((direction[:-1] & 2) > 0) & ((direction[1:] & 1) > 0)
    safe = np.where(kind < len(KINDS), kind, GENERIC).astype(np.uint8)
    return rows[:-1][linked], rows[1:][linked], safe[1:][linked]
