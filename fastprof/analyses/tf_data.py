"""Input pipelines of tf.data: the iterator graph, its critical path, the bottleneck, how to fix it.

A call of a pipeline is a root event of an iterator; its time is divided among the iterators that it waited for. What a
batch would take after a change is predicted by pipelines/what_if.py. Formulas: docs/analyses/tf-data.md.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field

import numpy as np
import pyarrow as pa

from fastprof.analyses.contract import (
    Evidence,
    Needs,
    Notice,
    Opening,
    Report,
    ScalarSpec,
    Section,
    Value,
    has_rows,
    is_known,
    scalars,
    union,
)
from fastprof.analyses.late_tables import LateTables
from fastprof.derive.host import Host
from fastprof.derive.pipelines import kept_pipelines
from fastprof.derive.pipelines import pipeline_verdicts as verdicts
from fastprof.derive.pipelines.iterators import STATS, KeptPipelines, keep_pipelines
from fastprof.derive.pipelines.kept_pipelines import KeptPipelinesOfHost
from fastprof.derive.pipelines.pipeline_tables import TABLES as TABLES
from fastprof.derive.pipelines.pipeline_tables import HostPipelines
from fastprof.derive.pipelines.step_waits import no_steps, steps_of
from fastprof.derive.pipelines.what_if import WORTH
from fastprof.derive.steps import of_host as host_steps
from fastprof.derive.steps.links import is_one_of
from fastprof.errors import UsageError
from fastprof.schema.array_types import Bools
from fastprof.schema.value_classes import dataclass
from fastprof.tables.host_events import HostEvents

NAME = "tf_data"
TITLE = "tf.data"
OF_ALL_THREADS = True
"""Calls of chosen steps are reported with everything other threads did for them, whatever its group."""
READS = union([
    Host.GROUPING,
    Needs(stats=(*host_steps.STATS, *STATS), metadata_stats=host_steps.METADATA_STATS),
])  # fmt: skip
AFTER: tuple[str, ...] = ()
CONTENT = Evidence("No input pipelines: the capture has no events of tf.data iterators.", events=("Iterator",))
NOT_OF_TORCH = (
    "PyTorch's profiler records no stages of input pipelines. The report input_pipeline shows how long steps wait for "
    "input, and annotations what loads it."
)
MOST_PARALLEL = 1_000_000


@dataclass(frozen=True, slots=True)
class Params:
    """``parallel`` is 2 or more, and no more than MOST_PARALLEL."""

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
        metadata={"help": "calls of a pipeline longer than this, in microseconds, are slow", "min": 0, "alone": True},
    )

    def __post_init__(self) -> None:
        if self.parallel > MOST_PARALLEL:
            raise UsageError(f"parallel is {MOST_PARALLEL:,} at most, not {self.parallel:,}")


SCALARS = {
    "pipeline_count": ScalarSpec(None, "input pipelines of all hosts, with at least one recorded call"),
    "iterator_count": ScalarSpec(None, "iterators of all pipelines"),
    "call_count": ScalarSpec(None, "calls of all pipelines"),
    "slow_call_count": ScalarSpec(None, "calls longer than slow_call_us"),
    "max_call_ps": ScalarSpec("ps", "duration of the slowest call", "slowest call"),
    "wait_share": ScalarSpec("share", "time of steps in which a call of the step ran / duration of the steps, over all "
                             "steps of hosts with pipelines; devices may have work meanwhile",
                             "share of step time waiting for input"),
    "slow_pipeline": ScalarSpec(None, "the pipeline with slow calls and the largest sum of calls; pipelines that are "
                                "called during steps come first"),
    "bottleneck_name": ScalarSpec(None, "bottleneck of slow_pipeline: the iterator with the largest critical time, "
                                  "with similar iterators counted together", "its bottleneck"),
    "bottleneck_share": ScalarSpec("share", "critical time of the bottleneck and similar iterators / time of the calls "
                                   "of slow_pipeline", "share of its calls"),
    "batch_ps": ScalarSpec("ps", "time per batch of slow_pipeline: mean duration of a call + mean time between calls",
                           "its time per batch"),
    "best_change": ScalarSpec(None, "the change of one iterator to try first, from the table what_if: the prefetch or "
                              "the parallel calls that save most, if they save at least half as much as the best "
                              "change; else faster code"),
    "best_batch_ps": ScalarSpec("ps", "time per batch after best_change, if threads compute", "time per batch then"),
}  # fmt: skip
_ASSUMED = (
    "What if: times per batch. They are exact where nothing runs ahead; elsewhere the longest of the stages that work "
    "at the same time sets the pace. The column assumption of the table what_if says what each rests on. "
)
_CORES_FOR_ALL = "All suppose that there are cores for it: how many there are is not recorded."
_ON_CORES = (
    "The host has {counts} cores by cpu_budget of tf.data. then_ps is what they allow if threads compute; where they "
    "wait for storage or other hosts, cores do not bound a batch, and it may take least_then_ps."
)
_HOST_WAITS = (
    "It is the host that waits here; devices may have work meanwhile. What they stand still for it, overview and "
    "input-pipeline say."
)
_SOME_STEPS = (
    "Only some steps are selected. Their calls are reported, with everything other threads did for them, "
    "then or before; calls that belong to no step are left out."
)
_NO_CHANGE = "What if: no change of a single iterator makes batches faster by 1 % or more."


def _helps(report: Report) -> bool:
    """Whether a change saves enough to be shown."""
    table = report.tables["what_if"]
    return any(is_worth_it(table).to_pylist())


def is_worth_it(table: pa.Table) -> pa.Array:
    """By row of what_if, whether it saves enough to be shown to people."""
    now, saved = (np.asarray(table[name].to_numpy(), np.float64) for name in ("now_ps", "saved_ps"))
    return pa.array(saved >= np.maximum(now * WORTH, 1.0))  # nan, which is null, is not


OPENING = Opening(
    (
        "{wait_share} of step time is waiting for input; the pipeline to look at is {slow_pipeline}, its "
        "bottleneck {bottleneck_name}.",
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
    Section("Iterators, and the part of each in the time of the calls", "iterators", ("name", "pipeline", "call_count",
            "critical_ps", "critical_share"), "critical_share", 60, shown=has_rows("iterators"), depth="depth"),
    Section("What the time is spent on", "self_time", ("pipeline", "name", "part", "time_ps", "share"), "share", 12,
            shown=has_rows("self_time")),
    Section("What if", "what_if", ("pipeline", "name", "change", "now_ps", "then_ps", "least_then_ps", "speedup"),
            rows=12, shown=_helps, only=is_worth_it),
    Section("Steps that wait", "step_waits", ("step", "step_name", "pipeline", "call_count", "wait_ps",
            "ahead_ps", "wait_share"), "wait_share", 12, shown=has_rows("step_waits")),
    Section("Slowest calls", "calls", ("pipeline", "rank", "step", "start_ps", "duration_ps", "bottleneck_name",
            "bottleneck_ps"), rows=10, shown=has_rows("calls")),
)  # fmt: skip


def of_host(host: Host, params: Params) -> KeptPipelinesOfHost:
    """The steps are kept if the host called a pipeline; else nothing reads them."""
    kept = _kept(host)
    steps = steps_of(host.steps.database) if len(kept.exact.calls) else no_steps()
    found = HostPipelines(host.name, kept.exact, steps, params.slow_call_us, params.parallel)
    chosen = host.entire is not host
    return KeptPipelinesOfHost(found, kept.iterator_event_count, kept.unidentified, chosen=chosen)


def _kept(host: Host) -> KeptPipelines:
    """The pipelines, whose calls are grouped if there are any. They are read before groups are made, because both take
    much memory for a while. If steps are selected, only their calls count, with all that other threads did for them."""
    if (wanted := chosen_calls(host)) is not None:
        return keep_pipelines(host.entire.raw, host.workers, wanted).in_groups(host.entire.groups.group_id)
    kept = keep_pipelines(host.raw, host.workers)
    return kept.in_groups(host.groups.group_id) if len(kept.exact.calls) else kept


def chosen_calls(host: Host) -> Bools | None:
    """By row of all events of the host: whether it is of the selected steps; None: all steps are selected."""
    if host.entire is host:
        return None
    groups = np.unique(host.groups.group_id).astype(np.int64)
    return is_one_of(host.entire.groups.group_id.astype(np.int64), groups)


def has_iterators(events: HostEvents) -> bool:
    return any(name.startswith("Iterator:") for name in events.names)


def run(kept: Sequence[KeptPipelinesOfHost], params: Params, after: Mapping[str, Report]) -> Report:
    hosts = [one.pipelines() for one in kept]
    tables = LateTables(kept_pipelines.tables(kept))
    values = _values(kept, hosts)
    notices = tuple(_notices(kept, hosts, params, values))
    return Report(NAME, tables, scalars(SCALARS, values), notices)


def _why_none(kept: Sequence[KeptPipelinesOfHost]) -> str:
    """What the capture has of tf.data if no pipeline was called."""
    some = sum(one.event_count for one in kept)
    unidentified = sum(one.unidentified for one in kept)
    if some and unidentified == some:
        return f"{some:,} events of tf.data iterators, all without an id: the version of TensorFlow is too old"
    if not some:
        return verdicts.NO_ITERATORS
    return verdicts.NO_CHOSEN_CALLS if any(one.chosen for one in kept) else verdicts.NO_CALLS


def _values(kept: Sequence[KeptPipelinesOfHost], hosts: Sequence[HostPipelines]) -> dict[str, Value | tuple[None, str]]:
    slow = verdicts.slow_pipelines(hosts)
    calls = sum(host.call_count for host in hosts)
    none = (None, f"the capture has {_why_none(kept)}")
    values: dict[str, Value | tuple[None, str]] = {
        "pipeline_count": sum(len(host.reading.pipelines) for host in hosts),
        "iterator_count": sum(len(host.reading.tree.iterator) for host in hosts),
        "call_count": calls,
        "slow_call_count": sum(int(host.calls.slow.sum()) for host in hosts),
        "max_call_ps": max((int(host.calls.most_ps.max(initial=0)) for host in hosts), default=0) if calls else none,
        "wait_share": _wait_share(hosts) if calls else none,
    }
    if not slow:
        none = none if not calls else (None, "no call of any pipeline is slow")
        return values | {name: none for name in SCALARS if name not in values}
    host, pipeline = slow[0]
    row = int(host.bottlenecks.of_pipeline[pipeline])
    name = host.reading.pipelines.name[pipeline]
    change = verdicts.best_change(host, pipeline)
    no_change = (None, "no change of a single iterator makes a batch a twentieth faster")
    count, total = int(host.calls.count[pipeline]), int(host.calls.total_ps[pipeline])
    between = int(host.calls.between_ps[pipeline]) / max(count - 1, 1)
    single = (None, "there was a single call, so the time between calls is unknown")
    return values | {
        "slow_pipeline": name if len(hosts) == 1 else f"{name} of {host.host}",
        "bottleneck_name": host.reading.iterators.name[int(host.reading.tree.iterator[row])],
        "bottleneck_share": int(host.bottlenecks.critical_ps[pipeline]) / total,
        "batch_ps": single if count == 1 else round(total / count + between),
        "best_change": single if count == 1 else no_change if change is None else change.words,
        "best_batch_ps": single if count == 1 else no_change if change is None else change.then_ps,
    }


def _wait_share(hosts: Sequence[HostPipelines]) -> float | tuple[None, str]:
    in_steps = [host.in_steps for host in hosts if host.call_count]
    total = sum(one.step_ps for one in in_steps)
    if not total:
        return None, "hosts with input pipelines have no steps, so there is no step time to wait in"
    if not any(one.has_calls for one in in_steps):
        return None, "no call belongs to a step: the program makes them between its steps, or on another thread"
    return sum(one.waited_ps for one in in_steps) / total


def _notices(
    kept: Sequence[KeptPipelinesOfHost], hosts: Sequence[HostPipelines], params: Params, values: Mapping[str, object]
) -> Iterator[Notice]:
    if not values["call_count"]:
        yield Notice("info", f"No input pipelines: the capture has {_why_none(kept)}.")
        return
    slow = verdicts.slow_pipelines(hosts)
    for host, pipeline in slow[: verdicts.MOST]:
        waits = verdicts.step_share(host, pipeline)
        hardly = verdicts.is_outside(host, pipeline) or (waits is not None and waits < verdicts.HARDLY)
        severity = "info" if hardly else "recommendation"
        yield Notice(severity, verdicts.verdict(host, pipeline, several_hosts=len(hosts) > 1))
    if len(slow) > verdicts.MOST:
        yield Notice("info", f"{len(slow) - verdicts.MOST:,} more pipelines have slow calls: table bottlenecks.")
    if not slow:
        yield Notice("info", f"No input pipeline is slow: no call takes longer than {params.slow_call_us:,} µs.")
    share = values["wait_share"]
    in_steps = [one for one in slow if not verdicts.is_outside(*one)]
    if in_steps and isinstance(share, float) and share < verdicts.HARDLY:
        text = "Steps hardly wait for input: less than 1 % of their time. Faster pipelines would not shorten them."
        yield Notice("info", text)
    yield from _of_what_if(hosts)
    outside = [int(host.calls.count[pipeline]) for host, pipeline in slow if verdicts.is_outside(host, pipeline)]
    yield from _remarks(kept, hosts, sum(outside))


def _of_what_if(hosts: Sequence[HostPipelines]) -> Iterator[Notice]:
    """The basis of the predictions, or that none is worth it."""
    predicted = [host.what_if for host in hosts if (host.what_if.then_ps >= 0).any()]
    if not predicted:
        return
    if not any(found.helps.any() for found in predicted):
        yield Notice("info", _NO_CHANGE)
        return
    cores = sorted({number for found in predicted for number in found.cores.tolist() if number})
    counts = ", ".join(f"{number:,}" for number in cores)
    yield Notice("info", _ASSUMED + (_ON_CORES.format(counts=counts) if cores else _CORES_FOR_ALL))


def _remarks(kept: Sequence[KeptPipelinesOfHost], hosts: Sequence[HostPipelines], reported: int) -> Iterator[Notice]:
    """``reported``: calls outside of steps that other notices have."""
    away = sum(sum(host.in_steps.outside) for host in hosts if host.in_steps.step_count)
    of_steps = sum(host.call_count for host in hosts if host.in_steps.step_count)
    if away > reported:
        text = f"{away:,} of {of_steps:,} calls run outside of all steps"
        yield Notice("info", f"{text}: the capture does not record whether the program waits for them.")
    unidentified = sum(one.unidentified for one in kept)
    if unidentified:
        yield Notice("warning", f"{unidentified:,} events of iterators have no id, and count nowhere here.")
    if any(host.steps.of_devices and host.in_steps.waits for host in hosts):
        yield Notice("info", _HOST_WAITS)
    if not all(host.in_steps.ahead_known for host in hosts):
        yield Notice("info", "There are too many steps and pipelines to find what runs ahead in each step.")
    if any(one.chosen for one in kept):
        yield Notice("info", _SOME_STEPS)
