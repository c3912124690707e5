"""Events that begin inside another and end a little behind it are its children, as times of traces are rounded."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

import fastprof
from fastprof.cli.main import main

Span = tuple[int, int]
"""Nanoseconds: start and duration."""
SLACK_NS = {"fractions": 1, "whole microseconds": 1000}


def x(name: str, start_ns: int, duration_ns: int, whole: bool = False, more: str = "") -> str:
    ts, dur = (str(ns // 1000) if whole else f"{ns // 1000}.{ns % 1000:03}" for ns in (start_ns, duration_ns))
    return f'{{"ph":"X","name":"{name}","pid":1,"tid":1,"ts":{ts},"dur":{dur}{more}}}'


def traced(spans: list[Span], whole: bool = False) -> fastprof.Profile:
    rows = [x(str(number), *span, whole) for number, span in enumerate(spans)]
    return fastprof.load(("[" + ",".join(rows) + "]").encode())


def nested(profile: fastprof.Profile) -> list[tuple[str, str | None, int, int]]:
    """Name, name of the parent, depth and self time in ns."""
    names = profile.events["name"].to_pylist()
    return [
        (name, None if row["parent_id"] is None else names[row["parent_id"]], row["depth"], row["self_time_ps"] // 1000)
        for name, row in zip(names, profile.nesting.to_pylist(), strict=True)
    ]


def by_definition(spans: list[Span], slack_ns: int) -> list[tuple[str, str | None, int, int]]:
    """Spans in order of their start, longer first; the parent is the last earlier one that may hold a span."""

    def holds(outer: Span, inner: Span) -> bool:
        outer_end, inner_end = sum(outer), sum(inner)
        return inner_end <= outer_end or (inner[0] < outer_end and inner_end - outer_end <= slack_ns)

    order = sorted(range(len(spans)), key=lambda one: (spans[one][0], -spans[one][1]))
    parent = {
        one: next((other for other in reversed(order[:at]) if holds(spans[other], spans[one])), None)
        for at, one in enumerate(order)
    }
    rows: list[tuple[str, str | None, int, int]] = []
    depth: dict[int | None, int] = {None: -1}
    for one in order:
        above = parent[one]
        depth[one] = depth[above] + 1
        covered = {
            ns
            for child in order
            if parent[child] == one
            for ns in range(spans[child][0], min(sum(spans[child]), sum(spans[one])))
        }
        rows.append((str(one), None if above is None else str(above), depth[one], spans[one][1] - len(covered)))
    return rows


def test_27_a_child_may_stick_out_by_a_nanosecond() -> None:
    """It begins with its parent, or later; where the parent ends, a sibling begins."""
    found = nested(traced([(1000, 10), (1000, 10), (1004, 7), (1010, 1), (2000, 10), (2004, 8)]))
    assert found == [
        ("0", None, 0, 0), ("1", "0", 1, 4), ("2", "1", 2, 6), ("3", "2", 3, 1), ("4", None, 0, 10), ("5", None, 0, 8),
    ]  # fmt: skip


def test_27_of_whole_microseconds_it_is_one_of_these() -> None:
    found = nested(traced([(0, 5000), (2000, 4000), (7000, 2000), (9000, 1000)], whole=True))
    assert found == [("0", None, 0, 2000), ("1", "0", 1, 4000), ("2", None, 0, 2000), ("3", None, 0, 1000)]


@pytest.mark.parametrize("unit", SLACK_NS)
def test_27_random_spans(unit: str) -> None:
    choose, whole = random.Random(27), unit == "whole microseconds"
    for _ in range(60):
        steps = [(choose.randrange(14), choose.randrange(9)) for _ in range(choose.randrange(1, 14))]
        spans = [(start * 1000, duration * 1000) if whole else (start, duration) for start, duration in steps]
        if not whole:
            spans.append((0, 1))  # or all of them would be whole
        wanted = by_definition(spans, SLACK_NS[unit])
        assert nested(traced(spans, whole)) == wanted, spans


def test_27_a_file_that_was_converted_nests_alike(tmp_path: Path) -> None:
    spans = [(1000, 10), (1004, 7), (1200, 20), (1210, 11)]
    data = ("[" + ",".join(x(str(number), *span) for number, span in enumerate(spans)) + "]").encode()
    trace, space = tmp_path / "a.json", tmp_path / "a.xplane.pb"
    trace.write_bytes(data)
    assert main(["convert", str(trace), "-o", str(space), "-q"]) == 0
    assert nested(fastprof.load(space)) == by_definition(spans, 1)


def test_27_calls_that_stick_out_are_of_their_op() -> None:
    """A launch and the kernel that follows belong to the op, whose end is a nanosecond too early."""

    def row(name: str, start_ns: int, duration_ns: int, category: str, args: str) -> str:
        return x(name, start_ns, duration_ns, more=f',"cat":"{category}","args":{{{args}}}')

    kernel = '"correlation":1,"stream":7,"device":0,"grid":[1,1,1]'
    rows = [
        row("aten::mm", 1000, 100, "cpu_op", ""),
        row("cudaLaunchKernel", 1050, 51, "cuda_runtime", '"correlation":1'),
        row("gemm", 1200, 500, "kernel", kernel),
    ]
    profile = fastprof.load(('{"schemaVersion":1,"traceEvents":[' + ",".join(rows) + "]}").encode())
    (found,) = profile.kernel_stats().tables["kernels"].to_pylist()
    assert (found["name"], found["op_name"]) == ("gemm", "aten::mm")
