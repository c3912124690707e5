"""Gaps of random small captures against asking for each moment, from what was recorded to the rows of reports."""

from __future__ import annotations

import random
from collections import defaultdict
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from causes.slow_gaps import SlowDevice, SlowHost, all_busy, cause_name, moments, stretches, sums, works
from flight_spaces import AG_DONE, AG_START, AR, FUSION, LOAD_DONE, LOAD_START, core
from gate import few, rounds
from reports import records, session_of
from step_captures import HOST, in_order, ran, spaces, step
from steps.slow_periods import Period, slow_periods
from trace_builder import Event, Plane, line, plane

import fastprof
from fastprof.analyses import gaps
from fastprof.derive.causes.cause_names import GAP_CAUSES
from fastprof.derive.causes.gaps import HIDES, StepIntervals
from fastprof.derive.communication.host_communication import list_device_spans
from fastprof.derive.host import Host
from fastprof.derive.ops import record_checks
from fastprof.derive.ops.device_time import COMPUTE, KINDS
from fastprof.derive.steps.grouping import find_step_markers
from fastprof.derive.steps.host_causes import CAUSE_OF, DRIVER, Code, is_computing_op
from fastprof.tables.host_reader import read_host

PYTHON = (
    "$app.py:3 main", "load_batch", "PjitFunction(f)", "backend_compile", "$api.py:3 block_until_ready", "region",
    "$threading.py:2 acquire", "np.asarray(jax.Array)", "$<unknown> collect", "save_checkpoint", "$io.py:8 read",
    "Iterator::Root", "IteratorGetNextOp::DoCompute", "MatMul:MatMul", "ProfilerSession::Start", "$builtins next",
    "evaluate", "log_metrics",
)  # fmt: skip
WORKERS = ("PjRtStreamExecutorLoadedExecutable::Execute", "Build buffer allocations", "BlockHostUntilDone",
           "TransferToServer", "nothing", "Mutex lock")  # fmt: skip
INPUT = ("Iterator::Root", "Iterator::Root::Prefetch", "MatMul:MatMul", "Decode:DecodeJpeg")
THREADS = {"python": PYTHON, "MainThread": PYTHON, "py_xla_execute": WORKERS, "pjrt/7": WORKERS, "tf_data_pool": INPUT}
LAST = 200


def nested(chance: random.Random, names: tuple[str, ...], first: int, last: int, deep: int) -> list[Event]:
    """Events that nest, between two times in microseconds."""
    found, at = [], first
    while at < last and len(found) < 12:
        at += chance.randrange(0, 12)
        end = min(last, at + chance.randrange(0, 60))
        if end > at:
            stats = {"correlation_id": chance.randrange(8)} if chance.random() < 0.3 else {}
            name = "cudaLaunchKernel" if stats else chance.choice(names)
            found.append(ran(name, at, end - at, **stats))
            if deep and chance.random() < 0.7:
                found += nested(chance, names, at, end, deep - 1)
        at = end
    return found


def host_threads(chance: random.Random) -> Plane:
    names = [name for name in THREADS if chance.random() < 0.7]
    lines = [line(name, in_order(nested(chance, THREADS[name], 0, LAST, 3))) for name in names]
    markers_of_steps, at = [], chance.randrange(30)
    for number in range(chance.randrange(5)):
        end = at + chance.randrange(1, 60)
        markers_of_steps.append(step(number, at, end - at))
        at = end + chance.choice((0, 0, 7))
    return plane(HOST, [*lines, line("steps", in_order(markers_of_steps))])


def gpu(chance: random.Random, ordinal: int) -> Plane:
    kernels, at = [], chance.randrange(40)
    while at < LAST:
        length = chance.randrange(1, 25)
        name = chance.choice(("k", "gemm", "ncclDevKernel_AllReduce_Sum_f32", "MemcpyH2D"))
        kernels.append(ran(name, at, length, correlation_id=chance.randrange(8)))
        at += length + chance.choice((0, 0, 3, 20, 50))
    return plane(f"/device:GPU:{ordinal}", [line("stream 1", in_order(kernels))], id=ordinal + 10)


def tpu(chance: random.Random, ordinal: int) -> Plane:
    ops, at = [], chance.randrange(40)
    while at < LAST:
        length = chance.randrange(1, 25)
        ops.append((chance.choice((FUSION, FUSION, AR, AG_START, AG_DONE, LOAD_START, LOAD_DONE)), at, length))
        at += length + chance.choice((0, 0, 3, 20, 50))
    return core(ordinal, ops)


def pool(chance: random.Random) -> Plane:
    """Threads that run what was compiled, beside others: the host is the device."""
    threads = []
    for number in range(chance.randrange(1, 4)):
        ops, at = [], chance.randrange(40)
        while at < LAST:
            length, name = chance.randrange(1, 25), chance.choice(("dot.1", "all-reduce.2", "infeed.3", "callback.4"))
            ops.append(ran(name, at, length, hlo_op=name, hlo_module="f"))
            at += length + chance.choice((0, 0, 3, 20, 50))
        threads.append(line(f"tf_XLAEigen/{number}", ops))
    return plane(HOST, [*host_threads(chance).lines, *threads])


def capture(seed: int) -> bytes:
    chance = random.Random(seed)
    kind = seed % 4
    if kind == 3:
        return spaces(pool(chance))
    make = tpu if kind == 2 else gpu
    return spaces(host_threads(chance), *(make(chance, number) for number in range(chance.randrange(1, 4))))


def host_of(profile: Any) -> Host:
    tables = profile.table_set
    stats = gaps.READS.stats_of([("/device:GPU:0", 0)])
    return Host(read_host(tables, 0, (), stats, gaps.READS.metadata_stats), tables.session.workers)


def slow_devices(host: Host) -> list[SlowDevice]:
    events, groups = host.events, host.groups_from("auto")
    steps = np.sort(host.steps_from("auto").database.step)
    periods = slow_periods(host)
    ran_spans = list_device_spans(events, host.modules, host.forest, host.workers, is_computing_op)
    marked, causes = find_step_markers(events, groups, steps), host.causes_from("auto")
    found = gaps.of_host(host, gaps.Params())
    assert [one.name for one in ran_spans] == list(found.devices)
    times = [(one, stretches(one, window_of(host, ran_spans, marked, periods, causes))) for one in ran_spans]
    busy, slow = all_busy(times), SlowHost(events, causes)
    return [
        SlowDevice(events, slow, one, own, disjoint(periods.get(one.name, periods[""])), busy) for one, own in times
    ]


def disjoint(periods: list[Period]) -> StepIntervals:
    """Return periods that last, each cut where the next one begins."""
    kept = sorted((one for one in periods if one[2] > one[1]), key=lambda one: one[1])
    ends = [min(one[2], after[1]) for one, after in pairwise(kept)] + [one[2] for one in kept[-1:]]
    columns = [one[0] for one in kept], [one[1] for one in kept], ends
    return StepIntervals(*(np.array(column, np.int64) for column in columns))


def window_of(host: Host, ran_spans: list[Any], marked: Any, periods: Any, causes: Any) -> tuple[int, int]:
    """Return first begin and last end of device work, markers, periods, and the work of drivers for devices."""
    times = [time for one in ran_spans for name in ("begin", "end") for time in one.spans[name].tolist()]
    times += [time for begin, end in zip(*marked, strict=True) if begin < end for time in (int(begin), int(end))]
    times += [time for own in periods.values() for _, begin, end in own if begin < end for time in (begin, end)]
    serves = ("INPUT", "INPUT_WORDS", "TRANSFER", "COMPILATION", "FIRST_CALL", "CHECKPOINT")
    slow = SlowHost(host.events, causes)
    for one, role in zip(causes.lines, causes.role, strict=True):
        for row in range(one.first, one.last):
            serves_devices = role == DRIVER and Code(int(causes.code[row])).name in serves
            serves_devices &= not any(
                causes.code[other] == Code.PROFILER
                and slow.start[other] < slow.end[row]
                and slow.start[row] < slow.end[other]
                for other in range(one.first, one.last)
            )
            if serves_devices and not host.events.planes_of("TPU") and slow.end[row] > slow.start[row]:
                times += [slow.start[row], slow.end[row]]
    return min(times), max(times)


@pytest.mark.parametrize("seed", few(range(120), 10))
def test_rows_of_reports_are_those_of_each_moment(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is lost has tests of its own: here most calls have ids of nothing."""
    monkeypatch.setattr(record_checks, "find_relevant_losses", lambda _: None)
    profile = session_of(capture(seed))
    host = host_of(profile)
    devices = slow_devices(host)
    pieces = [list(one.pieces()) for one in devices]
    found = gaps.of_host(host, gaps.Params(top=10**6))
    wanted = {
        (number, *key): values
        for number, (one, own) in enumerate(zip(devices, pieces, strict=True))
        for key, values in sums(one, own).items()
    }
    budget = found.budget
    columns = (budget.device, budget.step, budget.kind, budget.cause, budget.time_ps, found.events)
    rows = {
        (device, group, kind, cause_name(cause)): tuple(values)
        for device, group, kind, cause, *values in zip(*(one.tolist() for one in columns), strict=True)
    }
    assert rows == {key: (values[0], values[-1]) for key, values in wanted.items()}
    report = profile.report("gaps", top=10**6)
    assert listed(report) == [
        (devices[number].ran.name, one.begin, one.end - one.begin, KINDS[one.kind], one.cause, text, thread, *beside)
        for number, one, text, thread, beside in longest(devices, pieces)
    ]
    assert by_cause(report) == totals(devices, wanted)
    explain = most_explained(report)
    assert all(
        row["event"] in explain[row["device"], row["cause"], row["kind"]]
        for row in records(report, "by_cause")
        if row["kind"] != "compute"
    )
    columns_of_steps = ("device", "cause", "kind", "time_ps", "event")
    assert sorted(str([row[name] for name in columns_of_steps]) for row in records(report, "by_step")) == sorted(
        str([devices[number].ran.name, cause, KINDS[kind], values[0], values[-1]])
        for (number, _, kind, cause), values in wanted.items()
    )
    waiting = sum(one.end - one.begin for own in pieces for one in own if one.cause == "idle" and one.row >= 0)
    assert found.waiting_ps == waiting
    times = [(one.ran, one.stretches) for one in devices]
    wanted_beside = [beside(one, own, works(times)) for one, own in zip(devices, pieces, strict=True)]
    assert [
        dict(zip(HIDES, row, strict=True))
        for row in found.beside_ps[:, [GAP_CAUSES.index(cause) for cause in HIDES]].tolist()
    ] == wanted_beside
    assert [dict(zip(GAP_CAUSES, row, strict=False)) for row in found.apart_ps.tolist()] == [
        apart(host, one, own) for one, own in zip(devices, pieces, strict=True)
    ]


def apart(host: Host, device: SlowDevice, pieces: list[Any]) -> dict[str, int]:
    """Return by cause the time from first begin to last end that is outside all step markers and their device
    events."""
    groups, steps = host.groups_from("auto"), host.steps_from("auto").database.step.tolist()
    spans = {
        group: [(int(begin), int(end))] if begin < end else []
        for group, begin, end in zip(
            sorted(steps), *find_step_markers(host.events, groups, np.sort(steps)), strict=True
        )
    }
    ran = device.ran.events
    for row, begin, end in zip(*(one.tolist() for one in (ran.rows, ran.start_ps, ran.end_ps)), strict=True):
        spans.get(int(groups.group_id[row]), []).append((begin, end))
    lasts = [(min(begin for begin, _ in own), max(end for _, end in own)) for own in spans.values() if own]
    found = dict.fromkeys(GAP_CAUSES, 0)
    for one in pieces:
        if one.cause is not None:
            cuts = (time for span in lasts for time in span if one.begin < time < one.end)
            for begin, end in moments(one.begin, one.end, *cuts):
                found[one.cause] += (end - begin) * (not any(first <= begin < last for first, last in lasts))
    return found


def beside(device: SlowDevice, pieces: list[Any], busy: list[tuple[int, int, Any]]) -> dict[str, int]:
    """By cause, of the time that input or Python explain, that in which something else goes on."""
    found = dict.fromkeys(HIDES, 0)
    host = device.host
    hides = [one for one in host.foremost() if one[2] >= 0 and CAUSE_OF.get(Code(host.code[one[2]])) in HIDES]
    others = {drives: host.elsewhere(without_drivers=not drives) for drives in (True, False)}
    bounds = [time for one in (*others[True], *busy, *hides) for time in one[:2]]
    for one in pieces:
        if one.cause in found and one.row >= 0:
            for begin, end in moments(one.begin, one.end, *(time for time in bounds if one.begin < time < one.end)):
                busy_too = any(other[0] <= begin < other[1] for other in busy)
                here = [row for since, until, row in hides if since <= begin < until]
                there = here and any(since <= begin < until for since, until in others[host.drives(here[0])])
                found[one.cause] += (end - begin) * bool(busy_too or there)
    return found


def listed(report: Any) -> list[tuple[Any, ...]]:
    columns = ("device", "start_ps", "duration_ps", "kind", "cause", "event", "thread", "before_op", "after_op")
    return [tuple(row[name] for name in columns) for row in records(report, "gaps")]


def longest(devices: list[SlowDevice], pieces: list[list[Any]]) -> list[tuple[Any, ...]]:
    every = [(number, one) for number, own in enumerate(pieces) for one in own if one.kind != COMPUTE]
    every.sort(key=lambda pair: (pair[1].begin - pair[1].end, pair[0], pair[1].begin))
    found = []
    for number, one in every:
        what = devices[number].explanation(one)
        thread = None if one.row < 0 or one.row in devices[number].host.markers else devices[number].line(one.row)
        found.append((number, one, what and what[1], thread, devices[number].beside(one)))
    return found


def totals(devices: list[SlowDevice], wanted: dict[Any, Any]) -> dict[Any, Any]:
    """By device, cause and kind: time, number and longest piece."""
    found: dict[Any, list[int]] = defaultdict(lambda: [0, 0, 0])
    for (number, _, kind, cause), (time, count, most, _, _) in wanted.items():
        if cause is not None:
            row = found[devices[number].ran.name, cause, KINDS[kind]]
            row[:] = row[0] + time, row[1] + count, max(row[2], most)
    return dict(found)


def by_cause(report: Any) -> dict[Any, Any]:
    rows = records(report, "by_cause")
    return {
        (row["device"], row["cause"], row["kind"]): [row["time_ps"], row["count"], row["longest_ps"]] for row in rows
    }


def most_explained(report: Any) -> dict[Any, set[str | None]]:
    """By device, cause and kind: the events with the most time of all pieces; None: no piece has one."""
    time: dict[Any, dict[str | None, int]] = defaultdict(lambda: defaultdict(int))
    for row in records(report, "gaps"):
        time[row["device"], row["cause"], row["kind"]][row["event"]] += row["duration_ps"]
    found = {}
    for key, events in time.items():
        named = {event: length for event, length in events.items() if event is not None} or events
        found[key] = {event for event, length in named.items() if length == max(named.values())}
    return found


def test_the_captures_have_what_there_is_to_find(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(record_checks, "find_relevant_losses", lambda _: None)
    causes, kinds = set(), set()
    for seed in range(rounds(120, 60)):
        for row in records(session_of(capture(seed)).report("gaps"), "by_cause"):
            causes.add(row["cause"])
            kinds.add(row["kind"])
    assert kinds >= {"communication", "copy", "wait", "idle"}
    assert causes >= {"input", "compilation", "transfer", "communication", "straggler", "launch", "python"}
    assert causes >= {"evaluation", "logging"}
    assert causes >= {"host_compute", "checkpoint", "lock", "memory_pressure", "idle", "garbage_collection"}


@pytest.mark.parametrize(
    ("name", "markers"),
    [("torch_step_at_end.pt.trace.json.gz", "ProfilerStep#"), ("jax_loader_after.xplane.pb.gz", "train")],
)
def test_markers_of_steps_are_nothing_that_the_host_does(name: str, markers: str) -> None:
    report = fastprof.load(Path(__file__).parents[1] / "planted" / "loops" / name).gaps()
    for table in ("by_cause", "by_step", "gaps"):
        rows = report.tables[table].to_pylist()
        assert any(row["cause"] == "python" for row in rows), table
        assert not [row for row in rows if (row["event"] or "").startswith(markers)], table
