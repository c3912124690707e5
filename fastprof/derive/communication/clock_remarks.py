"""What the clocks of hosts show, in words: which are not known, and which host delays the others."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa

from fastprof.derive.communication.blame import Blame, Path
from fastprof.derive.communication.clocks import Clocks
from fastprof.wording.quantities import counted, measured, moment_text

ALONE = "no host met another in a collective"
HIDDEN = "hosts met only in asynchronous collectives, which may be over long before a host looks"
CONTRADICTORY = "hosts do not count their collectives alike, so that their clocks are not known"


def main_path(found: Blame | None) -> Path | None:
    """The path of the part that a host delays, or the longest."""
    every = [] if found is None else found.paths
    return max(every, key=lambda one: (one.named >= 0, one.time_ps), default=None)


def why_nobody(seen: Clocks | None, path: Path | None, blame: pa.Table) -> str:
    """Why no host is named."""
    if seen is None:
        return ALONE
    if path is None:
        return HIDDEN if seen.known.any() else CONTRADICTORY
    rows = [row for row in blame.to_pylist() if row["part"] == path.part]
    first = rows[0]
    text = f"no single host delays the others: the largest excess is that of {first['host']}, {_excess(first)}"
    return f"{text}, the next {moment_text(path.next_ps)}"


def in_words(blame: pa.Table, host: str, before_ps: int) -> str:
    """What a host delays: its excess, what others have, and what is saved at most. ``before_ps``: see blame.Path."""
    rows = blame.to_pylist()
    row = next(one for one in rows if one["host"] == host)
    others = [one["excess_ps"] for one in rows if one["part"] == row["part"] and one["host"] != host]
    most = max(others, default=0)
    beside = f"{row['excess_ps'] / most:.1f} times that of the next host" if most else "as no other host does"
    more = f", and by {moment_text(before_ps)} more if it is as late before the first meeting" if before_ps else ""
    return (
        f"On the critical path it works {_excess(row)} longer than the median of the others, {beside}, in "
        f"{counted(row['steps'], 'step', 'steps')}. Without that the run is shorter by at most "
        f"{moment_text(row['saved_ps'])}{more}"
    )


def saving_of(blame: pa.Table, host: str) -> tuple[int, bool]:
    """What is saved if a host works no longer than the median; and whether that is only a bound, because some meetings
    are not attended by all hosts. Each meeting has one last host."""
    rows = blame.to_pylist()
    row = next(one for one in rows if one["host"] == host)
    part = [one for one in rows if one["part"] == row["part"]]
    meetings = sum(one["last_count"] for one in part)
    return int(row["saved_ps"]), any(one["meetings"] < meetings for one in part)


def _excess(row: dict[str, object]) -> str:
    share = row["excess_share"]
    of = f" ({measured(float(str(share)), 'share')} of the path)" if share is not None else ""
    return f"{moment_text(int(str(row['excess_ps'])))}{of}"


def clock_remarks(
    names: Sequence[str], seen: Clocks | None, found: Blame | None, blame: pa.Table, missing: str
) -> Iterator[tuple[str, str]]:
    """Severity and text. ``missing``: see communication_remarks.ranks_missing."""
    if seen is None:
        return
    yield from _unknown(seen)
    for host in np.flatnonzero(seen.shift).tolist():
        steps = counted(abs(int(seen.shift[host])), "step", "steps")
        way = "later" if seen.shift[host] > 0 else "earlier"
        yield "info", f"Collectives of {names[host]} meet those that other hosts number {steps} {way}."
    path = None if missing else main_path(found)
    if path is not None and path.named >= 0:
        name = names[path.named]
        text = f"{name} delays the other hosts. {in_words(blame, name, path.before_ps)}"
        yield "recommendation", f"{text}: see whether it has more work."
    elif path is not None:
        text = why_nobody(seen, path, blame)
        yield "info", f"{text[0].upper()}{text[1:]}."


def _unknown(seen: Clocks) -> Iterator[tuple[str, str]]:
    there = seen.fit.part >= 0
    count = int(np.count_nonzero(there & ~seen.known))
    if count:
        text = (
            f"The clocks of {counted(count, 'host', 'hosts')} that met in collectives are not known: in more than 1 % "
            "of their meetings, one was done before another began, so that they do not count their collectives alike."
        )
        yield "warning", text
