"""Which hosts, planes, lines and events are selected, and what that means for the captures of an index."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from operator import index as integer_of
from typing import TYPE_CHECKING, SupportsIndex

import numpy as np

from fastprof._native.xspace import Filter
from fastprof.errors import NotFoundError, UsageError
from fastprof.schema.columns import Bools
from fastprof.schema.value_classes import dataclass
from fastprof.wording.amounts import Steps as Steps
from fastprof.wording.amounts import parse_step_range

if TYPE_CHECKING:
    from fastprof.decode.index import Index

Patterns = str | Iterable[str] | None
Interval = tuple[int | None, int | None]
ChosenSteps = str | Steps | Interval | SupportsIndex
"""Steps as ``select`` takes them: 3, (3, 5), "3:5", "train=3:5"."""
Conditions = tuple[tuple[str, ...], ...]

_MIN, _MAX = -(2**63), 2**63 - 1
_NO_TIME = (_MAX, _MIN)


@dataclass(frozen=True, slots=True)
class Selection:
    """``hosts``: names, literally (None: all). ``planes``, ``lines``, ``names``: all of these conditions; each
    consists of regular expressions and holds if any of them matches. ``time_ps``: events that overlap [from, to).
    ``host_times``: such a range for each host, by name; other hosts have no events (None: no such condition).
    ``line_ids``: of some lines (None: of any)."""

    hosts: tuple[str, ...] | None = None
    planes: Conditions = ()
    lines: Conditions = ()
    names: Conditions = ()
    time_ps: tuple[int, int] | None = None
    host_times: tuple[tuple[str, int, int], ...] | None = None
    line_ids: tuple[int, ...] | None = None

    def narrowed(
        self,
        hosts: str | Iterable[str] | None = None,
        planes: Patterns = None,
        lines: Patterns = None,
        names: Patterns = None,
        time_ps: Interval | None = None,
    ) -> Selection:
        wanted = self.hosts
        if hosts is not None:
            requested = _check_texts("hosts", "names", hosts)
            wanted = requested if wanted is None else tuple(host for host in wanted if host in requested)
        return replace(
            self,
            hosts=wanted,
            planes=self.planes + _make_condition("planes", planes),
            lines=self.lines + _make_condition("lines", lines),
            names=self.names + _make_condition("names", names),
            time_ps=_narrow_time(self.time_ps, time_ps),
        )

    def hosts_of(self, files: int) -> int:
        """Return how many hosts are selected in a session of ``files`` files, each of one host."""
        return files if self.hosts is None else len(self.hosts)

    def within(self, times: Mapping[str, tuple[int, int]]) -> Selection:
        """Only events that overlap the time given for their host; none of hosts that have none."""
        return replace(self, host_times=tuple((host, *time) for host, time in times.items()))

    def window(self, host: str) -> tuple[int, int] | None:
        """Return the selected time of a host. None: all of it, aggregated events too."""
        if self.host_times is None:
            return self.time_ps
        times = {name: (start, end) for name, start, end in self.host_times}
        start, end = times.get(host, _NO_TIME)
        return (start, end) if self.time_ps is None else (max(start, self.time_ps[0]), min(end, self.time_ps[1]))

    def of_whole_lines(self) -> Selection:
        """Return the selection of the same lines with all of their events."""
        return replace(self, names=(), time_ps=None, host_times=None)

    @property
    def filters_events(self) -> bool:
        """Return whether events of one line may be kept and left out."""
        return bool(self.names) or self.time_ps is not None or self.host_times is not None

    @property
    def filters_lines(self) -> bool:
        return self.hosts is not None or bool(self.planes) or self.chooses_lines

    @property
    def chooses_lines(self) -> bool:
        """Return whether lines of one plane may be kept and left out."""
        return bool(self.lines) or self.line_ids is not None

    def check_hosts(self, known: Sequence[str]) -> None:
        """Raise NotFoundError for a host that the session does not have."""
        for host in self.hosts or ():
            if host not in known:
                raise NotFoundError(f"no host {host!r} in this session; there are: {', '.join(known)}")

    def __str__(self) -> str:
        parts = [] if self.hosts is None else [f"hosts {', '.join(self.hosts)}"]
        for what in ("planes", "lines", "names"):
            parts += [f"{what} {' or '.join(alternatives)}" for alternatives in getattr(self, what)]
        if self.time_ps is not None:
            parts.append(f"time {self.time_ps[0]} ps to {self.time_ps[1]} ps")
        return "; ".join(parts)


class Wanted:
    """What a selection means for the captures of an index."""

    def __init__(self, index: Index, selection: Selection) -> None:
        self.index = index
        self.selection = selection

    def captures(self) -> list[int]:
        """Return the numbers of the captures of the selected hosts. What is done for one host looks at no other, so
        that a session of a thousand is not walked a thousand times."""
        hosts = self.selection.hosts
        if hosts is None:
            return list(range(len(self.index.captures)))
        return sorted(number for host in {*hosts} for number in self.index.of_host.get(host, ()))

    def pieces(self) -> dict[int, Bools] | None:
        """Return masks of the pieces of the selected captures, or None for all. Reads the headers of lines first if it
        has to."""
        captures = self.index.captures
        if not self.selection.filters_lines:
            return None
        if self.selection.chooses_lines:
            self.index.ensure_lines()
            lines = self.lines()
            return {number: lines[captures[number].pieces["line_id"]] for number in self.captures()}
        planes = self.planes()
        chosen = {}
        for number in self.captures():
            part = captures[number]
            chosen[number] = planes[part.plane_base + part.capture.plane_of_part[part.pieces["part"]]]
        return chosen

    def lines(self) -> Bools:
        """Return the mask of selected lines, by line_id."""
        selection, index = self.selection, self.index
        wanted: Bools = self.planes()[index.headers["plane_id"]]
        if selection.lines:
            index.count_events()  # display names follow the events
            named = np.array(match_texts(index.line_names, selection.lines), bool)
            shown = np.array(match_texts(index.line_display_names, selection.lines), bool)
            wanted &= named | (shown & np.array([bool(text) for text in index.line_display_names], bool))
        if selection.line_ids is not None:
            wanted &= np.isin(np.arange(len(wanted)), np.array(selection.line_ids, np.int64))
        return wanted

    def planes(self) -> Bools:
        """Return the mask of selected planes, by plane_id."""
        wanted = np.zeros(self.index.plane_count, bool)
        for number in self.captures():
            part = self.index.captures[number]
            names = [name for name, _ in part.capture.plane_keys]
            wanted[part.plane_base : part.plane_base + len(names)] = match_texts(names, self.selection.planes)
        return wanted

    def filter(self, host: str, meta_names: list[str] | None) -> Filter | None:
        """Return the filter of events of a host's capture, or None. ``meta_names``: the name of each of its event
        metadata."""
        if not self.selection.filters_events:
            return None
        keep = None
        unnamed = True
        if self.selection.names:
            assert meta_names is not None
            keep = np.array(match_texts(meta_names, self.selection.names), np.uint8)
            unnamed = match_texts([""], self.selection.names)[0]
        return Filter(keep, unnamed, self.selection.window(host))


def match_texts(texts: Sequence[str], conditions: Conditions) -> list[bool]:
    """Return whether each text fulfils all conditions."""
    compiled = [[re.compile(pattern) for pattern in alternatives] for alternatives in conditions]
    return [all(any(p.search(text) for p in alternatives) for alternatives in compiled) for text in texts]


def _make_condition(what: str, patterns: Patterns) -> Conditions:
    if patterns is None:
        return ()
    alternatives = _check_texts(what, "regular expressions", patterns)
    for pattern in alternatives:
        try:
            re.compile(pattern)
        except (re.error, OverflowError, RecursionError) as error:
            raise UsageError(f"{what}: {pattern!r} is not a regular expression: {error}") from error
    return (alternatives,)


def _check_integer(bound: SupportsIndex) -> int:
    if isinstance(bound, bool):
        raise TypeError("a bool is not a number")
    return integer_of(bound)


def _check_texts(what: str, kind: str, given: str | Iterable[str]) -> tuple[str, ...]:
    listed = (given,) if isinstance(given, str) or not isinstance(given, Iterable) else tuple(given)
    for text in listed:
        if not isinstance(text, str):
            raise UsageError(f"{what} must be {kind} as text, not {type(text).__name__}")
    return listed


def narrow_steps(known: Steps | None, requested: ChosenSteps | None) -> Steps | None:
    """Return the steps that are in both. UsageError: ``requested`` is not a range of steps, or has none of
    ``known``."""
    if requested is None:
        return known
    steps = _check_steps(requested)
    if known is None:
        return steps
    if known.name and steps.name and known.name != steps.name:
        raise UsageError(f"no steps {steps}: steps {known} are selected already")
    firsts = [bound for bound in (steps.first, known.first) if bound is not None]
    lasts = [bound for bound in (steps.last, known.last) if bound is not None]
    return Steps(max(firsts, default=None), min(lasts, default=None), steps.name or known.name)


def _check_steps(requested: ChosenSteps) -> Steps:
    try:
        if isinstance(requested, str):
            return parse_step_range(requested)
        if isinstance(requested, Steps):
            return requested
        if isinstance(requested, SupportsIndex):
            only = _check_integer(requested)
            return Steps(only, only + 1)
        first, last = (None if bound is None else _check_integer(bound) for bound in requested)
    except (TypeError, ValueError) as error:
        if isinstance(requested, str):
            raise UsageError(f"steps: {error}") from error
        text = (
            "steps must be a number, a pair (first, end) with end excluded, or a string such as '3:5' or 'train=3:5'; "
            "None leaves an end open"
        )
        raise UsageError(text) from error
    if first is not None and last is not None and last <= first:
        raise UsageError(f"steps ({first}, {last}) contain no step; the second number is excluded: (3, 5) is 3 and 4")
    return Steps(first, last)


def _narrow_time(known: tuple[int, int] | None, requested: Interval | None) -> tuple[int, int] | None:
    if requested is None:
        return known
    try:
        start, end = (None if bound is None else _check_integer(bound) for bound in requested)
    except (TypeError, ValueError) as error:
        raise UsageError("time_ps must be two integers of picoseconds; None leaves an end open") from error
    if start is not None and end is not None and end <= start:
        raise UsageError(f"time_ps ({start}, {end}) contains no time; the second number is the end, which is excluded")
    low = max(_MIN, _MIN if start is None else start)
    high = min(_MAX, _MAX if end is None else end)
    if known is not None:
        low, high = max(low, known[0]), min(high, known[1])
    return low, high
