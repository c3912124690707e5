"""Ends of flows: which events produce what others consume.

An event may say so itself (stats ``_pt`` and ``_p`` of producers, ``_ct`` and ``_c`` of consumers: a kind of context
and an id); launches of kernels and kernels have a correlation id; others are connected by what they have in common.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from fastprof._native import records
from fastprof.derive.host import Host
from fastprof.derive.ops.stat_values import stat_beside
from fastprof.derive.steps.event_types import CODES
from fastprof.derive.steps.links import DEVICE_REQUESTS, Ends, contexts, having, module_ends, numbered
from fastprof.schema.array_types import Int32s, Int64s
from fastprof.schema.value_classes import dataclass
from fastprof.tables.host_events import HostEvents

Types = npt.NDArray[np.uint8]

KINDS: Final = (
    "generic", "legacy", "tf_exec", "tfrt_exec", "batch_sched", "PjRt", "as_batch_sched", "tfrt_rt", "tpu_embed",
    "gpu_launch", "batcher", "tpu_stream", "tpu_launch", "pathways_exec", "pjrt_library_call", "threadpool_event",
    "jax_serving", "sparsecore_offload",
)  # fmt: skip
"""What connects the ends of a flow, by its number in captures."""
SHOWN_KINDS: Final = (*KINDS, "async_op")
"""As ``KINDS``, and what captures have no number for: an op that starts something, and the one that ends it."""
ASYNC_OP: Final = len(KINDS)
GENERIC, LEGACY, GPU_LAUNCH, TPU_STREAM, TPU_LAUNCH = 0, 1, 9, 11, 12
IN, OUT = 1, 2
LAUNCHES, CONTEXTS = 0, 1
"""Spaces of keys: correlation ids, and ids that events record themselves, by context and process."""
RUN_ID_BITS: Final = 2**27 - 1
_DEVICE_PLANES: Final = ("/device", "#Chip", "/custom:")


@dataclass(frozen=True, slots=True)
class FlowEnds:
    """``rows``: int32. ``direction``: uint8, IN of consumers, OUT of producers. ``kind``: uint8, a place in ``KINDS``.
    ``number``: int64, equal for ends of one flow."""

    rows: Int32s
    direction: npt.NDArray[np.uint8]
    kind: npt.NDArray[np.uint8]
    number: Int64s

    def __len__(self) -> int:
        return len(self.rows)

    def take(self, chosen: npt.NDArray[Any]) -> FlowEnds:
        """These ends: their places, or a flag for each."""
        return FlowEnds(self.rows[chosen], self.direction[chosen], self.kind[chosen], self.number[chosen])


@dataclass(frozen=True, slots=True)
class Keyed:
    """Ends of one kind of key: ``parts`` are two int64 columns. Keys of different ``space`` are never equal."""

    rows: Int32s
    direction: npt.NDArray[np.uint8]
    kind: npt.NDArray[np.uint8]
    space: int
    parts: tuple[Int64s, Int64s]


def flow_keys(host: Host) -> list[Keyed]:
    """The ends by correlation id, then producers, then consumers; each event is at most once in each of the three."""
    events, types = host.raw, host.forest.types
    producers, consumers = _connected(events, types)
    launched = events.stat("correlation_id").of_kinds((records.INT64, records.UINT64))
    return [
        correlated(events, launched.rows, launched.value),
        _own(events, "_pt", "_p", OUT, producers),
        *producers,
        _own(events, "_ct", "_c", IN, consumers),
        *consumers,
    ]


def flow_ends(keys: Sequence[Keyed]) -> FlowEnds:
    """The ends with these keys, in the same order."""
    columns = [
        np.concatenate([np.full(len(one.rows), one.space) for one in keys]),
        np.concatenate([one.kind for one in keys]).astype(np.int64),
        np.concatenate([one.parts[0] for one in keys]),
        np.concatenate([one.parts[1] for one in keys]),
    ]
    number, _ = numbered(columns)
    rows, direction = (np.concatenate([getattr(one, name) for one in keys]) for name in ("rows", "direction"))
    return FlowEnds(rows.astype(np.int32), direction, columns[1].astype(np.uint8), number.astype(np.int64))


def _keyed(rows: Int32s, direction: int, kind: int, space: int, parts: tuple[Int64s, Int64s]) -> Keyed:
    return Keyed(rows, np.full(len(rows), direction, np.uint8), np.full(len(rows), kind, np.uint8), space, parts)


def correlated(events: HostEvents, rows: Int32s, value: Int64s) -> Keyed:
    """Events with these correlation ids: those of devices consume."""
    found = _keyed(rows, OUT, GPU_LAUNCH, LAUNCHES, (value, np.zeros(len(rows), np.int64)))
    for plane in events.planes:
        if plane.name.startswith(_DEVICE_PLANES):
            found.direction[slice(*np.searchsorted(rows, [plane.first, plane.last]))] = IN
    return found


def _own(events: HostEvents, kind: str, number: str, direction: int, connected: Sequence[Keyed]) -> Keyed:
    """Ends that events record themselves, unless they are connected in another way as well."""
    ends = contexts(events, kind, number)
    elsewhere = np.zeros(len(events), bool)
    for one in connected:
        elsewhere[one.rows] = True
    keep = ~elsewhere[ends.rows]
    rows, kinds, ids = ends.rows[keep], ends.keys[0][keep], ends.keys[1][keep]
    safe = np.where((kinds >= 0) & (kinds < len(KINDS)), kinds, GENERIC).astype(np.uint8)
    process = np.zeros(len(rows), np.int64)
    if len(ends.keys) > 2:
        process = np.where(ends.keys[3] != 0, ends.keys[2] + 1, 0)[keep]
    return Keyed(rows, np.full(len(rows), direction, np.uint8), safe, CONTEXTS, (ids, process))


def _connected(events: HostEvents, types: Types) -> tuple[list[Keyed], list[Keyed]]:
    """Producers and consumers of old captures, by what they have in common."""
    executed = having(events, "id", "iter_num")
    requests = having(events, "request_id", "queue_addr")
    programs, callbacks, modules = _launches(events, types)
    producers = [
        _of(executed.of_types(types, (CODES["ExecutorState::Process"],)), OUT, LEGACY, 2),
        _of(requests.of_types(types, (CODES["EnqueueRequestLocked"],)), OUT, TPU_STREAM, 3),
        _of(programs, OUT, TPU_LAUNCH, 4),
    ]
    consumers = [
        _of(executed.of_types(types, (CODES["TpuExecuteOp"],)), IN, LEGACY, 2),
        _of(requests.of_types(types, DEVICE_REQUESTS), IN, TPU_STREAM, 3),
        _of(callbacks, IN, TPU_LAUNCH, 4),
        _of(modules, IN, TPU_LAUNCH, 4),
    ]
    return producers, consumers


def _of(ends: Ends, direction: int, kind: int, space: int) -> Keyed:
    return _keyed(ends.rows, direction, kind, space, (ends.keys[0], ends.keys[1]))


def _launches(events: HostEvents, types: Types) -> tuple[Ends, Ends, Ends]:
    """Programs that the host enqueues, the callbacks of their end, and their executions on TensorCores; keys in two
    parts."""
    runs = having(events, "run_id", "queue_id")
    called = having(events, "run_id", "queue_id", "device_ordinal")
    core_type = stat_beside(*events.ints("core_type"), called.rows, 0)
    run_id, queue, ordinal = called.keys
    called = Ends(called.rows, (ordinal, queue, run_id & RUN_ID_BITS, core_type))
    programs = called.of_types(types, (CODES["DoEnqueueProgram"],))
    callbacks = called.of_types(types, (CODES["CompleteCallbacks"],))
    modules = module_ends(events, runs)
    every = (programs, callbacks, modules)
    device, _ = numbered([np.concatenate([one.keys[part] for one in every]) for part in (0, 1)])
    run, _ = numbered([np.concatenate([one.keys[part] for one in every]) for part in (2, 3)])
    found, first = [], 0
    for one in every:
        here = slice(first, first + len(one.rows))
        found.append(Ends(one.rows, (device[here].astype(np.int64), run[here].astype(np.int64))))
        first += len(one.rows)
    return found[0], found[1], found[2]
