"""Times of steps on the cores of many hosts, in a temporary file.

All cores of some steps are in memory at a time:

    hosts join one after the other          blocks of hosts are cut       a stretch of steps is read from all blocks
    and make a block [steps, cores]         into pieces by step
    ┌ h0 h1 h2 ┐  ┌ h3 h4 h5 ┐              [0 to m) [m to 2m) ...        [0 to m) of h0 h1 h2 h3 h4 h5
    │          │  │          │      ─►      [0 to m) [m to 2m) ...   ─►   [m to 2m) of h0 h1 h2 h3 h4 h5
    └          ┘  └          ┘                                            ...
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any, Final, TypeAlias

import numpy as np

from fastprof.derive.steps.database import BY_CORE, StepDatabase, at_once, check_size, no_times
from fastprof.schema.array_types import Bools, Int64s
from fastprof.schema.value_classes import dataclass
from fastprof.tables.set_aside import Stored

_Arrays: TypeAlias = dict[str, Any]
_MOST_BYTES: Final = 256 << 30
"""What the steps of a session may take in all, before they are compressed."""


@dataclass(frozen=True, slots=True)
class TimesAside:
    """``blocks``: the cores of hosts and what they have, for every ``many`` steps; ``rows``: which of all steps are
    chosen, ascending."""

    many: int
    blocks: Sequence[tuple[slice, Sequence[Stored[_Arrays]]]]
    rows: Int64s

    def chosen(self, steps: Bools) -> TimesAside:
        return replace(self, rows=self.rows[steps])

    def stretches(self, steps: StepDatabase) -> Iterator[StepDatabase]:
        """``steps``: those that are chosen, without their times."""
        numbers = self.rows // self.many
        for number in np.unique(numbers).tolist() or [0]:
            own = numbers == number
            some = replace(steps, aside=None).chosen(own)
            yield replace(some, **self._read(steps, number, self.rows[own] - number * self.many))

    def _read(self, steps: StepDatabase, number: int, rows: Int64s) -> _Arrays:
        times = no_times(steps.hardware, len(rows), len(steps.cores), len(steps.categories))
        for cores, pieces in self.blocks:
            for name, values in pieces[number].value().items() if len(rows) else ():
                times[name][:, cores] = values[rows]
        return times


def with_times(
    steps: StepDatabase, databases: Iterable[StepDatabase], rows: Sequence[Int64s], *, in_memory: bool = False
) -> StepDatabase:
    """``steps`` that hosts have in common, with their times: in a temporary file if they are many, unless they have to
    be ``in_memory``. ``databases``: of each host that takes part, ``rows``: those of the steps in each. Raises
    MemoryLimitError, and UnreadableError if the disk has no room for them."""
    count, cores, categories = len(steps), len(steps.cores), len(steps.categories)
    many = count if in_memory else at_once(cores)
    check_size(min(count, many), cores, categories, steps.hardware)
    check_size(count, cores, categories, steps.hardware, _MOST_BYTES)
    if count <= many:
        ((_, times),) = _joined(steps, databases, rows, cores)
        return replace(steps, **times)
    pieces = [slice(first, first + many) for first in range(0, count, many)]
    blocks = [
        (own, [Stored({name: times[name][piece] for name in times if times[name][piece].any()}) for piece in pieces])
        for own, times in _joined(steps, databases, rows, at_once(count))
    ]
    return replace(steps, aside=TimesAside(many, blocks, np.arange(count)))


def _joined(
    steps: StepDatabase, databases: Iterable[StepDatabase], rows: Sequence[Int64s], most: int
) -> Iterator[tuple[slice, _Arrays]]:
    """Blocks of about ``most`` cores: which cores they are, and their times."""
    first = used = width = 0
    times = no_times(steps.hardware, len(steps), 0, len(steps.categories))
    for database, row in zip(databases, rows, strict=True):
        own = len(database.cores)
        if used + own > width:
            if used:
                yield slice(first, first + used), {name: times[name][:, :used] for name in times}
            first, used = first + used, 0
            width = min(max(most, own), len(steps.cores) - first)
            times = no_times(steps.hardware, len(steps), width, len(steps.categories))
        _write(times, steps, slice(used, used + own), database, row)
        used += own
    yield slice(first, first + used), {name: times[name][:, :used] for name in times}


def _write(times: _Arrays, steps: StepDatabase, cores: slice, database: StepDatabase, row: Int64s) -> None:
    """The times of a host. Where there is only 0, nothing is written: memory that is not written takes none."""
    for name in BY_CORE:
        values = getattr(database, name)
        if name == "category_ps":
            places = [steps.categories.index(category) for category in database.categories]
            times[name][:, cores, places] = values[row]
        elif values.size and values.any() and (name != "type_ps" or not steps.is_tpu):
            times[name][:, cores] = values[row]
