"""How much the profiler was asked to record of the host: the options of the profiler, if the capture has them.

TensorFlow and JAX write ``tensorflow.ProfileOptions`` to the plane Task Environment: field 2 is host_tracer_level,
field 4 python_tracer_level. A field that is absent is 0.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

from fastprof.decode.task_environment import PLANE
from fastprof.errors import CaptureError
from fastprof.schema.value_classes import dataclass

if TYPE_CHECKING:
    from fastprof.tables.host_events import HostEvents

STAT: Final = "profile_options"
_HOST, _PYTHON = 2, 4
ALL_OF_HOST: Final = 2
"""The level of the host tracer from which threads are recorded with all that explains a device's idle time."""


@dataclass(frozen=True, slots=True)
class TracerLevels:
    """``host``: 0 off, 1 annotations of users, 2 also expensive ops, 3 also cheap ones; ``python``: 0 off, 1 on."""

    host: int
    python: int

    @property
    def has_all(self) -> bool:
        """Whether nothing more can be asked for."""
        return self.host >= ALL_OF_HOST and self.python > 0


def tracer_levels(events: HostEvents) -> TracerLevels | None:
    """Of a host; None: not recorded, or damaged."""
    plane = events.plane_named(PLANE)
    data = plane.stats.get(STAT) if plane is not None else None
    if not isinstance(data, bytes):
        return None
    from fastprof._native.messages import read_message  # late: few captures have the stat

    try:
        fields = read_message(memoryview(data), "reading levels of tracers") if data else {}
    except CaptureError:
        return None
    host, python = (fields.get(number, [0])[-1] for number in (_HOST, _PYTHON))
    return TracerLevels(host, python) if isinstance(host, int) and isinstance(python, int) else None


def least(levels: Iterable[TracerLevels | None]) -> TracerLevels | None:
    """What all hosts were asked for; None: of one it is unknown."""
    every = list(levels)
    known = [one for one in every if one is not None]
    if not known or len(known) < len(every):
        return None
    return TracerLevels(min(one.host for one in known), min(one.python for one in known))
