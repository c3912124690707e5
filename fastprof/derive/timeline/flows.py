"""Flows: which event led to which, on other threads and devices, as pairs; their ends; and pairs of asynchronous
ops."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from fastprof._native import records
from fastprof.derive.devices.op_names import drop_serial
from fastprof.derive.host import Host
from fastprof.derive.ops.launches import ASYNC_LINE, DONE, UPDATE, find_latest_begin, find_part_before
from fastprof.derive.steps.event_graph import (
    CODES,
    DEVICE_REQUESTS,
    LinkEnds,
    find_contexts,
    find_events_with_stats,
    find_module_ends,
)
from fastprof.hlo.shapes import read_expression
from fastprof.schema.columns import (
    Bools,
    Int32s,
    Int64s,
    find_present,
    find_rows_within,
    join_values,
    number_keys,
    number_sorted_rows,
    sort_rows,
)
from fastprof.schema.value_classes import dataclass
from fastprof.tables.host_events import HOST_THREADS, HostEvents

_LATER: Final = (DONE, UPDATE)
_NO_PROGRAM: Final = -1


def pair_async_ops(host: Host) -> tuple[Int32s, Int32s]:
    """Return rows of ops, and of those that follow them: on devices on any line of the plane, on hosts on the same
    thread. An op is followed once, by the first that comes."""
    events = host.raw
    names = [_get_op_name(*pair) for pair in zip(events.display_names, events.names, strict=True)]
    later = np.array([_is_later(name, text) for name, text in zip(names, events.names, strict=True)], np.bool_)
    if not later.any():
        return np.zeros(0, np.int32), np.zeros(0, np.int32)
    scope, shown = _number_scopes(events)
    ends = np.flatnonzero(later[events.meta] & shown)
    followed: dict[tuple[int, str], int] = {}

    def of_end(meta: int, program: int) -> int:
        name, text = names[meta], events.names[meta] if " = " in events.names[meta] else ""
        read = read_expression(text) if text else None
        known = "" if read is not None and read.operands else _find_operand(host, program, name)
        before = known or find_part_before(name, text)
        return followed.setdefault((program, before), len(followed)) if before else -1

    end_key = _list_keys(events, ends, of_end)
    sought = {name for _, name in followed}
    starts = np.flatnonzero(np.array([name in sought for name in names], np.bool_)[events.meta] & shown)
    start_key = _list_keys(events, starts, lambda meta, program: followed.get((program, names[meta]), -1))
    ends, starts = ends[end_key >= 0], starts[start_key >= 0]
    rows = np.concatenate([starts, ends])
    key = scope[rows] * len(followed) + np.concatenate([start_key[start_key >= 0], end_key[end_key >= 0]])
    place = find_latest_begin(key, events.start_ps[rows], np.arange(len(rows)) < len(starts))[len(starts) :]
    return starts[place[place >= 0]].astype(np.int32), ends[place >= 0].astype(np.int32)


def _get_op_name(display_name: str, name: str) -> str:
    """Return the name of an op, which its event's name or text has."""
    return (display_name or name).partition(" = ")[0].removeprefix("%")


def _is_later(name: str, text: str) -> bool:
    """Return whether an op updates or ends what another one starts."""
    if not any(ending in text or ending in name for ending in _LATER):
        return False
    read = read_expression(text) if " = " in text else None
    return (read.opcode if read is not None else drop_serial(name)).endswith(_LATER)


def _find_operand(host: Host, program: int, name: str) -> str:
    """Return the first operand of an instruction in the program that the capture carries; "": it carries none."""
    module = host.modules.module(program) if program != _NO_PROGRAM and len(host.modules) else None
    row = -1 if module is None else int(module.find([name])[0])
    operands = [] if module is None or row < 0 else module.operands_of(row)
    return module.names[operands[0]] if module is not None and operands and operands[0] >= 0 else ""


def _list_keys(events: HostEvents, rows: Int64s, key: Callable[[int, int], int]) -> Int64s:
    """Return the key of each row, by its metadata and its program; each pair is looked at once."""
    recorded = events.meta_stat("program_id").of_kinds((records.INT64, records.UINT64))
    of_meta = np.full(len(events.names), _NO_PROGRAM, np.int64)
    of_meta[recorded.rows] = recorded.value
    program = of_meta[events.meta[rows]]
    own, values = events.ints("program_id")
    has, place = find_present(own, rows)
    program[has] = values[place]
    metas = events.meta[rows]
    first, number = number_sorted_rows([metas, program])
    keys = [key(meta, of) for meta, of in zip(metas[first].tolist(), program[first].tolist(), strict=True)]
    return np.array(keys, np.int64)[number]


def _number_scopes(events: HostEvents) -> tuple[Int64s, Bools]:
    """Return a number of the plane, or of the line for host threads, for each row; and whether the line has ops as they
    ran."""
    scope, shown = np.zeros(len(events), np.int64), np.zeros(len(events), np.bool_)
    for plane in events.planes:
        is_thread = plane.name.startswith(HOST_THREADS)
        for line in plane.lines:
            rows = slice(line.first, line.last)
            scope[rows] = 2 * line.number + 1 if is_thread else 2 * plane.number
            shown[rows] = not line.is_derived and line.name != ASYNC_LINE
    return scope, shown


Types = npt.NDArray[np.uint8]

KINDS: Final = (
    "generic", "legacy", "tf_exec", "tfrt_exec", "batch_sched", "PjRt", "as_batch_sched", "tfrt_rt", "tpu_embed",
    "gpu_launch", "batcher", "tpu_stream", "tpu_launch", "pathways_exec", "pjrt_library_call", "threadpool_event",
    "jax_serving", "sparsecore_offload",
)  # fmt: skip
"""What connects the ends of a flow, by its number in captures."""
SHOWN_KINDS: Final = (*KINDS, "async_op")
"""KINDS, and one kind that captures have no number for: an op that starts something, and the one that ends it."""
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
        """Select ends by their places, or by a flag for each."""
        return FlowEnds(self.rows[chosen], self.direction[chosen], self.kind[chosen], self.number[chosen])


@dataclass(frozen=True, slots=True)
class KeyedEnds:
    """Ends of one kind of key: ``parts`` are two int64 columns. Keys of different ``space`` are never equal."""

    rows: Int32s
    direction: npt.NDArray[np.uint8]
    kind: npt.NDArray[np.uint8]
    space: int
    parts: tuple[Int64s, Int64s]


def read_flow_keys(host: Host) -> list[KeyedEnds]:
    """Return the ends by correlation id, then producers, then consumers; each event is at most once in each of the
    three."""
    events, types = host.raw, host.forest.types
    producers, consumers = _find_connected(events, types)
    launched = events.stat("correlation_id").of_kinds((records.INT64, records.UINT64))
    return [
        find_correlated(events, launched.rows, launched.value),
        _find_own_ends(events, "_pt", "_p", OUT, producers),
        *producers,
        _find_own_ends(events, "_ct", "_c", IN, consumers),
        *consumers,
    ]


def make_flow_ends(keys: Sequence[KeyedEnds]) -> FlowEnds:
    """Make the ends with these keys, in the same order."""
    columns = [
        np.concatenate([np.full(len(key.rows), key.space) for key in keys]),
        np.concatenate([ends.kind for ends in keys]).astype(np.int64),
        np.concatenate([ends.parts[0] for ends in keys]),
        np.concatenate([ends.parts[1] for ends in keys]),
    ]
    number, _ = number_keys(columns)
    rows, direction = (np.concatenate([getattr(ends, name) for ends in keys]) for name in ("rows", "direction"))
    return FlowEnds(rows.astype(np.int32), direction, columns[1].astype(np.uint8), number.astype(np.int64))


def _key_ends(rows: Int32s, direction: int, kind: int, space: int, parts: tuple[Int64s, Int64s]) -> KeyedEnds:
    return KeyedEnds(rows, np.full(len(rows), direction, np.uint8), np.full(len(rows), kind, np.uint8), space, parts)


def find_correlated(events: HostEvents, rows: Int32s, value: Int64s) -> KeyedEnds:
    """Key events with these correlation ids: those of devices consume."""
    ends = _key_ends(rows, OUT, GPU_LAUNCH, LAUNCHES, (value, np.zeros(len(rows), np.int64)))
    for plane in events.planes:
        if plane.name.startswith(_DEVICE_PLANES):
            ends.direction[find_rows_within(rows, plane.first, plane.last)] = IN
    return ends


def _find_own_ends(
    events: HostEvents, kind: str, number: str, direction: int, connected: Sequence[KeyedEnds]
) -> KeyedEnds:
    """Key ends that events record themselves, unless they are connected in another way as well."""
    ends = find_contexts(events, kind, number)
    elsewhere = np.zeros(len(events), bool)
    for other in connected:
        elsewhere[other.rows] = True
    keep = ~elsewhere[ends.rows]
    rows, kinds, ids = ends.rows[keep], ends.keys[0][keep], ends.keys[1][keep]
    safe = np.where((kinds >= 0) & (kinds < len(KINDS)), kinds, GENERIC).astype(np.uint8)
    process = np.zeros(len(rows), np.int64)
    if len(ends.keys) > 2:
        process = np.where(ends.keys[3] != 0, ends.keys[2] + 1, 0)[keep]
    return KeyedEnds(rows, np.full(len(rows), direction, np.uint8), safe, CONTEXTS, (ids, process))


def _find_connected(events: HostEvents, types: Types) -> tuple[list[KeyedEnds], list[KeyedEnds]]:
    """Key producers and consumers of old captures by what they have in common."""
    executed = find_events_with_stats(events, "id", "iter_num")
    requests = find_events_with_stats(events, "request_id", "queue_addr")
    programs, callbacks, modules = _find_program_launches(events, types)
    producers = [
        _make_keyed(executed.of_types(types, (CODES["ExecutorState::Process"],)), OUT, LEGACY, 2),
        _make_keyed(requests.of_types(types, (CODES["EnqueueRequestLocked"],)), OUT, TPU_STREAM, 3),
        _make_keyed(programs, OUT, TPU_LAUNCH, 4),
    ]
    consumers = [
        _make_keyed(executed.of_types(types, (CODES["TpuExecuteOp"],)), IN, LEGACY, 2),
        _make_keyed(requests.of_types(types, DEVICE_REQUESTS), IN, TPU_STREAM, 3),
        _make_keyed(callbacks, IN, TPU_LAUNCH, 4),
        _make_keyed(modules, IN, TPU_LAUNCH, 4),
    ]
    return producers, consumers


def _make_keyed(ends: LinkEnds, direction: int, kind: int, space: int) -> KeyedEnds:
    return _key_ends(ends.rows, direction, kind, space, (ends.keys[0], ends.keys[1]))


def _find_program_launches(events: HostEvents, types: Types) -> tuple[LinkEnds, LinkEnds, LinkEnds]:
    """Find programs that the host enqueues, the callbacks of their end, and their executions on TensorCores; keys in
    two parts."""
    runs = find_events_with_stats(events, "run_id", "queue_id")
    called = find_events_with_stats(events, "run_id", "queue_id", "device_ordinal")
    core_type = join_values(*events.ints("core_type"), called.rows, 0)
    run_id, queue, ordinal = called.keys
    called = LinkEnds(called.rows, (ordinal, queue, run_id & RUN_ID_BITS, core_type))
    programs = called.of_types(types, (CODES["DoEnqueueProgram"],))
    callbacks = called.of_types(types, (CODES["CompleteCallbacks"],))
    modules = find_module_ends(events, runs)
    every = (programs, callbacks, modules)
    device, _ = number_keys([np.concatenate([ends.keys[part] for ends in every]) for part in (0, 1)])
    run, _ = number_keys([np.concatenate([ends.keys[part] for ends in every]) for part in (2, 3)])
    numbered, first = [], 0
    for ends in every:
        here = slice(first, first + len(ends.rows))
        numbered.append(LinkEnds(ends.rows, (device[here].astype(np.int64), run[here].astype(np.int64))))
        first += len(ends.rows)
    return numbered[0], numbered[1], numbered[2]


MOST_OF_A_CROWD: Final = 64
"""Most pairs of several producers and several consumers. Beyond it, each consumer is paired with the last producer that
began before it alone."""


@dataclass(frozen=True, slots=True)
class FlowPairs:
    """Rows of the host's events, in the order of producers. ``kind``: uint8, a place in ``flow_ends.SHOWN_KINDS``."""

    producer: Int32s
    consumer: Int32s
    kind: npt.NDArray[np.uint8]

    def __len__(self) -> int:
        return len(self.producer)


def pair_flows(host: Host) -> FlowPairs:
    """Return each pair once. Launches and kernels are paired by their correlation id, others by ids that they record or
    have in common; flows that the capture records itself (stat ``flow``, or the arrows of the table flows) go from
    event to event in the order of time; an op that starts something asynchronous leads to the one that ends it."""
    ends = make_flow_ends(read_flow_keys(host))
    paired = _pair_ends(host.raw, ends.take(ends.direction == OUT), ends.take(ends.direction == IN))
    recorded = _read_recorded_flows(host.raw)
    from_events, to_events = host.raw.recorded_arrows()
    arrows = (from_events, to_events, np.full(len(from_events), GENERIC, np.uint8))
    first_ops, last_ops = pair_async_ops(host)
    asynchronous = (first_ops, last_ops, np.full(len(first_ops), ASYNC_OP, np.uint8))
    parts = (paired, recorded, arrows, asynchronous)
    producer, consumer, kind = (np.concatenate([part[place] for part in parts]) for place in range(3))
    _, first = np.unique(producer.astype(np.int64) << 32 | consumer, return_index=True)
    first = first[producer[first] != consumer[first]]
    return FlowPairs(producer[first].astype(np.int32), consumer[first].astype(np.int32), kind[first].astype(np.uint8))


def _pair_ends(events: HostEvents, out: FlowEnds, taken: FlowEnds) -> tuple[Int32s, Int32s, npt.NDArray[np.uint8]]:
    """Pair producers and consumers of a flow: all of one with all of the other, in crowds the last before."""
    order = sort_rows(out.number, events.start_ps[out.rows], out.rows)
    rows, numbers = out.rows[order], out.number[order]
    count = max(int(numbers.max(initial=-1)), int(taken.number.max(initial=-1))) + 1
    gives = np.bincount(numbers, minlength=count)
    first = np.cumsum(gives) - gives
    takes = np.bincount(taken.number, minlength=count)
    crowd = (np.minimum(gives, takes) > 1) & (gives * takes > MOST_OF_A_CROWD)
    each = np.where(crowd, 1, gives)[taken.number] * (gives[taken.number] > 0)
    consumer = np.repeat(np.arange(len(taken)), each)
    nth = np.arange(len(consumer)) - np.repeat(np.cumsum(each) - each, each)
    place = first[taken.number[consumer]] + nth
    in_crowd = crowd[taken.number[consumer]]
    if in_crowd.any():
        place[in_crowd] = _find_last_producer(events, rows, numbers, first, taken, consumer[in_crowd])
    return rows[place], taken.rows[consumer], taken.kind[consumer]


def _find_last_producer(
    events: HostEvents, rows: Int32s, numbers: Int64s, first: Int64s, taken: FlowEnds, consumer: Int64s
) -> Int64s:
    """Return the place of the last producer of the flow that begins no later than the consumer, else of the first."""
    number, start = taken.number[consumer], events.start_ps[taken.rows[consumer]]
    is_consumer = np.append(np.zeros(len(rows), bool), np.ones(len(consumer), bool))
    every = sort_rows(np.append(numbers, number), np.append(events.start_ps[rows], start), is_consumer)
    place = np.where(is_consumer[every], -1, every)
    last = np.empty(len(every), np.int64)
    last[every] = np.maximum.accumulate(place)
    producer = last[len(rows) :]
    return np.maximum(producer, first[number])


def _read_recorded_flows(events: HostEvents) -> tuple[Int32s, Int32s, npt.NDArray[np.uint8]]:
    """Read flows recorded in a stat of events: two bits of direction, an id, and the kind above it."""
    rows, value = events.ints("flow")
    direction, number, kind = value & 3, (value >> 2) & (2**56 - 1), (value >> 58) & 63
    known = direction > 0
    rows, direction, number, kind = rows[known], direction[known], number[known], kind[known]
    order = sort_rows(kind, number, events.start_ps[rows], direction == 1)
    rows, direction, number, kind = rows[order], direction[order], number[order], kind[order]
    linked = (number[1:] == number[:-1]) & (kind[1:] == kind[:-1])
    linked &= ((direction[:-1] & 2) > 0) & ((direction[1:] & 1) > 0)
    safe = np.where(kind < len(KINDS), kind, GENERIC).astype(np.uint8)
    return rows[:-1][linked], rows[1:][linked], safe[1:][linked]
