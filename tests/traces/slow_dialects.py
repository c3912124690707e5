"""Chrome traces read slowly: what writers of traces add to the format, PyTorch's and XProf's."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from slow_json import Number, compact, is_number, stat

Stat = tuple[str, str, Any]
DEVICE = ("kernel", "gpu_memcpy", "memcpy", "gpu_memset", "memset", "gpu_user_annotation", "cuda_sync", "xpu_sync",
          "cuda_event", "mtia_ccp_events", "collective_comm", "hpu_op", "cuda_profiler_range")  # fmt: skip
HOST_CATEGORIES = ("cpu_op", "operator", "user_annotation", "cpu_instant_event", "python_function", "cuda_runtime",
                   "cuda_driver", "runtime", "overhead", "trace", "ac2g", "fwdbwd", "async")  # fmt: skip
CALLS = ("cuda_runtime", "cuda_driver", "runtime", "xpu_runtime", "xpu_driver", "mtia_runtime", "glow_runtime",
         "privateuse1_runtime", "privateuse1_driver")  # fmt: skip
NUMERIC_IN_XPROF = {"step_num", "group_id", "run_id", "program_id", "queue_id", "core_type", "device_ordinal",
                    "replica_id", "correlation_id", "device_id", "context_id", "bytes_accessed", "raw_bytes_accessed",
                    "flops", "model_flops", "iter_num", "num_occurrences", "all_reduce_unique_id",
                    "offload_core_id", "tc_offload_start_id", "Time Scale Multiplier", "uses_ici",
                    "vdd_energy_j"}  # fmt: skip


def text_of(value: Any) -> str:
    return (
        value
        if isinstance(value, str)
        else value.text
        if isinstance(value, Number)
        else ""
        if value is None
        else compact(value)
    )


def trailing_number(tid: Any) -> int | None:
    if isinstance(tid, int):
        return tid
    digits = "".join(_last_digits(tid or ""))
    return int(digits) if digits else None


def _last_digits(text: str) -> Iterator[str]:
    stripped = text.rstrip()
    start = len(stripped)
    while start and stripped[start - 1].isdigit():
        start -= 1
    return iter(stripped[start:])


def as_number(one: Stat) -> Stat:
    """Stats that XProf wrote as text, and whose type is a number (X4)."""
    name, kind, value = one
    if kind != "str" or not (name in NUMERIC_IN_XPROF or name.endswith(("_ps", "_bytes"))) or not is_number(value):
        return one
    return name, *stat(Number(value))


def of_kineto(row: dict[str, Any]) -> list[Stat]:
    """Derived stats that an event itself has the source of (K10), in the order of their table."""
    args: dict[str, Any] = (
        {key.lower(): value for key, value in (row.get("args") or {}).items()}
        if isinstance(row.get("args"), dict)
        else {}
    )
    category, name = text_of(row.get("cat")).lower(), text_of(row.get("name"))
    stats: list[Stat] = []
    correlated = category in DEVICE + CALLS and category != "gpu_user_annotation" and "correlation" in args
    if correlated and stat(args["correlation"])[0] == "int64":
        stats.append(("correlation_id", *stat(args["correlation"])))
    if category == "kernel":
        grid, block = args.get("grid"), args.get("block")
        if isinstance(grid, list) and isinstance(block, list):
            both = (",".join(text_of(part) for part in whole) for whole in (grid, block))
            text = "regs:{} group_mem:{} grid:{} block:{}".format(
                text_of(args.get("registers per thread")), text_of(args.get("shared memory")), *both
            )
            for key, occupancy in (
                ("occ_pct", "theoretical occupancy %"),
                ("est_occ_pct", "est. achieved occupancy %"),
                ("blocks_per_sm", "blocks per sm"),
                ("warps_per_sm", "warps per sm"),
            ):
                text += f" {key}:{text_of(args[occupancy])}" if occupancy in args else ""
            stats.append(("kernel_details", "str", text))
    if category in ("gpu_memcpy", "memcpy") and stat(args.get("bytes"))[0] == "int64":
        stats.append(("memcpy_details", "str", _details_of_copy(name, args)))
    if category == "cuda_profiler_range":
        stats.append(("profiler_range", "int64", 1))
    number = name.removeprefix("ProfilerStep#")
    if name != number and number.isdigit() and category in ("user_annotation", "operator", "cpu_op"):
        stats += [("step_num", "int64", int(number)), ("_r", "int64", 1)]
    return stats


def _details_of_copy(name: str, args: dict[str, Any]) -> str:
    ways = {"Host": "H", "Device": "D"}
    kind = re.match(r"Memcpy ([^ (]+)", name)
    rocm = re.match("Copy(Host|Device)To(Host|Device)", name)
    way = kind[1] if kind else f"{ways[rocm[1]]}to{ways[rocm[2]]}" if rocm else None
    to = args.get("todevice", args.get("device"))
    return f"{f'kind:{way} ' if way else ''}size:{text_of(args['bytes'])}{'' if to is None else f' dest:{text_of(to)}'}"


def of_xprof(row: dict[str, Any], process: str) -> list[Stat]:
    """XProf leaves out what marks a step (X6)."""
    args = row.get("args")
    number = args.get("step_num") if isinstance(args, dict) else None
    written = text_of(number)
    is_step = is_number(written) and stat(Number(written))[0] in ("int64", "uint64")
    is_step = is_step and ":" not in text_of(row.get("name"))
    return [("_r", "int64", 1)] if is_step and "/host:" in process else []
