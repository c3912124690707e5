"""Lines that XProf derives from those of a capture: steps, scopes, ops, modules and source lines of devices."""

from __future__ import annotations

from fastprof.derive.host import Host
from fastprof.derive.timeline.derived_track import DerivedTimeline, DerivedTrack, joined
from fastprof.derive.timeline.gpu_lines import GpuLines
from fastprof.derive.timeline.launch_stats import launch_stats
from fastprof.derive.timeline.plane_names import PlaneNames, metas_by_plane
from fastprof.derive.timeline.tpu_lines import TpuLines
from fastprof.derive.timeline.track_order import is_grouped, processes_of


def derived_timeline(host: Host) -> DerivedTimeline:
    """The tracks that XProf adds to those of the capture; none where whoever wrote it has grouped it."""
    processes = processes_of(host.raw)
    found: list[DerivedTrack] = []
    if not is_grouped(host.raw):
        gpus = [one for one in processes if one.plane.kind == "GPU"]
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
