"""Remarks on communication: cost and advice, late hosts and devices, unknown clocks, and why there may be nothing."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

import numpy as np
import pyarrow as pa

from fastprof.derive.communication.blame import Blame, MeetingPath
from fastprof.derive.communication.clocks import Clocks
from fastprof.derive.communication.communication_sums import StepCosts
from fastprof.derive.communication.communication_tables import sum_column
from fastprof.derive.communication.host_communication import HostCommunication
from fastprof.derive.communication.meetings import Meetings
from fastprof.derive.devices.communication_kinds import BETWEEN_DEVICES, WITH_HOST, CommunicationKind
from fastprof.derive.devices.device_events import NothingRan
from fastprof.schema.columns import Int64s
from fastprof.wording.quantities import LONG, count_noun, format_measure, format_moment, shorten_name

ALONE = "no host met another in a collective"
HIDDEN = "hosts met only in asynchronous collectives, which may end long before a host checks"
CONTRADICTORY = "hosts number their collectives differently, so their clocks are unknown"


def find_main_path(blame: Blame | None) -> MeetingPath | None:
    """Return the path of the part that a host delays, or else the longest."""
    every = [] if blame is None else blame.paths
    return max(every, key=lambda path: (path.named >= 0, path.time_ps), default=None)


def explain_nobody(seen: Clocks | None, path: MeetingPath | None, blame: pa.Table) -> str:
    """Explain why no host is named."""
    if seen is None:
        return ALONE
    if path is None:
        return HIDDEN if seen.known.any() else CONTRADICTORY
    rows = [row for row in blame.to_pylist() if row["part"] == path.part]
    first = rows[0]
    text = f"no single host delays the others: the largest excess is that of {first['host']}, {_get_excess(first)}"
    return f"{text}, the next {format_moment(path.next_ps)}"


def describe_delay(blame: pa.Table, host: str, before_ps: int) -> str:
    """Describe what a host delays: its excess, that of others, and the upper bound of what is saved. ``before_ps``: see
    MeetingPath."""
    rows = blame.to_pylist()
    row = next(row for row in rows if row["host"] == host)
    others = [other["excess_ps"] for other in rows if other["part"] == row["part"] and other["host"] != host]
    most = max(others, default=0)
    beside = f"{row['excess_ps'] / most:.1f} times that of the next host" if most else "as no other host does"
    more = f", and by {format_moment(before_ps)} more if it is as late before the first meeting" if before_ps else ""
    return (
        f"On the critical path it works {_get_excess(row)} longer than the median of the others, {beside}, in "
        f"{count_noun(row['steps'], 'step', 'steps')}. Without this excess, the run would be shorter by at most "
        f"{format_moment(row['saved_ps'])}{more}"
    )


def measure_saving(blame: pa.Table, host: str) -> tuple[int, bool]:
    """Return what is saved if a host works no longer than the median; and whether that is only a bound, because not all
    hosts attend all meetings. Each meeting has one last host."""
    rows = blame.to_pylist()
    row = next(row for row in rows if row["host"] == host)
    part = [other for other in rows if other["part"] == row["part"]]
    meetings = sum(other["last_count"] for other in part)
    return int(row["saved_ps"]), any(other["meetings"] < meetings for other in part)


def _get_excess(row: dict[str, object]) -> str:
    share = row["excess_share"]
    of = f" ({format_measure(float(str(share)), 'share')} of the path)" if share is not None else ""
    return f"{format_moment(int(str(row['excess_ps'])))}{of}"


def list_clock_remarks(
    names: Sequence[str], seen: Clocks | None, delays: Blame | None, blame: pa.Table, missing: str
) -> Iterator[tuple[str, str]]:
    """Yield severity and text of each remark on clocks and delays. ``missing``: see describe_missing_ranks."""
    if seen is None:
        return
    yield from _describe_unknown(seen)
    for host in np.flatnonzero(seen.shift).tolist():
        steps = count_noun(abs(int(seen.shift[host])), "step", "steps")
        way = "later" if seen.shift[host] > 0 else "earlier"
        yield "info", f"Collectives of {names[host]} meet those that other hosts number {steps} {way}."
    path = None if missing else find_main_path(delays)
    if path is not None and path.named >= 0:
        name = names[path.named]
        text = f"{name} delays the other hosts. {describe_delay(blame, name, path.before_ps)}"
        yield "recommendation", f"{text}: check whether it has more work."
    elif path is not None:
        text = explain_nobody(seen, path, blame)
        yield "info", f"{text[0].upper()}{text[1:]}."


def _describe_unknown(seen: Clocks) -> Iterator[tuple[str, str]]:
    there = seen.fit.part >= 0
    count = int(np.count_nonzero(there & ~seen.known))
    if count:
        text = (
            f"The clocks of {count_noun(count, 'host', 'hosts')} that met in collectives are unknown: in more than "
            f"1 % of their meetings, one host finished before another began, so they number collectives differently."
        )
        yield "warning", text


COSTLY_SHARE: Final = 0.05
"""Share of exposed communication in recorded device time from which on it is worth a recommendation."""
MOSTLY: Final = 0.5
"""Share of waiting for the last device in communication between devices from which on who that is comes first."""
LAST_SHARE, FEWEST_MEETINGS = 0.5, 4
"""Conditions for a straggler: a device comes last to more than this share of at least this many meetings."""

Remark = tuple[str, str]
"""Severity and text."""

NO_DEVICES: Final = NothingRan(
    "the capture has no devices: CPUs exchange data within ops on compute threads, which cannot be distinguished"
)
_UNCOUNTED: Final = "{} of host threads (Gloo or MPI) are not counted: the capture does not show the waiting device."
NO_DEVICE_WAITS: Final = "the capture has no devices that could compute during the collectives of its threads"
NO_EVENTS: Final = NothingRan("the devices of the capture recorded no ops")
_OVERLAP: Final = (
    "start it earlier or overlap it with other compute: asynchronous collectives and XLA's latency hiding scheduler "
    "do so if the program has independent work, such as another layer or another part of the batch"
)
_OF_TORCH: Final = "start it earlier or overlap it with other compute: collectives with async_op=True return at once"
_OF_TORCH_BY_KIND: Final = {
    "all-reduce": ", and DistributedDataParallel sums buckets of gradients during the backward pass",
    "reduce-scatter": ", and FSDP sums gradients of a layer during the backward pass of the next",
    "all-gather": ", and FSDP gathers the parameters of a layer during the one before",
}
_FROM_HOST: Final = (
    "keep frequently used data in device memory, or start copies and feeds earlier, so that they overlap compute"
)
_FEWER_BYTES: Final = "keep more in device memory, recompute data instead of fetching it, or copy smaller types"
_WITHIN: Final = "start it earlier, or move less between the memories of the device"


def explain_nothing(hosts: Sequence[HostCommunication]) -> str | None:
    """Explain why there is nothing to report of any device, or return None if there is something."""
    if any(host.devices for host in hosts):
        return None
    if any(host.uncounted_collectives for host in hosts):
        return NO_DEVICE_WAITS
    return NO_DEVICES if all(host.hardware == "CPU_ONLY" for host in hosts) else NO_EVENTS


def list_remarks(
    hosts: Sequence[HostCommunication],
    tables: Mapping[str, pa.Table],
    costs: StepCosts | None,
    meetings: Meetings,
    *,
    who: Sequence[Remark],
) -> Iterator[Remark]:
    """Yield remarks. ``who``: remarks on late hosts, from their clocks, which come first if waiting costs most; if
    empty, the devices that come last are described."""
    uncounted = sum(host.uncounted_collectives for host in hosts)
    if uncounted:
        yield "info", _UNCOUNTED.format(_format_collectives(uncounted))
    nothing = explain_nothing(hosts)
    if nothing is not None:
        yield "warning", type(nothing)(nothing[0].upper() + nothing[1:] + ".")
        return
    if not len(tables["operations"]):
        if not uncounted:
            yield "info", "Nothing communicates: no collective, copy or feed ran on any device."
        return
    missing, waiting = describe_missing_ranks(hosts), measure_waiting_share(tables["kinds"], costs, meetings)
    who = who or list(_describe_stragglers(tables["stragglers"], missing))
    hide = _describe_costs(tables, costs, _OF_TORCH if any(host.of_torch for host in hosts) else _OVERLAP, waiting)
    yield from (*who, *hide) if waiting >= MOSTLY else (*hide, *who)
    yield from _describe_unmatched(meetings)
    if missing and len(meetings):
        yield "info", f"{missing}: the last rank may be missing."


def describe_left_out(hosts: Sequence[HostCommunication], steps: Int64s | None) -> Iterator[Remark]:
    """Describe which steps were compared. ``steps``: their numbers, or None if all are."""
    if steps is None:
        return
    every = max(host.arrivals.of_steps or 0 for host in hosts)
    text = f"The session has {len(hosts):,} hosts: waits between hosts are"
    if len(steps):
        text += f" found from {len(steps):,} of {count_noun(every, 'step', 'steps')}, in the middle."
    else:
        text += " unknown, because collectives of many hosts are compared by step, and the hosts have no common steps."
    yield "info", text


def measure_waiting_share(kinds: pa.Table, costs: StepCosts | None, meetings: Meetings) -> float:
    """Return the share of waiting for the last device in communication between devices, hidden or not. If only some
    steps are compared, the others are taken to be like them."""
    rows = zip(*(kinds[name].to_pylist() for name in ("scope", "exposed_ps", "hidden_ps")), strict=True)
    spent = sum(exposed + hidden for scope, exposed, hidden in rows if scope == BETWEEN_DEVICES)
    waited = sum(np.maximum(meetings.wait_ps, 0).tolist())
    if meetings.compared is not None and costs is not None and len(meetings.compared):
        waited = waited * costs.count // len(meetings.compared)
    return float(waited / spent) if spent else 0.0


def _describe_costs(
    tables: Mapping[str, pa.Table], costs: StepCosts | None, overlap: str, waiting: float
) -> Iterator[Remark]:
    """Describe what communication costs, and advise. ``overlap``: how to hide what is exchanged between devices;
    ``waiting``: see measure_waiting_share."""
    devices, kinds, ops = tables["devices"], tables["kinds"], tables["operations"]
    recorded, exposed = (sum_column(devices, name) for name in ("duration_ps", "exposed_ps"))
    if not recorded or exposed < COSTLY_SHARE * recorded:
        return
    kind, op = kinds["kind"][0].as_py(), ops["name"][0].as_py()
    of_op = int(ops["exposed_ps"][0].as_py())
    scope = kinds["scope"][0].as_py()
    if overlap == _OF_TORCH:
        overlap += _OF_TORCH_BY_KIND.get(kind, "")
    advice = {BETWEEN_DEVICES: overlap, WITH_HOST: _FROM_HOST}.get(scope, _WITHIN)
    gain = ""
    if costs is not None and costs.gain >= COSTLY_SHARE:
        gain = (
            f" If compute hid it all, steps would take {format_moment(costs.if_hidden_ps)} instead of "
            f"{format_moment(costs.time_ps)}."
        )
    hide = f"To hide it, {advice}."
    if scope == BETWEEN_DEVICES and waiting >= MOSTLY:
        hide = (
            f"{format_measure(min(waiting, 1.0), 'share')} of collective time is waiting for the last device, which "
            f"overlap does not remove. To hide the rest, {advice}."
        )
    if kind in _COPIES and is_filled_by_copies(devices, kinds):
        in_flight, compute = (sum_column(devices, name) / recorded for name in ("communication_ps", "compute_ps"))
        hide = (
            f"Communication is in flight for {format_measure(in_flight, 'share')} of the time and compute takes "
            f"{format_measure(compute, 'share')}, too little to hide the copies. Move fewer bytes: "
            f"{_FEWER_BYTES}."
        )
    text = (
        f"{100 * exposed / recorded:.1f} % of recorded device time goes to collectives, copies and feeds that no "
        f"compute hides, most to the kind {kind}. The costliest op is {shorten_name(op, LONG)}, with "
        f"{format_moment(of_op)} over all devices.{gain} {hide}"
    )
    yield "recommendation", text


def is_filled_by_copies(devices: pa.Table, kinds: pa.Table) -> bool:
    """Return whether copies between host and device are in flight nearly all of the time, or far longer than devices
    compute: no compute can hide them then. Copies of several kinds may be hidden at once, so the least time counts in
    which any is in flight."""
    rows = [row for row in kinds.to_pylist() if row["kind"] in _COPIES]
    in_flight = sum(row["exposed_ps"] for row in rows) + max((row["hidden_ps"] for row in rows), default=0)
    duration, compute = (sum_column(devices, name) for name in ("duration_ps", "compute_ps"))
    return bool(rows) and (10 * in_flight >= 9 * duration or in_flight >= _FAR_LONGER * compute)


_COPIES: Final = (CommunicationKind.HOST_TO_DEVICE_COPY.title, CommunicationKind.DEVICE_TO_HOST_COPY.title)
_FAR_LONGER: Final = 10


def describe_missing_ranks(hosts: Sequence[HostCommunication]) -> str:
    """Describe how many of the program's ranks are recorded; "" if all are, or it is unknown."""
    count = max((host.rank_count or 0 for host in hosts), default=0)
    return f"{len(hosts)} of {count:,} ranks are recorded" if len(hosts) < count else ""


def _describe_stragglers(waits: pa.Table, missing: str) -> Iterator[Remark]:
    """Describe the device that comes last most often. ``missing``: see describe_missing_ranks."""
    if len(waits) < 2 or missing:
        return
    joined, last = int(waits["meetings"][0].as_py()), waits["last_count"][0].as_py() or 0
    caused, late = waits["caused_ps"][0].as_py(), waits["late_ps"][0].as_py()
    if joined < FEWEST_MEETINGS or last <= LAST_SHARE * joined or not (caused or late):
        return
    cost = f"which wait {format_moment(caused)} for it"
    if not caused:
        cost = f"{format_moment(late // joined)} after the first on average"
    text = (
        f"{waits['device'][0].as_py()} of {waits['host'][0].as_py()} comes last to {last:,} of its "
        f"{_format_collectives(joined)} with other devices, {cost}: check whether it has more work, or waits for input."
    )
    yield "recommendation", text


def _describe_unmatched(meetings: Meetings) -> Iterator[Remark]:
    if meetings.grouped:
        text = (
            f"The members of {_format_collectives(meetings.grouped)} among several device groups are unknown, so "
            "meetings leave them out: the capture has no device assignment for their program, or numbers devices "
            "differently."
        )
        yield "info", text
    if meetings.apart:
        text = (
            f"{_format_collectives(meetings.apart)} that belong together by order or kind did not overlap in time, "
            f"so meetings leave them out."
        )
        yield "info", text
    unknown = next(
        (operation for operation in meetings.operations if operation.kind is CommunicationKind.OTHER_COLLECTIVE), None
    )
    if unknown is not None and len(meetings.attendance.meetings) > 1:
        text = (
            f"Meetings leave out collectives of unknown kind, because these may not wait for each other: the name "
            f"{shorten_name(unknown.name)} does not show the kind."
        )
        yield "info", text
    has_collectives = any(operation.kind.meets for operation in meetings.operations)
    if not len(meetings) and not meetings.grouped and not meetings.apart and has_collectives:
        yield "info", "Each collective has only one captured device, so waits between devices are unknown."


def _format_collectives(count: int) -> str:
    return count_noun(count, "collective", "collectives")
