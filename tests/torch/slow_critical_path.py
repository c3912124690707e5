"""The critical path of a trace of PyTorch, from plain rows, step by step."""

from __future__ import annotations

import gzip
import json
from collections import Counter, defaultdict
from decimal import Decimal
from pathlib import Path
from typing import Any

Node = tuple[int, bool]
"""The place of an event in the trace, and whether its begin is meant."""
Edge = tuple[Node, Node, int]
Row = dict[str, Any]
BLOCKING = {
    "cudaDeviceSynchronize", "cudaStreamSynchronize", "cudaEventQuery", "cudaEventSynchronize", "cudaMemcpy",
    "cudaMemcpyAsync",
}  # fmt: skip
NODES = ("cpu_op", "cuda_runtime", "cuda_driver")


def read(path: Path) -> list[Row]:
    """Complete events with a category; times in picoseconds."""
    data = path.read_bytes()
    data = gzip.decompress(data) if path.suffix == ".gz" else data
    found = []
    for i, event in enumerate(json.loads(data, parse_float=Decimal)["traceEvents"]):
        if event.get("ph") == "X" and "dur" in event and event.get("cat") not in (None, "Trace"):
            args = event.get("args", {})
            begin, lasted = (int(Decimal(event[key]) * 10**6) for key in ("ts", "dur"))
            found.append({
                "i": i, "name": event["name"], "cat": event["cat"], "ts": begin, "end": begin + lasted,
                "thread": (event["pid"], event["tid"]), "stream": args.get("stream"), "corr": args.get("correlation"),
                "args": args,
            })  # fmt: skip
    return found


def edges(every: list[Row], annotation: str, instance: int, *, queues: bool = False) -> list[Edge]:
    """All edges of the window of an annotation. ``queues``: HTA: a launch counts if nothing is queued."""
    window = [one for one in every if annotation in one["name"]][instance]
    host = [one for one in every if one["stream"] is None]
    call_of = {one["corr"]: one for one in host if one["corr"] is not None}
    ops = [one for one in host if window["ts"] <= one["ts"] <= window["end"] and one["end"] > one["ts"]]
    ops = [one for one in ops if one["cat"] in NODES]
    ran = []
    for one in every:
        call = None if one["stream"] is None else call_of.get(one["corr"])
        if call is not None and window["ts"] <= call["ts"] <= window["end"]:
            ran.append((one, call))
    found = _threads(ops)
    found += _streams(call_of, ran, {one["i"] for one in ops}, _lengths(every, call_of) if queues else None)
    return [(a, b, max(weight, 0)) for a, b, weight in found]


def _threads(ops: list[Row]) -> list[Edge]:
    found: list[Edge] = []
    threads: dict[Any, list[Row]] = defaultdict(list)
    for one in ops:
        threads[one["thread"]].append(one)
    for rows in threads.values():
        stack: list[Row] = []
        last: tuple[Node, int] | None = None
        for one in [*sorted(rows, key=lambda row: (row["ts"], -row["end"])), None]:
            while stack and (one is None or stack[-1]["end"] <= one["ts"]):
                left = stack.pop()
                assert last is not None
                weight = 0 if left["name"] in BLOCKING else left["end"] - last[1]
                found.append((last[0], (left["i"], False), weight))
                last = (left["i"], False), left["end"]
            if one is not None:
                if last is not None:
                    found.append((last[0], (one["i"], True), one["ts"] - last[1] if stack else 0))
                stack.append(one)
                last = (one["i"], True), one["ts"]
    return found


def _lengths(every: list[Row], call_of: dict[int, Row]) -> dict[int, int]:
    """By call and by kernel the length of the queue after it."""
    points: dict[int, list[tuple[int, int, int]]] = defaultdict(list)
    for one in every:
        call = call_of.get(one["corr"])
        if one["stream"] is not None and one["cat"] != "cuda_sync" and call is not None:
            points[one["stream"]] += [(call["ts"], -1, call["i"]), (one["ts"], 1, one["i"])]
    after = {}
    for rows in points.values():
        length = 0
        for _, change, i in sorted(rows):
            length -= change
            after[i] = length
    return after


def _streams(
    call_of: dict[int, Row], ran: list[tuple[Row, Row]], nodes: set[int], after: dict[int, int] | None
) -> list[Edge]:
    kernels = [(one, call) for one, call in ran if one["cat"] != "cuda_sync"]
    waited: dict[int, list[Row]] = defaultdict(list)
    found: list[Edge] = []
    for one, call in ran:
        record = call_of.get(one["args"].get("wait_on_cuda_event_record_corr_id"))
        if one["cat"] == "cuda_sync" and record is not None:
            on = one["args"]["wait_on_stream"]
            before = [(k["ts"], c["ts"], k) for k, c in kernels if k["stream"] == on and c["ts"] < record["ts"]]
            later = [(c["ts"], k["i"]) for k, c in kernels if k["stream"] == one["stream"] and c["ts"] >= call["ts"]]
            last = max(before, key=lambda row: row[1])[2] if before else None
            if last is not None and one["name"] == "Event Sync" and call["i"] in nodes:
                found.append(((last["i"], False), (call["i"], False), 0))
            if last is not None and one["name"] == "Stream Wait Event" and later:
                waited[min(later)[1]].append(last)
                found.append(((last["i"], False), (min(later)[1], True), 0))
    latest: dict[int, Row] = {}
    order = sorted(ran, key=lambda row: row[0]["end"] if row[0]["cat"] == "cuda_sync" else row[0]["ts"])
    for one, call in order:
        if one["cat"] == "cuda_sync":
            if one["name"] in ("Context Sync", "Stream Sync") and call["i"] in nodes:
                every_stream = one["name"] == "Context Sync"
                for stream, last in latest.items():
                    if every_stream or stream == one["stream"]:
                        found.append(((last["i"], False), (call["i"], False), 0))
            continue
        found.append(((one["i"], True), (one["i"], False), one["end"] - one["ts"]))
        previous = latest.get(one["stream"])
        ends = [last["end"] for last in waited[one["i"]]]
        idle = all(end < call["ts"] for end in [*ends, *([previous["end"]] if previous else [])])
        if idle and (after is None or (after[call["i"]], after[one["i"]]) == (1, 0)):
            if call["i"] in nodes:
                found.append(((call["i"], True), (one["i"], True), one["ts"] - call["ts"]))
        elif previous is not None and all(end <= previous["end"] for end in ends):
            found.append(((previous["i"], False), (one["i"], True), one["ts"] - previous["end"]))
        latest[one["stream"]] = one
    return found


def longest(graph: list[Edge]) -> int:
    """The length of the longest path of a graph without circles."""
    leaving: dict[Node, list[tuple[Node, int]]] = defaultdict(list)
    missing: Counter[Node] = Counter()
    for begin, end, weight in graph:
        leaving[begin].append((end, weight))
        missing[end] += 1
    reach = {node: 0 for begin, end, _ in graph for node in (begin, end)}
    ready = [node for node in reach if not missing[node]]
    done = 0
    while ready:
        node = ready.pop()
        done += 1
        for end, weight in leaving[node]:
            reach[end] = max(reach[end], reach[node] + weight)
            missing[end] -= 1
            if not missing[end]:
                ready.append(end)
    assert done == len(reach), "a circle"
    return max(reach.values(), default=0)
