"""Every step on every host and core: its time by category, stragglers, percentiles.

A step is a group of events that a marker of the user or the framework begins; see docs/analyses/steps.md for how groups
are made, what counts for which category, and how steps of several hosts are aligned.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from fastprof.analyses.contract import Needs, Notice, Report, ScalarSpec, Section, Value, has_rows, scalars, union
from fastprof.derive.host import Host
from fastprof.derive.steps import of_host as host_steps
from fastprof.derive.steps.across_hosts import SessionSteps, combined
from fastprof.derive.steps.database import StepDatabase
from fastprof.derive.steps.of_host import HostSteps
from fastprof.derive.steps.remarks import on_pairs, why_no_steps
from fastprof.derive.steps.step_figures import core_breakdown
from fastprof.derive.steps.stragglers import HostTime, Stragglers, host_times, stragglers, verdict
from fastprof.derive.steps.time_spread import PERCENTILES, spread
from fastprof.derive.steps.time_types import CATEGORIES, HOST_TO_HOST, TYPES
from fastprof.derive.steps_from import MARKERS, MODULES, STEPS_FROM, steps_of
from fastprof.schema.arrow_columns import texts
from fastprof.schema.tables import TEXT, Column, TableSchema

if TYPE_CHECKING:
    from fastprof.schema.array_types import Int64s

NAME = "steps"
READS = union([Host.GROUPING, Needs(stats=host_steps.STATS, metadata_stats=host_steps.METADATA_STATS)])
AFTER: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Params:
    steps_from: str = field(default=MARKERS, metadata=STEPS_FROM)


_HOST = Column("host", TEXT, "host, as the capture's file is named")
_CORE = Column("core_name", TEXT, "core as host:ordinal; the host alone where it has no TPUs, or does not say")
_CORE_ID = Column("core_id", pa.int64(), "id of the core on its host; 1 stands for a host without TPUs and its GPUs")
_STEP = Column("step", pa.int64(), "number of the step: that of its group; where hosts number it differently, of its "
               "group on the first of them; null: not all hosts have it", True)  # fmt: skip
_IN_STEP = {
    "device_compute": "ops and kernels on devices",
    "device_to_device": "copies between devices; on TPUs waiting for others: send, recv, async-done, megacore fusion",
    "device_collectives": "nccl kernels; on TPUs all-reduce and all-to-all",
    "host_compute": "the host's threads run anything not listed here; known where there is no device",
    "kernel_launch": "the host prepares kernels; not distinguished at present, always 0",
    "input": "waiting for input, or copying it to the device; on TPUs infeed, and idle time that the host's input "
    "explains",
    "output": "copies from the device; on TPUs outfeed and host send",
    "compilation": "compiling; not distinguished at present, always 0",
    "all_others": "none of these; on TPUs idle",
}
TABLES = {
    "steps": TableSchema("steps", "a step on a core that took part in it", (
        _STEP,
        Column("group_id", pa.int64(), "group of events on the host"),
        Column("name", TEXT, "name of the group, such as train 7"),
        _HOST,
        _CORE,
        _CORE_ID,
        Column("sparse_core", pa.bool_(), "the core is a SparseCore"),
        Column("complete", pa.bool_(), "false: first or last of more than five steps of the host, so it may be cut "
               "off; on TPUs all are whole"),
        Column("start_ps", pa.int64(), "begin, from the start of the host's capture", unit="ps"),
        Column("duration_ps", pa.int64(), "the longest marker of the step; cores of a TPU host share it", unit="ps"),
        *(
            Column(f"{category.name}_ps", pa.int64(), _IN_STEP[category.name], unit="ps")
            for category in CATEGORIES
        ),
        Column("host_to_host_ps", pa.int64(), "copies within the host, in none of the categories before", unit="ps"),
    ), derived=True),
    "breakdown": TableSchema("breakdown", "a kind of time in a step on a core, the longest first", (
        _STEP,
        Column("group_id", pa.int64(), "group of events on the host"),
        _HOST,
        _CORE_ID,
        Column("kind", TEXT, "type of event; on TPUs category of op, IDLE: none, infeed: with idle time that the "
               "host's input explains; busy: a SparseCore ran an op"),
        Column("time_ps", pa.int64(), "time within the step; of ops, self time", unit="ps"),
        Column("share", pa.float64(), "time_ps / duration of the step; null: that is 0", True, "share"),
    ), derived=True),
    "step_summary": TableSchema("step_summary", "a kind of time over the complete steps, of a core or of all", (
        Column("host", TEXT, "host, as the capture's file is named; null: over all of them", True),
        Column("core_id", pa.int64(), "id of the core on its host; null: of each step the slowest core", True),
        Column("quantity", TEXT, "step_time, or a category of the table steps that occurs on the core"),
        Column("count", pa.int64(), "complete steps of the core"),
        Column("mean_ps", pa.float64(), "mean", unit="ps"),
        Column("stdev_ps", pa.float64(), "standard deviation of the sample; null: of a single step", True, "ps"),
        Column("min_ps", pa.int64(), "least", unit="ps"),
        *(
            Column(f"p{percent}_ps", pa.int64(), f"the least time that {percent} of 100 steps do not exceed", unit="ps")
            for percent in PERCENTILES
        ),
        Column("max_ps", pa.int64(), "most", unit="ps"),
    ), derived=True),
    "hosts": TableSchema("hosts", "a host, over the complete steps that all hosts have", (
        _HOST,
        Column("hostname", TEXT, "host, as the capture calls it"),
        Column("core_count", pa.int64(), "cores that took part, SparseCores left out"),
        Column("step_count", pa.int64(), "complete steps"),
        Column("mean_ps", pa.float64(), "mean time of a step, on the core that took longest", unit="ps"),
        Column("p50_ps", pa.int64(), "the least time that 50 of 100 steps do not exceed", unit="ps"),
        Column("p99_ps", pa.int64(), "the least time that 99 of 100 steps do not exceed", unit="ps"),
        Column("max_ps", pa.int64(), "most", unit="ps"),
        Column("compared_count", pa.int64(), "steps in which other hosts took part too"),
        Column("slowest_count", pa.int64(), "of those, steps in which it took longest, and longer than the median"),
        Column("excess_ps", pa.float64(), "mean of what its steps took beyond the median of the hosts, the lower of "
               "two; null: there is no other host", True, "ps"),
        Column("excess_share", pa.float64(), "sum of that / sum of the medians; null: there is no other host", True,
               "share"),
        Column("category", TEXT, "category in which it exceeds the median of the hosts most, of means over cores; "
               "null: in none", True),
        Column("category_excess_ps", pa.float64(), "by how much it does, mean over steps; null: in none", True, "ps"),
    ), derived=True),
    "stragglers": TableSchema("stragglers", "a step that took one of several cores longer than their median", (
        Column("step", pa.int64(), "number of the step, as in steps"),
        Column("host", TEXT, "host of the slowest core"),
        _CORE,
        _CORE_ID,
        Column("core_count", pa.int64(), "cores that took part, SparseCores left out"),
        Column("duration_ps", pa.int64(), "longest time of the step on a core; of equals the one that computes "
               "longest", unit="ps"),
        Column("median_ps", pa.int64(), "median of the cores, the lower of two", unit="ps"),
        Column("excess_ps", pa.int64(), "duration_ps - median_ps", unit="ps"),
        Column("excess_share", pa.float64(), "excess_ps / median_ps; null: that is 0", True, "share"),
        Column("category", TEXT, "category in which it exceeds the median of the cores most; null: in none", True),
        Column("category_excess_ps", pa.int64(), "by how much it does", unit="ps"),
    ), derived=True),
}  # fmt: skip

_OF_STEPS = "of the complete steps, each as long as on the core that took longest"
SCALARS = {
    "step_count": ScalarSpec(None, "steps, incomplete ones too; of several hosts those that all have"),
    "incomplete_step_count": ScalarSpec(None, "steps that may be cut off"),
    "host_count": ScalarSpec(None, "hosts with steps"),
    "core_count": ScalarSpec(None, "cores that took part in steps"),
    "step_time_mean_ps": ScalarSpec("ps", f"mean {_OF_STEPS}"),
    "step_time_stdev_ps": ScalarSpec("ps", f"standard deviation of the sample, {_OF_STEPS}"),
    "step_time_min_ps": ScalarSpec("ps", f"least {_OF_STEPS}"),
    **{
        f"step_time_p{percent}_ps": ScalarSpec("ps", f"the least time that {percent} of 100 do not exceed, {_OF_STEPS}")
        for percent in PERCENTILES
    },
    "step_time_max_ps": ScalarSpec("ps", f"most {_OF_STEPS}"),
    "module_execution_count": ScalarSpec(None, "steps that the executions of compiled programs would make"),
}


def _several_hosts(report: Report) -> bool:
    return len(report.tables["hosts"]) > 1


SECTIONS = (
    Section("Steps", scalars=tuple(SCALARS)),
    Section("Step time", "step_summary", ("host", "core_id", "quantity", "count", "mean_ps", "p50_ps", "p90_ps",
            "p99_ps", "max_ps"), rows=12),
    Section("Hosts", "hosts", ("host", "step_count", "mean_ps", "p99_ps", "slowest_count", "excess_ps", "category",
            "excess_share"), "excess_share", 20, shown=_several_hosts),
    Section("Stragglers", "stragglers", ("step", "core_name", "duration_ps", "median_ps", "excess_ps", "category",
            "category_excess_ps", "excess_share"), "excess_share", 10, shown=has_rows("stragglers")),
    Section("All steps", "steps", ("step", "name", "core_name", "complete", "duration_ps", "device_compute_ps",
            "host_compute_ps", "input_ps", "all_others_ps"), rows=40),
)  # fmt: skip


def of_host(host: Host, params: Params) -> HostSteps:
    found = steps_of(host, params.steps_from)
    return found if host.missed is None else replace(found, missed=host.missed)


def run(kept: Sequence[HostSteps], params: Params, _after: Mapping[str, Report]) -> Report:
    database = combined(kept)
    rows = [_Rows.of(host, database, place) for place, host in enumerate(kept)]
    found, of_hosts = stragglers(database), host_times(database)
    tables = {
        "steps": _steps(rows),
        "breakdown": _breakdown(rows),
        "step_summary": _summary(rows, database),
        "hosts": _hosts(of_hosts, kept),
        "stragglers": _stragglers(found, kept),
    }
    reason = why_no_steps(kept, database, params.steps_from == MODULES)
    figures = scalars(SCALARS, _values(kept, database, reason))
    notices = [Notice("warning", reason)] if reason else list(_notices(kept, database))
    if worst := verdict(database, of_hosts):
        notices.insert(0, Notice("recommendation", worst))
    notices += [Notice("info", text) for text in on_pairs(database)]
    return Report(NAME, tables, figures, tuple(notices), {}, SessionSteps(kept, database))


# ---- rows


@dataclass(frozen=True, slots=True)
class _Rows:
    """The steps of one host on the cores that took part: place of the step and of the core in its database."""

    host: HostSteps
    step: npt.NDArray[np.intp]
    core: npt.NDArray[np.intp]
    number: Int64s  # of the step in the session, -1: none

    @classmethod
    def of(cls, host: HostSteps, database: StepDatabase, place: int) -> _Rows:
        own = host.database
        step, core = np.nonzero(own.present)
        if len(database.hosts) == 1:
            return cls(host, step, core, own.step[step])
        numbers = dict(zip(database.group[:, place].tolist(), database.step.tolist(), strict=True))
        number = np.array([numbers.get(group, -1) for group in own.step.tolist()], np.int64)
        return cls(host, step, core, number[step])

    def numbers(self, rows: npt.NDArray[np.intp] | slice = slice(None)) -> pa.Array:
        number = self.number[rows]
        return pa.array(number, mask=number < 0)

    def hosts(self) -> pa.Array:
        return texts([self.host.host], np.zeros(len(self.step), np.intp))


def _table(name: str, parts: Iterable[Mapping[str, Any]]) -> pa.Table:
    """The rows of all hosts, in the order of the columns."""
    schema = TABLES[name].arrow()
    tables = []
    for columns in parts:
        arrays = [pa.array(columns[column]) if isinstance(columns[column], np.ndarray) else columns[column]
                  for column in schema.names]  # fmt: skip
        tables.append(pa.Table.from_arrays(arrays, schema=schema))
    return pa.concat_tables(tables).unify_dictionaries().combine_chunks() if tables else schema.empty_table()


def _steps(rows: list[_Rows]) -> pa.Table:
    def columns(one: _Rows) -> dict[str, Any]:
        own, step, core = one.host.database, one.step, one.core
        times = core_breakdown(own)[step, core]
        return {
            "step": one.numbers(),
            "group_id": own.step[step],
            "name": texts(own.label, step),
            "host": one.hosts(),
            "core_name": texts(own.cores.name, core),
            "core_id": own.cores.id[core],
            "sparse_core": own.cores.sparse[core],
            "complete": own.complete[step],
            "start_ps": own.begin_ps[step, core],
            "duration_ps": own.duration_ps[step, core],
            **{f"{category.name}_ps": times[:, place] for place, category in enumerate(CATEGORIES)},
            "host_to_host_ps": own.type_ps[step, core, HOST_TO_HOST],
        }

    return _table("steps", (columns(one) for one in rows))


def _kinds(own: StepDatabase) -> tuple[list[str], Int64s]:
    """The names of kinds of time, and [n, c, kinds]."""
    if not own.is_tpu:
        return list(TYPES), own.type_ps
    times = own.category_ps.copy()
    names = list(own.categories)
    if own.infeed_ps.any():
        times[:, :, 0] -= own.infeed_ps
        times, names = np.concatenate([times, own.infeed_ps[:, :, None]], axis=2), [*names, "infeed"]
    return [*names, "busy"], np.concatenate([times, own.sparse_busy_ps[:, :, None]], axis=2)


def _breakdown(rows: list[_Rows]) -> pa.Table:
    def columns(one: _Rows) -> dict[str, Any]:
        own = one.host.database
        names, times = _kinds(own)
        times = times[one.step, one.core]
        row, kind = np.nonzero(times)
        order = np.lexsort((kind, -times[row, kind], row))
        row, kind = row[order], kind[order]
        step, core, time = one.step[row], one.core[row], times[row, kind]
        duration = own.duration_ps[step, core]
        return {
            "step": one.numbers(row),
            "group_id": own.step[step],
            "host": texts([one.host.host], np.zeros(len(row), np.intp)),
            "core_id": own.cores.id[core],
            "kind": texts(names, kind),
            "time_ps": time,
            "share": pa.array(time / np.maximum(duration, 1), mask=duration <= 0),
        }

    return _table("breakdown", (columns(one) for one in rows))


# ---- summaries


def _summary(rows: list[_Rows], database: StepDatabase) -> pa.Table:
    """First the session, then each core."""
    found: list[dict[str, Any]] = []
    overall = spread(_longest(database))
    if overall is not None:
        found.append({"host": None, "core_id": None, "quantity": "step_time", **overall})
    for one in rows:
        own = one.host.database
        times = core_breakdown(own)
        for core in range(len(own.cores)):
            counts = own.present[:, core] & own.complete
            quantities = {"step_time": own.duration_ps[counts, core]}
            for place, category in enumerate(CATEGORIES):
                if times[counts, core, place].any():
                    quantities[category.name] = times[counts, core, place]
            for quantity, values in quantities.items():
                summary = spread(values)
                if summary is not None:
                    core_id = int(own.cores.id[core])
                    found.append({"host": one.host.host, "core_id": core_id, "quantity": quantity, **summary})
    return pa.Table.from_pylist(found, TABLES["step_summary"].arrow())


def _longest(database: StepDatabase) -> Int64s:
    """Of each complete step, the time on the core that took longest."""
    cores = database.present & ~database.cores.sparse
    some = cores.any(axis=1) & database.complete
    longest: Int64s = np.where(cores, database.duration_ps, 0).max(axis=1, initial=0)[some]
    return longest


def _hosts(found: Sequence[HostTime], kept: Sequence[HostSteps]) -> pa.Table:
    def row(one: HostTime) -> dict[str, Any]:
        summary = spread(one.times_ps) or {}
        count = max(one.compared, 1)
        return {
            "host": kept[one.place].host,
            "hostname": kept[one.place].hostname,
            "core_count": one.core_count,
            "step_count": len(one.times_ps),
            **{name: summary[name] for name in ("mean_ps", "p50_ps", "p99_ps", "max_ps")},
            "compared_count": one.compared,
            "slowest_count": one.slowest,
            "excess_ps": None if one.excess_ps is None else one.excess_ps / count,
            "excess_share": one.excess_share,
            "category": one.category,
            "category_excess_ps": None if one.category_excess_ps is None else one.category_excess_ps / count,
        }

    return pa.Table.from_pylist([row(one) for one in found], TABLES["hosts"].arrow())


def _stragglers(found: Stragglers, kept: Sequence[HostSteps]) -> pa.Table:
    names = [host.host for host in kept]
    labels = [*(category.name for category in CATEGORIES), None]  # the last for -1
    return _table("stragglers", [{
        "step": found.step,
        "host": texts(names, found.host),
        "core_name": texts(found.core_names, np.arange(len(found.step))),
        "core_id": found.core_id,
        "core_count": found.core_count,
        "duration_ps": found.duration_ps,
        "median_ps": found.median_ps,
        "excess_ps": found.duration_ps - found.median_ps,
        "excess_share": pa.array(
            (found.duration_ps - found.median_ps) / np.maximum(found.median_ps, 1), mask=found.median_ps <= 0
        ),
        "category": texts(labels, found.category),
        "category_excess_ps": found.category_excess_ps,
    }])  # fmt: skip


def _values(
    kept: Sequence[HostSteps], database: StepDatabase, reason: str | None
) -> dict[str, Value | tuple[None, str]]:
    longest = _longest(database)
    summary = spread(longest)
    unknown = (None, reason or "no core took part in a complete step")
    values: dict[str, Value | tuple[None, str]] = {
        "step_count": len(database),
        "incomplete_step_count": int((~database.complete).sum()),
        "host_count": sum(1 for host in kept if len(host.database)),
        "core_count": int(database.present.any(axis=0).sum()),
        "module_execution_count": sum(host.module_executions for host in kept),
    }
    for name in SCALARS:
        if name.startswith("step_time_"):
            value = None if summary is None else summary[name.removeprefix("step_time_")]
            values[name] = unknown if summary is None else (None, "a single step has none") if value is None else value
    return values


def _notices(kept: Sequence[HostSteps], database: StepDatabase) -> Iterable[Notice]:
    unfit = sum(host.unfit for host in kept)
    if unfit:
        markers = "1 step marker is" if unfit == 1 else f"{unfit:,} step markers are"
        yield Notice("info", f"{markers} left out: nothing was computed in the step, or not on every core")
    outside, runs = sum(host.outside for host in kept), sum(host.module_executions for host in kept)
    if 2 * outside > runs:
        yield Notice(
            "warning",
            f"{outside:,} of {runs:,} executions of compiled programs run outside of all steps: the markers enclose "
            "what starts them, not the work. --steps-from modules makes each execution a step",
        )
    alone = sum(len(host.database) for host in kept) - int((database.group >= 0).sum())
    if alone:
        steps = "1 step is" if alone == 1 else f"{alone:,} steps are"
        yield Notice("info", f"{steps} not on all hosts, and so without a number")
