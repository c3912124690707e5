"""GPU streams: overlapping kernels, waits of idle streams, launches, queues, copies.

Definitions: docs/analyses/streams.md.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field
from operator import attrgetter
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from fastprof.analyses.contract import (
    AnalysisReport,
    Evidence,
    Known,
    Notice,
    Opening,
    ScalarSpec,
    Section,
    has_rows,
    make_scalars,
)
from fastprof.decode.plane_kinds import GPU_PLANES
from fastprof.derive.devices.device_events import NothingRan
from fastprof.derive.devices.op_names import is_kineto
from fastprof.derive.ops import stream_events
from fastprof.derive.ops.stream_events import (
    HostStreams,
    StreamEvents,
    StreamLimits,
    read_streams,
    sum_host_streams,
    unqueued_in_words,
)
from fastprof.derive.ops.torch_calls import OpsAround
from fastprof.schema.columns import (
    Int64s,
    expand_ranges,
    find_equal,
    find_runs,
    number_distinct_rows,
    sort_rows,
    sum_by,
)
from fastprof.schema.tables import (
    Bytes,
    Column,
    Count,
    Formula,
    Need,
    Number,
    ObjectRows,
    Picoseconds,
    Share,
    TableSchema,
    Text,
)
from fastprof.schema.value_classes import dataclass
from fastprof.tables.host_events import HostEvents
from fastprof.tables.needs import Needs

if TYPE_CHECKING:
    from fastprof.derive.host import Host

NAME = "streams"
READS = Needs(
    planes=(GPU_PLANES, r"^/host:"),
    stats=("correlation_id", "_a", "_c", *stream_events.STATS),
)
AFTER: tuple[str, ...] = ()
REMEDY = "Only GPUs have streams: see gaps for other devices."
CONTENT = Evidence("No streams: the capture has no GPU planes.", planes=(GPU_PLANES,))
_MICRO: Final = 1_000_000


@dataclass(frozen=True, slots=True)
class Params:
    kernel_wait_us: int = field(
        default=30,
        metadata={"help": "gaps between kernels shorter than this, in microseconds, count as kernel wait", "min": 0},
    )
    queue_length: int = field(default=1024, metadata={"help": "queue length at which launch calls wait", "min": 1})
    long_call_us: int = field(
        default=50, metadata={"help": "launch calls longer than this, in microseconds, count as long", "min": 0}
    )
    long_delay_us: int = field(
        default=100,
        metadata={"help": "launch delays longer than this, in microseconds, count as long", "min": 0},
    )

    sequence_length: int = field(
        default=64, metadata={"help": "leave op calls with more kernels than this out of the table sequences", "min": 1}
    )

    @property
    def limits(self) -> StreamLimits:
        long_call, long_delay = self.long_call_us * _MICRO, self.long_delay_us * _MICRO
        return StreamLimits(self.kernel_wait_us * _MICRO, self.queue_length, long_call, long_delay)


def _make_share_formula(part: str, whole: str) -> Formula:
    columns = attrgetter(part, whole)
    return lambda rows: [own / all_ if all_ else None for own, all_ in zip(*columns(rows), strict=True)]


_HOST = Text("host", "host, named after its capture file")
_DEVICE = Text("device", "GPU plane")
_STREAM = Text("stream", "line of the stream")


_BREAKS = (
    Picoseconds("mean_ps", "mean of them, rounded down"),
    Picoseconds("stdev_ps", "standard deviation (sample) of them, rounded down; null: there is one"),
    Picoseconds("min_ps", "shortest of them"),
    Picoseconds("p25_ps", "lower quartile of them, rounded down"),
    Picoseconds("p50_ps", "median of them, rounded down"),
    Picoseconds("p75_ps", "upper quartile of them, rounded down"),
    Picoseconds("max_ps", "longest of them"),
)


_FIGURES = {
    "mean": "mean", "stdev": "standard deviation (sample)", "min": "least", "p25": "lower quartile", "p50": "median",
    "p75": "upper quartile",
}  # fmt: skip


def _make_point_columns(figures: Sequence[str], of: str, unit: str = "") -> tuple[Column, ...]:
    """Return a column for each of these figures of the values at points, which ``of`` describes."""
    return tuple(
        Number(f"{figure}_at_points{unit}", f"{_FIGURES[figure]} of {of}", attrgetter(f"{figure}_at_points"))
        for figure in figures
    )


TABLES = {
    "devices": TableSchema("devices", "a GPU that ran anything", (
        _HOST,
        _DEVICE,
        Picoseconds("window_ps", "time from the first start to the last end on its streams"),
        Picoseconds("busy_ps", "time in which any stream ran anything"),
        Picoseconds("idle_ps", "window_ps - busy_ps"),
        Picoseconds("compute_ps", "time in which a kernel other than a collective ran"),
        Picoseconds("communication_ps", "time in which a collective ran"),
        Picoseconds("copy_ps", "time in which a copy or fill ran"),
        Picoseconds("other_ps", "busy_ps - compute_ps: time in which only collectives and copies ran"),
        Share("idle_share", "idle_ps / window_ps; null: it lasted no time",
              _make_share_formula("idle_ps", "window_ps")),
        Share("compute_share", "compute_ps / window_ps; null: it lasted no time",
              _make_share_formula("compute_ps", "window_ps")),
        Share("hidden_share", "part of communication_ps in which a kernel computes as well; null: no collectives",
              _make_share_formula("hidden_ps", "communication_ps")),
    ), derived=True),
    "streams": TableSchema("streams", "a GPU stream", (
        _HOST,
        _DEVICE,
        _STREAM,
        Count("count", "kernels, copies and fills that it ran"),
        Picoseconds("compute_ps", "sum of the durations of kernels other than collectives"),
        Picoseconds("communication_ps", "sum of the durations of collectives"),
        Picoseconds("copy_ps", "sum of the durations of copies and fills"),
    ), derived=True),
    "kinds": TableSchema("kinds", "a combination of kernel kinds that ran at the same time on a GPU", (
        _HOST,
        _DEVICE,
        Text("kinds", "compute, communication, copy, or kinds that ran at the same time, joined by and"),
        Picoseconds("time_ps", "time in which exactly these ran"),
        Share("share", "time_ps / busy_ps of the GPU; null: it lasted no time",
              _make_share_formula("time_ps", "whole_ps")),
    ), derived=True),
    "names": TableSchema("names", "a GPU kernel or copy by kind and name, longest first", (
        _HOST,
        _DEVICE,
        Text("kind", "compute, communication or copy"),
        Text("name", "kernel or copy"),
        Count("count", "number of runs"),
        Picoseconds("time_ps", "sum of its durations"),
        Share("share", "time_ps / time_ps of its kind on the GPU; null: they take no time",
              _make_share_formula("time_ps", "whole_ps")),
        Picoseconds("mean_ps", "time_ps / count, rounded down"),
        Picoseconds("min_ps", "shortest"),
        Picoseconds("max_ps", "longest"),
        Picoseconds("stdev_ps", "standard deviation (sample) of its durations, rounded down; null: it ran once"),
    ), derived=True),
    "idle": TableSchema("idle", "a reason for breaks between the kernels of a stream", (
        _HOST,
        _DEVICE,
        _STREAM,
        Text("waits_for", "host wait: the launch call of the next kernel had not started; kernel wait: the break is "
             "shorter "
             "than --kernel-wait-us; other: another stream, or a launch that is not recorded"),
        Picoseconds("time_ps", "sum of such breaks"),
        Share("share", "time_ps / all breaks of the stream; null: they last no time",
              _make_share_formula("time_ps", "whole_ps")),
        Count("count", "number of such breaks"),
        *_BREAKS,
    ), derived=True),
    "launches": TableSchema("launches", "a kernel or copy and the call that launches it, the longest delay first", (
        _HOST,
        Text("call", "driver or runtime call"),
        Text("name", "kernel or copy"),
        Count("count", "number of launches"),
        Picoseconds("call_ps", "time of the calls"),
        Picoseconds("kernel_ps", "time of the launched work"),
        Picoseconds("delay_ps", "time from the end of each call to the start of the launched work; 0 if the work "
                    "starts earlier"),
        Picoseconds("mean_delay_ps", "delay_ps / count, rounded down"),
        Picoseconds("max_delay_ps", "longest delay"),
        Count("short_count", "launches whose call took longer than the launched work"),
        Count("long_call_count", "launches whose call took longer than --long-call-us"),
        Count("long_delay_count", "launches whose delay is longer than --long-delay-us"),
    ), derived=True),
    "sequences": TableSchema("sequences", "a PyTorch op and a sequence of kernels and copies that its calls launched, "
                             "nested ops included; longest kernel time first", (
        _HOST,
        Text("op", "op name"),
        Text("kernels", "kernels and copies of a call in order of start, joined by ->"),
        Count("kernel_count", "number of kernels and copies of a call, at most --sequence-length"),
        Count("count", "number of calls that launched this sequence"),
        Picoseconds("kernel_ps", "sum of the durations of the kernels"),
        Picoseconds("op_ps", "sum of the durations of the calls"),
        Picoseconds("mean_op_delay_ps", "mean time from the start of a call to the launch of its first kernel, rounded "
                    "down; null: the launch is not recorded"),
        Picoseconds("mean_launch_delay_ps", "mean time from the launch of the first kernel of a call to the start of "
                    "that kernel, rounded down; null: the launch is not recorded"),
    ), derived=True),
    "queues": TableSchema("queues", "a stream queue: launched kernels that have not started, except those that start "
                          "before their call", (
        _HOST,
        _DEVICE,
        _STREAM,
        Count("points", "launches and kernel starts: each changes the length"),
        Number("mean_length", "mean length over time"),
        *_make_point_columns(("mean", "stdev", "p25", "p50", "p75"), "the lengths after each point"),
        Count("max_length", "largest length"),
        Picoseconds("full_ps", "time in which the length is at least --queue-length"),
    ), derived=True),
    "copies": TableSchema("copies", "a kind of copies or fills of a GPU", (
        _HOST,
        _DEVICE,
        Text("kind", "copy direction, as the profiler names it, or Memset"),
        Count("count", "number of copies"),
        Picoseconds("time_ps", "sum of their durations"),
        Bytes("bytes", "bytes moved; null: not recorded"),
        Number("mean_gbps", "bytes / time_ps, in gigabytes (10^9) a second; null: not recorded"),
        Number("peak_gbps", "largest total bandwidth of concurrent copies, in gigabytes per second; null: "
               "not recorded", attrgetter("max_at_points")),
        *_make_point_columns(tuple(_FIGURES),
                             "the total bandwidth of concurrent copies, taken after each copy start and end; null: "
                             "not recorded",
                    "_gbps"),
    ), derived=True),
}  # fmt: skip
_NO_LAUNCH = "the capture has no launches of GPU work"
_LAUNCHED = Need("launch_count", _NO_LAUNCH)
SCALARS = {
    "stream_count": ScalarSpec(None, "GPU streams that ran anything"),
    "launch_count": ScalarSpec(None, "kernels and copies whose launch is recorded", need=_LAUNCHED),
    "unlaunched_count": ScalarSpec(None, "kernels and copies whose launch is not recorded, such as those launched "
                                   "before the capture"),
    "main_stream": ScalarSpec(None, "stream with the longest compute time; not given for several GPUs, because each "
                              "has its own"),
    "idle_share": ScalarSpec("share", "idle_ps / window_ps over all GPUs", "idle share of GPU time"),
    "hidden_share": ScalarSpec("share", "share of collective time that overlaps compute on the same GPU",
                               "hidden share of collectives"),
    "break_ps": ScalarSpec("ps", "time between kernels on the stream with the longest compute time of each GPU"),
    "host_wait_ps": ScalarSpec("ps", "part of break_ps in which the next kernel was not launched yet"),
    "host_wait_share": ScalarSpec("share", "host_wait_ps / break_ps", "share of breaks waiting for launches"),
    "delay_mean_ps": ScalarSpec("ps", "mean time from the end of a launch to the start of the work that it launched"),
    "short_launch_share": ScalarSpec("share", "launches whose call took longer than the launched work / launch_count",
                                     "share of launches with short kernels"),
    "long_call_count": ScalarSpec(None, "launches whose call took longer than --long-call-us"),
    "long_delay_count": ScalarSpec(None, "launches whose delay is longer than --long-delay-us"),
    "longest_queue": ScalarSpec(None, "longest stream queue: kernels that were launched but had not started"),
}  # fmt: skip
OPENING = Opening(
    (
        "Devices are idle for {idle_share} of their time. In {host_wait_share} of the break time of {main_stream}, "
        "the stream with the most compute, the next kernel was not launched yet.",
        "Devices are idle for {idle_share} of their time. In {host_wait_share} of the break time of the streams with "
        "the most compute, the next kernel was not launched yet.",
    ),
    ("idle_share", "host_wait_share", "hidden_share", "delay_mean_ps", "longest_queue", "stream_count"),
)
SECTIONS = (
    Section("Devices and their streams", scalars=tuple(SCALARS)),
    Section("Devices", "devices", ("device", "window_ps", "compute_ps", "communication_ps", "copy_ps", "idle_ps",
            "hidden_share", "idle_share"), "idle_share", 16, shown=has_rows("devices")),
    Section("Streams by kind of work", "streams", ("device", "stream", "count", "compute_ps", "communication_ps",
            "copy_ps"), rows=16, shown=has_rows("streams")),
    Section("Kinds of concurrent kernels", "kinds", ("device", "kinds", "time_ps", "share"), "share", 16,
            shown=has_rows("kinds")),
    Section("Kernels and copies by kind", "names", ("kind", "name", "count", "time_ps", "mean_ps", "stdev_ps", "max_ps",
            "share"), "share", 20, shown=has_rows("names"), kernels="name"),
    Section("Waits of idle streams", "idle", ("device", "stream", "waits_for", "time_ps", "share", "count",
            "mean_ps", "max_ps"), "share", 24, shown=has_rows("idle")),
    Section("Launches", "launches", ("call", "name", "count", "call_ps", "kernel_ps", "mean_delay_ps", "short_count",
            "long_call_count", "long_delay_count"), rows=15, shown=has_rows("launches"), kernels="name"),
    Section("Kernels by op call", "sequences", ("op", "kernels", "kernel_count", "count", "kernel_ps",
            "mean_op_delay_ps", "mean_launch_delay_ps"), rows=15, shown=has_rows("sequences"), kernels="kernels"),
    Section("Queues", "queues", ("device", "stream", "points", "mean_length", "max_length", "full_ps"), rows=16,
            shown=has_rows("queues")),
    Section("Copies", "copies", ("device", "kind", "count", "time_ps", "bytes", "mean_gbps", "peak_gbps"), rows=16,
            shown=has_rows("copies")),
)  # fmt: skip


def of_host(host: Host, params: Params) -> HostStreams:
    sums = sum_host_streams(host.raw, params.limits)
    sums.sequences += sum_kernel_sequences(host.raw, read_streams(host.raw).events, params.sequence_length)
    return sums


def run(kept: Sequence[HostStreams], params: Params, after: Mapping[str, AnalysisReport]) -> AnalysisReport:
    parts = {name: ObjectRows([row for host in kept for row in getattr(host, name)]) for name in TABLES}
    parts["launches"].each.sort(key=lambda row: (-row.delay_ps, row.host, row.call, row.name))
    parts["sequences"].each.sort(key=lambda row: (-row.kernel_ps, row.host, row.op, row.kernels))
    tables = {name: schema.of(parts[name]) for name, schema in TABLES.items()}
    return AnalysisReport(
        NAME, tables, make_scalars(SCALARS, dict(_compute_figures(kept, parts))), tuple(_list_notices(kept)), after
    )


def _compute_figures(kept: Sequence[HostStreams], parts: Mapping[str, ObjectRows]) -> Iterator[tuple[str, Known]]:
    devices, idle, launches = (parts[name].each for name in ("devices", "idle", "launches"))
    if not devices:
        yield from dict.fromkeys(SCALARS, (None, NothingRan(CONTENT.absent))).items()
        return

    def total(rows: Sequence[Any], name: str) -> int:
        return sum(getattr(row, name) for row in rows)

    def share(part: int, whole: int, why: str) -> Known:
        return part / whole if whole else (None, why)

    count, main = total(launches, "count"), _find_main_streams(parts["streams"].each)
    breaks = [row for row in idle if main[row.host, row.device] == row.stream]
    waits = [row for row in breaks if row.waits_for == "host wait"]
    yield "stream_count", sum(host.stream_count for host in kept)
    yield "launch_count", count
    yield "unlaunched_count", sum(host.unlaunched_count for host in kept)
    several = (None, "there are several GPUs, each with its own")
    yield "main_stream", next(iter(main.values())).strip() if len(main) == 1 else several
    yield "idle_share", share(total(devices, "idle_ps"), total(devices, "window_ps"), "the GPUs have no recorded time")
    yield "hidden_share", share(total(devices, "hidden_ps"), total(devices, "communication_ps"), "no collectives ran")
    yield "host_wait_ps", total(waits, "time_ps") if count else (None, _NO_LAUNCH)
    yield "break_ps", total(breaks, "time_ps")
    yield "host_wait_share", share(total(waits, "time_ps"), total(breaks, "time_ps") if count else 0, _NO_LAUNCH)
    yield "delay_mean_ps", total(launches, "delay_ps") // count if count else (None, _NO_LAUNCH)
    yield "short_launch_share", share(total(launches, "short_count"), count, _NO_LAUNCH)
    for name in ("long_call_count", "long_delay_count"):
        yield name, total(launches, name) if count else (None, _NO_LAUNCH)
    longest = [row.max_length for row in parts["queues"].each]
    unqueued = sum(host.unqueued_count for host in kept)
    why = unqueued_in_words(unqueued) if unqueued else _NO_LAUNCH
    yield "longest_queue", max(longest) if longest else (None, why)


def _find_main_streams(streams: Sequence[Any]) -> dict[tuple[str, str], str]:
    """Return the stream that computes longest by host and device, the first of equal ones."""
    main: dict[tuple[str, str], Any] = {}
    for row in streams:
        best = main.setdefault((row.host, row.device), row)
        if row.compute_ps > best.compute_ps:
            main[row.host, row.device] = row
    return {key: row.stream for key, row in main.items()}


def _list_notices(kept: Sequence[HostStreams]) -> Iterator[Notice]:
    if not any(host.devices for host in kept):
        yield Notice("info", NothingRan(CONTENT.absent))
    if unqueued := sum(host.unqueued_count for host in kept):
        yield Notice("info", f"{unqueued_in_words(unqueued)}: queues exclude them.")


# ---- kernel sequences of PyTorch op calls, and delays until the first kernel of a call starts
#
#     host   |-- aten::linear ------|
#              |-- aten::addmm ---|
#                   |launch|
#            | op   |               |  op delay: the op's own preparation
#                   | launch delay  |
#     GPU                           |==sgemm==|==bias==|        sequence of both ops: sgemm -> bias


_BETWEEN: Final = " -> "


def sum_kernel_sequences(events: HostEvents, every: StreamEvents, longest: int) -> Iterator[SimpleNamespace]:
    """Yield sums of calls by op and kernel sequence, without calls that launch more than ``longest`` kernels."""
    if not is_kineto(events) or not len(every):
        return
    mine = every[np.argsort(every.start_ps, kind="stable")]
    numbers = {name: number for number, name in enumerate(dict.fromkeys(events.names))}
    number_of = np.array([numbers[name] for name in events.names], np.int64)
    names = list(numbers)
    call, first, count, kernel = _list_calls(events, mine, longest)
    name = number_of[events.meta[mine.row[kernel]]]
    group_first, group = number_distinct_rows([number_of[events.meta[call]], *_number_windows(name, first, count)])
    kernel_ps = sum_by(np.repeat(group, count), (mine.end_ps - mine.start_ps)[kernel], len(group_first))
    op_ps = sum_by(group, np.maximum(events.duration_ps[call], 0), len(group_first))
    known = mine.call[kernel[first]] >= 0
    launched = mine[kernel[first[known]]]
    delays = [
        sum_by(group[known], delay, len(group_first)).tolist()
        for delay in (launched.call_ps - events.start_ps[call[known]], launched.start_ps - launched.call_ps)
    ]
    launches = np.bincount(group[known], minlength=len(group_first)).tolist()
    times = np.bincount(group, minlength=len(group_first)).tolist()
    for place, at in enumerate(group_first.tolist()):
        of_op, of_launch = (delay[place] // launches[place] if launches[place] else None for delay in delays)
        kernels = name[first[at] : first[at] + count[at]].tolist()
        yield SimpleNamespace(
            host=events.host, op=events.names[events.meta[call[at]]],
            kernels=_BETWEEN.join(names[number] for number in kernels), kernel_count=len(kernels), count=times[place],
            kernel_ps=int(kernel_ps[place]), op_ps=int(op_ps[place]), mean_op_delay_ps=of_op,
            mean_launch_delay_ps=of_launch,
        )  # fmt: skip


def _list_calls(events: HostEvents, mine: StreamEvents, longest: int) -> tuple[Int64s, Int64s, Int64s, Int64s]:
    """Return the op calls that launched at most ``longest`` of these kernels, nested ops included: row of each call,
    where its kernels begin in the last column, and their number; the last column is the kernels in order. An op that
    only calls itself, as older versions of PyTorch record it, is one call."""
    around = OpsAround(events)
    kernel, call = np.arange(len(mine)), around.launching(mine.row)
    pairs = [np.zeros((2, 0), np.int64)]
    while len(kernel):
        kernel, call = kernel[call >= 0], call[call >= 0]
        pairs.append(np.stack([kernel, call]))
        call = around.op_of(call)
    kernel, call = np.concatenate(pairs, axis=1)
    order = sort_rows(call, kernel)
    kernel, call = kernel[order], call[order]
    first = find_runs(call)
    count = np.diff(np.append(first, len(call)))
    call = call[first]
    above = around.op_of(call)
    has, outer = find_equal(call, above)
    repeats = has & (count[outer] == count) & (events.meta[above] == events.meta[call])
    chosen = ~repeats & (count <= longest)
    owner, place = expand_ranges(first[chosen], count[chosen])
    return call[chosen], find_runs(owner), count[chosen], kernel[place]


def _number_windows(values: Int64s, first: Int64s, count: Int64s) -> list[Int64s]:
    """Return columns that are equal for windows of equal values, and for no others: the length, and the numbers of the
    two parts that cover the window. A part is as long as the largest power of 2 that fits."""
    parts = np.zeros((2, len(first)), np.int64)
    size = 1
    while True:
        chosen = (count >= size) & (count < 2 * size)
        parts[0, chosen], parts[1, chosen] = values[first[chosen]], values[(first + count - size)[chosen]]
        if not (count >= 2 * size).any():
            return [count, *parts]
        after = np.append(values[size:], np.full(min(size, len(values)), -1))
        values = number_distinct_rows([values, after])[1].astype(np.int64)
        size *= 2
