"""XProf's page pod_viewer: the steps of each core as a PodViewerDatabase in the JSON of protobuf.

All steps are shown, also those that other pages drop. SparseCores and cores that the capture does not describe are left
out. Of equal categories the bottleneck is the one whose label comes last in the alphabet. If a TPU core records both
its infeed from a SparseCore and its waiting for it, the waiting counts as compute."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from fastprof.analyses.contract import AnalysisReport
from fastprof.derive.devices.run_environment import RunEnvironment
from fastprof.derive.steps.step_database import CATEGORIES, IDLE, StepDatabase, sum_by_category
from fastprof.derive.steps.step_figures import (
    COLLECTIVES,
    COMPUTE,
    COPIES,
    DEVICE_TO_DEVICE,
    INPUT,
    OTHER,
    OUTPUT,
    SCV0_INFEED,
    SCV0_OUTFEED,
    SCV0_TRANSFORM,
    SCV0_WAIT,
    break_down_cores,
)
from fastprof.schema.columns import Int64s
from fastprof.xprof.steps import KEEPS as KEEPS
from fastprof.xprof.steps import get_shown_steps, list_step_warnings

UNNAMED_TPU = "TPU"
"""Name of a TPU whose model is not recorded; XProf gives it none."""

_OP_CATEGORIES: Final = {
    INPUT: (
        "infeed", "host recv", "host recv-done", SCV0_INFEED, SCV0_WAIT, SCV0_TRANSFORM,
    ),
    OUTPUT: ("outfeed", "host send", "host send-done", SCV0_OUTFEED),
    COLLECTIVES: ("all-reduce", "all-to-all", "all-reduce fusion"),
    DEVICE_TO_DEVICE: ("send", "send-done", "recv", "recv-done", "megacore fusion", "async-done"),
    OTHER: (IDLE,),
}  # fmt: skip
_PLACE: Final = {op: place for place, ops in _OP_CATEGORIES.items() for op in ops}
"""Category of step time for each category of TPU ops; all others compute, copies and other collectives too."""

_LABELS = [category.label for category in CATEGORIES]
_BY_LABEL = sorted(range(len(_LABELS)), key=_LABELS.__getitem__, reverse=True)


def answer(report: AnalysisReport) -> object:
    environment = report.detail_as(RunEnvironment)
    database = get_shown_steps(report)
    warnings = list_step_warnings(len(database), empty_intersection=database.empty_intersect)
    return {
        "deviceType": "" if environment.device_type == UNNAMED_TPU else environment.device_type,
        "diagnostics": {"errors": [], "info": [], "warnings": warnings},
        "podStatsSequence": {"podStatsMap": _list_steps(database)},
        "stepBreakdownEvents": [{"id": category.number, "name": category.label} for category in CATEGORIES],
    }


def _measure_times(database: StepDatabase) -> Int64s:
    if not database.is_tpu:
        return sum_by_category(database.type_ps)
    times = break_down_cores(database, lambda op: _PLACE.get(op, COMPUTE))[:, :, :COPIES]
    waits = database.category(SCV0_WAIT, SCV0_TRANSFORM)
    waits[database.category(SCV0_INFEED) == 0] = 0
    times[:, :, INPUT] -= waits
    times[:, :, COMPUTE] += waits
    return times


def _list_steps(database: StepDatabase) -> list[dict[str, Any]]:
    times = _measure_times(database)
    last_of_equals = times[:, :, _BY_LABEL].argmax(axis=2) if len(database) else times[:, :, 0]
    bottleneck = np.array(_BY_LABEL)[last_of_equals]
    cores = np.flatnonzero(~database.cores.sparse & database.cores.has_details).tolist()
    return [
        {
            "stepNum": number,
            "podStatsPerCore": {
                str(database.cores.id[core]): {
                    "hostName": database.cores.host[core],
                    "chipId": 0,
                    "nodeId": 0,
                    "stepNum": number,
                    "totalDurationUs": int(database.duration_ps[row, core]) / 1e6,
                    "bottleneck": _LABELS[bottleneck[row, core]],
                    "stepBreakdownUs": {
                        str(category.number): int(time) / 1e6
                        for category, time in zip(CATEGORIES, times[row, core].tolist(), strict=True)
                    },
                }
                for core in cores
                if database.present[row, core]
            },
            "channelDb": [],
            "coreIdToReplicaIdMap": {},
            "allReduceOpDb": [],
        }
        for row, number in enumerate(database.step.tolist())
    ]
