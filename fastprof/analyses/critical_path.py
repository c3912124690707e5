"""Critical path of a step: the longest chain of dependent ops and kernels.

Definitions: docs/analyses/critical-path.md.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field
from typing import Final

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
from fastprof.derive.host import Host
from fastprof.derive.ops.longest_path import KINDS, MEDIAN, HostPath, choose_window, sum_host_path
from fastprof.derive.ops.training_passes import SEQUENCE
from fastprof.derive.steps import host_steps
from fastprof.derive.steps.step_source import AUTO, STEPS_FROM
from fastprof.schema.tables import Column, Count, Need, ObjectRows, Picoseconds, Share, TableSchema, Text, resting_on
from fastprof.schema.value_classes import dataclass
from fastprof.tables.needs import Needs, unite_needs

NAME = "critical_path"
READS = unite_needs([
    Host.GROUPING,
    Needs(stats=host_steps.STATS, metadata_stats=host_steps.METADATA_STATS),
    Needs(stats=("correlation_id", "stream", "wait_on_stream", "wait_on_cuda_event_record_corr_id", SEQUENCE)),
])  # fmt: skip
AFTER: tuple[str, ...] = ()
REMEDY = "Only GPUs have critical paths: see gaps and communication for other devices."
CONTENT = Evidence("No critical path: the capture has no GPU planes.", planes=(GPU_PLANES,))


@dataclass(frozen=True, slots=True)
class Params:
    annotation: str = field(
        default="",
        metadata={"help": "annotation to examine: the one whose name contains this text (default: a step, or "
                  "everything recorded if there are no steps)"},
    )  # fmt: skip
    instance: int = field(
        default=MEDIAN,
        metadata={"help": "index of the annotation or step to examine, from 0 in order of time (-1: median "
                  "duration)", "min": MEDIAN},
    )  # fmt: skip
    steps_from: str = field(default=AUTO, metadata=STEPS_FROM)


_HOST: Final = Text("host", "host, named after its capture file")
_SHARE: Final = Share("share", "time_ps / path_ps of the host; null: the path lasts no time")


def _make_kind_column(what: str) -> Column:
    meaning = (
        f"host: an op or call runs; kernel, collective, copy: a GPU runs it; launch: from the start of a call to the "
        f"start of the work that it launched; break: between two kernels of a stream{what}"
    )
    return Text("kind", meaning)


TABLES = {
    "windows": TableSchema("windows", "an examined interval, one per host", (
        _HOST,
        Text("window", "annotation or step; empty if everything recorded is examined"),
        Count("instance", "index among the matching annotations or steps, from 0"),
        Count("of", "number of matching annotations or steps"),
        Picoseconds("start_ps", "start, relative to the start of the session"),
        Picoseconds("window_ps", "duration"),
        *resting_on(
            Need("path_ps", "no path was found"),
            Picoseconds("path_ps", "length of the critical path"),
            Count("edges", "path steps"),
        ),
        *resting_on(
            Need("host_share"),
            Picoseconds("host_ps", "of the path, ops and calls of the host")
        ),
        *resting_on(
            Need("kernel_share"),
            Picoseconds("device_ps", "of the path, kernels, collectives and copies"),
        ),
        Count("cut", "dependencies left out because their times contradict others"),
    ), derived=True),
    "kinds": TableSchema("kinds", "a kind of path steps", (
        _HOST,
        _make_kind_column(""),
        Picoseconds("time_ps", "sum of their durations"),
        _SHARE,
        Count("count", "number of such path steps"),
    ), derived=True),
    "names": TableSchema("names", "an op or kernel on the critical path, the longest first", (
        _HOST,
        _make_kind_column(""),
        Text("name", "op, call or kernel; for a launch or break, the kernel that follows"),
        Picoseconds("time_ps", "sum of its steps on the path"),
        _SHARE,
        Count("count", "number of such path steps"),
    ), derived=True),
    "path": TableSchema("path", "a step of the critical path, in order", (
        _HOST,
        _make_kind_column("; next: the op after it on the thread; wait: the op or call that waits for its end"),
        Text("name", "op, call or kernel; for launch, break, next and wait, the one that follows"),
        Text("plane", "plane of this op, call or kernel"),
        Text("line", "line of this op, call or kernel"),
        Picoseconds("start_ps", "start of the path step, relative to the start of the session"),
        Picoseconds("time_ps", "duration of the path step; 0 for next and wait"),
    ), derived=True),
}  # fmt: skip
SCALARS = {
    "path_ps": ScalarSpec("ps", "length of the critical path, summed over hosts", "critical path"),
    "window_ps": ScalarSpec("ps", "duration of the examined interval, summed over hosts"),
    "path_share": ScalarSpec("share", "path_ps / window_ps; 1 if kernels end so late that the path is longer",
                             "path share of the examined intervals"),
    **{
        f"{kind}_share": ScalarSpec("share", f"part of path_ps: {kind}", f"{kind} share of the path")
        for kind in KINDS[:6]
    },
    "longest": ScalarSpec(None, "op or kernel with the most time on the path"),
    "longest_share": ScalarSpec("share", "time of this op or kernel on the path / path_ps", "its share of the path"),
}  # fmt: skip
_NO_OPS = "no host op is on the path"
_NO_LAUNCHES = NothingRan("launches of GPU work are not recorded")
OPENING = Opening(
    ("{longest} takes {longest_share} of the critical path.",),
    ("path_ps", "path_share", "host_share", "kernel_share", "collective_share", "break_share"),
)
SECTIONS = (
    Section("Critical path", scalars=tuple(SCALARS)),
    Section("Examined intervals", "windows", ("host", "window", "instance", "of", "window_ps", "path_ps", "host_ps",
            "device_ps"), rows=16, shown=has_rows("windows")),
    Section("Composition of the path", "kinds", ("kind", "time_ps", "share", "count"), "share", 16,
            shown=has_rows("kinds")),
    Section("Ops and kernels on the path", "names", ("kind", "name", "time_ps", "share", "count"), "share", 25,
            shown=has_rows("names"), kernels="name"),
)  # fmt: skip


def of_host(host: Host, params: Params) -> HostPath:
    if not host.raw.planes_of("GPU"):
        return HostPath()
    source = host.source_of_steps(params.steps_from)
    events, marks = source.groups.events, source.marked
    window = choose_window(events, params.annotation, np.unique(marks), params.instance)
    return HostPath(missing=True) if window is None else sum_host_path(events, window, marks)


def run(kept: Sequence[HostPath], params: Params, after: Mapping[str, AnalysisReport]) -> AnalysisReport:
    parts = {name: ObjectRows([row for host in kept for row in getattr(host, name)]) for name in TABLES}
    tables = {name: schema.of(parts[name]) for name, schema in TABLES.items()}
    notices = []
    if not any(host.windows or host.missing for host in kept):
        notices.append(Notice("info", NothingRan(CONTENT.absent)))
    if any(host.missing for host in kept):
        what = f"annotation whose name contains {params.annotation!r}" if params.annotation else "step"
        which = "" if params.instance == MEDIAN else f" number {params.instance}"
        notices.append(Notice("warning", f"No critical path on some hosts: they have no {what}{which}."))
    examined = [host for host in kept if host.windows]
    if any(row.path_ps for host in examined for row in host.windows) and not all(host.waits for host in examined):
        text = "The path is approximate: waits of calls and streams are not recorded."
        if any(host.torch for host in kept):
            text += (
                " PyTorch's profiler records it with "
                "experimental_config=_ExperimentalConfig(enable_cuda_sync_events=True)."
            )
        notices.append(Notice("info", text))
    figures = make_scalars(SCALARS, dict(_compute_figures(parts, kept)))
    return AnalysisReport(NAME, tables, figures, tuple(notices), after)


def _compute_figures(parts: Mapping[str, ObjectRows], kept: Sequence[HostPath]) -> Iterator[tuple[str, Known]]:
    windows, kinds, names = (parts[name].each for name in ("windows", "kinds", "names"))
    path = sum(row.path_ps for row in windows)
    if not path:
        why = NothingRan("no path was found" if windows else CONTENT.absent)
        yield from dict.fromkeys(SCALARS, (None, why)).items()
        return
    yield "path_ps", path
    window = sum(row.window_ps for row in windows)
    yield "window_ps", window
    yield "path_share", min(path / window, 1.0) if window else (None, "the examined interval has no duration")
    launched = any(host.launches for host in kept)
    for kind in KINDS[:6]:
        time = sum(row.time_ps for row in kinds if row.kind == kind)
        absent = _NO_OPS if kind == KINDS[0] else None if launched else _NO_LAUNCHES
        yield f"{kind}_share", (None, absent) if absent and not time else time / path
    sums: dict[str, int] = {}
    for row in names:
        sums[row.name] = sums.get(row.name, 0) + row.time_ps
    longest = max(sums, key=lambda name: (sums[name], name))
    yield "longest", longest
    yield "longest_share", sums[longest] / path
