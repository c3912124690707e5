"""Parts of two runs that are the same thing, although names, scopes, shapes or numbers changed.

Keys are tried one after the other, the strictest first; what has a key in both runs is one pair, and later keys only
see the rest::

    change of programs       fusions that were split or merged, by their contents: program_changes
    name, scope, shape       convolution_fusion.106 of head/dot_general, bf16[4096,1024]
    stem, scope, shape       numbers of instructions changed
    stem, scope              shapes changed: another batch
    stem, shape              the scope was renamed
    scope                    another kernel or fusion for the same op
    stem                     a kernel family, or an op without a scope
    outer scopes, inner first    a fusion was split or merged: the lowest scope that both runs have

What remains is new or gone.

The parts are those of the mean step: device time by op, and by cause where devices do not compute::

    mean step   |== op ==|= op =|- exposed collective -|.. idle, by cause ..|~ waits for the slowest device ~|
    of the mean device, in the complete steps after warm-up                  of the slowest beyond the mean one

They are of the mean device; the step takes as long as on its slowest core. What separates the two is a part of its own,
so that all parts together are the mean step.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache, partial
from itertools import chain
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from fastprof.derive.comparison.change_statistics import find_warm_up
from fastprof.derive.devices.communication_kinds import find_collective_kind, find_communication
from fastprof.derive.devices.op_names import drop_serial
from fastprof.derive.steps.step_database import IDLE
from fastprof.schema.columns import Int64s
from fastprof.schema.value_classes import dataclass
from fastprof.wording.patterns import compile_late

OP, STRAGGLER, COMMUNICATION = "op", "straggler", "communication"
DEVICE_BUSY, HOST_OPS = "device busy time", "host op time"
"""Times of runs without steps: of the mean device without idle time, and self time of ops of the mean host."""
_IDLE_KIND: Final = "idle"
_UNNAMED: Final = "compute of no recorded op"


@dataclass(frozen=True, slots=True)
class RunSteps:
    """Complete steps of a run, in order: their numbers, the time of each on its slowest core, and how many of the first
    are warm-up, which count for nothing."""

    number: Int64s
    time_ps: Int64s
    warm_up: int

    @property
    def judged_ps(self) -> Int64s:
        return self.time_ps[self.warm_up :]

    @property
    def judged(self) -> Int64s:
        return self.number[self.warm_up :]


@dataclass(frozen=True, slots=True)
class StepPart:
    """Part of the mean step. ``kind``: OP, or the name of a cause; ``name``: of the op, or of what explains the cause,
    "" if nothing does; ``scope``, ``shape``: of ops, "" if unknown; ``time_ps``: per step, of the mean
    device; ``count``, ``flops``: per step and device, None if unknown; ``program``: id of the op's program, None if
    unknown; ``change``: number of the change of programs that it belongs to, or -1."""

    kind: str
    name: str
    time_ps: float
    count: float | None = None
    scope: str = ""
    shape: str = ""
    flops: float | None = None
    program: int | None = None
    change: int = -1


def list_run_steps(steps: pa.Table) -> RunSteps:
    """Return the complete steps that all hosts have. ``steps``: the table of the analysis steps."""
    rows = steps.filter(pc.is_valid(steps["step"]))
    longest = rows.group_by("step").aggregate([("period_ps", "max"), ("complete", "min")]).sort_by("step")
    longest = longest.filter(longest["complete_min"])
    number, time_ps = (np.asarray(longest[name], np.int64) for name in ("step", "period_ps_max"))
    return RunSteps(number, time_ps, find_warm_up(time_ps))


def list_step_parts(steps: RunSteps, by_step: pa.Table, ops: pa.Table, host_ops: pa.Table) -> list[StepPart]:
    """Return the parts of the mean step. ``by_step``: the table of the analysis gaps; ``ops``, ``host_ops``: device_ops
    and host_ops of the analysis op_stats, of the judged steps alone; host ops count where no device ran any."""
    rows = by_step.filter(pc.is_in(by_step["step"], value_set=pa.array(steps.judged)))
    devices = len(list(_list_sums(rows, ("host", "device"))))
    if not devices:
        return []
    shares = len(steps.judged) * devices
    waits, waited_for = _measure_waits(rows)
    times = _sum_causes(rows, waits)
    compute = times.pop((None, ""), 0) / shares
    idle_ps = times.pop((STRAGGLER, ""), 0) / shares
    others = [StepPart(kind or OP, name, time / shares) for (kind, name), time in times.items()]
    parts = others + _list_ops(
        ops if ops.num_rows > int(IDLE in ops["name"].to_pylist()) else host_ops, compute, shares
    )
    waited_ps = idle_ps + sum(waits.values()) / shares
    if devices > 1 or waited_ps:
        beyond = float(np.mean(steps.judged_ps)) - compute - sum(part.time_ps for part in others)
        parts.append(StepPart(STRAGGLER, waited_for, max(beyond, waited_ps) if devices > 1 else waited_ps))
    return parts


def list_run_parts(by_step: pa.Table, ops: pa.Table, host_ops: pa.Table, hosts: int) -> dict[str, list[StepPart]]:
    """Return the parts of an entire run, by DEVICE_BUSY and HOST_OPS, as far as they are recorded. Tables as for
    ``list_step_parts``, of the entire run."""
    whole: dict[str, list[StepPart]] = {}
    rows = by_step.filter(pc.not_equal(by_step["kind"].cast("string"), _IDLE_KIND))
    devices = len(list(_list_sums(rows, ("host", "device"))))
    if devices:
        times = _sum_causes(rows, {})
        compute = times.pop((None, ""), 0) / devices
        others = [StepPart(kind or OP, name, time / devices) for (kind, name), time in times.items()]
        known = _list_ops(ops if ops.num_rows else host_ops, compute, devices)
        rest = compute - sum(part.time_ps for part in known)
        whole[DEVICE_BUSY] = [*others, *known, StepPart(OP, _UNNAMED, max(rest, 0.0))]
    if host_ops.num_rows and hosts:
        whole[HOST_OPS] = _list_ops(host_ops, math.inf, hosts)
    return {measure: parts for measure, parts in whole.items() if parts}


def _sum_causes(rows: pa.Table, waits: Mapping[Any, int]) -> Counter[tuple[str | None, str]]:
    """Return the time of all devices in all steps by cause and explanation, compute as None, less the time in
    collectives that devices wait for the slowest."""
    times: Counter[tuple[str | None, str]] = Counter()
    for cause, event, time in _list_sums(rows, ("cause", "event")):
        times[cause, "" if cause == STRAGGLER else event or ""] += time
    if waits:
        communication = rows.filter(pc.equal(rows["cause"].cast("string"), COMMUNICATION))
        names = ("host", "device", "step", "event", "time_ps")
        for host, device, step, event, time in zip(*(communication[name].to_pylist() for name in names), strict=True):
            times[COMMUNICATION, event or ""] -= min(waits.get((host, device, step), 0), time)
    return times


def _list_sums(rows: pa.Table, keys: Sequence[str]) -> Iterator[tuple[Any, ...]]:
    """Yield each combination of values of key columns with the sum of its times."""
    columns = {name: rows[name].cast("string") if name != "step" else rows[name] for name in keys}
    sums = pa.table({**columns, "time_ps": rows["time_ps"]}).group_by(list(keys)).aggregate([("time_ps", "sum")])
    yield from zip(*(sums[name].to_pylist() for name in (*keys, "time_ps_sum")), strict=True)


def _measure_waits(rows: pa.Table) -> tuple[Mapping[Any, int], str]:
    """Return how long each device waits in collectives of each step for the slowest: beyond the device that spends
    least there; and the device for which most is waited, or ""."""
    communication = rows.filter(pc.equal(rows["cause"].cast("string"), COMMUNICATION))
    spent: dict[Any, dict[tuple[str, str], int]] = defaultdict(lambda: defaultdict(int))
    for step, host, device, time in _list_sums(communication, ("step", "host", "device")):
        spent[step][host, device] = time
    present = Counter(step for step, *_ in _list_sums(rows, ("step", "host", "device")))
    waits, blamed = {}, Counter[str]()
    for step, times in spent.items():
        least = min(times.values()) if len(times) == present[step] else 0
        if len(times) > 1:
            waits.update({(host, device, step): time - least for (host, device), time in times.items()})
            slowest = min(times, key=lambda place: times[place])
            blamed["/".join(slowest)] += sum(times.values()) - least * len(times)
    return waits, blamed.most_common(1)[0][0] if blamed else ""


_COLUMNS: Final = ("name", "self_ps", "occurrences")
_COPIES: Final = ("copy (", "Memcpy", "memset")
"""Prefixes of categories of copies."""
_OF_DEVICES: Final = ("category", "framework_op", "long_name")


def _list_ops(ops: pa.Table, compute: float, shares: int) -> list[StepPart]:
    """Return the ops that compute. Ops that run side by side take more time than passes: they share it."""
    columns = [*_COLUMNS, *(name for name in (*_OF_DEVICES, "flops", "program_id") if name in ops.column_names)]
    parts = []
    for row in ops.select(columns).to_pylist():
        category, scope, text = (row.get(name) or "" for name in _OF_DEVICES)
        name = row["name"].removeprefix(f"{scope}/")
        moves = category.startswith(_COPIES) or find_communication(category, text, name) or find_collective_kind(name)
        if row["name"] == IDLE or not row["self_ps"] or moves:  # of what moves data, exposed time counts: see causes
            continue
        flops, shape = row.get("flops"), text.partition(" = ")[2].partition("{")[0].partition(" ")[0]
        time_ps, count = row["self_ps"] / shares, row["occurrences"] / shares
        work = None if flops is None else flops / shares
        parts.append(StepPart(OP, name, time_ps, count, scope, shape, work, row.get("program_id")))
    total = sum(part.time_ps for part in parts)
    return [replace(part, time_ps=part.time_ps * compute / total) for part in parts] if total > compute else parts


def computes_outside(steps: RunSteps, by_step: pa.Table) -> bool:
    """Return whether devices compute in other time than the judged steps."""
    compute = by_step.filter(pc.is_null(by_step["cause"]))
    inside = pc.fill_null(pc.is_in(compute["step"], value_set=pa.array(steps.judged)), False)
    return bool(pc.any(pc.invert(inside)).as_py())


BY_NAME, BY_SCOPE, BY_CONTENTS, UNMATCHED = "name", "scope", "contents", "none"
_LEAST_PART, _LEAST_CHANGE = 0.05, 0.02
"""Least change of an op that was split: as a share of what the new op takes, and of the op's own time."""
# ---- pairs of parts


_DEEPEST: Final = 8
"""Levels of scopes that are tried for split fusions."""


@dataclass(frozen=True, slots=True)
class Pair:
    """One thing in both runs, or in one of them. ``base``, ``new``: its parts; ``matched``: BY_NAME, BY_SCOPE,
    BY_CONTENTS or UNMATCHED; ``name``: of the thing."""

    kind: str
    name: str
    base: tuple[StepPart, ...]
    new: tuple[StepPart, ...]
    matched: str

    @property
    def base_ps(self) -> float:
        return sum(part.time_ps for part in self.base)

    @property
    def new_ps(self) -> float:
        return sum(part.time_ps for part in self.new)

    @property
    def change_ps(self) -> float:
        return self.new_ps - self.base_ps


_TEMPLATE: Final = compile_late(r"<[^<>]*>|\([^()]*\)")
_TILING: Final = compile_late(r"(?:_?\d+)+(?:x\d+)*")
_MOST: Final = 4_096
"""Characters of a name that are looked at."""


@lru_cache(1 << 15)
def get_stem(name: str) -> str:
    """Return an op or kernel name without its serial number, template arguments and parameters."""
    bare, length = name[:_MOST], -1
    while length != len(bare):
        length, bare = len(bare), _TEMPLATE.sub("", bare)
    words = bare.split()
    return drop_serial(words[-1] if words else name)


def get_family(name: str) -> str:
    """Return the family of a kernel: its stem without all numbers."""
    return _TILING.sub("", get_stem(name).rpartition("::")[2])


_Key = Callable[[StepPart], Hashable]
_KEYS: Final[tuple[tuple[str, _Key], ...]] = (
    (BY_CONTENTS, lambda part: part.change if part.change >= 0 else None),
    (BY_NAME, lambda part: (part.name, part.scope, part.shape)),
    (BY_NAME, lambda part: (get_stem(part.name), part.scope, part.shape)),
    (BY_NAME, lambda part: (get_stem(part.name), part.scope)),
    (BY_NAME, lambda part: (get_stem(part.name), part.shape) if part.shape else None),
    (BY_SCOPE, lambda part: part.scope or None),
    (BY_NAME, lambda part: get_family(part.name)),
    (BY_SCOPE, lambda part: None if part.kind == OP else part.kind),
)
"""How a pair is matched, by key; parts whose key is None have none."""


def match_parts(base: Sequence[StepPart], new: Sequence[StepPart]) -> list[Pair]:
    """Return what the parts of two runs have in common, each part in one pair."""
    pairs: list[Pair] = []
    left, right = list(base), list(new)
    for matched, key in _KEYS:
        left, right = _take_pairs(pairs, left, right, matched, key)
    for depth in range(_DEEPEST, 0, -1):
        left, right = _take_pairs(pairs, left, right, BY_SCOPE, partial(_get_outer_scope, depth))
    pairs += [_make_pair([part], [], UNMATCHED) for part in left]
    pairs += [_make_pair([], [part], UNMATCHED) for part in right]
    return list(_join_splits(pairs))


def _take_pairs(
    pairs: list[Pair], left: list[StepPart], right: list[StepPart], matched: str, key: _Key
) -> tuple[list[StepPart], list[StepPart]]:
    """Add the pairs that a key makes, and return what it leaves of both runs."""
    groups: dict[Hashable, tuple[list[StepPart], list[StepPart]]] = defaultdict(lambda: ([], []))
    rest: tuple[list[StepPart], list[StepPart]] = ([], [])
    for side, parts in enumerate((left, right)):
        for part in parts:
            value = key(part)
            (rest if value is None else groups[part.kind, value])[side].append(part)
    for of_base, of_new in groups.values():
        if of_base and of_new:
            pairs.append(_make_pair(of_base, of_new, matched))
        else:
            rest[0].extend(of_base)
            rest[1].extend(of_new)
    return rest


def _make_pair(base: Sequence[StepPart], new: Sequence[StepPart], matched: str) -> Pair:
    longest = max([*new, *base], key=lambda part: part.time_ps)
    several = matched in (BY_SCOPE, BY_CONTENTS) and len(base) + len(new) > 2
    name = _join_scopes([*base, *new]) if several else longest.name
    return Pair(longest.kind, name or longest.name, tuple(base), tuple(new), matched)


def _get_outer_scope(depth: int, part: StepPart) -> str | None:
    """Return the first ``depth`` levels of an op's scope, or None if it has fewer."""
    levels = part.scope.split("/")
    return "/".join(levels[:depth]) if part.kind == OP and part.scope and len(levels) >= depth else None


def _join_scopes(parts: Sequence[StepPart]) -> str:
    """Return the lowest scope that holds all ops."""
    levels = [part.scope.split("/") for part in parts]
    shared = 0
    while all(len(path) > shared and path[shared] == levels[0][shared] for path in levels):
        shared += 1
    return "/".join(levels[0][:shared])


def _get_parent_scope(pair: Pair) -> str:
    return _join_scopes([*pair.base, *pair.new]).rpartition("/")[0]


def _join_splits(pairs: Sequence[Pair]) -> Iterator[Pair]:
    """Join a new or gone op with the op of its scope whose time changed the other way: a fusion that was split or
    merged."""
    partners: dict[tuple[str, bool], Pair] = {}
    for pair in pairs:
        place = _get_parent_scope(pair), pair.change_ps > 0
        if pair.kind == OP and pair.matched != UNMATCHED and place[0]:
            partners[place] = max(partners.get(place, pair), pair, key=lambda pair: abs(pair.change_ps))
    joined: dict[int, list[Pair]] = defaultdict(list)
    for pair in pairs:
        partner = partners.get((_get_parent_scope(pair), pair.change_ps <= 0))
        if pair.kind == OP and pair.matched == UNMATCHED and partner is not None:
            least = max(_LEAST_PART * abs(pair.change_ps), _LEAST_CHANGE * max(partner.base_ps, partner.new_ps))
            if abs(partner.change_ps) >= least:
                joined[id(partner)].append(pair)
    taken = {id(pair) for some in joined.values() for pair in some}
    for pair in pairs:
        if id(pair) in joined:
            some = [pair, *joined[id(pair)]]
            yield _make_pair([*chain(*(pair.base for pair in some))], [*chain(*(pair.new for pair in some))], BY_SCOPE)
        elif id(pair) not in taken:
            yield pair
