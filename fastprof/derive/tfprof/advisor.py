"""What tfprof's advisor examines: the use of accelerators, slow kinds of ops, and where most of the time goes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

import numpy as np
import pyarrow.compute as pc

from fastprof.derive.tfprof.forest import Ints
from fastprof.derive.tfprof.options import Options
from fastprof.derive.tfprof.recorded import FIGURES, Recorded, flags, numbers, plain, texts
from fastprof.derive.tfprof.view_set import ViewSet
from fastprof.derive.tfprof.views import Shown
from fastprof.schema.value_classes import dataclass

CHECKERS: Final = ("AcceleratorUtilizationChecker", "OperationChecker", "ExpensiveOperationChecker", "JobChecker")
_TOP: Final = 3
_OPS: Final = Options(max_depth=3, min_micros=1, order_by="micros")
_SCOPES: Final = Options(max_depth=100, min_micros=100, order_by="micros")
_LINES: Final = Options(max_depth=100, min_micros=1, order_by="micros")
_LONG_US: Final = 1000
_DEEPEST: Final = 3
_LATEST: Final = 2**63 - 1


class Use(NamedTuple):
    """How much of the time between its first start and last end an accelerator computed, in the last step."""

    device: str
    share: float


def uses(recorded: Recorded) -> list[Use]:
    """The accelerators that ran anything, by name."""
    node, step, start, end = _last_runs(recorded)
    if not len(node):
        return []
    devices = recorded.devices.dictionary_encode()
    device_of = numbers(devices.indices)
    order = np.argsort(device_of[node], kind="stable")
    device = device_of[node][order]
    first = np.flatnonzero(np.diff(device, prepend=-1))
    begins = np.minimum.reduceat(np.where(start == 0, _LATEST, start)[order], first)
    ends = np.maximum.reduceat(end[order], first)
    busy_of, busy = _accelerator_times(recorded, node, step)
    by_device = np.argsort(device_of[busy_of], kind="stable")
    bounds = np.searchsorted(device_of[busy_of][by_device], np.append(device[first], len(devices.dictionary)))
    found = []
    for place, number in enumerate(device[first].tolist()):
        name = devices.dictionary[number].as_py()
        begin = int(begins[place])
        span = max(0, int(ends[place])) - (begin if begin != _LATEST else 0)
        if "gpu" in name and span > 0:
            computed = busy[by_device[bounds[place] : bounds[place + 1]]]
            found.append(Use(name, sum(computed.tolist()) / span))
    return sorted(found, key=lambda use: use.device.encode())


def _last_runs(recorded: Recorded) -> tuple[Ints, Ints, Ints, Ints]:
    """The nodes that ran; of each the last step in which it did, and its start and end in it."""
    runs = plain(recorded.nodes["run_times"])
    each, node = pc.list_flatten(runs), numbers(pc.list_parent_indices(runs))
    last = np.flatnonzero(np.diff(node, append=-1))
    step, start, end = (numbers(each.field(name))[last] for name in ("step", "start_us", "end_us"))
    return node[last], step, start, end


def _accelerator_times(recorded: Recorded, node: Ints, step: Ints) -> tuple[Ints, Ints]:
    """The nodes and durations of what accelerators ran in these steps of nodes."""
    every = recorded.executions
    last, ran = np.zeros(len(recorded), np.int64), np.zeros(len(recorded), np.bool_)
    last[node], ran[node] = step, True
    rows = recorded.rows_of(every["name"])
    chosen = flags(every["is_accelerator"]) & ran[rows] & (last[rows] == numbers(every["step"]))
    return rows[chosen], numbers(every["duration_us"])[chosen]


def could_fuse_norms(recorded: Recorded) -> bool:
    """Whether nodes are called after batch normalisation, and none is the fused op."""
    if not pc.any(pc.match_substring(recorded.names, "BatchNorm")).as_py():
        return False
    types = texts(pc.list_flatten(plain(recorded.nodes["types"])))
    return not pc.any(pc.equal(types, "FusedBatchNorm")).as_py()


def has_channels_last(recorded: Recorded) -> bool:
    """Whether a node of an accelerator has its channels last."""
    return len(channels_last_nodes(recorded)) > 0


def channels_last_nodes(recorded: Recorded) -> Ints:
    """The nodes of accelerators that have their channels last."""
    attrs = plain(recorded.nodes["attrs"])
    each = pc.list_flatten(attrs)
    values = pc.utf8_trim(texts(each.field("value")), '"')
    found = pc.and_(pc.equal(texts(each.field("name")), "data_format"), pc.equal(values, "NHWC"))
    nodes = numbers(pc.list_parent_indices(attrs))[flags(found)]
    on_gpu: Ints = nodes[flags(pc.match_substring(recorded.devices.take(nodes), "gpu"))]
    return np.unique(on_gpu)


class Costly(NamedTuple):
    """A row of a view that takes long. ``figures`` are its own or its sums, in the order of FIGURES."""

    name: str
    depth: int
    figures: Ints


def costly_ops(views: ViewSet) -> tuple[list[Costly], int]:
    """The ops that take longest, and the time of all. Without a row, nothing ran."""
    shown = views.shown("op", _OPS)
    names = shown.names.slice(1, _TOP).to_pylist()
    rows = [Costly(name, 0, shown.figures[:, place]) for place, name in enumerate(names, 1)]
    return rows, int(shown.totals[FIGURES.index("micros"), 0])


def costly_scopes(views: ViewSet) -> list[Costly]:
    """The first scopes below the root by the time of all in them, with the figures that they have themselves."""
    shown = views.shown("scope", _SCOPES)
    places = _below(shown, 0)[:_TOP]
    return [Costly(shown.names[place].as_py(), 0, shown.figures[:, place]) for place in places]


def costly_lines(views: ViewSet) -> list[Costly] | None:
    """Where the code branches: the lines below each that take longest, from the first branch on. None: it does
    not branch."""
    shown = views.shown("code", _LINES)
    below, place = _below(shown, 0), 0
    while len(below) == 1:
        (place,) = below
        below = _below(shown, place)
    return None if not below else list(_branches(shown, place, 0))


def _branches(shown: Shown, place: int, depth: int) -> Iterator[Costly]:
    below = _below(shown, place)
    if len(below) <= 1 or depth > _DEEPEST:
        return
    for one in below[:_TOP]:
        if shown.totals[FIGURES.index("micros"), one] >= _LONG_US:
            yield Costly(shown.names[one].as_py(), depth, shown.totals[:, one])
            yield from _branches(shown, one, depth + 1)


class Suspects(NamedTuple):
    """Nodes that may take longer than they need: how many, their time in all steps, and the name and op of the longest.
    It is that on accelerators, or without any on the host."""

    node_count: int
    time_us: int
    longest: str
    op: str


@dataclass(frozen=True, slots=True)
class Examined:
    """What the advisor found of one host; None: nothing of that kind. ``costly``: the ops that take longest with their
    time, and ``total_us`` that of all, in an average step; ``line``: the line of code that takes longest where the code
    first branches."""

    host: str
    uses: list[Use]
    unfused_norms: Suspects | None
    channels_last: Suspects | None
    costly: list[tuple[str, int]]
    total_us: int
    line: str | None


def examined(host: str, views: ViewSet) -> Examined:
    """CaptureError: the profile is damaged."""
    recorded = views.recorded
    norms = flags(pc.match_substring(recorded.names, "BatchNorm")) if could_fuse_norms(recorded) else None
    lines = costly_lines(views) if views.lines.is_known else None
    ops, total_us = costly_ops(views) if recorded.steps else ([], 0)
    return Examined(
        host,
        uses(recorded),
        None if norms is None else _suspects(recorded, np.flatnonzero(norms)),
        _suspects(recorded, channels_last_nodes(recorded)) if has_channels_last(recorded) else None,
        [(op.name, int(op.figures[FIGURES.index("micros")])) for op in ops],
        total_us,
        lines[0].name if lines else None,
    )


def _suspects(recorded: Recorded, nodes: Ints) -> Suspects | None:
    every = recorded.executions
    rows, is_accelerator = recorded.rows_of(every["name"]), flags(every["is_accelerator"])
    times = np.zeros((2, len(recorded)), np.int64)
    for place, chosen in enumerate((is_accelerator, ~is_accelerator)):
        chosen = chosen & (rows >= 0)
        np.add.at(times[place], rows[chosen], np.maximum(numbers(every["duration_us"])[chosen], 0))
    of_nodes = times[0 if times[0, nodes].any() else 1, nodes]
    if not len(nodes):
        return None
    longest = int(nodes[int(np.argmax(of_nodes))])
    names, ops = recorded.names, recorded.ops
    return Suspects(len(nodes), sum(of_nodes.tolist()), names[longest].as_py(), ops[longest].as_py() or "")


def _below(shown: Shown, place: int) -> list[int]:
    """The rows right below one."""
    end, last = shown.forest.end, int(shown.forest.end[place])
    rows, row = [], place + 1
    while row < last:
        rows.append(row)
        row = int(end[row])
    return rows
