"""The tables of the analysis annotations: by name, by name and step, and scopes that only names of ops have."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from fastprof.derive.causes.annotation_times import NO_STEP, UNKNOWN, AnnotationTimes, HostAnnotations
from fastprof.derive.causes.device_kinds import KINDS
from fastprof.derive.causes.gpu_annotations import TABLE as _ON_GPUS
from fastprof.derive.causes.run_window import IN_WORDS
from fastprof.derive.ops.tree.scope_trees import UNSCOPED
from fastprof.derive.steps.across_hosts import session_steps
from fastprof.derive.steps.database import StepDatabase
from fastprof.schema.array_types import Bools, Int64s
from fastprof.schema.column_kinds import Count, Picoseconds, Share, String, Text
from fastprof.schema.tables import Column, TableSchema
from fastprof.schema.value_classes import dataclass

_NO_DEVICE: Final = "null: no device of the host ran anything"


@dataclass(frozen=True, slots=True)
class Rows:
    """Of a host. ``step``: by row, NO_STEP: none."""

    host: HostAnnotations
    times: AnnotationTimes
    step: Int64s

    def __len__(self) -> int:
        return len(self.times.name)

    @property
    def idle_ps(self) -> Int64s:
        idle: Int64s = self.times.elapsed_ps * self.host.devices - self.times.device_ps.sum(axis=1)
        return idle

    @property
    def no_devices(self) -> Bools:
        return np.full(len(self), self.host.devices == 0)

    def lacks(self, kind: int) -> Bools:
        """Whether nothing would show that devices do this: none ran anything, or threads are the device and record none
        of it."""
        on_threads = self.host.on_threads and not self.host.whole.device_ps[:, kind].any()
        return self.no_devices | (on_threads and KINDS[kind] != "compute")


def _of(name: str) -> Any:
    return lambda rows: getattr(rows.times, name)


def _kind(kind: str) -> Column:
    number = KINDS.index(kind)
    what = "communicate, or wait for it" if kind == "communication" else f"{kind}"
    of_threads = "" if kind == "compute" else ", or threads stand for the device and record none of it"
    return Picoseconds(
        f"device_{kind}_ps",
        f"part of elapsed_ps in which devices {what}, summed over devices; {_NO_DEVICE}{of_threads}",
        lambda rows: rows.times.device_ps[:, number],
        lambda rows: rows.lacks(number),
    )


def _share_of_run(rows: Rows) -> Any:
    return rows.times.run_ps / max(rows.host.window_ps, 1)


def _hidden(rows: Rows) -> Any:
    return rows.times.device_ps[:, 0] / np.maximum(rows.times.elapsed_ps * rows.host.devices, 1)


_HOST: Final = Text("host", "host of the threads", lambda rows: [rows.host.host] * len(rows))
_NAME: Final = Text(
    "name", "name of the annotation", lambda rows: [rows.host.names[one] for one in rows.times.name.tolist()]
)
_TIMES: Final = (
    Count("threads", "threads on which it occurs", _of("threads")),
    Count("count", "how often it occurs", _of("count")),
    Picoseconds("total_ps", "time during which it lasts, summed over threads; one within one of its name counts once",
                _of("total_ps")),
    Picoseconds("self_ps", "sum of its durations less annotations in it", _of("self_ps")),
    Share("share", f"part of elapsed_ps in the run of the host / its duration: {IN_WORDS}", _share_of_run),
    Picoseconds("mean_ps", "mean duration, rounded down", lambda rows: rows.times.sum_ps // rows.times.count),
    Picoseconds("min_ps", "shortest duration", _of("min_ps")),
    Picoseconds("max_ps", "longest duration", _of("max_ps")),
    Picoseconds("stdev_ps", "standard deviation (sample) of its durations, rounded down; null: it occurs once",
                _of("stdev_ps"), lambda rows: rows.times.stdev_ps == UNKNOWN),
    Picoseconds("elapsed_ps", "time during which it lasts on any thread", _of("elapsed_ps")),
    *(_kind(kind) for kind in KINDS),
    Picoseconds("device_idle_ps", f"elapsed_ps * devices of the host less these three; {_NO_DEVICE}",
                lambda rows: rows.idle_ps, lambda rows: rows.no_devices),
    Share("hidden_share", "part of elapsed_ps in which devices compute meanwhile, mean over devices; null: no device "
          "of the host ran anything, or it takes no time", _hidden,
          lambda rows: rows.no_devices | (rows.times.elapsed_ps == 0)),
)  # fmt: skip
_ANNOTATIONS = TableSchema(
    "annotations", "an annotation of a host, longest first", (_HOST, _NAME, *_TIMES), derived=True
)
_STEPS = TableSchema(
    "steps",
    "an annotation of a host in a step, in order of steps and of their first event in it",
    (
        _HOST,
        Count("step", "number of the step; null: it is in none", lambda rows: rows.step,
              lambda rows: rows.step == NO_STEP),
        _NAME,
        *_TIMES,
    ),
    derived=True,
)  # fmt: skip
_SCOPES = TableSchema(
    "scopes",
    "a scope of the program, in the names of its ops: a node of a tree in preorder, largest first",
    (
        Count("node", "number of the row"),
        Count("parent", "node of the scope around it; null: none is"),
        Count("depth", "scopes around it"),
        Text("name", "name of the scope"),
        String("path", "names of the scopes around it and its own"),
        Count("ops", "different ops in it"),
        Count("occurrences", "how often these ran"),
        Picoseconds("device_ps", "self time of these ops on all devices"),
        Share("share", "device_ps / self time of all ops"),
    ),
    derived=True,
)
TABLES: Final = {one.name: one for one in (_ANNOTATIONS, _STEPS, _ON_GPUS, _SCOPES)}


def annotations_table(hosts: Sequence[HostAnnotations]) -> pa.Table:
    parts = []
    for host in hosts:
        order = np.lexsort((host.whole.first_ps, -host.whole.total_ps))
        whole = _taken(host.whole, order)
        parts.append(Rows(host, whole, np.full(len(order), NO_STEP, np.int64)))
    return _ANNOTATIONS.of_parts(parts)


def steps_table(hosts: Sequence[HostAnnotations], database: StepDatabase) -> pa.Table:
    return _STEPS.of_parts(_by_step(hosts, database))


def _by_step(hosts: Sequence[HostAnnotations], database: StepDatabase) -> Iterator[Rows]:
    for place, host in enumerate(hosts):
        step = session_steps(database, place, host.by_step.group)
        order = np.lexsort((host.by_step.first_ps, step, step == NO_STEP))
        yield Rows(host, _taken(host.by_step, order), database.numbers_of(step[order]))


def _taken(times: AnnotationTimes, order: Int64s) -> AnnotationTimes:
    return AnnotationTimes(*(getattr(times, name)[order] for name in AnnotationTimes.__slots__))


def scopes_table(scopes: pa.Table) -> pa.Table:
    """From the table of that name of the op profile: without ops, and without those that have no scope."""
    path = pc.cast(scopes["path"], pa.string())
    inside = pc.and_(pc.greater(scopes["children"], 0), pc.greater(scopes["depth"], 0))
    keep = np.asarray(pc.and_(inside, pc.invert(pc.starts_with(path, UNSCOPED))))
    chosen = np.flatnonzero(keep)
    number = np.cumsum(keep) - 1
    above = np.asarray(pc.fill_null(scopes["parent"], 0))[chosen]
    top = np.asarray(scopes["depth"])[chosen] == 1
    own = scopes.take(chosen)
    total = int(scopes["self_ps"][0].as_py() or 0) if scopes.num_rows else 0
    device = np.asarray(pc.fill_null(own["self_ps"], 0))
    columns = {
        "node": pa.array(np.arange(len(chosen))),
        "parent": pa.array(number[above], pa.int64(), mask=top),
        "depth": pa.array(np.asarray(own["depth"]).astype(np.int64) - 1),
        "name": own["name"],
        "path": pc.cast(own["path"], pa.string()),
        "ops": own["ops"],
        "occurrences": own["occurrences"],
        "device_ps": own["self_ps"],
        "share": pa.array(device / max(total, 1)),
    }
    return pa.table({name: columns[name] for name in _SCOPES.names()}).cast(_SCOPES.arrow())
