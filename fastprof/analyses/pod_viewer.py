"""Each step on each core of all hosts: its time by category, and its bottleneck.

Covers only the steps that all hosts have; the analysis 'steps' also covers those of single hosts.
Definitions: docs/analyses/pod-viewer.md.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import SimpleNamespace
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from fastprof.analyses.contract import (
    AnalysisReport,
    Known,
    Notice,
    Opening,
    ScalarSpec,
    Section,
    has_rows,
    make_scalars,
)
from fastprof.derive.devices import run_environment
from fastprof.derive.devices.run_environment import HostEnvironment
from fastprof.derive.steps.step_alignment import SessionSteps, describe_pairing
from fastprof.derive.steps.step_database import OWN_CATEGORIES, StepDatabase
from fastprof.derive.steps.step_figures import (
    CATEGORY_COLUMNS,
    COLLECTIVES,
    CORE_COLUMNS,
    SPAN_COLUMNS,
    STEP_COLUMN,
    UNKNOWN_CATEGORIES,
    StepsOnCores,
    break_down_cores,
)
from fastprof.schema.columns import (
    Float64s,
    Int64s,
    find_least_by,
    find_most_by,
    number_distinct_rows,
    sort_rows,
    sum_by,
)
from fastprof.schema.tables import Bytes, Count, Picoseconds, Share, TableSchema, Text, encode_texts, explain_nulls
from fastprof.schema.value_classes import dataclass
from fastprof.tables.needs import Needs
from fastprof.wording.quantities import STEP_CATEGORIES

if TYPE_CHECKING:
    from fastprof.derive.host import Host

NAME = "pod_viewer"
READS = Needs()
AFTER = ("steps",)


@dataclass(frozen=True, slots=True)
class Params:
    """There are none."""


def _find_largest(rows: StepsOnCores) -> tuple[Int64s, Int64s]:
    """Return the category with the most time in each step on a core, and its time."""
    most = rows.times_ps.argmax(axis=1)
    return most, rows.times_ps[np.arange(len(most)), most]


def _compute_bottleneck_share(rows: StepsOnCores) -> Float64s:
    longest = np.maximum(rows.duration_ps, np.maximum(rows.times_ps, 0).sum(axis=1))
    share: Float64s = _find_largest(rows)[1] / np.maximum(longest, 1)
    return share


_TABLES = (
    TableSchema("cores", "a step on a core that took part in it", (
        STEP_COLUMN,
        Text("name", "step name, such as train 7; if hosts name it differently, that of the first",
             lambda rows: encode_texts(rows.database.label, rows.step)),
        *CORE_COLUMNS,
        Text("hostname", "host, as the capture calls it",
             lambda rows: encode_texts(rows.database.cores.host, rows.core)),
        Count("pod_core_id", "core id, unique across hosts: core_id + 1000 × host number",
              lambda rows: rows.database.cores.id[rows.core]),
        *SPAN_COLUMNS,
        Text("bottleneck", "category with the most time; if tied, the one whose column comes first; "
             "null: device work in the step is not fully recorded",
             lambda rows: encode_texts([*(category.label for category in OWN_CATEGORIES), None],
                                       np.where(rows.lost, -1, _find_largest(rows)[0]))),
        Share("bottleneck_share", "time of bottleneck / duration_ps, or / the sum of all categories if ops overlap "
              "and it is larger; null: duration_ps is 0, or bottleneck is null", _compute_bottleneck_share,
              lambda rows: (rows.duration_ps <= 0) | rows.lost),
        *CATEGORY_COLUMNS,
    ), derived=True),
    TableSchema("collectives", "a collective operation of several cores, in a step", (
        STEP_COLUMN,
        Count("collective_id", "all_reduce_unique_id, uint64 as two's complement, equal on all cores that take part; "
              "on GPUs 0 for all collectives of a step, because it is not recorded"),
        Count("core_count", "number of cores or GPUs that took part"),
        Count("occurrences", "number of events of the collective on all cores or GPUs"),
        Bytes("moved_bytes", "sum of bytes_accessed of its ops on all cores; 0 if not recorded"),
        Picoseconds("fastest_ps", "duration of the shortest event, which is the time of the operation itself"),
        Picoseconds("slowest_ps", "duration of the longest event"),
        Picoseconds("wait_ps", "time of all events beyond fastest_ps, summed: the wait for the slowest core; null: "
                    "the device is a GPU, which does not record which events belong together",
                    null=lambda rows: np.full(len(rows.wait_ps), not rows.database.is_tpu)),
    ), derived=True),
)  # fmt: skip
TABLES = {table.name: table for table in _TABLES}
SCALARS = {
    "step_count": ScalarSpec(None, "number of steps that all hosts have in common, complete or not"),
    "host_count": ScalarSpec(None, "number of captures, including those of hosts that only coordinate"),
    "core_count": ScalarSpec(None, "number of cores in steps; the devices of a host without TPUs count as one"),
    "device_type": ScalarSpec(None, "device model; CPU if there are none"),
    "slowest_core_step_ps": ScalarSpec("ps", "duration of the longest step on any core"),
    "collective_wait_ps": ScalarSpec("ps", "sum of wait_ps in the collectives table"),
}
OPENING = Opening(
    (
        "The slowest step on a core takes {slowest_core_step_ps}.",
    ),
    (
        "slowest_core_step_ps", "step_count", "core_count", "host_count", "device_type", "collective_wait_ps",
    ),
)  # fmt: skip

SECTIONS = (
    Section("Pod", scalars=tuple(SCALARS)),
    Section("Steps by core", "cores", ("name", "core_name", "duration_ps", "device_compute_ps", "device_collectives_ps",
            "input_ps", "all_others_ps", "bottleneck", "bottleneck_share"), "bottleneck_share", 32,
            words={"bottleneck": STEP_CATEGORIES}),
    Section("Collective operations", "collectives", ("step", "collective_id", "core_count", "occurrences",
            "moved_bytes", "fastest_ps", "slowest_ps", "wait_ps"), rows=10, shown=has_rows("collectives")),
)  # fmt: skip


def of_host(host: Host, params: Params) -> HostEnvironment:
    return HostEnvironment.of(host.raw, host.hostname, host.hardware)


def run(kept: Sequence[HostEnvironment], params: Params, after: Mapping[str, AnalysisReport]) -> AnalysisReport:
    steps = after["steps"]
    database = steps.detail_as(SessionSteps).database
    environment = run_environment.merge_environments(kept)
    steps_on_cores = (StepsOnCores.of(stretch, stretch.number) for stretch in database.stretches())
    cores = explain_nulls(TABLES["cores"].of_parts(steps_on_cores), UNKNOWN_CATEGORIES)
    tables = {"cores": cores, "collectives": _list_collectives(database)}
    none = f"no steps: {steps.scalars['steps_source'].reason or 'no steps were found'}"
    values: dict[str, Known] = {
        "step_count": len(database),
        "host_count": len(kept),
        "core_count": len(database.cores),
        "device_type": environment.device_type,
        "slowest_core_step_ps": pc.max(cores["duration_ps"]).as_py() if len(cores) else (None, none),
        "collective_wait_ps": _measure_wait(database, tables["collectives"]) if len(database) else (None, none),
    }
    notices = steps.notices if not len(database) else tuple(Notice("info", text) for text in describe_pairing(database))
    return AnalysisReport(NAME, tables, make_scalars(SCALARS, values), notices, after, environment)


def _measure_wait(database: StepDatabase, collectives: pa.Table) -> int | tuple[None, str]:
    if not database.is_tpu:
        return None, "steps of GPUs record no ids of collectives; the report communication has what each of them waits"
    if not len(collectives) and any(break_down_cores(some)[:, :, COLLECTIVES].any() for some in database.stretches()):
        return None, "the collective operations of the capture have no ids (all_reduce_unique_id)"
    waits: list[int] = collectives["wait_ps"].to_pylist()
    return sum(waits)


def _list_collectives(database: StepDatabase) -> pa.Table:
    """List collectives by step and id, in the order of their first events."""
    every = database.collectives
    first, place = number_distinct_rows([every.step, every.unique_id])
    count = len(first)
    duration = np.maximum(every.end_ps - every.begin_ps, 0)
    fastest, begin = find_least_by(place, duration, count), find_least_by(place, every.begin_ps, count)
    total = sum_by(place, duration, count, "the durations of collective operations")
    occurrences = np.bincount(place, minlength=count)
    cores = place[number_distinct_rows([place, every.core_id])[0]]
    columns = {
        "step": every.step[first],
        "collective_id": every.unique_id[first],
        "core_count": np.bincount(cores, minlength=count),
        "occurrences": occurrences,
        "moved_bytes": sum_by(place, every.bytes, count, "the bytes of collective operations"),
        "fastest_ps": fastest,
        "slowest_ps": find_most_by(place, duration, count),
        "wait_ps": total - occurrences * fastest,
    }
    order = sort_rows(every.step[first], begin, first)
    in_order = {name: column[order] for name, column in columns.items()}
    return TABLES["collectives"].of(SimpleNamespace(database=database, **in_order))
