"""Reports in speedscope's file format, which other flame graph tools read too: profiles of stacks with weights, which
are times in nanoseconds.

https://www.speedscope.app/file-format-schema.json describes the format. A stack is the path from the root of a tree to
a node; its weight is the time of the node without its children.
"""

from __future__ import annotations

import importlib
import json
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Final

from fastprof._version import __version__
from fastprof.errors import UsageError

if TYPE_CHECKING:
    from fastprof.analyses.contract import Report
    from fastprof.render.stacks import Stacks

STACKED = ("op_profile",)
"""The analyses with stacks."""
SUFFIX: Final = ".speedscope.json"
_SCHEMA: Final = "https://www.speedscope.app/file-format-schema.json"
_BLOCK: Final = 1 << 16
Frame = tuple[str, str | None]
"""A name and its source location."""


def chunks(report: Report) -> Iterator[bytes]:
    """The document. Raises UsageError for an analysis without stacks."""
    if report.analysis not in STACKED:
        raise UsageError(f"{report.analysis} has no stacks for speedscope; these analyses have: {verbs()}")
    profiles = importlib.import_module(f"fastprof.render.stacks.{report.analysis}").stacks(report)
    return _document(report.analysis.replace("_", " "), profiles)


def verbs() -> str:
    """The verbs of the analyses with stacks, separated by commas."""
    return ", ".join(name.replace("_", "-") for name in STACKED)


def _document(title: str, profiles: Sequence[Stacks]) -> Iterator[bytes]:
    frames: dict[Frame, int] = {}
    head = {"$schema": _SCHEMA, "name": title, "exporter": f"fastprof {__version__}", "activeProfileIndex": 0}
    yield (json.dumps(head)[:-1] + ', "profiles": [').encode("ascii")
    for number, profile in enumerate(profiles):
        yield b",\n" if number else b"\n"
        yield from _blocks(_profile(profile, frames))
    yield b'],\n"shared": {"frames": [\n'
    yield from _blocks(_frames(frames))
    yield b"]}}\n"


def _profile(profile: Stacks, frames: dict[Frame, int]) -> Iterator[str]:
    timed = [node for node, own in enumerate(profile.own_ps) if own > 0]
    total = sum(profile.own_ps[node] for node in timed)
    head = {"type": "sampled", "name": profile.title, "unit": "nanoseconds", "startValue": 0}
    yield json.dumps(head)[:-1] + f', "endValue": {_nanoseconds(total)}, "samples": ['
    for number, node in enumerate(timed):
        yield "," * bool(number) + str(_stack(node, profile, frames)).replace(" ", "")
    yield '],\n"weights": ['
    for number, node in enumerate(timed):
        yield "," * bool(number) + _nanoseconds(profile.own_ps[node])
    yield "]}"


def _stack(node: int, profile: Stacks, frames: dict[Frame, int]) -> list[int]:
    """The numbers of the frames on the path from below the root to the node; for the root its own frame."""
    stack = [node]
    while (node := profile.parent[node]) > 0:
        stack.append(node)
    return [frames.setdefault((profile.name[one], profile.source[one]), len(frames)) for one in reversed(stack)]


def _frames(frames: Iterable[Frame]) -> Iterator[str]:
    for number, (name, source) in enumerate(frames):
        frame: dict[str, object] = {"name": name}
        if source:
            file, _, line = source.rpartition(":")
            frame |= {"file": file, "line": int(line)} if file and line.isdigit() else {"file": source}
        yield ",\n" * bool(number) + json.dumps(frame)


def _nanoseconds(ps: int) -> str:
    """An exact JSON number."""
    ns, rest = divmod(ps, 1000)
    return f"{ns}.{rest:03}".rstrip("0") if rest else str(ns)


def _blocks(texts: Iterable[str]) -> Iterator[bytes]:
    """The texts, joined to blocks of a size worth writing."""
    waiting: list[str] = []
    size = 0
    for text in texts:
        waiting.append(text)
        size += len(text)
        if size >= _BLOCK:
            yield "".join(waiting).encode("ascii")
            waiting, size = [], 0
    yield "".join(waiting).encode("ascii")
