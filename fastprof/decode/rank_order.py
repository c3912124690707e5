"""The order of the hosts of a session whose captures record ranks, as PyTorch's profiler does."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from fastprof.decode.import_log import ImportLog
from fastprof.decode.task_environment import recorded_environment
from fastprof.decode.xspace_capture import Capture


def by_rank(captures: Sequence[Capture], log: ImportLog) -> list[Capture]:
    """By the ranks of their processes if all record one; else as they are, by name. Of one rank recorded twice the
    order is that of the names."""
    if len(captures) < 2:
        return list(captures)
    known: dict[int, Capture] = {}
    ranks = []
    for capture in captures:
        rank = _rank_of(recorded_environment(capture))
        if rank is None:
            return list(captures)
        if rank in known:
            first = known[rank].path
            log.add("notice", "duplicate_rank", f"{first} and this file record the same rank, {rank}", capture.path)
        known.setdefault(rank, capture)
        ranks.append(rank)
    return [captures[place] for place in sorted(range(len(captures)), key=lambda place: ranks[place])]


def _rank_of(environment: Mapping[str, str]) -> int | None:
    """The rank of the process that was profiled, of ``distributedInfo``; None: not recorded."""
    text = environment.get("distributedInfo")
    try:
        info = json.loads(text or "null")
    except (ValueError, RecursionError):
        return None
    rank = info.get("rank") if isinstance(info, dict) else None
    return rank if isinstance(rank, int) and not isinstance(rank, bool) and rank >= 0 else None
