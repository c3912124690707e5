"""Memory of loading a trace stays in proportion to its text, whatever is many: processes, names, devices, frames."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from gate import few

import fastprof

PROGRAM = """
import sys
import fastprof

def peak():
    return next(int(line.split()[1]) for line in open("/proc/self/status") if line.startswith("VmHWM")) << 10

fastprof.load(b'{"traceEvents":[{"ph":"X","pid":1,"tid":1,"ts":1,"dur":1,"name":"a"}]}').events
before = peak()
events = fastprof.load(sys.argv[1]).events.num_rows
print(peak() - before, events)
"""
Event = dict[str, Any]


def event(number: int, **fields: Any) -> Event:
    return {"ph": "X", "pid": 1, "tid": 1, "ts": number, "dur": 1, "name": "a"} | fields


def kernel(number: int) -> Event:
    args = {"device": number, "stream": 7, "correlation": number}
    return event(number, pid=number, tid=7, cat="kernel", args=args)


def named(what: str, **args: Any) -> Event:
    return {"ph": "M", "pid": 1, "tid": 1, "name": what, "args": args}


CASES: dict[str, tuple[int, Callable[[int], dict[str, Any]], int]] = {
    "processes with stats of their own": (
        20_000, lambda n: {"traceEvents": [event(i, pid=i, args={f"k{i}": 1}) for i in range(n)]}, 40),
    "threads": (20_000, lambda n: {"traceEvents": [event(i, tid=i) for i in range(n)]}, 30),
    "devices": (20_000, lambda n: {"schemaVersion": 1, "traceEvents": [kernel(i) for i in range(n)]}, 30),
    "labels of processes": (
        20_000, lambda n: {"traceEvents": [event(0), *(named("process_labels", labels=f"l{i}") | {"pid": i}
                                                       for i in range(n))]}, 30),
    "frames within each other": (
        20_000, lambda n: {"traceEvents": [event(i, sf=i) for i in range(n)],
                           "stackFrames": {str(i): {"name": f"f{i}", "parent": i - 1} for i in range(n)}}, 40),
    "a long name of a thread in many epochs": (
        4000, lambda n: {"traceEvents": [named("thread_name", name="x" * 500_000),
                                         *(event(i * (1 << 41)) for i in range(n))]}, 20),
    "a long name of what a process says": (
        4000, lambda n: {"traceEvents": [named("y" * 500_000, **{f"k{i}": 1 for i in range(n)}), event(0)]}, 20),
    "events in each other": (
        40_000, lambda n: {"traceEvents": [event(i, ph="B") for i in range(n)] + [event(n + i, ph="E")
                                                                                  for i in range(n)]}, 12),
    "epochs": (
        20_000, lambda n: {"traceEvents": [event(i % 8000 * (1 << 41)) for i in range(n)]}, 12),
}  # fmt: skip


@pytest.mark.parametrize("case", few(CASES, 4))
def test_memory_is_in_proportion_to_the_text(case: str, tmp_path: Path) -> None:
    """Bytes a byte of text, beyond 8 MiB; they were up to thousands, and grew with the number."""
    count, make, most = CASES[case]
    path = tmp_path / "t.json"
    path.write_text(json.dumps(make(count), separators=(",", ":")))
    command = [sys.executable, "-P", "-c", PROGRAM, str(path)]
    ran = subprocess.run(command, capture_output=True, text=True, check=True, timeout=300)
    grown, events = map(int, ran.stdout.split())
    assert events > 0
    assert grown < (8 << 20) + most * path.stat().st_size


def test_a_trace_that_takes_too_much_memory_is_refused() -> None:
    """Each process is held until the end."""
    events = ",".join(f'{{"ph":"X","pid":{number},"ts":1,"dur":1}}' for number in range(350_000))
    text = f'{{"traceEvents":[{events}]}}'.encode()
    with pytest.raises(
        fastprof.CaptureError, match="takes more memory than 4 bytes for each byte of its text"
    ) as caught:
        fastprof.load(text)
    assert caught.value.offset is not None and 0 < caught.value.offset < len(text)


def test_members_of_a_document_are_limited() -> None:
    """Beyond 4,096 they are not read."""
    members = ",".join(f'"k{number}":{number}' for number in range(10_000))
    profile = fastprof.load(f'{{"traceEvents":[{{"ph":"X","ts":1,"dur":1,"name":"a"}}],{members}}}'.encode())
    remarks = {row["code"]: row["count"] for row in profile.tables["import_log"].to_pylist()}
    assert remarks["not_read"] == 10_000 - 4096
