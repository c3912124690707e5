"""Collectives, copies and feeds: the part hidden by compute, and the cost of the rest.

Definitions: docs/analyses/communication.md.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import field
from typing import TYPE_CHECKING, Final

import numpy as np

from fastprof.analyses.contract import (
    Alike,
    AnalysisReport,
    Evidence,
    Known,
    LazyTables,
    Notice,
    Opening,
    ScalarSpec,
    Section,
    get_known,
    has_rows,
    make_scalars,
)
from fastprof.decode.plane_kinds import DEVICE_PLANES
from fastprof.derive.communication import communication_tables as tables_of
from fastprof.derive.communication import host_communication
from fastprof.derive.communication.blame import Blame, assign_blame
from fastprof.derive.communication.clocks import Clocks
from fastprof.derive.communication.communication_remarks import (
    NO_EVENTS,
    describe_left_out,
    describe_missing_ranks,
    explain_nobody,
    explain_nothing,
    find_main_path,
    list_clock_remarks,
    list_remarks,
)
from fastprof.derive.communication.communication_sums import (
    Column,
    MergedOperations,
    SessionOperationSums,
    SessionStepCosts,
    StepCosts,
    StepNumbers,
    narrow_column,
)
from fastprof.derive.communication.flights import WHAT
from fastprof.derive.communication.host_communication import HostCommunication
from fastprof.derive.communication.meetings import Meetings, SessionArrivals, compare_hosts
from fastprof.derive.devices import run_environment
from fastprof.derive.devices.communication_kinds import BETWEEN_DEVICES
from fastprof.derive.devices.device_events import NothingRan
from fastprof.derive.host import TPU, Host
from fastprof.derive.ops.device_ops import Remark, remark_on_problems
from fastprof.derive.steps.step_alignment import SessionSteps
from fastprof.derive.steps.step_source import AUTO, STEPS_FROM
from fastprof.schema.columns import sum_exactly
from fastprof.schema.tables import Need
from fastprof.schema.value_classes import dataclass
from fastprof.tables.needs import Needs, unite_needs

if TYPE_CHECKING:
    import pyarrow as pa

    from fastprof.derive.steps.step_database import StepDatabase

NAME = "communication"
READS = unite_needs([
    Host.GROUPING,
    Needs(stats=host_communication.EVENT_STATS, metadata_stats=host_communication.METADATA_STATS),
])  # fmt: skip
AFTER = ("steps",)
REMEDY = "Profile on devices. op_stats has the time of collectives on CPUs."
ONE_BY_ONE = True
CONTENT = Evidence(
    "No communication: the capture has no planes of devices, and CPUs record none apart from their ops.",
    planes=(DEVICE_PLANES,),
)


@dataclass(frozen=True, slots=True)
class Params:
    steps_from: str = field(default=AUTO, metadata=STEPS_FROM)


TABLES = tables_of.TABLES | {"links": tables_of.LINKS} | tables_of.CLOCK_TABLES
_RECORDED: Final = "time that devices recorded, each from its first to its last op"
_RAN = Need("used_device_count", NothingRan("no event of a device is recorded"))
SCALARS = {
    "device_count": ScalarSpec(None, run_environment.IN_WORDS),
    "used_device_count": ScalarSpec(None, "number of devices that ran anything; null: the devices are threads"),
    "rank_count": ScalarSpec(None, "ranks of the program, as PyTorch's process groups record them; each is a host"),
    "recorded_ps": ScalarSpec("ps", f"{_RECORDED}, summed", need=_RAN),
    "compute_share": ScalarSpec("share", "time in which devices compute / recorded_ps",
                                "compute share of recorded time"),
    "exposed_share": ScalarSpec("share", "time in which devices do not compute while communication is in flight: "
                                "collectives, copies, infeed or outfeed / recorded_ps",
                                "exposed share of recorded time (collectives, copies, feeds)"),
    "idle_share": ScalarSpec("share", "time in which devices neither compute nor communicate / recorded_ps",
                             "idle share of recorded time"),
    "exposed_ps": ScalarSpec("ps", "exposed communication of all devices: in flight while the device does not compute",
                             need=_RAN),
    "hidden_ps": ScalarSpec("ps", "hidden communication of all devices: in flight while the device computes",
                            need=_RAN),
    "costliest_kind": ScalarSpec(None, "kind of communication with the most exposed time"),
    "costliest_operation": ScalarSpec(None, "op with the most exposed time"),
    "step_count": ScalarSpec(None, "steps; with several hosts, steps that all hosts have"),
    "step_device_mean_ps": ScalarSpec("ps", "mean over steps of the duration on the slowest device"),
    "step_exposed_mean_ps": ScalarSpec("ps", "mean over steps and devices of the exposed communication"),
    "step_if_hidden_mean_ps": ScalarSpec("ps", "mean over steps of the largest if_hidden_ps of any device: the step "
                                         "time if communication were hidden wherever there is compute to hide it"),
    "step_gain_share": ScalarSpec("share", "1 - step_if_hidden_mean_ps / step_device_mean_ps",
                                  "share of step time saved if all is hidden"),
    "compared_step_count": ScalarSpec(None, "steps whose collectives are compared between devices: all steps, or the "
                                      "middle ones in a session of many hosts. The following figures and the tables "
                                      "meetings, stragglers, clocks, blame and host_steps cover these "
                                      "steps", need=_RAN),
    "meeting_count": ScalarSpec(None, "meetings: collective operations of several recorded devices, in the compared "
                                "steps", need=_RAN),
    "meeting_wait_ps": ScalarSpec("ps", "time that devices waited in meetings for the last device, summed, in the "
                                  "compared steps"),
    "last_device": ScalarSpec(None, "device that others waited for longest in meetings, as host: device"),
    "path_ps": ScalarSpec("ps", "length of the critical path through the meetings of hosts, in the compared steps: "
                          "from the last arrival at the first meeting to the end of the last meeting; if hosts form "
                          "several parts, in the part with a straggler, else in the longest", "critical path of hosts"),
    "path_transfer_ps": ScalarSpec("ps", "part of path_ps in meetings, each from the last arrival to the end; the "
                                   "rest is host work", "transfer on the critical path"),
    "straggler_host": ScalarSpec(None, "host that delays the others: its excess_ps is at least 1 % of path_ps and "
                                 "three times that of any other host, in at least two steps"),
    "straggler_excess_ps": ScalarSpec("ps", "work of the straggler on the critical path beyond the median of the "
                                      "other hosts"),
    "straggler_saved_ps": ScalarSpec("ps", "upper bound of the time saved if the straggler works no longer than the "
                                     "median"),
    "straggler_before_ps": ScalarSpec("ps", "further time saved if the straggler's unrecorded work before the first "
                                      "meeting takes as long as usual; 0: another host arrived last at this meeting",
                                      "straggler saved before the first meeting"),
}  # fmt: skip
_SPLIT: Final = ("duration_ps", "compute_ps", "hidden_ps", "exposed_ps", "idle_ps", "exposed_share", "if_hidden_ps")
OPENING = Opening(
    (
        "Exposed collectives, copies and feeds take {exposed_share} of recorded device time, most of it "
        "{costliest_kind}.",
        "Devices compute for {compute_share} of recorded time; exposed collectives, copies and feeds take "
        "{exposed_share}.",
    ),
    (
        "exposed_share", "compute_share", "idle_share", "step_gain_share", "costliest_kind", "costliest_operation",
    ),
)  # fmt: skip

SECTIONS = (
    Section("Communication", scalars=tuple(SCALARS)),
    Section("Kinds", "kinds", ("kind", "occurrences", "time_ps", "hidden_ps", "exposed_ps", "exposed_share",
            "moved_bytes"), "exposed_share", 20, shown=has_rows("kinds")),
    Section("Devices", "devices", ("device", *_SPLIT), "exposed_share", 16, shown=has_rows("devices")),
    Section("Steps", "steps", ("name", "device", *_SPLIT), "exposed_share", 20,
            shown=has_rows("steps")),
    Section("Operations, most exposed first", "operations", ("name", "kind", "exposed_ps", "occurrences", "mean_ps",
            "hidden_ps", "exposed_share", "payload_bytes", "bus_bytes_per_s"), "exposed_share", 20,
            shown=has_rows("operations"),
            alike=Alike(("name",), ("occurrences", "hidden_ps", "exposed_ps", "exposed_share"))),
    Section("Links between devices, slowest first", "links", ("source", "target", "bytes_per_s",
            "best_bytes_per_s", "kind", "occurrences", "bytes", "time_ps", "measured_by"), rows=10, by_worth=True,
            shown=has_rows("links")),
    Section("Devices that others wait for", "stragglers", ("device", "meetings", "last_count", "late_ps", "waited_ps",
            "caused_ps"), rows=8, shown=has_rows("stragglers")),
    Section("Hosts, longest delay of others first", "blame", ("host", "meetings", "last_count", "waited_ps",
            "caused_alone_ps", "on_path_ps", "excess_ps", "excess_share", "saved_ps", "steps"), rows=10,
            shown=has_rows("blame")),
    Section("Clocks of hosts", "clocks", ("host", "reference", "offset_ps", "drift_ppm", "error_ps", "bound_ps",
            "meetings", "violated", "ntp_error_ps"), rows=10, shown=has_rows("clocks")),
    Section("Collective operations of several devices", "meetings", ("step", "number", "name", "kind", "device_count",
            "last_device", "wait_ps", "skew_ps", "shortest_ps", "longest_ps"), rows=8, shown=has_rows("meetings")),
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class CommunicationHostState:
    """Host state. ``own_steps``: groups of the host's steps. ``problems``: sentences on unreadable programs."""

    communication: HostCommunication
    own_steps: Column
    problems: tuple[str, ...]
    has_programs: bool


def of_host(host: Host, params: Params) -> CommunicationHostState:
    steps = host.steps_from(params.steps_from).database
    return _keep_host(host, params, dict(zip(steps.step.tolist(), steps.label, strict=True)))


def of_host_for_others(host: Host, params: Params) -> CommunicationHostState:
    """Return the host state without that of the tables steps and step_kinds."""
    return _keep_host(host, params, None)


def _keep_host(host: Host, params: Params, names: Mapping[int, str] | None) -> CommunicationHostState:
    steps = host.steps_from(params.steps_from).database
    hardware = TPU if host.raw.planes_of(TPU) else host.hardware  # as steps and ops of devices have it
    communication = host_communication.measure_host_communication(
        host.events,
        hardware,
        host.modules,
        host.groups_from(params.steps_from),
        steps,
        host.workers,
        names,
        host.session_hosts,
    )
    host.modules.look_into()
    return CommunicationHostState(
        communication, narrow_column(steps.step), tuple(host.modules.problems), bool(len(host.modules))
    )


def run(kept: Sequence[CommunicationHostState], params: Params, after: Mapping[str, AnalysisReport]) -> AnalysisReport:
    database = after["steps"].detail_as(SessionSteps).database
    hosts: list[HostCommunication] = []
    numbers: list[StepNumbers] = []
    programs: list[tuple[bool, tuple[str, ...]]] = []
    merged, ran, arrivals = MergedOperations(), SessionOperationSums(), SessionArrivals()
    of_steps = SessionStepCosts()
    for place, state in enumerate(kept):
        hosts.append(state.communication.without_sums())
        numbers.append(_make_step_numbers(state, database, place))
        of_steps.add(state.communication.costs, numbers[-1])
        places = merged.add(state.communication.operations)
        ran.add(state.communication.of_operations, places)
        arrivals.add(hosts[-1], state.communication.arrivals, places, numbers[-1])
        programs.append((state.has_programs, state.problems))
    meetings, seen = compare_hosts(hosts, merged, arrivals)
    del arrivals
    delays = None if seen is None else assign_blame(seen, meetings.step)
    names, devices = [host.host for host in hosts], tables_of.list_devices(hosts)
    ops = tables_of.make_operations(ran.every(), merged)
    spans = tables_of.LateStepSums(hosts, [number.shown(database.numbers_of) for number in numbers], devices)
    made: dict[str, pa.Table | Callable[[], pa.Table]] = {
        "steps": lambda: tables_of.make_steps(spans),
        "devices": tables_of.make_devices(hosts, devices),
        "kinds": tables_of.make_kinds(hosts, ops),
        "step_kinds": lambda: tables_of.make_step_kinds(spans),
        "operations": ops,
        "meetings": lambda: tables_of.make_meetings(devices, meetings, database.numbers_of(meetings.step)),
        "stragglers": tables_of.make_stragglers(devices, meetings),
        "links": tables_of.make_links(hosts),
        "clocks": tables_of.make_clocks(names, seen, [host.start_unix_ns for host in hosts]),
        "blame": tables_of.make_blame(names, seen, delays),
        "host_steps": lambda: tables_of.make_host_steps(names, delays, meetings.step, database.numbers_of),
    }
    tables = LazyTables({name: made[name] for name in TABLES})
    if meetings.compared is not None:  # of few steps, these are smaller than what they are made of
        del made
        tables.make("meetings", "host_steps")
    costs = of_steps.means()
    values = _compute_values(hosts, tables, costs, meetings, after["steps"])
    values |= _compute_path_values(hosts, tables, seen, delays)
    in_steps = 0 if costs is None else costs.count
    values["compared_step_count"] = in_steps if meetings.compared is None else len(meetings.compared)
    of_hosts = list(list_clock_remarks(names, seen, delays, tables["blame"], describe_missing_ranks(hosts)))
    who = of_hosts if delays is not None and delays.paths else []
    every = [
        *describe_left_out(hosts, meetings.compared),
        *list_remarks(hosts, tables, costs, meetings, who=who),
        *tables_of.list_link_remarks(hosts),
        *(() if who else of_hosts),
        *_note_programs(hosts, programs, tables["kinds"]),
    ]
    notices = tuple(Notice(severity, text) for severity, text in every)
    return AnalysisReport(NAME, tables, make_scalars(SCALARS, values), notices, after)


def _compute_path_values(
    hosts: Sequence[HostCommunication], tables: Mapping[str, pa.Table], seen: Clocks | None, delays: Blame | None
) -> dict[str, Known]:
    path, missing = find_main_path(delays), describe_missing_ranks(hosts)
    unknown = (
        missing or explain_nobody(seen, path, tables["blame"]) if missing or path is None or path.named < 0 else ""
    )
    host = -1 if path is None or missing else path.named
    named = delays is not None and host >= 0
    return {
        "path_ps": (None, unknown) if path is None else path.time_ps,
        "path_transfer_ps": (None, unknown) if path is None else path.transfer_ps,
        "straggler_host": hosts[host].host if named else (None, unknown),
        "straggler_excess_ps": int(delays.excess_ps[host]) if delays and named else (None, unknown),
        "straggler_saved_ps": int(delays.saved_ps[host]) if delays and named else (None, unknown),
        "straggler_before_ps": path.before_ps if path and named else (None, unknown),
    }


def _note_programs(
    hosts: Sequence[HostCommunication], programs: Sequence[tuple[bool, tuple[str, ...]]], kinds: pa.Table
) -> Iterator[Remark]:
    """Yield remarks on programs that cannot be read, and on missing programs if it is unknown what collectives moved.
    ``programs``: by host, whether it has any, and their problems."""
    scopes, moved = kinds["scope"].to_pylist(), kinds["moved_bytes"].to_pylist()
    unknown = any(scope == BETWEEN_DEVICES and size is None for scope, size in zip(scopes, moved, strict=True))
    compiled = not any(host.of_torch for host in hosts)
    if unknown and compiled and not any(has for has, _ in programs):
        yield (
            "info",
            "The capture has no compiled programs: transferred bytes and device groups are known only from op texts.",
        )
    yield from remark_on_problems((host.host, problems) for host, (_, problems) in zip(hosts, programs, strict=True))


def _make_step_numbers(state: CommunicationHostState, database: StepDatabase, place: int) -> StepNumbers:
    if len(database.hosts) <= 1:
        own = state.own_steps.astype(np.int64)
        return StepNumbers(own, own)
    return StepNumbers(database.group[:, place], database.step)


def _compute_values(
    hosts: Sequence[HostCommunication],
    tables: Mapping[str, pa.Table],
    costs: StepCosts | None,
    meetings: Meetings,
    steps: AnalysisReport,
) -> dict[str, Known]:
    devices, kinds, ops, waits = (tables[name] for name in ("devices", "kinds", "operations", "stragglers"))
    total = {
        name: tables_of.sum_column(devices, name)
        for name in ("duration_ps", "compute_ps", "hidden_ps", "exposed_ps", "idle_ps")
    }
    recorded = total["duration_ps"]
    unseen = explain_nothing(hosts)
    nothing = unseen or "devices recorded no time"
    quiet = unseen or "nothing communicates"
    alone = unseen or "no collective operation has records of several devices"
    stepless = unseen or f"no steps: {steps.scalars['steps_source'].reason or 'no steps were found'}"
    amounts = ("used_device_count", "recorded_ps", "exposed_ps", "hidden_ps", "meeting_count")
    unknown = dict.fromkeys(amounts, (None, NO_EVENTS)) if unseen == NO_EVENTS else {}
    return {
        "device_count": run_environment.count_devices([host.present for host in hosts]),
        "used_device_count": _count_used(hosts, devices, nothing),
        "rank_count": max((host.rank_count or 0 for host in hosts), default=0)
        or (None, "no process group records ranks"),
        "recorded_ps": (None, unseen) if unseen else _limit_to_64_bits(recorded),
        **{
            f"{name}_share": total[f"{name}_ps"] / recorded if recorded else (None, nothing)
            for name in ("compute", "exposed", "idle")
        },
        "exposed_ps": (None, unseen) if unseen else _limit_to_64_bits(total["exposed_ps"]),
        "hidden_ps": (None, unseen) if unseen else _limit_to_64_bits(total["hidden_ps"]),
        "costliest_kind": kinds["kind"][0].as_py() if len(kinds) else (None, quiet),
        "costliest_operation": ops["name"][0].as_py() if len(ops) else (None, quiet),
        "step_count": get_known(steps.scalars["step_count"]),
        "step_device_mean_ps": (None, stepless) if costs is None else costs.time_ps,
        "step_exposed_mean_ps": (None, stepless) if costs is None else costs.exposed_ps,
        "step_if_hidden_mean_ps": (None, stepless) if costs is None else costs.if_hidden_ps,
        "step_gain_share": (None, stepless) if costs is None else costs.gain,
        "meeting_count": len(meetings),
        "meeting_wait_ps": sum_exactly(np.maximum(meetings.wait_ps, 0), WHAT) if len(meetings) else (None, alone),
        "last_device": _find_last_device(waits, alone, describe_missing_ranks(hosts)),
        **unknown,
    }


def _find_last_device(waits: pa.Table, alone: str, missing: str) -> str | tuple[None, str]:
    if not len(waits):
        return None, alone
    if not waits["last_count"][0].as_py():
        return None, "no collective shows which device came last"
    if missing:
        return None, missing
    return f"{waits['host'][0].as_py()}: {waits['device'][0].as_py()}"


def _count_used(hosts: Sequence[HostCommunication], devices: pa.Table, nothing: str) -> int | tuple[None, str]:
    if all(host.present.is_cpu for host in hosts):
        return None, nothing
    busy = devices["duration_ps"].to_numpy() > devices["idle_ps"].to_numpy()
    return int(np.count_nonzero(busy & ~devices["sparse_core"].to_numpy()))


def _limit_to_64_bits(total: int) -> Known:
    return total if total < 2**63 else (None, "the times of all devices do not add up in 64 bits")
