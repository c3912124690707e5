"""The order of the hosts of a session whose captures record ranks, as PyTorch's profiler does."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from fastprof.decode.import_log import ImportLog
from fastprof.decode.jobs import as_count, parse_distributed_info
from fastprof.decode.task_environment import recorded_environment
from fastprof.decode.xspace_capture import Capture


def by_rank(captures: Sequence[Capture], log: ImportLog) -> list[Capture]:
    """By the ranks of their processes if all record one; else as they are, by name. Of one rank recorded twice the
    order is that of the names."""
    if len(captures) < 2:
        return list(captures)
    return [captures[place] for place in places_by_rank(((rank_of(one), one.path) for one in captures), log)]


def places_by_rank(ranks: Iterable[tuple[int | None, str]], log: ImportLog) -> list[int]:
    """Of captures with these ranks and paths, the places in the order of the ranks."""
    known: dict[int, str] = {}
    listed: list[int] = []
    every = list(ranks)
    for rank, path in every:
        if rank is None:
            return list(range(len(every)))
        if rank in known:
            log.add("notice", "duplicate_rank", f"{known[rank]} and this file record the same rank, {rank}", path)
        known.setdefault(rank, path)
        listed.append(rank)
    return sorted(range(len(listed)), key=lambda place: listed[place])


def rank_of(capture: Capture) -> int | None:
    """The rank of the process that was profiled, of ``distributedInfo``; None: not recorded."""
    return as_count(parse_distributed_info(recorded_environment(capture).get("distributedInfo")).get("rank"))
