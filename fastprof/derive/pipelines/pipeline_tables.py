"""The tables of the analysis tf_data, of all hosts together."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from fastprof.derive.pipelines.pipeline_schemas import TABLES
from fastprof.derive.pipelines.pipeline_sums import (
    Bottlenecks,
    CallSums,
    IteratorSums,
    alike,
    bottlenecks,
    call_sums,
    iterator_sums,
)
from fastprof.derive.pipelines.reading import FILE_READ, GENERATOR, PARTS, Reading, Value
from fastprof.derive.pipelines.stages import recorded_numbers
from fastprof.derive.pipelines.step_waits import Steps, StepWaits, outside, step_waits
from fastprof.derive.pipelines.subtrees import rows_of
from fastprof.derive.pipelines.suggestions import Helps, is_true, suggestion
from fastprof.derive.pipelines.what_if import PARALLEL, TWICE, WhatIf, what_if, worded
from fastprof.schema.arrow_columns import texts, typed

Columns = Mapping[str, Any]
_PS_PER_US = 1_000_000
_MOST = 2**63 - 1


@dataclass(frozen=True)
class HostPipelines:
    """The pipelines of one host, and what is reckoned of them. ``slow_us``, ``parallel``: as the analysis was asked."""

    host: str
    reading: Reading
    steps: Steps
    slow_us: int
    parallel: int

    @cached_property
    def calls(self) -> CallSums:
        return call_sums(self.reading.pipelines, self.reading.calls, self.slow_us * _PS_PER_US)

    @cached_property
    def sums(self) -> IteratorSums:
        return iterator_sums(self.reading)

    @cached_property
    def bottlenecks(self) -> Bottlenecks:
        return bottlenecks(self.reading, self.sums)

    @cached_property
    def what_if(self) -> WhatIf:
        return what_if(self.reading, self.calls, self.sums, self.parallel)

    @cached_property
    def waits(self) -> StepWaits:
        return step_waits(self.reading.calls, self.steps)

    @cached_property
    def ids(self) -> list[str]:
        """Of each iterator, in decimal."""
        return [self.reading.iterators.shown_id(number) for number in range(len(self.reading.iterators))]

    @cached_property
    def suggestions(self) -> list[str | None]:
        """What to do about the bottleneck of each pipeline; None: it has none."""
        reading, tree, iterators = self.reading, self.reading.tree, self.reading.iterators
        parts, known, helps = reading.parts, iterators.attributes, _Helps(self)
        read = parts.part == FILE_READ
        reading_ps = np.zeros(len(tree.iterator) + 1, np.int64)
        reading_ps[rows_of(tree, parts.pipeline[read], parts.iterator[read])] = parts.time_ps[read]
        found: list[str | None] = []
        for row in self.bottlenecks.of_pipeline.tolist():
            if row < 0:
                found.append(None)
                continue
            number = int(tree.iterator[row])
            found.append(suggestion(
                iterators.name[number],
                iterators.long_name[number],
                {name: known[name][number] for name in ("parallelism", "autotune") if name in known},
                to_device=iterators.kind[number] == GENERATOR,
                reading=int(reading_ps[row]) / int(self.sums.critical_ps[row]),
                helps=helps(row),
            ))  # fmt: skip
        return found

    @cached_property
    def outside(self) -> npt.NDArray[np.bool_]:
        """Of each call, whether it runs outside of all steps."""
        return outside(self.reading.calls, self.steps)


class _Helps:
    """Whether changes make batches faster: of iterators, those like each of them together, and of pipelines."""

    def __init__(self, host: HostPipelines) -> None:
        found, tree = host.what_if, host.reading.tree
        self._like, self._pipeline = alike(host.reading), tree.pipeline
        known, several = found.then_ps >= 0, found.change == PARALLEL
        row = self._like[found.tree_row]
        self._of = {
            name: [np.bincount(of[some], minlength=len(self._like)) for some in (known & which, found.helps & which)]
            for name, of, which in (
                ("faster", row, found.change == TWICE),
                ("several", row, several),
                ("any_change", self._pipeline[found.tree_row], found.change >= 0),
            )
        }
        self._cores = np.zeros(len(self._like), np.int64)
        bound = known & several & (found.least_ps < found.then_ps)
        self._cores[row[bound]] = found.cores[bound]

    def __call__(self, row: int) -> Helps:
        place = {"faster": self._like[row], "several": self._like[row], "any_change": self._pipeline[row]}
        helpful: dict[str, bool | None] = {}
        for name, (known, helps) in self._of.items():
            helpful[name] = bool(helps[place[name]]) if known[place[name]] else None
        return Helps(**helpful, cores=int(self._cores[self._like[row]]))


def tables(hosts: Sequence[HostPipelines]) -> dict[str, pa.Table]:
    """All of TABLES."""
    found = {name: _table(name, [columns(host) for host in hosts]) for name, columns in _COLUMNS.items()}
    order = np.argsort(-np.asarray(found["bottlenecks"]["total_ps"]), kind="stable")
    found["bottlenecks"] = found["bottlenecks"].take(pa.array(order))
    if len(hosts) > 1:
        saved = found["what_if"]["saved_ps"].fill_null(-1)
        found["what_if"] = found["what_if"].take(pa.array(np.argsort(-np.asarray(saved), kind="stable")))
    return {name: found[name] for name in TABLES}


def _table(name: str, parts: Sequence[Columns]) -> pa.Table:
    schema = TABLES[name].arrow()
    made = []
    for columns in parts:
        arrays = [typed(columns[field.name], field.type) for field in schema]
        if arrays and len(arrays[0]):
            made.append(pa.Table.from_arrays(arrays, schema=schema))
    return pa.concat_tables(made).unify_dictionaries().combine_chunks() if made else schema.empty_table()


# ---- columns


def _of_host(host: HostPipelines, pipeline: npt.NDArray[Any]) -> dict[str, Any]:
    """Host and pipeline of each row."""
    return {
        "host": texts([host.host], np.zeros(len(pipeline), np.int64)),
        "pipeline": texts(host.reading.pipelines.name, pipeline),
    }


def _iterators(host: HostPipelines, numbers: npt.NDArray[Any], *names: str) -> dict[str, Any]:
    """Columns of these ``names`` of iterators, -1: null."""
    iterators = host.reading.iterators
    ids: list[str | None] = [*host.ids, None]
    of = {"iterator_id": ids, "parent_id": ids, "name": [*iterators.name, None]}
    of |= {"long_name": [*iterators.long_name, None], "root_id": ids}
    of |= {f"bottleneck_{name}": of[column] for name, column in
           (("id", "iterator_id"), ("name", "name"), ("long_name", "long_name"))}  # fmt: skip
    return {name: texts(of[name], numbers) for name in names}


def _pipelines(host: HostPipelines) -> Columns:
    reading, calls = host.reading, host.calls
    pipelines, rows = reading.pipelines, host.bottlenecks.of_pipeline
    none = rows < 0
    critical = host.bottlenecks.critical_ps
    of_roots = {name: recorded_numbers(reading, name)[pipelines.root] for name in ("cpu_budget", "threadpool_size")}
    return {
        **_of_host(host, np.arange(len(pipelines))),
        "kind": texts(["host", "device"], pipelines.is_device.astype(np.int64)),
        **_iterators(host, pipelines.root, "root_id"),
        "name": _iterators(host, pipelines.root, "long_name")["long_name"],
        "call_count": calls.count,
        "slow_call_count": calls.slow,
        "min_ps": calls.least_ps,
        "mean_ps": calls.total_ps // np.maximum(calls.count, 1),
        **{f"p{percent}_ps": times for percent, times in calls.percentiles_ps.items()},
        "max_ps": calls.most_ps,
        "total_ps": calls.total_ps,
        "between_calls_ps": calls.between_ps,
        **{name: pa.array(values, mask=values == 0) for name, values in of_roots.items()},
        **_iterators(host, np.append(reading.tree.iterator, -1)[rows], "bottleneck_id", "bottleneck_name",
                     "bottleneck_long_name"),
        "bottleneck_ps": pa.array(critical // np.maximum(calls.count, 1), mask=none),
        "bottleneck_share": pa.array(critical / np.maximum(calls.total_ps, 1), mask=none),
        "bottleneck_call_count": host.bottlenecks.calls,
    }  # fmt: skip


def _iterator_columns(host: HostPipelines) -> Columns:
    reading, sums, tree = host.reading, host.sums, host.reading.tree
    iterators, numbers = reading.iterators, reading.tree.iterator
    total = host.calls.total_ps[tree.pipeline]
    is_bottleneck = np.zeros(len(numbers), np.bool_)
    is_bottleneck[host.bottlenecks.of_pipeline[host.bottlenecks.of_pipeline >= 0]] = True
    numeric = {name: _recorded(values, convert) for name, convert in _ATTRIBUTES.items()
            if (values := _attribute(iterators.attributes, name)) is not None}  # fmt: skip
    return {
        **_of_host(host, tree.pipeline),
        "depth": tree.depth,
        **_iterators(host, numbers, "iterator_id", "name", "long_name"),
        **_iterators(host, tree.parent, "parent_id"),
        "is_async": iterators.is_async[numbers],
        "call_count": sums.count,
        "total_ps": sums.total_ps,
        "self_ps": sums.self_ps,
        "critical_ps": sums.critical_ps,
        "critical_share": pa.array(sums.critical_ps / np.maximum(total, 1), mask=total <= 0),
        "is_blocking": sums.blocking,
        "is_bottleneck": is_bottleneck,
        "event_count": iterators.event_count[numbers],
        "event_self_ps": iterators.event_self_ps[numbers],
        "function_ps": iterators.event_function_ps[numbers],
        **{name: numeric[name].take(pa.array(numbers)) if name in numeric else pa.nulls(len(numbers))
           for name in _ATTRIBUTES},
    }  # fmt: skip


def _whole(value: Value) -> int | None:
    return value if isinstance(value, int) and 0 <= value <= _MOST else None


_ATTRIBUTES: Mapping[str, Callable[[Value], int | None]] = {
    "parallelism": _whole,
    "buffer_size": _whole,
    "autotune": is_true,
    "deterministic": is_true,
    "cycle_length": _whole,
    "batch_size": _whole,
}


def _attribute(attributes: Mapping[str, list[Value]], name: str) -> list[Value] | None:
    """A prefetch calls the size of its buffer its limit."""
    values = attributes.get(name)
    limit = attributes.get("buffer_limit") if name == "buffer_size" else None
    if values is None or limit is None:
        return values or limit
    return [one if two is None else two for one, two in zip(values, limit, strict=True)]


def _recorded(values: Sequence[Value], convert: Callable[[Value], int | None]) -> pa.Array:
    kind = pa.bool_() if convert is is_true else pa.int64()
    return pa.array([None if value is None else convert(value) for value in values], kind)


def _critical_path(host: HostPipelines) -> Columns:
    segments = host.reading.segments
    return {
        **_of_host(host, segments.pipeline),
        **_iterators(host, segments.iterator, "iterator_id", "name"),
        "start_ps": segments.start_ps,
        "duration_ps": segments.duration_ps,
    }


def _bottlenecks(host: HostPipelines) -> Columns:
    pipelines = np.flatnonzero(host.bottlenecks.of_pipeline >= 0)
    rows = host.bottlenecks.of_pipeline[pipelines]
    critical, calls = host.bottlenecks.critical_ps[pipelines], host.calls
    return {
        **_of_host(host, pipelines),
        **_iterators(host, host.reading.tree.iterator[rows], "iterator_id", "name", "long_name"),
        "critical_ps": critical // np.maximum(calls.count[pipelines], 1),
        "critical_share": critical / np.maximum(calls.total_ps[pipelines], 1),
        "total_ps": calls.total_ps[pipelines],
        "max_call_ps": calls.most_ps[pipelines],
        "suggestion": texts(host.suggestions, pipelines),
    }


def _self_time(host: HostPipelines) -> Columns:
    parts, tree = host.reading.parts, host.reading.tree
    rows = rows_of(tree, parts.pipeline, parts.iterator)
    whole = np.append(host.sums.critical_ps, 0)[rows]
    order = np.lexsort((parts.part, -parts.time_ps, rows, -whole, parts.pipeline))
    whole, time = whole[order], parts.time_ps[order]
    return {
        **_of_host(host, parts.pipeline[order]),
        **_iterators(host, parts.iterator[order], "iterator_id", "name"),
        "part": texts(PARTS, parts.part[order].astype(np.int64)),
        "time_ps": time,
        "share": pa.array(time / np.maximum(whole, 1), mask=whole <= 0),
    }


def _step_waits(host: HostPipelines) -> Columns:
    waits, steps = host.waits, host.steps
    duration = steps.duration_ps[waits.step]
    return {
        **_of_host(host, waits.pipeline),
        "step": steps.group[waits.step],
        "step_name": texts(steps.label, waits.step),
        "call_count": waits.count,
        "wait_ps": waits.wait_ps,
        "wait_share": pa.array(waits.wait_ps / np.maximum(duration, 1), mask=duration <= 0),
        "ahead_ps": pa.array(waits.ahead_ps, mask=waits.ahead_ps < 0),
        "step_ps": duration,
    }


def _what_if(host: HostPipelines) -> Columns:
    found, tree = host.what_if, host.reading.tree
    none = found.then_ps < 0
    changes = ["twice as fast", "prefetched", f"parallel by {host.parallel:,}"]
    return {
        **_of_host(host, tree.pipeline[found.tree_row]),
        **_iterators(host, tree.iterator[found.tree_row], "iterator_id", "name"),
        "change": texts(changes, found.change),
        "now_ps": pa.array(found.now_ps, mask=found.now_ps < 0),
        "then_ps": pa.array(found.then_ps, mask=none),
        "least_then_ps": pa.array(found.least_ps, mask=none),
        "saved_ps": pa.array(found.now_ps - found.then_ps, mask=none),
        "speedup": pa.array(found.now_ps / np.maximum(found.then_ps, 1), mask=found.then_ps <= 0),
        "iterator_count": found.alike,
        "assumption": texts(*worded(found, host.parallel)),
    }


def _calls(host: HostPipelines) -> Columns:
    reading, calls, steps = host.reading, host.reading.calls, host.steps
    rows = host.bottlenecks.of_call
    place = np.searchsorted(steps.group, calls.group_id)
    of_step = np.append(steps.group, -1)[place] == calls.group_id
    critical = np.append(reading.records.critical_ps, 0)[rows]
    return {
        **_of_host(host, calls.pipeline),
        "rank": np.arange(len(calls)) - reading.pipelines.first[calls.pipeline],
        "step": pa.array(calls.group_id.astype(np.int64), mask=~of_step | (calls.group_id < 0)),
        "start_ps": calls.start_ps,
        "duration_ps": calls.duration_ps,
        "is_slow": calls.duration_ps > host.slow_us * _PS_PER_US,
        **_iterators(host, np.append(reading.records.iterator, -1)[rows], "bottleneck_id", "bottleneck_name"),
        "bottleneck_ps": pa.array(critical, mask=rows < 0),
    }


def _call_iterators(host: HostPipelines) -> Columns:
    reading, records, calls = host.reading, host.reading.records, host.reading.calls
    pipeline = calls.pipeline[records.call]
    is_bottleneck = np.zeros(len(records), np.bool_)
    is_bottleneck[host.bottlenecks.of_call[host.bottlenecks.of_call >= 0]] = True
    return {
        **_of_host(host, pipeline),
        "rank": records.call - reading.pipelines.first[pipeline],
        **_iterators(host, records.iterator, "iterator_id", "name"),
        "start_ps": records.start_ps,
        "total_ps": records.total_ps,
        "self_ps": records.self_ps,
        "critical_ps": records.critical_ps,
        "call_count": records.count.astype(np.int64),
        "is_blocking": records.is_blocking,
        "is_bottleneck": is_bottleneck,
    }


_COLUMNS: Mapping[str, Callable[[HostPipelines], Columns]] = {
    "pipelines": _pipelines,
    "iterators": _iterator_columns,
    "critical_path": _critical_path,
    "bottlenecks": _bottlenecks,
    "self_time": _self_time,
    "step_waits": _step_waits,
    "what_if": _what_if,
    "calls": _calls,
    "call_iterators": _call_iterators,
}
