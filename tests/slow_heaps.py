"""Heaps of programs the slow way: by what each event means, without any cleverness."""

from __future__ import annotations

from dataclasses import dataclass

from fastprof.hlo.program_memory import ALLOC, FREE, SHARE_WITH, BufferAssignment


@dataclass
class SlowHeap:
    bytes: list[int]
    """In use before each event, and at the end."""
    owner: list[int]
    """By buffer, whose memory it is in."""
    passed_over: int


def slow_heap(plan: BufferAssignment) -> SlowHeap:
    """The only trace of a plan. Memory is in use while any buffer that shares it has not been freed; an event that
    contradicts what was before it does nothing."""
    count = len(plan.buffers)
    size = plan.buffers["size"].tolist()
    lies = {int(row) for row in plan.assigned["buffer"] if row >= 0}
    owner, users, met = list(range(count)), [0] * count, set()
    series, passed_over = [0], 0
    for event in plan.events:
        kind, buffer, other = int(event["kind"]), int(event["buffer"]), int(event["canonical"])
        if buffer not in lies:
            sensible = False
        elif kind == ALLOC:
            sensible = owner[buffer] == buffer and users[buffer] == 0
            if sensible:
                users[buffer] = 1
        elif kind == FREE:
            sensible = buffer in met and users[owner[buffer]] > 0
            if sensible:
                users[owner[buffer]] -= 1
        else:
            sensible = kind == SHARE_WITH and other in lies and owner[buffer] == buffer and users[buffer] == 0
            sensible = sensible and owner[other] != buffer
            if sensible:
                owner = [owner[other] if one == buffer else one for one in owner]
                users[owner[buffer]] += 1
        if sensible:
            met.add(buffer)
        passed_over += not sensible
        series.append(sum(size[one] for one in range(count) if users[one] > 0))
    return SlowHeap(series, owner, passed_over)
