"""tf.data input pipelines: the iterator graph, its critical path, the bottleneck, how to fix it.

A pipeline call is a root iterator event; its time is divided among the iterators that it waited for. The batch time
after a change is predicted by pipelines/stages.py. Formulas: docs/analyses/tf-data.md.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field

import numpy as np
import pyarrow as pa

from fastprof.analyses.accumulation import LazyHostValues
from fastprof.analyses.contract import (
    AnalysisReport,
    Evidence,
    Known,
    LazyTables,
    Notice,
    Opening,
    ScalarSpec,
    Section,
    has_rows,
    is_known,
    make_scalars,
)
from fastprof.derive.host import Host
from fastprof.derive.pipelines import pipelines_of_hosts as verdicts
from fastprof.derive.pipelines.iterators import STATS, RecordedPipelines, read_pipelines
from fastprof.derive.pipelines.pipeline_tables import TABLES as TABLES
from fastprof.derive.pipelines.pipeline_tables import HostPipelines, find_step_spans, make_no_steps
from fastprof.derive.pipelines.pipelines_of_hosts import KeptPipelinesOfHost, PipelinesOfHosts
from fastprof.derive.pipelines.stages import WORTH
from fastprof.derive.steps import host_steps
from fastprof.derive.steps.event_graph import is_one_of
from fastprof.errors import UsageError
from fastprof.schema.columns import Bools
from fastprof.schema.tables import Need
from fastprof.schema.value_classes import dataclass
from fastprof.tables.host_events import HostEvents
from fastprof.tables.needs import Needs, unite_needs

NAME = "tf_data"
TITLE = "tf.data"
OF_ALL_THREADS = OF_HOSTS = True
"""Flags: the report has calls of chosen steps with all work of other threads for them, whatever its group."""
READS = unite_needs([
    Host.GROUPING,
    Needs(stats=(*host_steps.STATS, *STATS), metadata_stats=host_steps.METADATA_STATS),
])  # fmt: skip
AFTER: tuple[str, ...] = ()
ONE_BY_ONE = True
CONTENT = Evidence("No input pipelines: the capture has no events of tf.data iterators.", events=("Iterator",))
NOT_OF_TORCH = (
    "PyTorch's profiler records no input pipeline stages. The report input_pipeline shows the input wait of steps; "
    "annotations shows the code that loads input."
)
MOST_PARALLEL = 1_000_000


@dataclass(frozen=True, slots=True)
class Params:
    """Parameters. ``parallel`` is from 2 to MOST_PARALLEL."""

    parallel: int = field(
        default=4,
        metadata={
            "help": "number of elements that parallel iterators process at a time in the what-if table",
            "min": 2,
            "alone": True,
        },
    )
    slow_call_us: int = field(
        default=50,
        metadata={"help": "pipeline calls longer than this, in microseconds, are slow", "min": 0, "alone": True},
    )

    def __post_init__(self) -> None:
        if self.parallel > MOST_PARALLEL:
            raise UsageError(f"parallel is {MOST_PARALLEL:,} at most, not {self.parallel:,}")


_CALLED = Need("pipeline_count", "no call of an input pipeline is recorded")
SCALARS = {
    "pipeline_count": ScalarSpec(None, "input pipelines of all hosts, with at least one recorded call"),
    "iterator_count": ScalarSpec(None, "iterators of all pipelines", need=_CALLED),
    "call_count": ScalarSpec(None, "calls of all pipelines", need=_CALLED),
    "slow_call_count": ScalarSpec(None, "calls longer than slow_call_us", need=_CALLED),
    "max_call_ps": ScalarSpec("ps", "duration of the slowest call", "slowest call"),
    "wait_share": ScalarSpec("share", "step time in which a call of the step ran / step duration, over all steps of "
                             "hosts with pipelines; devices may have work at that time",
                             "share of step time waiting for input"),
    "slow_pipeline": ScalarSpec(None, "the pipeline with slow calls and the largest sum of calls; pipelines that are "
                                "called during steps come first"),
    "bottleneck_name": ScalarSpec(None, "bottleneck of slow_pipeline: the iterator with the largest critical time, "
                                  "with similar iterators counted together", "its bottleneck"),
    "bottleneck_share": ScalarSpec("share", "critical time of the bottleneck and similar iterators / call time of "
                                   "slow_pipeline", "share of its calls"),
    "batch_ps": ScalarSpec("ps", "time per batch of slow_pipeline: mean duration of a call + mean time between calls",
                           "its time per batch"),
    "best_change": ScalarSpec(None, "the change of one iterator to try first, from the what_if table: the prefetch or "
                              "the parallel calls that save most, if they save at least half as much as the best "
                              "change; else faster code"),
    "best_batch_ps": ScalarSpec("ps", "time per batch after best_change, if CPU-bound", "time per batch then"),
}  # fmt: skip
_ASSUMED = (
    "Predicted times per batch are exact if nothing runs ahead; otherwise the longest concurrent stage sets the pace. "
    "The column assumption of the what_if table has the assumption of each. "
)
_CORES_FOR_ALL = "All assume enough cores, because the number of cores is not recorded."
_ON_CORES = (
    "The host has {counts} cores, by tf.data's cpu_budget. then_ps assumes CPU-bound threads; if they are I/O-bound, "
    "cores are no limit, and a batch may take least_then_ps."
)
_HOST_WAITS = (
    "These are host waits; devices may have work at that time. overview and input-pipeline show the idle time of "
    "devices for input."
)
_SOME_STEPS = (
    "Only some steps are selected. Their calls are reported, including earlier work of other threads for them; calls "
    "that belong to no step are left out."
)
_NO_CHANGE = "What if: no change of a single iterator makes batches faster by 1 % or more."


def is_worth_it(table: pa.Table) -> pa.Array:
    """Return whether each row of what_if saves enough to be shown in text."""
    now, saved = (np.asarray(table[name].to_numpy(), np.float64) for name in ("now_ps", "saved_ps"))
    return pa.array(saved >= np.maximum(now * WORTH, 1.0))  # a null is nan, which compares false


OPENING = Opening(
    (
        "{wait_share} of step time is waiting for input; the slow pipeline is {slow_pipeline}, its bottleneck "
        "{bottleneck_name}.",
        "The slowest of {call_count} calls of input pipelines takes {max_call_ps}.",
    ),
    (
        "wait_share", "slow_pipeline", "bottleneck_name", "bottleneck_share", "max_call_ps", "best_change",
    ),
)  # fmt: skip

SECTIONS = (
    Section("Input pipelines", scalars=tuple(SCALARS), shown=is_known("pipeline_count")),
    Section("Pipelines", "pipelines", ("pipeline", "call_count", "slow_call_count", "mean_ps", "max_ps",
            "bottleneck_name", "bottleneck_share"), "bottleneck_share", 20, shown=has_rows("pipelines")),
    Section("Iterators, and their shares of call time", "iterators", ("name", "pipeline", "call_count",
            "critical_ps", "critical_share"), "critical_share", 60, shown=has_rows("iterators"), depth="depth"),
    Section("Time by activity", "self_time", ("pipeline", "name", "part", "time_ps", "share"), "share", 12,
            shown=has_rows("self_time")),
    Section("What if", "what_if", ("pipeline", "name", "change", "now_ps", "then_ps", "least_then_ps", "speedup"),
            rows=12, shown=has_rows("what_if", is_worth_it), only=is_worth_it),
    Section("Steps that wait", "step_waits", ("step", "step_name", "pipeline", "call_count", "wait_ps",
            "ahead_ps", "wait_share"), "wait_share", 12, shown=has_rows("step_waits")),
    Section("Slowest calls", "calls", ("pipeline", "rank", "step", "start_ps", "duration_ps", "bottleneck_name",
            "bottleneck_ps"), rows=10, shown=has_rows("calls")),
)  # fmt: skip


def of_host(host: Host, params: Params) -> KeptPipelinesOfHost:
    """Return the host state, with steps if the host called a pipeline; else nothing reads them."""
    kept = _read_pipelines(host)
    steps = find_step_spans(host.steps.database) if len(kept.exact.calls) else make_no_steps()
    pipelines = HostPipelines(host.name, kept.exact, steps, params.slow_call_us, params.parallel)
    chosen = host.entire is not host
    return KeptPipelinesOfHost(pipelines, kept.iterator_event_count, kept.unidentified, chosen=chosen)


def _read_pipelines(host: Host) -> RecordedPipelines:
    """Read the pipelines, and group their calls, if any. They are read before groups are made, because both need much
    memory for a while. If steps are selected, only their calls count, with all work of other threads for them."""
    if (wanted := find_chosen_calls(host)) is not None:
        return read_pipelines(host.entire.raw, host.workers, wanted).in_groups(host.entire.groups.group_id)
    kept = read_pipelines(host.raw, host.workers)
    return kept.in_groups(host.groups.group_id) if len(kept.exact.calls) else kept


def find_chosen_calls(host: Host) -> Bools | None:
    """Return whether each event of the host is in the selected steps, or None if all steps are selected."""
    if host.entire is host:
        return None
    groups = np.unique(host.groups.group_id).astype(np.int64)
    return is_one_of(host.entire.groups.group_id.astype(np.int64), groups)


def has_iterators(events: HostEvents) -> bool:
    return any(name.startswith("Iterator:") for name in events.names)


def run(kept: Sequence[KeptPipelinesOfHost], params: Params, after: Mapping[str, AnalysisReport]) -> AnalysisReport:
    of_all: LazyHostValues[KeptPipelinesOfHost] = LazyHostValues(kept)
    every = PipelinesOfHosts(of_all)
    hosts = of_all.only(every.places)
    tables = LazyTables(verdicts.make_pipeline_tables(hosts, every.record_count, several=len(kept) > 1))
    slowest = [(of_all[place].pipelines(), pipeline) for place, pipeline in every.slowest]
    values = _compute_values(every, slowest)
    notices = tuple(_list_notices(every, slowest, params, values))
    return AnalysisReport(NAME, tables, make_scalars(SCALARS, values), notices)


Slowest = Sequence[tuple[HostPipelines, int]]
"""Pipelines of PipelinesOfHosts.slowest, each with its host."""


def _explain_none(every: PipelinesOfHosts) -> str:
    """Say what the capture has of tf.data if no pipeline was called."""
    some = every.event_count
    if some and every.unidentified == some:
        return f"{some:,} events of tf.data iterators, all without an id: the version of TensorFlow is too old"
    if not some:
        return verdicts.NO_ITERATORS
    return verdicts.NO_CHOSEN_CALLS if every.any_chosen else verdicts.NO_CALLS


def _compute_values(every: PipelinesOfHosts, slowest: Slowest) -> dict[str, Known]:
    none = (None, f"the capture has {_explain_none(every)}")
    wait_share: Known = none
    if every.calls and not every.step_ps:
        wait_share = None, "hosts with input pipelines have no steps, so there is no step time to wait in"
    elif every.calls and not every.has_calls:
        why = "no call belongs to a step: the program makes them between its steps, or on another thread"
        wait_share = None, why
    elif every.calls:
        wait_share = every.waited_ps / every.step_ps
    values: dict[str, Known] = {
        "pipeline_count": every.pipelines,
        "iterator_count": every.iterators,
        "call_count": every.calls,
        "slow_call_count": every.slow_calls,
        "max_call_ps": every.most_ps if every.calls else none,
        "wait_share": wait_share,
    }
    if not slowest:
        none = none if not every.calls else (None, "no call of any pipeline is slow")
        return values | {name: none for name in SCALARS if name not in values}
    host, pipeline = slowest[0]
    row = int(host.bottlenecks.of_pipeline[pipeline])
    name = host.reading.pipelines.name[pipeline]
    change = verdicts.find_best_change(host, pipeline)
    no_change = (None, "no change of a single iterator makes a batch 5 % faster")
    count, total = int(host.calls.count[pipeline]), int(host.calls.total_ps[pipeline])
    between = int(host.calls.between_ps[pipeline]) / max(count - 1, 1)
    single = (None, "there was a single call, so the time between calls is unknown")
    return values | {
        "slow_pipeline": name if every.hosts == 1 else f"{name} of {host.host}",
        "bottleneck_name": host.reading.iterators.name[int(host.reading.tree.iterator[row])],
        "bottleneck_share": int(host.bottlenecks.critical_ps[pipeline]) / total,
        "batch_ps": single if count == 1 else round(total / count + between),
        "best_change": single if count == 1 else no_change if change is None else change.words,
        "best_batch_ps": single if count == 1 else no_change if change is None else change.then_ps,
    }


def _list_notices(
    every: PipelinesOfHosts, slowest: Slowest, params: Params, values: Mapping[str, object]
) -> Iterator[Notice]:
    if not every.calls:
        yield Notice("info", f"No input pipelines: the capture has {_explain_none(every)}.")
        return
    for host, pipeline in slowest:
        waits = verdicts.measure_step_share(host, pipeline)
        hardly = verdicts.is_outside(host, pipeline) or (waits is not None and waits < verdicts.HARDLY)
        severity = "info" if hardly else "recommendation"
        yield Notice(severity, verdicts.describe_pipeline(host, pipeline, several_hosts=every.hosts > 1))
    if every.slow_count > len(slowest):
        yield Notice("info", f"{every.slow_count - len(slowest):,} more pipelines have slow calls: table bottlenecks.")
    if not slowest:
        yield Notice("info", f"No input pipeline is slow: no call takes longer than {params.slow_call_us:,} µs.")
    share = values["wait_share"]
    if every.slow_in_steps and isinstance(share, float) and share < verdicts.HARDLY:
        text = "Steps wait for input for less than 1 % of their time. Faster pipelines would not shorten them."
        yield Notice("info", text)
    if every.predicted and every.helps:  # the basis of the predictions
        counts = ", ".join(f"{number:,}" for number in sorted(every.cores))
        yield Notice("info", _ASSUMED + (_ON_CORES.format(counts=counts) if every.cores else _CORES_FOR_ALL))
    elif every.predicted:
        yield Notice("info", _NO_CHANGE)
    if every.away > every.slow_outside:  # else other notices have these calls
        text = f"{every.away:,} of {every.of_steps:,} calls run outside of all steps"
        yield Notice("info", f"{text}: the capture does not show whether the program waits for them.")
    if every.unidentified:
        yield Notice("warning", f"{every.unidentified:,} iterator events have no id and are not counted here.")
    if every.devices_wait:
        yield Notice("info", _HOST_WAITS)
    if not every.ahead_known:
        yield Notice("info", "There are too many steps and pipelines to find calls that run ahead in each step.")
    if every.any_chosen:
        yield Notice("info", _SOME_STEPS)
