"""User annotations: time by name and step, device activity during them; time by named scope.

Formulas: docs/analyses/annotations.md.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field

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
from fastprof.decode.plane_kinds import DEVICE_PLANES
from fastprof.derive.causes import annotation_times
from fastprof.derive.causes.annotation_times import TABLES as TABLES
from fastprof.derive.causes.annotation_times import HostAnnotations, find_gpu_annotations, make_gpu_annotations_table
from fastprof.derive.causes.gaps import find_run_window
from fastprof.derive.communication import host_communication
from fastprof.derive.communication.host_communication import list_device_spans
from fastprof.derive.devices.op_names import JAX, PYTORCH, TENSORFLOW, TENSORFLOW_1, UNKNOWN, choose_framework
from fastprof.derive.host import Host
from fastprof.derive.steps import host_steps
from fastprof.derive.steps.host_causes import is_computing_op
from fastprof.derive.steps.step_alignment import SessionSteps
from fastprof.derive.steps.step_source import AUTO, STEPS_FROM
from fastprof.schema.tables import Need
from fastprof.schema.value_classes import dataclass
from fastprof.tables.needs import Needs, unite_needs

NAME = "annotations"
READS = unite_needs([
    Host.GROUPING,
    Needs(stats=host_steps.STATS, metadata_stats=host_steps.METADATA_STATS),
    Needs(stats=host_communication.EVENT_STATS, metadata_stats=host_communication.METADATA_STATS),
    Needs(stats=annotation_times.STATS),
])  # fmt: skip
AFTER = ("steps", "op_profile")
CONTENT = Evidence(
    "No annotations: the capture has no threads of a host, and no ops.",
    planes=("^/host:(CPU|NVTX)", DEVICE_PLANES),
    programs=True,
)


@dataclass(frozen=True, slots=True)
class Params:
    steps_from: str = field(default=AUTO, metadata=STEPS_FROM)


_ABSENT = "there are no annotations"
_ANNOTATED = Need("annotation_count", _ABSENT)
SCALARS = {
    "annotation_count": ScalarSpec(None, "different annotations, over all hosts", "annotations"),
    "occurrences": ScalarSpec(None, "sum of count over the rows of annotations", need=_ANNOTATED),
    "annotated_ps": ScalarSpec("ps", "sum of self_ps: annotated time of all threads; nested annotations count once",
                               "annotated", need=_ANNOTATED),
    "longest": ScalarSpec(None, "the annotation with the longest total_ps"),
    "longest_ps": ScalarSpec("ps", "its total_ps", "it takes"),
    "longest_share": ScalarSpec("share", "its share of the run", "share of the run"),
    "scope_count": ScalarSpec(None, "scopes in op names", "scopes"),
}  # fmt: skip
OPENING = Opening(
    ("{longest} takes {longest_ps}, {longest_share} of the run.",),
    ("annotation_count", "occurrences", "annotated_ps", "longest_ps", "longest_share", "scope_count"),
)
_COLUMNS = (
    "name", "count", "total_ps", "self_ps", "share", "mean_ps", "min_ps", "max_ps", "device_compute_ps",
    "device_communication_ps", "device_copy_ps", "device_idle_ps", "hidden_share",
)  # fmt: skip
_PARTS = ("device_communication_ps", "device_copy_ps")
SECTIONS = (
    Section("Annotations (device time is summed over devices)", "annotations", _COLUMNS, "share", 30,
            shown=has_rows("annotations"), parts=_PARTS),
    Section("By step (device time is summed over devices)", "steps",
            ("step", *_COLUMNS[:4], "max_ps", *_COLUMNS[8:]), rows=20, shown=has_rows("annotations"), parts=_PARTS),
    Section("On devices, from the first kernel of each to its last", "gpu_annotations", ("device", "name", "streams",
            "count", "total_ps", "mean_ps", "stdev_ps", "min_ps", "max_ps"), rows=20,
            shown=has_rows("gpu_annotations")),
    Section("Scopes in the names of ops", "scopes", ("name", "ops", "occurrences", "device_ps", "share"), "share", 30,
            shown=has_rows("scopes"), depth="depth"),
)  # fmt: skip
_NONE = "No annotations: no host thread has a user-named region."
_HOW = {
    JAX: " Write them with jax.profiler.TraceAnnotation.",
    TENSORFLOW: " Write them with tf.profiler.experimental.Trace.",
    TENSORFLOW_1: " Its profiler records none.",
    PYTORCH: " Write them with torch.profiler.record_function.",
    UNKNOWN: " Write them with the profiler's annotations.",
}


def of_host(host: Host, params: Params) -> HostAnnotations:
    """Return the annotations of the chosen steps, with all device work at the same time, of any step."""
    steps = np.unique(host.steps_from(params.steps_from).database.step)
    groups, every = host.groups_from(params.steps_from), host.entire
    ran = list_device_spans(host.raw, host.modules, host.forest, host.workers, is_computing_op)
    run = find_run_window(host, params.steps_from, ran)
    if every is host:
        on_gpus = find_gpu_annotations(host.raw)
    else:
        every_groups = every.groups_from(params.steps_from)
        ran = list_device_spans(every.raw, every.modules, every.forest, every.workers, is_computing_op)
        on_gpus = find_gpu_annotations(every_groups.events, every_groups.group_id, steps)
    return annotation_times.find_host_annotations(host, groups.group_id, steps, ran, run, on_gpus)


def run(kept: Sequence[HostAnnotations], params: Params, after: Mapping[str, AnalysisReport]) -> AnalysisReport:
    database = after["steps"].detail_as(SessionSteps).database
    tables = {
        "annotations": annotation_times.make_annotations_table(kept),
        "steps": annotation_times.make_annotation_steps_table(kept, database),
        "gpu_annotations": make_gpu_annotations_table([host.on_gpus for host in kept]),
        "scopes": annotation_times.make_scopes_table(after["op_profile"].tables["scopes"]),
    }
    values = _compute_values(kept, tables["scopes"].num_rows)
    notices: tuple[Notice, ...] = ()
    if not any(host.names for host in kept):
        notices = (Notice("info", _NONE + _HOW[choose_framework(host.framework for host in kept)]),)
    return AnalysisReport(NAME, tables, make_scalars(SCALARS, values), notices, dict(after))


def _compute_values(kept: Sequence[HostAnnotations], scopes: int) -> dict[str, Known]:
    names = {name for host in kept for name in host.names}
    values: dict[str, Known] = {
        "annotation_count": len(names),
        "occurrences": sum(int(host.whole.count.sum()) for host in kept),
        "annotated_ps": sum(sum(host.whole.self_ps.tolist()) for host in kept),
        "scope_count": scopes,
    }
    if not names:
        return values | dict.fromkeys(("longest", "longest_ps", "longest_share"), (None, _NONE))
    host = max((host for host in kept if host.names), key=lambda host: int(host.whole.total_ps.max()))
    row = int(host.whole.total_ps.argmax())
    total = int(host.whole.total_ps[row])
    return values | {
        "longest": host.names[int(host.whole.name[row])],
        "longest_ps": total,
        "longest_share": int(host.whole.run_ps[row]) / max(host.window_ps, 1),
    }
