"""One clock for the hosts of a session: what is added to the times of each, by when it recorded to have started."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from fastprof.schema.columns import Int64s
from fastprof.schema.value_classes import dataclass

if TYPE_CHECKING:
    from fastprof.decode.import_log import ImportLog
    from fastprof.decode.xspace_capture import NamedHost

_PS_IN_NS: Final = 1000
_MOST_APART_NS: Final = 2**61 // _PS_IN_NS
"""The most, some 26 days: hosts that started further from the others are not of their run, or damaged."""


@dataclass(frozen=True, slots=True)
class HostClocks:
    """``offsets_ps``: what is added to the times of each host. ``start_unix_ns``: the time of day at 0, None: unknown,
    or several. ``apart``: numbers of hosts that are not on the clock of the others; their times count from
    their own start."""

    offsets_ps: list[int]
    start_unix_ns: int | None
    apart: list[int]


class Offset(NamedTuple):
    """How a host's times become those of the clock of ``reference``: ``offset_ps`` is added, and what the host's clock
    gains by ``drift`` from ``at_ps`` on is taken away."""

    reference: str
    offset_ps: int
    at_ps: int = 0
    drift: float = 0.0

    def moved(self, start_ps: Int64s, duration_ps: Int64s) -> tuple[Int64s, Int64s]:
        """Return times without what the clock gains, to the nearest picosecond: order and nesting stay as they are."""
        if not self.drift:
            return start_ps, duration_ps
        each = np.stack([start_ps, duration_ps])
        sane = ((each > -_MOST_PS) & (each < _MOST_PS)).all(axis=0)  # larger times are damage
        start, duration = np.where(sane, start_ps, 0), np.where(sane, duration_ps, 0)
        gained, at_end = self._gained(start), self._gained(start + duration)
        return (
            np.where(sane, start_ps - gained, start_ps),
            np.where(sane, duration_ps - (at_end - gained), duration_ps),
        )

    def _gained(self, time_ps: Int64s) -> Int64s:
        return np.asarray(np.rint((time_ps - self.at_ps) * (self.drift / (1 + self.drift))), np.int64)


_MOST_PS: Final = 2**60
Offsets = Mapping[str, Offset]
"""The offsets of hosts whose clock is known against that of another one."""


def align_clocks(clock: HostClocks, hosts: Sequence[str], offsets: Offsets) -> HostClocks:
    """Return the clock of ``hosts``, but those with an offset are put where their references are; the first is at 0."""
    place = {host: number for number, host in enumerate(hosts)}
    moved = list(clock.offsets_ps)
    for host, offset in offsets.items():
        if host in place and offset.reference in place:
            moved[place[host]] = clock.offsets_ps[place[offset.reference]] + offset.offset_ps
    early_ns = -(
        min(moved, default=0) // _PS_IN_NS
    )  # start of the earliest, in nanoseconds so that it has a time of day
    start = None if clock.start_unix_ns is None else clock.start_unix_ns - early_ns
    return HostClocks([offset + early_ns * _PS_IN_NS for offset in moved], start, clock.apart)


def make_host_clocks(starts_unix_ns: Sequence[int | None]) -> HostClocks:
    """Return the clock of hosts that started then, None: unknown. Hosts with an unknown start, or one that is far from
    that of the others, are apart."""
    known = sorted(start for start in starts_unix_ns if start is not None)
    if not known:
        return HostClocks([0] * len(starts_unix_ns), None, [])
    middle = known[(len(known) - 1) // 2]
    near = [start is not None and abs(start - middle) <= _MOST_APART_NS for start in starts_unix_ns]
    first = min(start for start, is_near in zip(starts_unix_ns, near, strict=True) if is_near and start is not None)
    offsets = [
        (start - first) * _PS_IN_NS if is_near and start is not None else 0
        for start, is_near in zip(starts_unix_ns, near, strict=True)
    ]
    apart = [number for number, is_near in enumerate(near) if not is_near]
    return HostClocks(offsets, first if sum(near) == len(known) else None, apart)


def note_clocks(hosts: Sequence[NamedHost], starts_unix_ns: Sequence[int | None], log: ImportLog) -> None:
    """Log each host that is not on the clock of the others."""
    for number in make_host_clocks(starts_unix_ns).apart:
        why = "unknown" if starts_unix_ns[number] is None else "weeks away from that of other hosts"
        text = (
            f"the start of {hosts[number].host} is {why}: its times count from its own start and are not aligned "
            f"with other hosts"
        )
        log.add("notice", "no_common_clock", text, hosts[number].path)
