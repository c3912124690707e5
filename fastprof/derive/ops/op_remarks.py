"""What is to be known of the ops of a session's devices, in words: for every analysis of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

import numpy as np

from fastprof.derive.ops.ceilings import against, ceilings, is_container
from fastprof.derive.ops.device_ops import SessionOps
from fastprof.derive.ops.tables import OpTable
from fastprof.derive.ops.unknown_work import remarks_on_unknown, short

Remark = tuple[str, str]
"""Severity, as notices have it, and a sentence."""

NO_PROGRAMS: Final = "The capture carries no programs (HLO): what ops are is only what their events tell."
KERNEL_NAME: Final = "kernel name"
"""How attribution.py calls the ways by which such ops are known."""

_REASONS_TOLD = 3
_OPS_NAMED = 3


def remarks(devices: SessionOps) -> Iterator[Remark]:
    if not len(devices.ops.table):
        yield "warning", f"No ops: {why_no_ops(devices)}."
    yield from of_programs(devices)
    yield from attribution(devices.ops.table)
    if devices.ops.overlapped_ps:
        yield (
            "info",
            "Ops ran on several lines (streams or threads) of a device at once: their times add up to more than the "
            "time in which it was busy. Shares are of that sum and idle time.",
        )
    if devices.peaks is not None:
        yield from remarks_on_unknown(devices.ops.table)
    yield from over_peak(devices)
    for reason in devices.peaks.reasons if devices.peaks else ():
        yield "info", f"On peaks: {reason}."


def of_programs(devices: SessionOps) -> Iterator[Remark]:
    """Whether the capture carries them, and what of them or of the ops' events cannot be read."""
    if len(devices.ops.table) and not devices.titles:
        yield "info", NO_PROGRAMS
    yield from problems((host.name, host.problems) for host in devices.hosts)


def problems(told: Iterable[tuple[str, Sequence[str]]]) -> Iterator[Remark]:
    """``told``: by host."""
    for host, texts in told:
        for text in texts:
            yield "warning", f"{host}: {text}."


def why_no_ops(devices: SessionOps) -> str:
    """In words, as the end of a sentence."""
    if not devices.hosts:
        return "no host is selected"
    if not devices.ops.parts:
        return "the capture has no planes of devices, and no thread ran what XLA compiled (events with the stat hlo_op)"
    return "nothing ran on the devices while they were observed"


def attribution(table: OpTable) -> Iterator[Remark]:
    """How much of the ops' time is of ops that are not known, or known by the names of kernels alone."""
    yield from unattributed(table)
    by_name = np.array([one.startswith(KERNEL_NAME) for one in table.attribution], bool)
    named_ps, whole = sum(table.self_ps[by_name].tolist()), sum(table.self_ps.tolist())
    if by_name.any():
        share = f"{100 * named_ps / whole:.1f} % of the time of devices" if whole else "What ran on devices"
        yield (
            "info",
            f"{share} belongs to ops only by the names of kernels. XLA lets fusions that are alike share a kernel: the "
            "time of all of them is then with one, so that its occurrences, source line and layer may be another's.",
        )


def unattributed(table: OpTable) -> Iterator[Remark]:
    """How much of the ops' time is of events that belong to no op that is known, and why."""
    time: Counter[str] = Counter()
    for reason, self_ps in zip(table.unattributed, table.self_ps.tolist(), strict=True):
        if reason:
            time[reason] += self_ps
    whole = int(table.self_ps.sum())
    if not time:
        return
    share = f"{100 * sum(time.values()) / whole:.1f} % of the time of devices" if whole else "What ran on devices"
    yield "info", f"{share} is not told by op, but by kernel or copy. Why:\n" + "\n".join(_told(time, whole))


def _told(time: Counter[str], whole: int) -> Iterator[str]:
    """The reasons of most time, a line each."""
    for reason, self_ps in time.most_common(_REASONS_TOLD):
        yield f"{reason} ({100 * self_ps / whole:.1f} %)" if whole else reason
    if len(time) > _REASONS_TOLD:
        yield f"{len(time) - _REASONS_TOLD} other reasons"


def over_peak(devices: SessionOps) -> Iterator[Remark]:
    """Which ops are told to have done more than the device can. Work of ops that hold others is that of these."""
    table, beneath = devices.ops.table, ceilings(devices.peaks)
    used = np.nan_to_num(against(table, beneath).utilisation)
    used[is_container(table)] = 0.0
    most = used.max(axis=1, initial=0.0)
    over = np.flatnonzero(most > 1)
    if not len(over):
        return
    longest = over[np.argsort(-table.self_ps[over], kind="stable")][:_OPS_NAMED].tolist()
    nearest = used.argmax(axis=1)
    names = ", ".join(f"{short(table.name[row])} ({_times(most[row])} the peak of {beneath[nearest[row]].name})"
                      for row in longest)  # fmt: skip
    count = "1 op seems" if len(over) == 1 else f"{len(over):,} ops seem"
    which = "" if len(over) == 1 else ", of most time" if len(over) > len(longest) else ""
    yield (
        "warning",
        f"{count} to have done more than the device can{which}: {names}. Either the work that is told of them is not "
        "right, or goes on after they end, or the peak is not right.",
    )


def _times(many: float) -> str:
    return f"{many:,.2f} x" if many < 100 else f"{many:,.0f} x"
