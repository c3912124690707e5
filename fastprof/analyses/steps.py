"""Every step on every host and core: its time by category, stragglers, percentiles.

A step is a group of events that a user or framework marker begins; docs/analyses/steps.md defines the groups, the
categories, and the alignment of steps across hosts.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import field, fields, replace
from functools import partial
from operator import attrgetter
from types import SimpleNamespace
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa

from fastprof.analyses.accumulation import LazyHostValues
from fastprof.analyses.contract import (
    AnalysisReport,
    Known,
    LazyTables,
    Notice,
    Opening,
    ScalarSpec,
    Section,
    has_rows,
    make_scalars,
)
from fastprof.derive.causes import slow_steps
from fastprof.derive.causes.slow_steps import KINDS, Differences, Slowdown, SlowSteps, find_slow_steps, find_slowdown
from fastprof.derive.host import Host
from fastprof.derive.steps import host_steps
from fastprof.derive.steps.event_origin import STATS as ORIGIN_STATS
from fastprof.derive.steps.host_steps import BETWEEN_STEPS, BetweenSteps, HostSteps, measure_between_steps
from fastprof.derive.steps.step_alignment import (
    SessionSteps,
    StepOutline,
    combine_hosts,
    describe_incomplete,
    describe_inference,
    describe_kinds,
    describe_pairing,
    describe_sources,
    explain_missing_steps,
    find_session_steps,
    list_sources,
    outline_steps,
)
from fastprof.derive.steps.step_database import OWN_CATEGORIES, TYPES, EventType, StepDatabase, get_spread
from fastprof.derive.steps.step_figures import (
    CATEGORY_COLUMNS,
    CORE_COLUMNS,
    CORE_ID_COLUMN,
    HOST_COLUMN,
    SPAN_COLUMNS,
    STEP_COLUMN,
    UNKNOWN_CATEGORIES,
    StepsOnCores,
    break_down_cores,
    fit_parts,
)
from fastprof.derive.steps.step_source import AUTO, CERTAINTIES, CERTAINTY, MARKERS, STEPS_FROM
from fastprof.derive.steps.stragglers import (
    WAITED_BETWEEN,
    HostTime,
    compare_hosts,
    describe_lock_step,
    describe_slowest_host,
    find_cores_in_steps,
    find_stragglers,
    get_longest_times,
    is_worth_naming,
    measure_waits_between,
    summarize_steps,
)
from fastprof.schema.columns import PERCENTILES, Int64s, sort_rows
from fastprof.schema.tables import (
    Column,
    Count,
    Kind,
    Picoseconds,
    Share,
    TableSchema,
    Text,
    encode_texts,
    explain_nulls,
)
from fastprof.schema.value_classes import dataclass
from fastprof.tables.needs import Needs, unite_needs
from fastprof.wording.quantities import STEP_CATEGORIES, count_noun

NAME = "steps"
READS = unite_needs([
    Host.GROUPING,
    Needs(stats=host_steps.STATS, metadata_stats=host_steps.METADATA_STATS),
    Needs(stats=ORIGIN_STATS),
    Needs(stats=slow_steps.PROGRAM_STATS),
])  # fmt: skip
AFTER: tuple[str, ...] = ()
REMEDY = (
    "Mark steps: jax.profiler.StepTraceAnnotation, tf.profiler.experimental.Trace, or step() of PyTorch's "
    "profiler; or give an annotation with steps_from."
)
ONE_BY_ONE = True


@dataclass(frozen=True, slots=True)
class Params:
    steps_from: str = field(default=AUTO, metadata=STEPS_FROM)


_Mean = Kind(pa.float64(), "ps")
_NUMBER = Count("step", "step number: the program's, else its position from 0; if hosts differ, the first host's; "
                "null: not all hosts have the step", lambda rows: rows.number,
                lambda rows: rows.number < 0)  # fmt: skip
_GROUP = Count("group_id", "number of the step's event group on the host",
               lambda rows: rows.database.step[rows.step])  # fmt: skip

_SPREAD = {
    "mean_ps": "mean time per step",
    "stdev_ps": "standard deviation (sample) of the time per step",
    "min_ps": "shortest time per step",
    **{f"p{percent}_ps": f"{percent}th percentile (nearest rank) of the time per step" for percent in PERCENTILES},
    "max_ps": "longest time per step",
}
"""Figures of several steps, by the names of ``get_spread``."""


def _make_spread_columns(*names: str) -> Iterable[Column]:
    for name in names:
        kind = _Mean if name in ("mean_ps", "stdev_ps") else Picoseconds
        yield kind(name, _SPREAD[name] + ("; null: there is only one step" if name == "stdev_ps" else ""))


def _make_schema(name: str, row: str, *columns: Column) -> TableSchema:
    return TableSchema(name, row, columns, derived=True)


_TABLES = (
    _make_schema(
        "steps", "a step on a core that took part in it",
        _NUMBER,
        _GROUP,
        Text("name", "name of the group, such as train 7", lambda rows: encode_texts(rows.database.label, rows.step)),
        *CORE_COLUMNS,
        *SPAN_COLUMNS,
        *CATEGORY_COLUMNS,
        Picoseconds("host_to_host_ps", "time of copies within the host, which no category above includes",
                    lambda rows: rows.database.of_type(EventType.HOST_TO_HOST)[rows.step, rows.core]),
    ),
    _make_schema(
        "breakdown", "a kind of time in a step on a core, longest first",
        _NUMBER,
        _GROUP,
        HOST_COLUMN,
        CORE_ID_COLUMN,
        Text("kind", "type of event; on TPUs category of op, IDLE (no op ran), infeed (with idle time that the host's "
             "input explains), or busy (a SparseCore ran an op)"),
        Picoseconds("time_ps", "time of this kind within the step; self time of ops"),
        Share("share", "time_ps / step duration; null: the step has no duration",
              lambda rows: rows.time_ps / np.maximum(rows.duration_ps, 1), lambda rows: rows.duration_ps <= 0),
    ),
    _make_schema(
        "step_summary", "a kind of time over the complete steps, for a core or for the slowest core of each step",
        Text("host", "host, named after its capture file; null: the row is of all hosts together"),
        Count("core_id", "core id on its host; null: the row is of the slowest core of each step"),
        Text("quantity", "step_time, or the name of a category of the steps table that occurs on the core"),
        Count("count", "number of complete steps of the core"),
        *_make_spread_columns(*_SPREAD),
    ),
    _make_schema(
        "hosts", "a host, in the complete steps that all hosts have",
        HOST_COLUMN,
        Text("hostname", "host, as the capture calls it"),
        Count("core_count", "number of cores that took part, without SparseCores"),
        Count("step_count", "number of complete steps of the host; a step takes as long as on its slowest core"),
        *_make_spread_columns("mean_ps", "p50_ps", "p99_ps", "max_ps"),
        Count("compared_count", "number of steps in which other hosts took part too"),
        Count("slowest_count", "number of steps (of compared_count) in which this host was slowest and at least 1 % "
              "slower than the median; equally slow hosts all count"),
        _Mean("excess_ps", "mean time of its steps beyond the median (the lower of two) of the hosts; null: no other "
              "host took part in its steps"),
        Share("excess_share", "time of its steps beyond the medians of the hosts / these medians; null: no other host "
              "took part in its steps"),
        Text("category", "largest category with at least half of excess_ps, by means over cores; all_others: only "
             "the rest of the step has half of it; null: no category has half of it, or the host takes no longer "
             "than the median"),
        _Mean("category_excess_ps", "mean time per step by which the host exceeds the median in category; null: "
              "category is null"),
        Picoseconds("waited_between_ps", WAITED_BETWEEN),
    ),
    _make_schema(
        "slow_steps", "an item that took longer in a slow step, by kind, largest difference first",
        _NUMBER,
        replace(_GROUP, of=attrgetter("group_id")),
        Text("name", "step name"),
        Text("host", "host, named after its capture file"),
        Picoseconds("duration_ps", "step time, from its first start to its last end on a core of the host"),
        Picoseconds("median_ps", "median (the lower of two) of the host's complete steps that have the same name and "
                    "mostly run the same program"),
        Picoseconds("excess_ps", "duration_ps - median_ps", lambda rows: rows.duration_ps - rows.median_ps),
        Text("kind", "category (of step time), op (of a framework or a device), annotation (of a user), python (a "
             "frame), event (any other of a host thread)", lambda rows: encode_texts(KINDS, rows.kind)),
        Text("what", "name of the item with the most time beyond its usual time; null: no category took longer"),
        Picoseconds("time_ps", "time of the item within the step, on the thread or device where it takes longest: "
                    "self time of ops, frames and events, total time of annotations"),
        Picoseconds("usual_ps", "median (the lower of two) of its time in typical steps"),
        Picoseconds("difference_ps", "time_ps - usual_ps", lambda rows: rows.time_ps - rows.usual_ps),
    ),
    _make_schema(
        "slowdowns", "a host whose devices compute longer from some step on, until the end",
        Text("host", "host, named after its capture file"),
        replace(_NUMBER, description="number of the first of these steps; null: the session has no such step"),
        Count("step_count", "number of the complete steps of its name from this one on"),
        Picoseconds("before_ps", "median (the lower of two) compute of the steps before, on the core that computes "
                    "longest in each"),
        Picoseconds("after_ps", "median compute of the steps from this one on"),
        Picoseconds("excess_ps", "compute of these steps beyond before_ps, summed"),
        Share("longer_share", "share of the op time before in ops that take longer by at least half as much as all "
              "ops together"),
        Text("op", "op that takes most time longer; null: no op is recorded, or none takes longer"),
        Picoseconds("op_before_ps", "mean time of this op per step, before; 0 if op is null"),
        Picoseconds("op_after_ps", "mean time of this op per step, from this one on; 0 if op is null"),
    ),
    BETWEEN_STEPS,
    _make_schema(
        "stragglers", "a step that took longer than the median of its cores, and its slowest core",
        STEP_COLUMN,
        Text("name", "step name, such as train 7; if hosts name it differently, that of the first",
             lambda rows: encode_texts(rows.database.label, rows.step)),
        *CORE_COLUMNS,
        Count("core_count", "number of cores that took part, without SparseCores"),
        Picoseconds("duration_ps", "longest time of the step on a core; if several cores are tied, the row shows the "
                    "one with the most compute"),
        Picoseconds("median_ps", "median (the lower of two) of the times of the step on its cores"),
        Picoseconds("excess_ps", "duration_ps - median_ps"),
        Share("excess_share", "excess_ps / median_ps; null: median_ps is 0",
              lambda rows: rows.excess_ps / np.maximum(rows.median_ps, 1), lambda rows: rows.median_ps <= 0),
        Text("category", "largest category with at least half of excess_ps; all_others: only the rest of the step "
             "has half of it; null: no category has half of it",
             lambda rows: encode_texts([*(category.name for category in OWN_CATEGORIES), None], rows.category)),
        Picoseconds("category_excess_ps", "time of the core in this category beyond the median of the cores; 0 if "
                    "category is null"),
    ),
)  # fmt: skip
TABLES = {table.name: table for table in _TABLES}

_OF_STEPS = "until the next one begins, over complete steps, on the slowest core of each"
SCALARS = {
    "steps_source": ScalarSpec(None, "step source: markers, launched (markers around the dispatch only, with the work "
                               "that they launched), loader (data loader calls), modules (program executions), "
                               "annotations or launches (repeated ones)"),
    "steps_certainty": ScalarSpec(None, "certain: the program or its framework marks the steps; likely, possible: "
                                  "they are inferred from repetition"),
    "steps_inferred": ScalarSpec(None, "basis of the inferred steps and its certainty, as text; null: the "
                                 "program or its framework marks them", "steps"),
    "step_count": ScalarSpec(None, "number of steps, complete or not; with several hosts, the steps that all hosts "
                             "have"),
    "incomplete_step_count": ScalarSpec(None, "number of steps that may be cut off and do not count for averages"),
    "host_count": ScalarSpec(None, "number of hosts with steps"),
    "core_count": ScalarSpec(None, "number of cores that took part in steps"),
    **{f"step_time_{name}": ScalarSpec("ps", f"{what}, {_OF_STEPS}") for name, what in _SPREAD.items()},
    "step_time_is_bound": ScalarSpec(None, "whether step times are lower bounds: no step is followed by the next one, "
                                     "and each has its extent", "step times are lower bounds"),
    "slow_step_count": ScalarSpec(None, "slow outliers among the complete steps of each host: more than 5 median "
                                  "absolute deviations and 10 % above the median of steps with the same name and "
                                  "program",
                                  "slow steps, summed over hosts"),
    "slow_step_excess_ps": ScalarSpec("ps", "time of these steps beyond the median",
                                      "excess of slow steps, summed over hosts"),
    "between_steps_ps": ScalarSpec("ps", "time between steps, in which no core of a host is in a step: from the end of "
                                   "one to the start of the next; sum over hosts. between_steps_ps of gaps is time "
                                   "that belongs to no step",
                                   "between steps, summed over hosts"),
    "between_steps_share": ScalarSpec(
        "share", "between_steps_ps / time from the first start to the last end of steps, sum over hosts"
    ),
    "module_execution_count": ScalarSpec(None, "number of steps if each execution of a compiled program were a step"),
}  # fmt: skip


OPENING = Opening(
    (
        "Steps, {steps_inferred}, take {step_time_mean_ps} on average; the longest takes {step_time_max_ps}.",
        "Steps take {step_time_mean_ps} on average; the longest takes {step_time_max_ps}.",
    ),
    (
        "step_time_mean_ps", "step_time_p50_ps", "step_time_p99_ps", "step_time_max_ps", "step_count", "core_count",
    ),
)  # fmt: skip

CATEGORY_WORDS: Final = {"category": STEP_CATEGORIES}
"""Display names of step categories."""
SECTIONS = (
    Section("Steps", scalars=tuple(name for name in SCALARS if name != "steps_inferred")),
    Section("Step time", "step_summary", ("host", "core_id", "quantity", "count", "mean_ps", "p50_ps", "p90_ps",
            "p99_ps", "max_ps"), rows=12, words={"quantity": STEP_CATEGORIES}),
    Section("Hosts", "hosts", ("host", "step_count", "mean_ps", "p99_ps", "slowest_count", "excess_ps", "category",
            "excess_share"), "excess_share", 20, shown=lambda report: len(report.tables["hosts"]) > 1,
            words=CATEGORY_WORDS),
    Section("Stragglers", "stragglers", ("step", "name", "host", "core_id", "duration_ps", "median_ps", "excess_ps",
            "category", "category_excess_ps", "excess_share"), "excess_share", 10, only=is_worth_naming,
            shown=has_rows("stragglers", is_worth_naming), words=CATEGORY_WORDS),
    Section("Slower from a step on", "slowdowns", ("host", "step", "step_count", "before_ps", "after_ps", "excess_ps",
            "longer_share", "op"), shown=has_rows("slowdowns")),
    Section("Slow steps", "slow_steps", ("name", "host", "duration_ps", "median_ps", "kind", "what", "usual_ps",
            "difference_ps"), rows=20, shown=has_rows("slow_steps"), words={"what": STEP_CATEGORIES}),
    Section("Between steps", "between_steps", ("host", "core_id", "gap_count", "time_ps", "longest_ps",
            "longest_before", "device_compute_ps", "host_compute_ps", "input_ps", "all_others_ps", "share"), "share",
            20, shown=has_rows("between_steps"), parts=("device_compute_ps", "host_compute_ps", "input_ps")),
    Section("All steps", "steps", ("step", "name", "core_name", "complete", "period_ps", "device_compute_ps",
            "host_compute_ps", "input_ps", "all_others_ps"), rows=40),
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class StepsHostState:
    """Steps of a host, what took longer in outlier steps, and the time between steps."""

    steps: HostSteps
    slow: SlowSteps
    slowdown: Slowdown | None
    between: BetweenSteps


def of_host(host: Host, params: Params) -> StepsHostState:
    every, source = host.with_all_steps(params.steps_from), params.steps_from
    steps = host.explained_steps(source)
    steps = steps if host.missed is None else replace(steps, missed=host.missed)
    periods, extents = every.explained_steps(source).database, every.steps_from(source).database
    times = None if host.raw.planes_of("TPU") else every.times_from(source)
    chosen = np.isin(periods.step, steps.database.step)
    between = measure_between_steps(periods, extents, chosen, every.events, times)
    made_from = every.source_of_steps(source)
    kinds = slow_steps.number_kinds(made_from.groups, steps.database)
    slow = find_slow_steps(made_from, steps.database, kinds)
    return StepsHostState(steps, slow, find_slowdown(made_from, steps.database, kinds), between)


def numbered(kept: StepsHostState, number: int) -> StepsHostState:
    """Return the host state with another host number."""
    steps = kept.steps
    marked = None if steps.marked is None else replace(steps.marked, number=number)
    return replace(kept, steps=replace(steps, number=number, marked=marked))


def run(of_hosts: Sequence[StepsHostState], params: Params, after: Mapping[str, AnalysisReport]) -> AnalysisReport:
    hosts: Sequence[HostSteps] = LazyHostValues(of_hosts, attrgetter("steps"))
    every = _collect_seen(of_hosts)
    database = combine_hosts(hosts, every.outlines)
    known, slow = [outline.steps for outline in every.outlines], every.slow
    names, groups = (
        [(outline.host, outline.hostname) for outline in known],
        [outline.database.step for outline in known],
    )
    rows = partial(_list_core_steps, hosts, database)
    times = compare_hosts(database)
    tables = LazyTables({
        "steps": lambda: explain_nulls(TABLES["steps"].of_parts(rows()), UNKNOWN_CATEGORIES),
        "breakdown": lambda: TABLES["breakdown"].of_parts(map(_list_kinds, rows())),
        "step_summary": lambda: pa.Table.from_pylist(summarize_steps(hosts, database), TABLES["step_summary"].arrow()),
        "hosts": lambda: pa.Table.from_pylist(_list_hosts(times, names, groups, database), TABLES["hosts"].arrow()),
        "slow_steps": lambda: TABLES["slow_steps"].of(
            _list_slow_rows(of_hosts, [place for place, (count, _, _) in enumerate(slow) if count], database)
        ),
        "slowdowns": lambda: TABLES["slowdowns"].of(_list_slowdown_rows(known, every.slowdowns, database)),
        "between_steps": lambda: explain_nulls(
            TABLES["between_steps"].of_parts(host.between.rows(host.steps.host) for host in of_hosts),
            UNKNOWN_CATEGORIES,
        ),
        "stragglers": lambda: TABLES["stragglers"].of_parts(find_stragglers(database)),
    })  # fmt: skip
    reason = explain_missing_steps(known, database, params.steps_from)
    figures = make_scalars(SCALARS, _compute_values(known, every, database, reason))
    notices = [Notice("warning", reason)] if reason else list(_list_notices(known, every.beyond, database))
    if params.steps_from == AUTO:
        notices += [Notice("info", text, shared=True) for text in (*describe_sources(known), *describe_kinds(known))]
    if worst := describe_slowest_host(database, times):
        notices.insert(0, Notice("recommendation", worst))
    elif together := describe_lock_step(times):
        notices.append(Notice("info", together))
    notices += [Notice("info", text) for text in (*_describe_slow_steps(every, of_hosts), *describe_pairing(database))]
    notices += [Notice("info", text, shared=True) for text in describe_incomplete(database)]
    return AnalysisReport(NAME, tables, figures, tuple(notices), {}, SessionSteps(hosts, database))


class _SeenSteps(NamedTuple):
    """Sums over hosts from one pass. ``slow``: count, total excess and largest excess of outlier steps by host;
    ``slowdowns``: by place of the host; ``between_ps``, ``span_ps``: time between steps, and from the first to the last
    step, summed over hosts; ``beyond``: number of steps on cores whose ops add up to more than the step."""

    outlines: list[StepOutline]
    slow: list[tuple[int, int, int]]
    slowdowns: dict[int, Slowdown]
    between_ps: int
    span_ps: int
    beyond: int


def _collect_seen(of_hosts: Sequence[StepsHostState]) -> _SeenSteps:
    slow: list[tuple[int, int, int]] = []
    slowdowns: dict[int, Slowdown] = {}
    between_ps, span_ps, beyond = 0, 0, 0

    def steps() -> Iterator[HostSteps]:
        nonlocal between_ps, span_ps, beyond
        for place, host in enumerate(of_hosts):
            if host.slowdown is not None:
                slowdowns[place] = host.slowdown
            slow.append((host.slow.count, host.slow.excess_ps, host.slow.furthest_ps))
            between_ps, span_ps = between_ps + host.between.time_ps, span_ps + host.between.span_ps
            own = host.steps.database
            beyond += int(np.count_nonzero(own.present & (break_down_cores(own).sum(axis=2) > own.duration_ps)))
            yield host.steps

    return _SeenSteps(list(outline_steps(steps())), slow, slowdowns, between_ps, span_ps, beyond)


# ---- rows


def _list_core_steps(kept: Sequence[HostSteps], database: StepDatabase) -> Iterator[StepsOnCores]:
    for place, host in enumerate(kept):
        yield StepsOnCores.of(
            host.database, database.numbers_of(find_session_steps(database, place, host.database.step))
        )


def _list_kinds(steps: StepsOnCores) -> SimpleNamespace:
    """List the kinds of time of steps on cores: event types, or op categories on TPUs."""
    own = steps.database
    names, times = [*TYPES], own.type_ps
    names[EventType.HOST_BATCH_FORMATION] = "not_training"
    if own.is_tpu:
        names, times = [*own.categories, "busy"], np.concatenate([own.category_ps, own.sparse_busy_ps[:, :, None]], 2)
        if own.infeed_ps.any():
            times[:, :, 0] -= own.infeed_ps
            names.insert(-1, "infeed")
            times = np.insert(times, -1, own.infeed_ps, axis=2)
    times = fit_parts(times[steps.step, steps.core], steps.duration_ps)
    row, kind = np.nonzero(times)
    order = sort_rows(row, -times[row, kind], kind)
    row, kind = row[order], kind[order]
    step, core = steps.step[row], steps.core[row]
    return SimpleNamespace(
        database=own,
        step=step,
        core=core,
        number=steps.number[row],
        duration_ps=own.duration_ps[step, core],
        kind=encode_texts(names, kind),
        time_ps=times[row, kind],
    )


def _describe_slow_steps(every: _SeenSteps, of_hosts: Sequence[StepsHostState]) -> Iterable[str]:
    """Describe the worst outlier step, and count the outlier steps of other hosts."""
    slow = [place for place, (count, _, _) in enumerate(every.slow) if count]
    if not slow:
        return
    furthest = max(slow, key=lambda place: every.slow[place][2])
    host = of_hosts[furthest]
    worst = host.slow.worst(host.steps.database.label)
    yield f"{host.steps.host}: {worst}" if len(of_hosts) > 1 else worst
    if len(slow) > 1:
        count = sum(every.slow[place][0] for place in slow if place != furthest)
        hosts = "1 other host has" if len(slow) == 2 else f"{len(slow) - 1:,} other hosts have"
        yield f"{hosts} {count_noun(count, 'outlier step', 'outlier steps')}: table slow_steps."


def _list_slow_rows(
    of_hosts: Sequence[StepsHostState], places: Sequence[int], database: StepDatabase
) -> SimpleNamespace:
    """List the rows of the table slow_steps. ``places``: hosts with outlier steps."""
    parts: list[Differences] = []
    number, group = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)]
    host: list[str] = []
    name: list[str] = []
    what: list[str | None] = []
    for place in places:
        kept = of_hosts[place]
        rows, own = kept.slow.differences, kept.steps.database
        parts.append(rows)
        group.append(own.step[rows.step])
        number.append(database.numbers_of(find_session_steps(database, place, group[-1])))
        host += [kept.steps.host] * len(rows)
        name += [own.label[step] for step in rows.step.tolist()]
        what += kept.slow.names
    every = Differences.joined(parts)
    columns = {column.name: getattr(every, column.name) for column in fields(every)}
    texts_of_rows = {"host": host, "name": name, "what": what}
    return SimpleNamespace(**columns | texts_of_rows, number=np.concatenate(number), group_id=np.concatenate(group))


def _list_slowdown_rows(
    known: Sequence[HostSteps], slowdowns: Mapping[int, Slowdown], database: StepDatabase
) -> SimpleNamespace:
    """List the rows of the table slowdowns, in the order of hosts."""
    rows = {column.name: [getattr(each, column.name) for each in slowdowns.values()] for column in fields(Slowdown)}
    keys = [find_session_steps(database, place, np.array([each.group])) for place, each in slowdowns.items()]
    number = database.numbers_of(np.concatenate([np.zeros(0, np.int64), *keys]))
    return SimpleNamespace(
        **rows,
        host=[known[place].host for place in slowdowns],
        number=number,
        step_count=rows["count"],
        longer_share=rows["alike_share"],
    )


# ---- summaries


def _list_hosts(
    times: Sequence[HostTime], names: Sequence[tuple[str, str]], groups: Sequence[Int64s], database: StepDatabase
) -> list[dict[str, Any]]:
    """List the rows of the table hosts. ``names``: file name and hostname by host; ``groups``: step groups by host."""
    waited = measure_waits_between(database, groups)
    return [
        {"host": names[time.place][0], "hostname": names[time.place][1], "step_count": len(time.times_ps),
         "waited_between_ps": waited[time.place], **(get_spread(time.times_ps) or {}), **time._asdict()}
        for time in times
    ]  # fmt: skip


def _compute_values(
    kept: Sequence[HostSteps], every: _SeenSteps, database: StepDatabase, reason: str | None
) -> dict[str, Known]:
    longest = get_longest_times(database)
    summary = get_spread(longest)
    unknown = (None, reason or "no core took part in a complete step")
    values: dict[str, Known] = {
        "steps_source": ", ".join(list_sources(kept)) or unknown,
        "steps_certainty": min(
            (CERTAINTY[source] for source in list_sources(kept)), key=CERTAINTIES.index, default=unknown
        ),
        "steps_inferred": describe_inference(list_sources(kept)),
        "step_time_is_bound": database.is_bound if summary is not None else unknown,
        "step_count": len(database),
        "incomplete_step_count": int((~database.complete).sum()) if len(database) else unknown,
        "host_count": sum(1 for host in kept if len(host.database)),
        "core_count": int(find_cores_in_steps(database).sum()),
        "module_execution_count": sum(host.module_executions for host in kept),
    }
    for name in _SPREAD:
        value = None if summary is None else summary[name]
        known = (None, "a single step has none") if value is None else value
        values[f"step_time_{name}"] = unknown if summary is None else known
    between, span = every.between_ps, every.span_ps
    return values | {
        "slow_step_count": (None, reason) if reason else sum(count for count, _, _ in every.slow),
        "slow_step_excess_ps": (None, reason) if reason else sum(excess for _, excess, _ in every.slow),
        "between_steps_ps": (None, reason) if reason else between,
        "between_steps_share": (None, reason or "steps take no time") if reason or not span else between / span,
    }


def _list_notices(kept: Sequence[HostSteps], beyond: int, database: StepDatabase) -> Iterable[Notice]:
    unfit = sum(host.unfit for host in kept)
    if unfit:
        markers = "1 step marker is" if unfit == 1 else f"{unfit:,} step markers are"
        yield Notice("info", f"{markers} left out: the step has no compute, or not on every core")
    outside, runs = sum(host.outside for host in kept), sum(host.module_executions for host in kept)
    if 2 * outside > runs and list_sources(kept) == [MARKERS]:
        yield Notice(
            "warning",
            f"{outside:,} of {runs:,} program executions run outside of all steps: the markers enclose "
            f"the dispatch, not the work. --steps-from modules makes each execution a step",
        )
    if beyond:
        yield Notice(
            "info",
            f"Ops of {beyond:,} steps on cores add up to more than the step, because they overlap each other or "
            f"extend beyond the step: the difference is subtracted from the largest category.",
        )
    alone = sum(len(host.database) for host in kept) - int((database.group >= 0).sum())
    if alone:
        steps = "1 step is" if alone == 1 else f"{alone:,} steps are"
        yield Notice("info", f"{steps} not on all hosts, and so without a number")
