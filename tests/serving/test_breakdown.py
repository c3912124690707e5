"""The parts of requests against a model that takes events and moments one by one."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from itertools import pairwise

import pytest
from gate import few
from serving_builder import LAUNCH, US, Server
from trace_builder import Event, event, line, plane, xspace

import fastprof
from fastprof.derive.serving import STATS
from fastprof.derive.serving.host_serving import read_host_serving
from fastprof.derive.steps.event_graph import STATS as GROUPING_STATS
from fastprof.derive.steps.grouping import Groups, group_events
from fastprof.tables.host_events import HostEvents
from fastprof.tables.host_reader import read_host

RANKS = ("device", "read", "write", "runtime", "formation", "postprocess", "preprocess")
"""The first of those under way counts."""
ORDER = ("preprocess", "formation", "runtime", "write", "device", "read", "postprocess", "idle")
EXECUTES = ("tpu::System::Execute", "TPUPartitionedCallOp-ExecuteLocal")
COPIES = {"WriteHbm": "write", "TransferH2DRequest": "write", "ReadHbm": "read", "TransferD2HRequest": "read"}
Span = tuple[str, int, int]


def grouped(capture: bytes) -> tuple[HostEvents, Groups]:
    tables = fastprof.load(capture).table_set
    raw = read_host(tables, 0, (), tuple(dict.fromkeys((*GROUPING_STATS, *STATS))), ())
    groups = group_events(raw, tables.session.workers)
    return groups.events, groups


def random_server(seed: int) -> Server:
    """Requests, most of them batched, some split; events missing, of no length, in odd orders, several of a kind."""
    rng = random.Random(seed)
    server = Server()
    clock = 10.0
    for number in range(1, 9):
        start = clock = clock + rng.randrange(900, 1200)
        contexts = [10 * number + k for k in range(rng.choice((0, 1, 2)))]
        for thread in "abc"[: rng.randint(1, 3)]:
            server.batched(start + rng.random(), rng.randrange(150, 700), contexts, thread, rng.randrange(4))
            start += 7
        for k, context in enumerate(contexts):
            begin = clock + 60 + 170 * k
            server.batch(begin, 160, context, f"batch {k}")
            for _ in range(rng.randrange(6)):
                extra(server, rng, begin + 60 + 90 * rng.random(), f"batch {k}", context)
    return server


def extra(server: Server, rng: random.Random, at: float, thread: str, context: int) -> None:
    name = rng.choice((*COPIES, *EXECUTES, "CompleteCallbacks", "DoEnqueueContinuationProgram"))
    launched = {"run_id": context, **LAUNCH} if name.startswith(("Complete", "DoEnqueue")) else {}
    server.add(name, at, rng.choice((0, 1, 8)), thread, **launched)


def slow_spans(events: HostEvents, groups: Groups, request: int) -> Iterator[Span]:
    """The pieces of a request, named, but for those that depend on when it begins and ends."""
    related = {request} | {child for parent, child in groups.relations.tolist() if parent == request}
    for source in related:
        executes, launches = [], []
        for thread in events.lines:
            for row in range(thread.first, thread.last):
                if int(groups.group_id[row]) != source:
                    continue
                name, begin = events.names[int(events.meta[row])], int(events.start_ps[row])
                end = begin + int(events.duration_ps[row])
                if name in COPIES:
                    yield COPIES[name], begin, end
                elif thread.name == "XLA Modules":
                    yield "device", begin, end
                elif name in EXECUTES:
                    executes.append(begin)
                    yield "execute", begin, begin
                elif name.startswith("DoEnqueue"):
                    launches.append(begin)
                elif name in ("CompleteCallbacks", "MergeInputTensors"):
                    yield name, begin, begin
                elif name.startswith("Schedule"):
                    yield "schedule", begin, begin
        if executes and launches:
            yield "runtime", min(executes), min(launches)


def slow_parts(events: HostEvents, groups: Groups, request: int, begin: int, end: int) -> list[int]:
    spans = list(slow_spans(events, groups, request))
    first = {name: min(b for n, b, _ in spans if n == name) for name, _, _ in spans}
    pieces = [span for span in spans if span[0] in RANKS]
    if "execute" in first:
        pieces.append(("preprocess", begin, first["execute"]))
    done = [b for n, b, _ in spans if n == "CompleteCallbacks"] or [e for n, _, e in spans if n == "device"]
    if done:
        pieces.append(("postprocess", max(done), end))
    if "schedule" in first and "MergeInputTensors" in first:
        pieces.append(("formation", first["schedule"], first["MergeInputTensors"]))
    pieces = [piece for piece in pieces if piece[1] < piece[2]]
    spent = dict.fromkeys(ORDER, 0)
    edges = sorted({edge for _, b, e in pieces for edge in (b, e)})
    for b, e in pairwise(edges):
        open_now = {name for name, x, y in pieces if x <= b and e <= y}
        spent[next((name for name in RANKS if name in open_now), "idle")] += e - b
    return [spent[name] for name in ORDER]


@pytest.mark.parametrize("seed", few(range(12), 5))
def test_parts_are_those_of_a_model_that_takes_moments_one_by_one(seed: int) -> None:
    events, groups = grouped(random_server(seed).capture())
    timed = read_host_serving("host", events, groups).timed
    assert len(timed.requests) > 3
    columns = (timed.requests.group, timed.requests.begin, timed.requests.end, timed.parts)
    for request, begin, end, parts in zip(*(column.tolist() for column in columns), strict=True):
        assert parts == slow_parts(events, groups, request, begin, end), request


def test_transfers_of_the_system_last_from_their_issue_to_the_last_done_of_the_context() -> None:
    issue, done = "tpu::System::TransferToDevice=>IssueEvent", "tpu::System::TransferToDevice=>IssueEvent=>Done"
    server = Server()
    server.add("SessionRun", 10, 100, _r=1)
    server.add(issue, 20, 1, _c=5)
    server.add(done, 30, 2, _c=5)
    server.add(done, 40, 2, _c=5)
    server.add(done, 15, 1, _c=6)
    server.add(issue, 50, 1, _c=6)
    server.add(issue, 60, 1, _c=7)
    timed = read_host_serving("host", *grouped(server.capture())).timed
    assert timed.parts.tolist() == [[0, 0, 0, 22_000_000, 0, 0, 0, 0]]


def test_kernels_and_copies_of_gpus_count_but_not_on_the_page_of_xprof() -> None:
    def launch(at: int, number: int) -> Event:
        return event("cuLaunch", at * US, US, {"correlation_id": number})

    def work(name: str, at: int, number: int) -> Event:
        return event(name, at * US, 10 * US, {"correlation_id": number})

    root = event("SessionRun", 10 * US, 100 * US, {"_r": 1, "model_id": "m"})
    threads = line("main", [root, *(launch(10 + number, number) for number in range(1, 6))])
    names = ("MemcpyH2D", "kernel", "MemcpyD2D", "CopyDeviceToHost", "memcpy32_post")
    stream = line("Stream #1", [work(name, 20 * number, number) for number, name in enumerate(names, 1)], id=1)
    capture = xspace(plane("/host:CPU", [threads]), plane("/device:GPU:0", [stream]))
    report = fastprof.load(capture).inference()
    (row,) = report.tables["requests"].to_pylist()
    times = [row[f"{name}_ps"] // US for name in ("write_to_device", "device_compute", "read_from_device", "idle")]
    assert times == [10, 30, 10, 40]
    assert json.loads(report.to_xprof())[1]["rows"][0]["c"][7] == {"v": 0.0}
