"""Captures without one kind of record: values that need it are unknown; nothing becomes 0 or more certain."""

from __future__ import annotations

import gzip
import json
import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from sweep import Reports
from xspace_descriptor import xspace_class

Event = dict[str, Any]

OF_KINETO: Mapping[str, Callable[[Event], bool]] = {
    "kernels": lambda event: _category(event) in {"kernel", "gpu_memcpy", "gpu_memset", "gpu_user_annotation"},
    "launches": lambda event: _category(event) in {"cuda_runtime", "cuda_driver", "runtime"},
    "allocations": lambda event: event.get("name") == "[memory]",
    "Python": lambda event: _category(event) == "python_function",
    "ops": lambda event: _category(event) in {"cpu_op", "operator"},
    "steps": lambda event: event.get("name", "").startswith("ProfilerStep"),
    "counters": lambda event: event.get("ph") == "C",
}
_LINKS = ("correlation", "stream", "device", "External id")


def _category(event: Event) -> str:
    return str(event.get("cat", "")).lower()


def without_of_kineto(path: Path) -> Iterator[tuple[str, bytes]]:
    """A trace of Kineto without each kind of record that it has."""
    document = json.loads(gzip.decompress(path.read_bytes()), strict=False)
    events = document["traceEvents"]
    for kind, drops in OF_KINETO.items():
        rest = [event for event in events if not drops(event)]
        if len(rest) < len(events):
            yield kind, json.dumps(document | {"traceEvents": rest}).encode()
    bare = [
        event | {"args": {name: event["args"][name] for name in _LINKS if name in event["args"]}}
        if event.get("ph") == "X" and "args" in event
        else event
        for event in events
    ]
    yield "arguments", json.dumps(document | {"traceEvents": bare}).encode()


_LAUNCH = re.compile(r"cu[A-Z]|hip[A-Z]|cuda[A-Z]|.*LaunchKernel")
OF_XSPACE: Mapping[str, Callable[[Any, Any, Any], bool]] = {
    "devices": lambda plane, _line, _event: plane.name.startswith("/device:"),
    "hosts": lambda plane, _line, _event: not plane.name.startswith("/device:"),
    "launches": lambda plane, _line, event: bool(_LAUNCH.match(_name(plane, event))),
    "allocations": lambda plane, _line, event: bool(re.search("Memory(Alloc|Dealloc)", _name(plane, event))),
    "Python": lambda plane, _line, event: _name(plane, event).startswith("$"),
    "steps": lambda plane, line, event: (
        line.name == "Steps" or "step_num" in {plane.stat_metadata[stat.metadata_id].name for stat in event.stats}
    ),
}


def _name(plane: Any, event: Any) -> str:
    return str(plane.event_metadata[event.metadata_id].name)


def without_of_xspace(path: Path) -> Iterator[tuple[str, bytes]]:
    """An XSpace without each kind of record that it has, and without its stats and its programs."""
    full = path.read_bytes()
    for kind, drops in OF_XSPACE.items():
        space, dropped = xspace_class().FromString(full), 0
        for plane in space.planes:
            for line in plane.lines:
                rest = [event for event in line.events if not drops(plane, line, event)]
                dropped += len(line.events) - len(rest)
                _replace(line.events, rest)
        if dropped:
            yield kind, space.SerializeToString()
    space = xspace_class().FromString(full)
    for event in (event for plane in space.planes for line in plane.lines for event in line.events):
        del event.stats[:]
    yield "stats", space.SerializeToString()
    space = xspace_class().FromString(full)
    _replace(space.planes, [plane for plane in space.planes if plane.name != "/host:metadata"])
    yield "programs", space.SerializeToString()


def _replace(messages: Any, rest: list[Any]) -> None:
    copies = [type(one).FromString(one.SerializeToString()) for one in rest]
    del messages[:]
    messages.extend(copies)


OF_WHAT_IS_KNOWN = {
    "step_count", "incomplete_step_count", "compared_step_count", "host_count", "core_count", "module_execution_count",
    "finding_count", "used_device_count", "computing_device_count", "annotation_count", "scope_count", "pipeline_count",
    "work_known_share", "step_time_is_bound",
}  # fmt: skip
"""A 0 is so: nothing of that is known."""
_SMALL = 0.01
"""Of a share: what it is part of took another way, such as the critical path."""
OF_INFERRED_STEPS = {
    "slow_step_count", "slow_step_excess_ps", "between_steps_ps", "between_steps_share",
}  # fmt: skip
"""Without markers, steps are inferred: they begin and end elsewhere, and no time is between them."""


def became_zero(full: Reports, rest: Reports) -> Iterator[str]:
    """Figures that were not 0 with all records, and are 0 with the rest."""
    for name, report in rest.items():
        before = full[name]
        for figure, scalar in report.scalars.items():
            was = before.scalars[figure].value
            if figure in OF_WHAT_IS_KNOWN | OF_INFERRED_STEPS or (scalar.unit == "share" and was and was < _SMALL):
                continue
            if scalar.value == 0 and was:
                yield f"{name}: {figure} was {was}"


def became_certain(full: Reports, rest: Reports) -> Iterator[str]:
    """Causes that are certain with fewer records, and were not before."""
    certain = [
        {row["cause"] for row in reports["diagnosis"].tables["findings"].to_pylist() if row["certainty"] == "certain"}
        for reports in (full, rest)
    ]
    yield from sorted(certain[1] - certain[0])
