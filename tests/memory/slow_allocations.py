"""What the columns of memory are about, event by event in plain Python: slow, and easy to check by eye."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from typing import Any

from allocator_calls import Call

from fastprof.derive.memory import allocation_history
from fastprof.derive.memory import heap_state as live_set


def matched(events: Sequence[Call]) -> list[tuple[int, int]]:
    """The partner and fate of each event, which are in order."""
    found = [(-1, allocation_history.UNKNOWN)] * len(events)
    held: dict[tuple[str, int], int] = {}
    seen = set()
    for i, one in enumerate(events):
        if one.address is None:
            continue
        key = (one.allocator, one.address)
        before = held.pop(key, None)
        if one.is_allocation:
            if before is not None:
                found[before] = (-1, allocation_history.REPLACED)
            found[i] = (-1, allocation_history.HELD_AT_END)
            held[key] = i
        elif before is not None:
            found[before], found[i] = (i, allocation_history.FREED), (before, allocation_history.FREED)
        else:
            found[i] = (-1, allocation_history.ALLOCATION_LOST if key in seen else allocation_history.HELD_BEFORE)
        seen.add(key)
    return found


def known_sizes(events: Sequence[Call]) -> list[int]:
    """By how much each event changes the heap, as far as it or its allocation records it; -1: unknown."""
    partners = [partner for partner, _ in matched(events)]
    own = [-1 if one.size is None else one.size for one in events]
    return [own[partners[i]] if size < 0 <= partners[i] else size for i, size in enumerate(own)]


def broken(events: Sequence[Call], sizes: Sequence[int]) -> list[bool]:
    found = [False] * len(events)
    for i in range(1, len(events)):
        one, before = events[i], events[i - 1]
        if one.allocator == before.allocator and one.heap is not None and before.heap is not None and sizes[i] >= 0:
            found[i] = one.heap - before.heap != (sizes[i] if one.is_allocation else -sizes[i])
    return found


def alive(events: Sequence[Call], sizes: Sequence[int], allocator: str, moment: int) -> Counter[Any]:
    """Live memory after event ``moment`` of the allocator, (source, op, size, requested): how often."""
    fates, breaks = matched(events), broken(events, sizes)
    counts: Counter[Any] = Counter()
    for i, one in enumerate(events):
        if one.allocator != allocator:
            continue
        partner, fate = fates[i]
        source = None
        if one.is_allocation and i <= moment:
            if fate == allocation_history.HELD_AT_END or (fate == allocation_history.FREED and partner > moment):
                source = live_set.RECORDED
            elif fate == allocation_history.REPLACED:
                again = next(
                    j for j in range(i + 1, len(events))
                    if events[j].is_allocation and (events[j].allocator, events[j].address) == (allocator, one.address)
                )  # fmt: skip
                if again > moment and not any(breaks[i + 1 : moment + 1]):
                    source = live_set.RECORDED
        elif not one.is_allocation and i > moment and sizes[i] >= 0:
            if fate == allocation_history.HELD_BEFORE:
                source = live_set.HELD_BEFORE_FREED_LATER
            elif fate == allocation_history.ALLOCATION_LOST and any(
                breaks[j] and events[j].allocator == allocator for j in range(moment + 1)
            ):
                last = max(j for j in range(i + 1) if breaks[j] and events[j].allocator == allocator)
                source = live_set.NOT_SEEN if last <= moment else None
        if source is not None:
            op = one.op if one.is_allocation and one.op not in ("", "(null)") else None
            counts[source, op, sizes[i], -1 if one.requested is None else one.requested] += 1
    return counts


def held_at(events: Sequence[Call], sizes: Sequence[int], time_ps: int) -> dict[tuple[str, str | None], int]:
    """Bytes held just before a time, by allocator and op; None: not known."""
    found: dict[tuple[str, str | None], int] = defaultdict(int)
    for one, size, (partner, fate) in zip(events, sizes, matched(events), strict=True):
        if size <= 0:
            continue
        if (
            one.is_allocation
            and fate in (allocation_history.FREED, allocation_history.HELD_AT_END)
            and one.start_ps < time_ps
        ):
            if fate == allocation_history.HELD_AT_END or events[partner].start_ps >= time_ps:
                found[one.allocator, one.op if one.op not in ("", "(null)") else None] += size
        elif fate == allocation_history.HELD_BEFORE and one.start_ps >= time_ps:
            found[one.allocator, "held before"] += size
    return found
