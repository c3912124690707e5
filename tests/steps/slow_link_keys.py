"""What the oracle of grouping links events by: each kind of link has a key, None where an event has no part in it."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from slow_reader import signed

REQUESTS = {
    "RunProgramRequest", "HostCallbackRequest", "TransferH2DRequest", "TransferPreprocessedH2DRequest",
    "TransferD2HRequest", "OnDeviceSendRequest", "OnDeviceRecvRequest", "OnDeviceSendRecvLocalRequest",
    "OnDeviceSendRequestMulti", "OnDeviceRecvRequestMulti", "CustomWait", "PjrtAsyncWait",
}  # fmt: skip

Key = tuple[int, ...]
KeyOf = Callable[[Any], Key | None]


def stats_key(*names: str) -> KeyOf:
    def key(event: Any) -> Key | None:
        values = [event.int(name) for name in names]
        return None if None in values else tuple(values)  # type: ignore[arg-type]

    return key


def context_key(kind: str, number: str) -> KeyOf:
    def key(event: Any) -> Key | None:
        if _linked_otherwise(event, kind):
            return None
        values = (event.int(kind), event.int(number))
        process = event.int("_pid")
        if process is None:
            process = integer(event.line.plane.stats.get("process_id", ("none", None)))
        return None if None in values else (*values, process is None, process or 0)  # type: ignore[return-value]

    return key


def integer(stat: tuple[str, Any]) -> int | None:
    return signed(stat[1] & (1 << 64) - 1) if stat[0] in ("int64", "uint64") else None


def _linked_otherwise(event: Any, kind: str) -> bool:
    """Whether what the event says of its context is replaced by how TSL connects it."""
    iteration, request = stats_key("id", "iter_num"), stats_key("request_id", "queue_addr")
    if kind == "_pt":
        by = {"ExecutorState::Process": iteration, "EnqueueRequestLocked": request, "DoEnqueueProgram": program}
    else:
        by = {"TpuExecuteOp": iteration, "CompleteCallbacks": program} | dict.fromkeys(REQUESTS, request)
        if is_module(event):
            return program(event) is not None
    return event.type in by and by[event.type](event) is not None


def is_module(event: Any) -> bool:
    return event.line.name == "XLA Modules" and bool(re.fullmatch(r"/device:TPU:\d{1,9}", event.line.plane.name))


def program(event: Any) -> Key | None:
    run, queue, core_type = event.int("run_id"), event.int("queue_id"), event.int("core_type") or 0
    ordinal = event.int("device_ordinal")
    if event.type in ("DoEnqueueProgram", "CompleteCallbacks"):
        return None if None in (run, queue, ordinal) else (ordinal, queue, run & (1 << 27) - 1, core_type)  # type: ignore[operator,return-value]
    return None if None in (run, queue) else (int(event.line.plane.name[12:]), queue, run, core_type)  # type: ignore[return-value]
