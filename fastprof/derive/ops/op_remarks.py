"""Sentences on the ops of a session's devices that every analysis of them shows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

import numpy as np

from fastprof.derive.devices.nothing_ran import NothingRan
from fastprof.derive.ops.ceilings import MOST_UNKNOWN, against, ceilings, self_share, unknown
from fastprof.derive.ops.device_ops import SessionOps
from fastprof.derive.ops.op_marks import is_container
from fastprof.derive.ops.tables import OpTable
from fastprof.schema.array_types import Int64s

Remark = tuple[str, str]
"""Severity, as notices have it, and a sentence."""

NO_PROGRAMS: Final = "The capture carries no compiled programs: ops are known from their events only."
KERNEL_NAME: Final = "kernel name"
"""What the names of such ways begin with in attribution.py."""

_REASONS_NAMED: Final = 3
_UNKNOWN_NAMED: Final = 2
_OPS_NAMED: Final = 3
_LONGEST_NAME: Final = 60


def remarks(devices: SessionOps) -> Iterator[Remark]:
    if not len(devices.ops.table):
        yield "warning", f"No ops: {why_no_ops(devices)}."
    yield from of_programs(devices)
    yield from attribution(devices.ops.table)
    yield from products_without_work(devices.ops.table)
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
    """Whether the capture carries programs, and what of them or of the ops' events cannot be read."""
    if len(devices.ops.table) and not devices.titles:
        yield "info", NO_PROGRAMS
    yield from problems((host.name, host.problems) for host in devices.hosts)


def problems(of_hosts: Iterable[tuple[str, Sequence[str]]]) -> Iterator[Remark]:
    for host, texts in of_hosts:
        for text in texts:
            yield "warning", f"{host}: {text}."


def why_no_ops(devices: SessionOps) -> str:
    """In words, as the end of a sentence."""
    if not devices.hosts:
        return "no host is selected"
    if not devices.ops.parts:
        return NothingRan("the capture has no planes of devices, and no thread ran ops of compiled programs")
    return NothingRan("no op of the devices is recorded")


def attribution(table: OpTable) -> Iterator[Remark]:
    """How much of the ops' time is of unknown ops, or of ops known by the names of kernels alone."""
    yield from unattributed(table)
    by_name = np.array([one.startswith(KERNEL_NAME) for one in table.attribution], bool)
    named_ps, total = sum(table.self_ps[by_name].tolist()), sum(table.self_ps.tolist())
    if by_name.any():
        share = f"{100 * named_ps / total:.1f} % of the time of devices" if total else "What ran on devices"
        yield (
            "info",
            f"{share} belongs to ops only by the names of kernels. XLA lets fusions that are alike share a kernel: the "
            "time of all of them is then with one, so that its occurrences, source line and layer may be another's.",
        )


def unattributed(table: OpTable) -> Iterator[Remark]:
    """How much of the ops' time is of events whose op is unknown, and why."""
    time, total = _time_by(table.unattributed, table.self_ps), int(table.self_ps.sum())
    if not time:
        return
    share = _of_devices(sum(time.values()), total)
    yield "info", f"{share} is listed by kernel or copy, not by op. Why:\n" + "\n".join(_reasons(time, total))


def _time_by(reasons: Iterable[str], self_ps: Int64s) -> Counter[str]:
    time: Counter[str] = Counter()
    for reason, time_ps in zip(reasons, self_ps.tolist(), strict=True):
        if reason:
            time[reason] += time_ps
    return time


def _of_devices(part: int, total: int) -> str:
    return f"{100 * part / total:.1f} % of the time of devices" if total else "What ran on devices"


def _reasons(time: Counter[str], total: int) -> Iterator[str]:
    """The reasons of most time, a line each."""
    for reason, self_ps in time.most_common(_REASONS_NAMED):
        yield f"{reason} ({100 * self_ps / total:.1f} %)" if total else reason
    if len(time) > _REASONS_NAMED:
        yield f"{len(time) - _REASONS_NAMED} other reasons"


def remarks_on_unknown(table: OpTable) -> Iterator[Remark]:
    """Why shares of peaks are unknown, if they are."""
    parts = zip(("arithmetic", "memory traffic"), unknown(table), strict=True)
    large = [(name, share, chosen) for name, chosen in parts if (share := self_share(table, chosen)) > MOST_UNKNOWN]
    if not large:
        return
    words = " and ".join(f"the {name} of {100 * share:.1f} %" for name, share, _ in large)
    chosen = np.logical_or.reduce([one for *_, one in large])
    order = np.argsort(-np.where(chosen, table.self_ps, -1), kind="stable")[:_UNKNOWN_NAMED].tolist()
    names = ", ".join(_short(table.name[row]) for row in order if chosen[row])
    yield "warning", f"Shares of the peaks are unknown: {words} of op time is not known (most of it: {names})."


def products_without_work(table: OpTable) -> Iterator[Remark]:
    """Why the work of products of PyTorch is not known."""
    time = _time_by(table.no_work, table.self_ps)
    if time:
        lines = "\n".join(_reasons(time, int(table.self_ps.sum())))
        yield "info", f"The work of some products is not known. Why:\n{lines}"


def over_peak(devices: SessionOps) -> Iterator[Remark]:
    """Which ops are recorded to have done more than the device can. Work of ops that hold others is that of these."""
    table, beneath = devices.ops.table, ceilings(devices.peaks)
    used = np.nan_to_num(against(table, beneath).utilisation)
    used[is_container(table)] = 0.0
    most = used.max(axis=1, initial=0.0)
    over = np.flatnonzero(most > 1)
    if not len(over):
        return
    longest = over[np.argsort(-table.self_ps[over], kind="stable")][:_OPS_NAMED].tolist()
    nearest = used.argmax(axis=1)
    names = ", ".join(f"{_short(table.name[row])} ({_times(most[row])} the peak of {beneath[nearest[row]].name})"
                      for row in longest)  # fmt: skip
    count = "1 op seems" if len(over) == 1 else f"{len(over):,} ops seem"
    which = "" if len(over) == 1 else ", of most time" if len(over) > len(longest) else ""
    yield (
        "warning",
        f"{count} to have done more than the device can{which}: {names}. The recorded work or the peak is wrong, or "
        "the work goes on after they end.",
    )


def _times(many: float) -> str:
    return f"{many:,.2f} x" if many < 100 else f"{many:,.0f} x"


def _short(name: str) -> str:
    """The name of an op for a sentence: names of template kernels are very long."""
    half = _LONGEST_NAME // 2
    return name if len(name) <= _LONGEST_NAME else f"{name[:half]}\u2026{name[-half + 1 :]}"
