"""Lines that are derived from those of a capture: steps, scopes, ops, modules and source lines of devices."""

from __future__ import annotations

from typing import Final

from fastprof import hlo
from fastprof.decode.task_environment import XPROF
from fastprof.derive.host import Host
from fastprof.derive.ops.streams import stream_copies
from fastprof.derive.steps.forest import STATS
from fastprof.derive.timeline.derived_track import DerivedTimeline, DerivedTrack, joined
from fastprof.derive.timeline.gpu_lines import GpuLines
from fastprof.derive.timeline.launch_stats import launch_stats
from fastprof.derive.timeline.plane_names import PlaneNames, metas_by_plane
from fastprof.derive.timeline.tpu_lines import TpuLines
from fastprof.derive.timeline.track_order import is_grouped, processes_of
from fastprof.tables.host_events import HostEvents, Plane
from fastprof.tables.needs import Needs

_OF_KERNELS: Final = (
    "kernel_details", "hlo_op", "hlo_module", "program_id", "tf_op", "cuda_graph_exec_id", "cuda_graph_id",
    "scope_range_id", "device_id",
)  # fmt: skip
_OF_TPU_OPS: Final = ("tf_op", "source", "_a", "raw_bytes_accessed", "shape_with_layout")

NEEDS: Final = Needs(
    stats=tuple(dict.fromkeys((*STATS, *_OF_KERNELS, *stream_copies.STATS, "source", "flow"))),
    metadata_stats=tuple(dict.fromkeys((*hlo.METADATA_STATS, *_OF_TPU_OPS))),
)
"""What derived lines, flows, steps and counters of a timeline read. Raw timelines need none of it."""


def derived_timeline(host: Host) -> DerivedTimeline:
    """The tracks to show beside those of the capture; none if its writer has grouped it."""
    processes = processes_of(host.raw)
    found: list[DerivedTrack] = []
    if not is_grouped(host.raw):
        gpus = [one for one in processes if one.plane.kind == "GPU" and not _has_them(host.raw, one.plane)]
        tpus = [one for one in processes if one.plane.kind == "TPU"]
        metas = metas_by_plane(host.raw)
        names = {one.plane.number: PlaneNames(host.raw, metas(one.plane)) for one in (*gpus, *tpus)}
        if gpus:
            of_gpus = GpuLines(host)
            found += [track for one in gpus for track in of_gpus.of(one, names[one.plane.number])]
            found += launch_stats(host, gpus, names)
        if tpus:
            of_tpus = TpuLines(host)
            found += [track for one in tpus for track in of_tpus.of(one, names[one.plane.number])]
    return joined(host.raw.host, processes, found)


def _has_them(events: HostEvents, plane: Plane) -> bool:
    """Whether the plane is of a trace of XProf, which has the lines that XProf derived."""
    return events.transcribed_from == XPROF and any(line.is_derived for line in plane.lines)
