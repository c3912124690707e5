"""Reports in speedscope's file format, which other flame graph tools read too: profiles of stacks with weights, which
are times in nanoseconds.

https://www.speedscope.app/file-format-schema.json describes the format. A stack is the path from the root of a tree to
a node; its weight is the time of the node without its children.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Final

from fastprof._version import __version__
from fastprof.errors import UsageError

if TYPE_CHECKING:
    import pyarrow as pa

    from fastprof.analyses.contract import Report

STACKED = ("op_profile", "python_time")
"""The analyses with stacks."""
SUFFIX: Final = ".speedscope.json"
_SCHEMA: Final = "https://www.speedscope.app/file-format-schema.json"
Frame = tuple[str, str | None]
"""A name and its source location, ``file:line`` or None."""


def chunks(report: Report) -> Iterator[bytes]:
    """The document. Raises UsageError for an analysis without stacks."""
    if report.analysis not in STACKED:
        raise UsageError(f"{report.analysis} has no stacks for speedscope; these analyses have: {verbs()}")
    return _document(report)


def verbs() -> str:
    """The verbs of the analyses with stacks, separated by commas."""
    return ", ".join(name.replace("_", "-") for name in STACKED)


def _profiles(report: Report) -> tuple[tuple[str, pa.Table, str], ...]:
    """The title of each profile, the table of its tree, and the column with times of nodes and all below them."""
    if report.analysis == "python_time":
        stacks = report.tables["stacks"]
        return ("Time of threads", stacks, "total_ps"), ("Time of devices", stacks, "device_ps")
    from fastprof.analyses.op_profile import OpProfile

    group_by = report.detail_as(OpProfile).group_by
    tree, scopes = report.tables["tree"], report.tables["scopes"]
    return (
        (f"Device time by {group_by}", tree, "self_ps"),
        ("Device time by scope of the model", scopes, "self_ps"),
        (f"Wasted time by {group_by}", tree, "lost_ps"),
    )


def _document(report: Report) -> Iterator[bytes]:
    title = report.analysis.replace("_", " ")
    head = {"$schema": _SCHEMA, "name": title, "exporter": f"fastprof {__version__}", "activeProfileIndex": 0}
    yield (json.dumps(head)[:-1] + ', "profiles": [').encode("ascii")
    frames: dict[Frame, int] = {}
    for number, (name, table, column) in enumerate(_profiles(report)):
        own_ps = _own(table, column)
        if number == 0 or own_ps:
            yield b",\n" if number else b"\n"
            yield _profile(name, table, own_ps, frames).encode("ascii")
    yield b'],\n"shared": {"frames": [\n'
    yield ",\n".join(map(_frame, frames)).encode("ascii")
    yield b"]}}\n"


def _own(table: pa.Table, column: str) -> dict[int, int]:
    """The time of each node without its children, if there is any. Rounded parts may add up to more than the node."""
    times = [time or 0 for time in table[column].to_pylist()]
    own = list(times)
    for parent, time in zip(table["parent"].to_pylist()[1:], times[1:], strict=True):
        own[parent] -= time
    return {node: time for node, time in enumerate(own) if time > 0}


def _profile(title: str, table: pa.Table, own_ps: Mapping[int, int], frames: dict[Frame, int]) -> str:
    """A profile; its frames are added to ``frames``. A stack has no frame of the root, but that of the root itself."""
    parents, names = table["parent"].to_pylist(), table["name"].to_pylist()
    sources = table["source"].to_pylist() if "source" in table.column_names else [None] * len(names)
    stacks = []
    for node in own_ps:
        path = [node]
        while above := parents[path[-1]]:
            path.append(above)
        stacks.append([frames.setdefault((names[one], sources[one]), len(frames)) for one in reversed(path)])
    samples = ",".join(json.dumps(stack, separators=(",", ":")) for stack in stacks)
    weights = ",".join(map(_nanoseconds, own_ps.values()))
    head = json.dumps({"type": "sampled", "name": title, "unit": "nanoseconds", "startValue": 0})[:-1]
    end = _nanoseconds(sum(own_ps.values()))
    return f'{head}, "endValue": {end}, "samples": [{samples}],\n"weights": [{weights}]}}'


def _frame(frame: Frame) -> str:
    name, source = frame
    record: dict[str, object] = {"name": name}
    if source:
        file, _, line = source.rpartition(":")
        record |= {"file": file, "line": int(line)} if file and line.isdigit() else {"file": source}
    return json.dumps(record)


def _nanoseconds(ps: int) -> str:
    """An exact JSON number."""
    ns, rest = divmod(ps, 1000)
    return f"{ns}.{rest:03}".rstrip("0") if rest else str(ns)
