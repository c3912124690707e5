"""Each step on each core of all hosts: what it spent its time on, and its bottleneck.

Steps are those that all hosts have; the analysis ``steps`` also has those of single hosts.
Definitions: docs/analyses/pod-viewer.md.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from fastprof.analyses.contract import Needs, Notice, Report, ScalarSpec, Section, Value, has_rows, scalars
from fastprof.derive.devices import run_environment
from fastprof.derive.devices.devices import device_name
from fastprof.derive.devices.run_environment import CPU, HostEnvironment
from fastprof.derive.ops.tables import sums_by
from fastprof.derive.steps.across_hosts import SessionSteps
from fastprof.derive.steps.database import StepDatabase
from fastprof.derive.steps.remarks import on_pairs
from fastprof.derive.steps.step_figures import COLLECTIVES, core_breakdown
from fastprof.derive.steps.time_types import CATEGORIES
from fastprof.schema.arrow_columns import texts
from fastprof.schema.tables import TEXT, Column, TableSchema

if TYPE_CHECKING:
    from fastprof.derive.host import Host

NAME = "pod_viewer"
READS = Needs()
AFTER = ("steps",)


@dataclass(frozen=True, slots=True)
class Params:
    """There are none."""


_HOST = Column("host", TEXT, "host of the core, as the capture's file is named")
_CORE = Column("core_name", TEXT, "core as host:ordinal; the host alone where it has no TPUs, or does not say")
_CORE_ID = Column("core_id", pa.int64(), "id of the core on its host; 1 stands for a host without TPUs and its GPUs")
_STEP = Column("step", pa.int64(), "number of the step, as in the analysis steps")
TABLES = {
    "cores": TableSchema("cores", "a step on a core that took part in it", (
        _STEP,
        _HOST,
        _CORE,
        _CORE_ID,
        Column("hostname", TEXT, "host, as the capture calls it"),
        Column("pod_core_id", pa.int64(), "core_id, for the host of number i of several with 1000 times i added: as "
               "XProf numbers cores"),
        Column("sparse_core", pa.bool_(), "the core is a SparseCore"),
        Column("complete", pa.bool_(), "the step is not cut off, as far as is known"),
        Column("start_ps", pa.int64(), "begin of the step, from the start of the host's capture", unit="ps"),
        Column("duration_ps", pa.int64(), "time of the step", unit="ps"),
        Column("bottleneck", TEXT, "category of the most time; of equals the first in the order of the columns"),
        Column("bottleneck_share", pa.float64(), "its time / duration_ps, or / the sum of all categories where that is "
               "longer, as where ops overlap; null: duration_ps is 0", True, "share"),
        *(
            Column(f"{category.name}_ps", pa.int64(), f"time of the category {category.label}; see the analysis steps",
                   unit="ps")
            for category in CATEGORIES
        ),
    ), derived=True),
    "collectives": TableSchema("collectives", "a collective operation of several cores, in a step", (
        _STEP,
        Column("collective_id", pa.int64(), "all_reduce_unique_id, uint64 as two's complement: the same on all cores "
               "that take part; on GPUs, which do not record it, 0 for all of a step"),
        Column("core_count", pa.int64(), "cores, or GPUs, that took part"),
        Column("occurrences", pa.int64(), "events of them together"),
        Column("moved_bytes", pa.int64(), "bytes_accessed of its ops, over all cores; 0: not recorded", unit="bytes"),
        Column("fastest_ps", pa.int64(), "shortest event: what the operation itself takes", unit="ps"),
        Column("slowest_ps", pa.int64(), "longest event", unit="ps"),
        Column("wait_ps", pa.int64(), "time of all events beyond the shortest one: waiting for the slowest core; null: "
               "on GPUs, which do not record what belongs together", True, "ps"),
    ), derived=True),
}  # fmt: skip
SCALARS = {
    "step_count": ScalarSpec(None, "steps that all hosts have in common, incomplete ones too"),
    "host_count": ScalarSpec(None, "captures, those of hosts that only coordinate too"),
    "core_count": ScalarSpec(None, "cores of the steps; of a host without TPUs all devices together are one"),
    "device_type": ScalarSpec(None, "model of the devices; CPU: there are none"),
    "slowest_core_step_ps": ScalarSpec("ps", "time of the longest step on any core"),
    "collective_wait_ps": ScalarSpec("ps", "sum of wait_ps of collectives"),
}
SECTIONS = (
    Section("Pod", scalars=tuple(SCALARS)),
    Section("Steps by core", "cores", ("step", "core_name", "duration_ps", "device_compute_ps", "device_collectives_ps",
            "input_ps", "all_others_ps", "bottleneck", "bottleneck_share"), "bottleneck_share", 32),
    Section("Collective operations", "collectives", ("step", "collective_id", "core_count", "occurrences",
            "moved_bytes", "fastest_ps", "slowest_ps", "wait_ps"), rows=10, shown=has_rows("collectives")),
)  # fmt: skip


def of_host(host: Host, _params: Params) -> HostEnvironment:
    devices = host.raw.planes_of(host.hardware) if host.hardware != "CPU_ONLY" else []
    return HostEnvironment(
        host.name,
        host.hostname,
        host.hardware,
        device_name(devices[0]) if devices else CPU,
        len(devices),
        tuple(host.raw.errors),
        tuple(host.raw.warnings),
    )


def run(kept: Sequence[HostEnvironment], _params: Params, after: Mapping[str, Report]) -> Report:
    steps = after["steps"]
    database = steps.detail_as(SessionSteps).database
    environment = run_environment.combined(kept)
    tables = {"cores": _cores(database), "collectives": _collectives(database)}
    slowest = int(database.duration_ps.max(initial=0))
    none = "no steps: " + next((notice.text for notice in steps.notices), "none were found")
    values: dict[str, Value | tuple[None, str]] = {
        "step_count": len(database),
        "host_count": len(kept),
        "core_count": len(database.cores),
        "device_type": environment.device_type,
        "slowest_core_step_ps": slowest if database.present.any() else (None, none),
        "collective_wait_ps": _wait(database, tables["collectives"]) if len(database) else (None, none),
    }
    notices = steps.notices if not len(database) else tuple(Notice("info", text) for text in on_pairs(database))
    return Report(NAME, tables, scalars(SCALARS, values), notices, after, environment)


def _cores(database: StepDatabase) -> pa.Table:
    row, core = np.nonzero(database.present)
    times = core_breakdown(database)[row, core]
    duration = database.duration_ps[row, core]
    most = times.argmax(axis=1) if len(row) else row
    with np.errstate(divide="ignore", invalid="ignore"):
        share = times[np.arange(len(row)), most] / np.maximum(duration, np.maximum(times, 0).sum(axis=1))
    columns = {
        "step": database.step[row],
        "host": texts(database.hosts, database.cores.host_number[core]),
        "core_name": texts(database.cores.name, core),
        "core_id": database.cores.local_id[core],
        "hostname": texts(database.cores.host, core),
        "pod_core_id": database.cores.id[core],
        "sparse_core": database.cores.sparse[core],
        "complete": database.complete[row],
        "start_ps": database.begin_ps[row, core],
        "duration_ps": duration,
        "bottleneck": texts([category.label for category in CATEGORIES], most),
        "bottleneck_share": pa.array(share, mask=duration <= 0),
    }
    columns |= {f"{category.name}_ps": times[:, place] for place, category in enumerate(CATEGORIES)}
    schema = TABLES["cores"].arrow()
    return pa.Table.from_arrays([_array(columns[name]) for name in schema.names], schema=schema)


def _array(values: object) -> pa.Array:
    return values if isinstance(values, pa.Array) else pa.array(values)


def _wait(database: StepDatabase, collectives: pa.Table) -> int | tuple[None, str]:
    if not database.is_tpu:
        return None, "only TPUs record which events are one collective operation"
    if not len(collectives) and core_breakdown(database)[:, :, COLLECTIVES].any():
        return None, "the collective operations of the capture have no ids (all_reduce_unique_id)"
    waits: list[int] = collectives["wait_ps"].to_pylist()
    return sum(waits)


def _collectives(database: StepDatabase) -> pa.Table:
    """By step and id, in the order of their first event."""
    every, step = database.collectives, database.step
    schema = TABLES["collectives"].arrow()
    if not len(every):
        return schema.empty_table()
    keys, first, place = np.unique(
        np.stack([every.step, every.unique_id], axis=1), axis=0, return_index=True, return_inverse=True
    )
    place, count = place.reshape(-1), len(keys)
    duration = np.maximum(every.end_ps - every.begin_ps, 0)
    fastest, slowest = np.full(count, np.iinfo(np.int64).max), np.zeros(count, np.int64)
    np.minimum.at(fastest, place, duration)
    np.maximum.at(slowest, place, duration)
    moved = sums_by(place, every.bytes, count, "the bytes of collective operations")
    total = sums_by(place, duration, count, "the durations of collective operations")
    occurrences = np.bincount(place, minlength=count)
    cores = np.unique(np.stack([place, every.core_id], axis=1), axis=0)[:, 0]
    begin = np.full(count, np.iinfo(np.int64).max)
    np.minimum.at(begin, place, every.begin_ps)
    order = np.lexsort((first, begin, keys[:, 0]))
    columns = {
        "step": step[keys[:, 0]],
        "collective_id": keys[:, 1],
        "core_count": np.bincount(cores, minlength=count),
        "occurrences": occurrences,
        "moved_bytes": moved,
        "fastest_ps": fastest,
        "slowest_ps": slowest,
    }
    arrays = [pa.array(column[order]) for column in columns.values()]
    known = np.full(count, database.is_tpu)
    arrays.append(pa.array((total - occurrences * fastest)[order], mask=~known))
    return pa.Table.from_arrays(arrays, schema=schema)
