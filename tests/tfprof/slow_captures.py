"""Views of captures as loops over the public tables compute them: one event, one name and one row at a time."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import fastprof

Frames = tuple[tuple[str, int, str], ...]


@dataclass
class Op:
    """``stack``: frames, the outermost first."""

    name: str
    kind: str
    stack: Frames = ()
    ps: int = 0
    on_device: int = 0
    calls: int = 0
    inputs: list[str] = field(default_factory=list)


def self_times(rows: list[dict[str, Any]]) -> list[int]:
    """Of the events of a line, by start: durations without those of the events right in them."""
    own = [row["duration_ps"] for row in rows]
    around: list[int] = []
    for place, row in enumerate(rows):
        end = row["start_ps"] + row["duration_ps"]
        while around and rows[around[-1]]["start_ps"] + rows[around[-1]]["duration_ps"] < end:
            around.pop()
        if around:
            own[around[-1]] -= row["duration_ps"]
        around.append(place)
    return own


def by_line(rows: list[dict[str, Any]]) -> Iterator[list[dict[str, Any]]]:
    lines = defaultdict(list)
    for row in rows:
        lines[row["line_id"]].append(row)
    for some in lines.values():
        yield sorted(some, key=lambda row: (row["start_ps"], -row["duration_ps"], row["event_id"]))


def scopes_of(op_name: str) -> list[str]:
    """``jit(f)/transpose(jvp(Model))/dot`` has Model and dot."""
    name = op_name.split(";")[0]
    while True:
        bare = re.sub(r"\bp?jit\([^()]*\)/?", "", name)
        bare = re.sub(r"\b(?:transpose|jvp)\(([^()]*)\)", r"\1", bare)
        if bare == name:
            return [part for part in bare.split("/") if part]
        name = bare


def compiled_ops(profile: fastprof.Profile, line: str | None, stats: tuple[str, ...] = ()) -> dict[str, Op]:
    """The instructions that lines of this name, else all that name one in a stat, ran."""
    table = profile.event_table(["event_id", "line", "line_id", "name", "start_ps", "duration_ps"], list(stats))
    chosen = [row for row in table.to_pylist() if (row["line"] == line if line else row["hlo_op"] is not None)]
    for row in chosen:  # the device's own clock, if it is recorded
        row["start_ps"] = row.get("device_offset_ps", row["start_ps"])
        row["duration_ps"] = row.get("device_duration_ps", row["duration_ps"])
    programs = defaultdict(dict)
    for row in profile.hlo_instructions.to_pylist():
        programs[row["program_id"]].setdefault(row["name"], row)
    ops: dict[tuple[int, str], Op] = {}
    for some in by_line(chosen):
        for row, own in zip(some, self_times(some), strict=True):
            key = row["program_id"], row.get("hlo_op") or row["name"].partition(" = ")[0].removeprefix("%")
            if key not in ops:
                ops[key] = described(programs[key[0]], key[1])
            ops[key].ps += own
            ops[key].calls += 1
    for (program_id, name), op in ops.items():
        op.inputs = list(taken(programs[program_id], name, program_id, ops))
    return {op.name: op for op in ops.values()}


def described(program: dict[str, Any], name: str) -> Op:
    row = program[name]
    scopes = scopes_of(row["op_name"] or "") or ["(no scope)"]
    stack = [line.rsplit(":", 2) for line in (row["stack"] or "").splitlines()]
    frames = tuple((file, int(line), "") for file, line, _ in reversed(stack))
    kind = re.sub(r"_\d+$", "", scopes[-1]) if row["op_name"] else row["category"]
    return Op("/".join([*scopes, name]), kind, frames)


def taken(program: dict[str, Any], name: str, program_id: int, ops: dict[tuple[int, str], Op]) -> Iterator[str]:
    """The ops whose outputs one takes, also through instructions that did not run."""
    seen, waiting = set(), list(reversed(program[name]["operands"]))
    while waiting:
        operand = waiting.pop()
        if (program_id, operand) in ops:
            if operand not in seen:
                yield ops[program_id, operand].name
        elif operand not in seen:
            waiting += reversed(program[operand]["operands"])
        seen.add(operand)


# ---- PyTorch


def torch_ops(profile: fastprof.Profile) -> list[Op]:
    """A row for each op, modules and stack of calls; what no op launched is left out."""
    stats = ["cat", "correlation"]
    rows = profile.event_table(["event_id", "line_id", "plane", "name", "start_ps", "duration_ps"], stats).to_pylist()
    host = [row for row in rows if row["plane"] == "/host:CPU" and row["start_ps"] is not None]
    ops: dict[tuple[str, Frames], Op] = {}
    launched: dict[int, Op] = {}
    for line in by_line(host):
        around: list[tuple[int, dict[str, Any], Op | None]] = []
        for row in line:
            end = row["start_ps"] + row["duration_ps"]
            while around and around[-1][0] < end:
                around.pop()
            op = None
            if row["cat"] == "cpu_op":
                op = _of_stack(row, [one for _, one, _ in around], ops)
                op.ps += row["duration_ps"]
                op.calls += 1
                inner = next((one for _, _, one in reversed(around) if one is not None), None)
                if inner is not None:
                    inner.ps -= row["duration_ps"]
            elif row["cat"] in ("cuda_runtime", "cuda_driver"):
                inner = next((one for _, _, one in reversed(around) if one is not None), None)
                if inner is not None:
                    launched[row["correlation"]] = inner
            around.append((end, row, op))
    for row in rows:
        if row["cat"] in ("kernel", "gpu_memcpy", "gpu_memset") and row["correlation"] in launched:
            launched[row["correlation"]].on_device += row["duration_ps"]
    return list(ops.values())


def _of_stack(row: dict[str, Any], around: list[dict[str, Any]], ops: dict[tuple[str, Frames], Op]) -> Op:
    calls = [one["name"] for one in around if one["cat"] == "python_function"]
    modules = [name.removeprefix("nn.Module: ") for name in calls if name.startswith("nn.Module: ")]
    frames = [re.fullmatch(r"(.+)\((\d+)\): (.+)", name) for name in calls]
    stack = tuple((one[1], int(one[2]), one[3]) for one in frames if one)
    name = "/".join([*modules, row["name"]])
    return ops.setdefault((name, stack), Op(name, row["name"], stack))


# ---- views


def scope_view(ops: dict[str, Op]) -> dict[str, tuple[int, int]]:
    """By name of a row its own time and that of all below it, in picoseconds."""
    rows: dict[str, tuple[int, int]] = defaultdict(lambda: (0, 0))
    for op in ops.values():
        parts = op.name.split("/")
        for count in range(len(parts) + 1):
            name = "/".join(parts[:count]) or "_TFProfRoot"
            own, total = rows[name]
            rows[name] = own + op.ps * (count == len(parts)), total + op.ps
    return dict(rows)


def graph_view(ops: dict[str, Op]) -> list[tuple[str, int, int]]:
    """Names, depths and times of all below: each op where a walk meets it first, siblings by name."""
    consumed = {name for op in ops.values() for name in op.inputs}
    met: set[str] = set()

    def walk(names: list[str], depth: int) -> list[list[tuple[str, int, int]]]:
        trees = []
        for name in names:
            if name not in met:
                met.add(name)
                below = walk(ops[name].inputs, depth + 1)
                total = ops[name].ps + sum(tree[0][2] for tree in below)
                trees.append([(name, depth, total), *(row for tree in below for row in tree)])
        return sorted(trees)

    return [row for tree in walk(sorted(set(ops) - consumed), 1) for row in tree]


def code_view(ops: list[Op]) -> dict[tuple[str, ...], int]:
    """By path of lines the time of all that they call."""
    rows: dict[tuple[str, ...], int] = defaultdict(int)
    for op in ops:
        labels = [f"{file.rpartition('/')[2]}:{line}:{short(function)}" for file, line, function in op.stack]
        for count in range(1, len(labels) + 1):
            rows[tuple(labels[:count])] += op.ps + op.on_device
    return dict(rows)


def short(function: str) -> str:
    return function if len(function) < 20 else function[:17] + "..."
