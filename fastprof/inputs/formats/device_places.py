"""Planes and lines of devices by the names that TensorFlow 1 gives them.

device                                    plane           lines
/job:J/replica:R/task:T/device:CPU:0      /host:CPU       threads or lanes
/job:.../device:GPU:N                     /host:CPU       GPU:N scheduling: what the host does to launch
/device:GPU:N/stream:K                    /device:GPU:N   stream K
/device:GPU:N/stream:all, .../memcpy      /device:GPU:N   stream all, memcpy
others                                    as written      threads or lanes
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from fastprof.wording.patterns import pattern_of

HOST: Final = "/host:CPU"
_TASK: Final = pattern_of(r"/job:[^/]+/replica:\d+/task:\d+(?=/)", re.IGNORECASE)
_DEVICE: Final = pattern_of(
    rf"(?P<task>{_TASK.pattern})?/(?:device:)?(?P<kind>cpu|gpu):(?P<number>\d{{1,9}})(?P<part>/.*)?",
    re.IGNORECASE,
)


class Place(NamedTuple):
    """``line``: its name, or what the names of lanes begin with, if ``is_lanes``; empty: nothing."""

    plane: str
    line: str
    is_lanes: bool


def task_of(device: str) -> str | None:
    """The task that a device belongs to, if its name says so."""
    match = _TASK.match(device)
    return match[0] if match else None


def host_of(task: str) -> str:
    """``/job:worker/replica:0/task:1`` as the name of a host: ``worker-replica0-task1``."""
    return task[len("/job:") :].replace("/", "-").replace(":", "")


def place_of(device: str, task: str | None) -> Place:
    """``task``: the one whose host the plane /host:CPU is."""
    match = _DEVICE.fullmatch(device)
    if match is None or (match["task"] is not None and match["task"] != task):
        return Place(device, "", True)
    is_gpu = match["kind"].lower() == "gpu"
    if match["part"] and is_gpu and not match["task"]:
        return Place(f"/device:GPU:{int(match['number'])}", match["part"][1:].lower().replace(":", " "), False)
    return Place(HOST, f"GPU:{int(match['number'])} scheduling" if is_gpu else "", True)
