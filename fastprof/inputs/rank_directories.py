"""Directories that hold the traces of one rank each: the directory around them is one run, whose hosts are the ranks.

run/rank_0/trace.json  run/rank_1/trace.json    the run is "run", its hosts are "rank_0" and "rank_1"
run/0/trace.json       run/1/trace.json         likewise, if the traces record these ranks

And directories that hold traces of several profiles, each of all ranks: each profile is a run.

run/1738923.5-TP-0.trace.json  run/1738999.1-TP-0.trace.json    the runs are "run/1738923.5" and "run/1738999.1"
"""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final

from fastprof.inputs.directory_content import Place
from fastprof.inputs.paths import below, shown
from fastprof.wording.patterns import pattern_of

_RANK: Final = pattern_of(r"(?:.*[-_.])?rank[-_.]?(\d{1,9})", re.IGNORECASE)
_NUMBER: Final = pattern_of(r"\d{1,9}")
_RECORDED: Final = pattern_of(rb'"distributedInfo"\s*:\s*\{[^{}\[\]]*?"rank"\s*:\s*(\d{1,9})\b')
_PROFILE: Final = pattern_of(r"(\d{6,}(?:\.\d+)?)-TP-\d+\b.*")
"""A trace of SGLang, with the id of its profile, which is a time."""
_LOOKED_INTO: Final = 2
"""Directories called by a number that are looked into: there may be thousands."""


def join_ranks(top: Place, runs: Sequence[Place]) -> list[Place]:
    """Return the runs below a directory with those of ranks joined to one run for each directory around them."""
    groups: dict[tuple[tuple[str, ...], str], list[tuple[int, Place]]] = {}
    for place in runs:
        *around, name = Path(os.path.relpath(place.directory, top.directory)).parts or [""]
        match = _RANK.fullmatch(name) or _NUMBER.fullmatch(name)
        if match is not None and place.traces and not (place.captures or place.linked):
            digits = match[match.lastindex or 0]
            groups.setdefault((tuple(around), name.removesuffix(digits)), []).append((int(digits), place))
    joined = {
        id(ranks[0][1]): (_joined(top, around, sorted(ranks, key=lambda rank: rank[0])), ranks)
        for (around, prefix), ranks in groups.items()
        if len(ranks) > 1 and (prefix or _record_their_ranks(ranks))
    }
    gone = {id(place) for _, ranks in joined.values() for _, place in ranks[1:]}
    return [joined[id(place)][0] if id(place) in joined else place for place in runs if id(place) not in gone]


def _joined(top: Place, around: tuple[str, ...], ranks: Iterable[tuple[int, Place]]) -> Place:
    directory = str(Path(top.directory, *around))
    place = Place(directory, shown(directory), shown("/".join(around)) if around else top.name)
    for _, rank in ranks:
        place.traces += [below(Path(rank.directory).name, trace) for trace in rank.traces]
    return place


def _record_their_ranks(ranks: Iterable[tuple[int, Place]]) -> bool:
    """Whether traces in directories that are called by a number record it as their rank."""
    from fastprof.inputs.source import beginning  # only this search opens files

    some = sorted(ranks, key=lambda rank: rank[0])[:_LOOKED_INTO]
    heads = [(number, _RECORDED.search(beginning(below(rank.directory, rank.traces[0])))) for number, rank in some]
    return all(match is not None and int(match[1]) == number for number, match in heads)


def split_profiles(top: Place, place: Place) -> list[Place]:
    """Return the profiles that a directory holds as runs of their own; a directory of one is the run itself."""
    ids = [match and match[1] for match in map(_PROFILE.fullmatch, place.traces)]
    if place.captures or None in ids or len(set(ids)) < 2:
        return [place]
    profiles: dict[str, Place] = {}
    for trace, profile in zip(place.traces, ids, strict=True):
        name = f"{profile}" if place is top else f"{place.name}/{profile}"
        profiles.setdefault(name, Place(place.directory, place.path, name, place.linked)).traces.append(trace)
    place.traces = []
    return list(profiles.values())


def name_ranks(workers: Mapping[str, str]) -> dict[str, str]:
    """Return the hosts of traces by their workers; a trace that is the only one of its rank's directory is of the host
    with the name of that directory."""
    count = Counter(Path(trace).parent for trace in workers)
    return {
        trace: str(folder) if folder != Path() and count[folder] == 1 else worker
        for trace, worker in workers.items()
        for folder in [Path(trace).parent]
    }
