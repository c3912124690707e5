"""Reports in speedscope's file format, which other flame graph tools read too: profiles of stacks with weights, which
are times in nanoseconds.

https://www.speedscope.app/file-format-schema.json describes the format.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from fastprof._version import __version__
from fastprof.render.weighted_stacks import Frame, WeightedStacks, located, stacks_of

if TYPE_CHECKING:
    from fastprof.analyses.contract import Report

SUFFIX: Final = ".speedscope.json"
_SCHEMA: Final = "https://www.speedscope.app/file-format-schema.json"


def chunks(report: Report) -> Iterator[bytes]:
    """The document. Raises UsageError for an analysis without stacks."""
    return _document(report, stacks_of(report, "speedscope"))


def _document(report: Report, profiles: tuple[WeightedStacks, ...]) -> Iterator[bytes]:
    title = report.analysis.replace("_", " ")
    head = {"$schema": _SCHEMA, "name": title, "exporter": f"fastprof {__version__}", "activeProfileIndex": 0}
    yield (json.dumps(head)[:-1] + ', "profiles": [').encode("ascii")
    frames: dict[Frame, int] = {}
    for number, stacks in enumerate(profiles):
        if number == 0 or stacks.weight_ps:
            yield b",\n" if number else b"\n"
            yield _profile(stacks, frames).encode("ascii")
    yield b'],\n"shared": {"frames": [\n'
    yield ",\n".join(map(_frame, frames)).encode("ascii")
    yield b"]}}\n"


def _profile(stacks: WeightedStacks, frames: dict[Frame, int]) -> str:
    """A profile; its frames are added to ``frames``."""
    paths = stacks.paths(list(stacks.weight_ps))
    numbers = ([frames.setdefault(frame, len(frames)) for frame in path] for path in paths)
    samples = ",".join(json.dumps(stack, separators=(",", ":")) for stack in numbers)
    weights = ",".join(map(_nanoseconds, stacks.weight_ps.values()))
    head = json.dumps({"type": "sampled", "name": stacks.title, "unit": "nanoseconds", "startValue": 0})[:-1]
    end = _nanoseconds(sum(stacks.weight_ps.values()))
    return f'{head}, "endValue": {end}, "samples": [{samples}],\n"weights": [{weights}]}}'


def _frame(frame: Frame) -> str:
    name, source = frame
    record: dict[str, object] = {"name": name}
    file, line = located(source)
    if file:
        record |= {"file": file} if line is None else {"file": file, "line": line}
    return json.dumps(record)


def _nanoseconds(ps: int) -> str:
    """An exact JSON number."""
    ns, rest = divmod(ps, 1000)
    return f"{ns}.{rest:03}".rstrip("0") if rest else str(ns)
