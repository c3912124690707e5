"""Missing and wrong records of a host, and their remedies.

Checks compare records with each other: launches with kernels, listed GPUs with activity, errors of the profiler with
what it recorded, events with their streams, and clocks with the order of launch and kernel.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Final

import numpy as np

from fastprof.decode.import_log import LogRow
from fastprof.decode.plane_kinds import device_of, device_word, several
from fastprof.decode.task_environment import XPROF
from fastprof.derive.devices.kineto_categories import is_kineto
from fastprof.derive.ops import impossible_events, lost_records
from fastprof.derive.ops.call_order import after_waits, before_calls
from fastprof.derive.ops.lost_records import Lost
from fastprof.schema.time_sums import ends_of
from fastprof.schema.value_classes import dataclass
from fastprof.tables.once import once
from fastprof.wording.patterns import pattern_of
from fastprof.wording.quantities import counted, few, shortened, time_text

if TYPE_CHECKING:
    from fastprof.tables.host_events import HostEvents

STATS: Final = lost_records.STATS
_OF_DEVICES: Final = pattern_of(r"CUPTI|CUDA|ROCM|ROCPROF|ROCTRACER|HIP|GPU|TPU|device tracer|activity buffer")
_NO_DEVICE: Final = pattern_of(r"(?i)no[_ ]device|no cuda-capable|not find (any )?gpu")
"""A machine without devices has nothing to record."""
_DROPPED: Final = pattern_of(r"(?i)drop|overflow|buffer.*(full|exhaust)|out of (buffer|space)|lost|exceed|truncat")
_MOST_IN_TRACE: Final = 1_000_000
"""XProf leaves out events beyond these when it writes a trace as JSON."""
_EARLY_SHARE: Final = 0.01
_EARLY_PS: Final = 100_000_000
"""Clocks differ if more than this share of kernels begins before its launch, and one by more than this time."""

PROFILER_ERROR: Final = "profiler_error"
CODES: Final = frozenset((
    PROFILER_ERROR, "lost_records", "no_device_activity", "impossible_time", "clocks_differ", "most_events",
))  # fmt: skip
"""Of flaws, in import_log. Their captures are as the profiler wrote them."""

_KEEP_PROFILER: Final = (
    "Record fewer steps, or with larger buffers of the profiler, and end the profile after the device is synchronized."
)
_ENABLE_ACTIVITY: Final = (
    "If the program uses the {}, profile with activities=[ProfilerActivity.CPU, ProfilerActivity.{}]."
)
_ACTIVITIES: Final = ("XPU", "HPU", "MTIA")
"""Activities of PyTorch's profiler that are called like their devices. That of GPUs is CUDA, of others PrivateUse1."""
_ENABLE_DEVICE: Final = "If the program uses the {}, enable the profiler's device tracer (device_tracer_level=1)."
_FIX_ERROR: Final = "Fix what the error names, such as permission to use the device's counters, and record again."
_RECORD_AGAIN: Final = "Record again; figures are without these events."
_CLOCKS: Final = "Do not trust waits between launch and kernel; update the driver and the profiler."
_SHORTER: Final = "Record less time, or read the XSpace (.xplane.pb) beside the trace, which has all events."


@dataclass(frozen=True, slots=True)
class Flaw:
    """``text``: what is missing or wrong, with numbers and names; ``remedy``: what to do; ``code``: in import_log;
    ``hides_devices``: whether what devices did is unknown, entirely or for a time."""

    code: str
    text: str
    remedy: str
    hides_devices: bool

    @property
    def sentence(self) -> str:
        return f"Capture incomplete: {self.text}."

    @property
    def warning(self) -> str:
        return f"{self.sentence} {self.remedy}"


@dataclass(frozen=True, slots=True)
class HostRecords:
    """``flaws``: of a host. ``recorded``: whether anything of its devices is; ``has_gpu_events``: of its GPUs."""

    host: str
    flaws: tuple[Flaw, ...]
    recorded: bool
    has_gpu_events: bool


@once
def records_of(events: HostEvents) -> HostRecords:
    """Check the records of a host. Adds rows to ``import_log``. Reads ``STATS`` and planes of host and devices."""
    from fastprof.derive.ops.gpu_ops import on_op_lines  # it takes long to import

    has_gpu_events = bool(on_op_lines(events).any()) or bool(events.impossible)
    recorded = has_gpu_events or _has_tpu_events(events)
    flaws = tuple(_flaws(events, recorded))
    rows = [LogRow("data_loss", one.code, 1, None, events.capture.path, one.text) for one in flaws]
    events.capture.log.take(rows)
    return HostRecords(events.host, flaws, recorded, has_gpu_events)


def _has_tpu_events(events: HostEvents) -> bool:
    """Return whether TPUs have events; those of planes that were not read count as having some."""
    read = {plane.name: plane.last > plane.first for plane in events.planes}
    return any(read.get(name, True) for name in events.plane_names if device_of(name)[0] == "TPU")


def _flaws(events: HostEvents, recorded: bool) -> Iterator[Flaw]:
    lost, gpus = lost_records.lost_records(events), events.planes_of("GPU")
    errors = [one for one in (*events.capture.errors, *events.capture.warnings) if _is_loss(one, recorded)]
    if errors:
        yield Flaw(PROFILER_ERROR, f"the profiler recorded: {few(errors, 3)}", _FIX_ERROR, not recorded)
    if lost.matters:
        yield Flaw("lost_records", lost.in_words(), _KEEP_PROFILER, True)
    elif gpus and not recorded and not errors and _has_threads(events):
        word = device_word(plane.name for plane in gpus)
        one, more = f"{word} is listed, but its activity was", f"{several(word)} are listed, but their activity was"
        listed = counted(len(gpus), one, more)
        activity = "CUDA" if word == "GPU" else word if word in _ACTIVITIES else "PrivateUse1"
        remedy = (_ENABLE_ACTIVITY if is_kineto(events) else _ENABLE_DEVICE).format(word, activity)
        yield Flaw("no_device_activity", f"{listed} not recorded, nor any call that starts work on it", remedy, True)
    if events.impossible:
        text = impossible_events.in_words(events.impossible)
        yield Flaw("impossible_time", text, _RECORD_AGAIN, False)
    if text := _wrong_clocks(events):
        yield Flaw("clocks_differ", text, _CLOCKS, False)
    recorded_events = sum(line.event_count for line in events.lines)
    if events.transcribed_from == XPROF and recorded_events == _MOST_IN_TRACE:
        text = f"the trace has {recorded_events:,} events, the most that XProf writes: others are left out"
        yield Flaw("most_events", text, _SHORTER, False)


def _is_loss(message: str, recorded: bool) -> bool:
    """Return whether a message of the profiler explains that records are missing."""
    of_devices = _OF_DEVICES.search(message) and not _NO_DEVICE.search(message)
    return bool(_DROPPED.search(message)) or (not recorded and bool(of_devices))


def _has_threads(events: HostEvents) -> bool:
    return any(line.last > line.first for plane in events.planes for line in plane.lines)


def _wrong_clocks(events: HostEvents) -> str:
    """Return the sentence on clocks of host and device that differ, or nothing."""
    for (rows, wrong_ps), what in (
        (before_calls(events), "begin before the calls that launched them"),
        (after_waits(events), "end after calls that waited for them"),
    ):
        count = int(np.count_nonzero(wrong_ps > max(events.slack_ps, 0)))
        if count > _EARLY_SHARE * len(rows) and wrong_ps.max() >= _EARLY_PS:
            name = shortened(events.names[events.meta[rows[int(np.argmax(wrong_ps))]]])
            return f"{count:,} of {len(rows):,} device events {what}, {name} by {time_text(int(wrong_ps.max()))}"
    return ""


def all_flaws(hosts: Sequence[HostRecords]) -> list[Flaw]:
    """Return the flaws of all hosts, those that hide devices first. Of several hosts, a flaw of one kind is returned
    once, with the first of its hosts and how many others have it."""
    alike: dict[tuple[bool, str, str], list[tuple[str, Flaw]]] = {}
    for one in hosts:
        for flaw in one.flaws:
            alike.setdefault((not flaw.hides_devices, flaw.code, flaw.remedy), []).append((one.host, flaw))
    found = []
    for _, of_kind in sorted(alike.items(), key=lambda pair: pair[0][0]):
        host, flaw = of_kind[0]
        others = len(of_kind) - 1
        also = (
            f"; so {'has' if others == 1 else 'have'} {counted(others, 'other host', 'other hosts')}" if others else ""
        )
        found.append(flaw if len(hosts) <= 1 else replace(flaw, text=f"{host}: {flaw.text}{also}"))
    return found


def why_unknown(hosts: Iterable[HostRecords]) -> str | None:
    """Return why nothing is known of devices if their records are missing; None: no host shows that they are."""
    hosts = list(hosts)
    if any(one.recorded for one in hosts):
        return None
    return next((flaw.text for flaw in all_flaws(hosts) if flaw.hides_devices), None)


def sound_extent(events: HostEvents) -> tuple[int, int] | None:
    """Return the first begin and the last end of the events; None: there are none."""
    if not len(events):
        return None
    ends = ends_of(events.start_ps, np.maximum(events.duration_ps, 0))
    return int(events.start_ps.min()), int(ends.max())


def lost_records_of(events: HostEvents) -> Lost | None:
    """Return the calls whose work is not recorded, if devices are not known to idle meanwhile."""
    lost = lost_records.lost_records(events)
    return lost if lost.matters else None
