"""Calls of Python: self and total time by function, stacks, what calls what, and what ran elsewhere for them."""

from __future__ import annotations

import json
import random
from collections import Counter
from fractions import Fraction
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest
from gate import few, typical_captures
from trace_builder import Event, event, line, plane, ref, xspace

import fastprof
from fastprof.derive.ops import op_trees
from fastprof.derive.ops.op_trees import REST, CallTree
from fastprof.derive.steps.event_origin import PythonFrame, parse_frame, waits_for_device


def python_time(capture: bytes | Path | list[bytes], **params: Any) -> fastprof.Report:
    return fastprof.load(capture, as_hosts=isinstance(capture, list)).python_time(**params)


def thread(*events: Event, name: str = "python") -> bytes:
    return xspace(plane("/host:CPU", [line(name, events)]))


def rows(report: fastprof.Report, table: str, *columns: str) -> list[tuple[Any, ...]]:
    return [tuple(row[name] for name in columns) for row in report.tables[table].to_pylist()]


@pytest.mark.parametrize(
    ("name", "frame"),
    [
        ("$train.py:12 step", ("step", "train.py", 12)), ("$builtins len", ("len", "builtins", None)),
        ("$<unknown> append", ("append", "<unknown>", None)), ("$array.py:9 <lambda>", ("<lambda>", "array.py", 9)),
        ("$<frozen importlib._bootstrap>:1 _load", ("_load", "<frozen importlib._bootstrap>", 1)),
        ("$/home/me/a b.py:3 f", ("f", "/home/me/a b.py", 3)), ("$odd", ("odd", "", None)), ("$", ("", "", None)),
        ("$a.py:99999999999 f", ("f", "a.py:99999999999", None)),
        ("<built-in function linear>", ("linear", "", None)),
        ("<built-in method to of Tensor object at 0x7f>", ("to", "", None)),
        ("<built-in method run_backward of torch._C._EngineBase object at 0x7f>", ("run_backward", "torch._C", None)),
        ("<built-in method acquire of _thread.lock object at 0x7f>", ("acquire", "_thread", None)),
        ("<built-in method cat of type object at 0x7f>", ("cat", "", None)),
        ("<built-in method  of PyCapsule object at 0x7f>", ("<built-in>", "", None)),
        ("torch/nn/modules/linear.py(124): forward", ("forward", "torch/nn/modules/linear.py", 124)),
    ],
)  # fmt: skip
def test_frames(name: str, frame: tuple[str, str, int | None]) -> None:
    assert parse_frame(name) == PythonFrame(*frame)


def test_names_that_wait_for_a_device() -> None:
    for name in ("$api.py:1 block_until_ready", "$api.py:2 try_to_block", "CommonPjRtBuffer::Await",
    "BlockHostUntilDone",
                 "ThunkExecutor::Execute (wait for completion)", "cudaStreamSynchronize",
                 "np.asarray(jax.Array)"):  # fmt: skip
        assert waits_for_device(name), name
    for name in ("$a.py:1 wait", "$threading.py:2 acquire", "ThunkExecutor::Execute", "Awaiting", "load"):
        assert not waits_for_device(name), name


PROGRAM = thread(
    event("$train.py:1 main", 0, 1000),
    event("$train.py:5 step", 100, 300),
    event("PjitFunction(f)", 150, 100),
    event("add:Add", 160, 30),
    event("$train.py:5 step", 500, 200),
    event("PjitFunction(f)", 520, 50),
    event("$train.py:5 step", 600, 40),
    event("$builtins len", 610, 10),
    event("$api.py:7 block_until_ready", 800, 100),
    event("CommonPjRtBuffer::Await", 810, 60),
    event("MemoryAllocation", 1200, 30),
)


def test_functions_have_self_and_total_time() -> None:
    """A step within a step counts once in total; what frameworks do in a function is its own time."""
    report = python_time(PROGRAM)
    assert rows(report, "functions", "function", "file", "line", "calls", "self_ps", "total_ps", "native_ps",
                "waited_ps") == [
        ("step", "train.py", 5, 3, 490, 500, 150, 0),
        ("main", "train.py", 1, 1, 400, 1000, 0, 0),
        ("block_until_ready", "api.py", 7, 1, 100, 100, 60, 100),
        ("len", "builtins", None, 1, 10, 10, 0, 0),
    ]  # fmt: skip
    values = {name: one.value for name, one in report.scalars.items()}
    assert values == {
        "window_ps": 30, "run_ps": 30, "longest": "step (train.py:5)", "longest_ps": 30, "longest_share": 1.0,
        "idle_ps": 0, "python_ps": 1000, "native_ps": 210, "waited_ps": 100, "device_ps": None, "outside_ps": 30,
        "call_count": 6, "function_count": 4, "thread_count": 1,
    }  # fmt: skip


def _training() -> bytes:
    """Two steps on a thread; another waits all the time, a third works in the first step."""
    steps = [event(f"ProfilerStep#{n}", 100 + 400 * n, 400, {"_r": 1}) for n in range(2)]
    calls = [event("$train.py:5 step", 100 + 400 * n, 300) for n in range(2)]
    main = [event("$train.py:1 main", 0, 1000), *(one for pair in zip(steps, calls, strict=True) for one in pair)]
    waits = [event("$threading.py:9 run", 0, 1000), event("$threading.py:359 wait", 0, 990)]
    works = [event("$loader.py:3 decode", 100, 200), event("$builtins sleep", 150, 40)]
    lines = [line("python/0", main), line("python/1", waits), line("python/2", works)]
    return xspace(plane("/host:CPU", lines))


def test_waits_of_threads_that_run_no_steps_are_set_apart() -> None:
    """The run is the two steps: 800 ps; what is before and after has no share."""
    report = python_time(_training())
    assert rows(report, "functions", "function", "self_ps", "run_ps", "idle_ps", "self_share", "total_share") == [
        ("step", 600, 600, 0, 0.75, 0.75),
        ("main", 400, 200, 0, 0.25, 1.0),
        ("decode", 160, 0, 0, 0.0, 0.0),
        ("run", 10, 0, 0, 0.0, 0.0),
        ("wait", 990, 0, 990, 0.0, 0.0),
        ("sleep", 40, 0, 40, 0.0, 0.0),
    ]
    assert rows(report, "threads", "thread", "role", "python_ps", "idle_ps") == [
        ("python/0", "steps", 1000, 0), ("python/1", "other", 1000, 990), ("python/2", "other", 200, 40),
    ]  # fmt: skip
    values = {name: one.value for name, one in report.scalars.items()}
    assert (values["window_ps"], values["run_ps"], values["idle_ps"], values["python_ps"]) == (800, 800, 1030, 2200)
    assert report.tables["stacks"]["total_ps"][0].as_py() == 2200 - 1030


def test_markers_of_steps_are_one_name_in_the_tree() -> None:
    named = rows(python_time(_training()), "stacks", "depth", "kind", "name", "calls", "total_ps")
    assert (3, "annotation", "ProfilerStep", 2, 800) in named
    assert (4, "function", "step", 2, 600) in named


def test_equal_stacks_are_one() -> None:
    report = python_time(PROGRAM)
    assert rows(report, "stacks", "node", "parent", "depth", "kind", "name", "source", "calls", "self_ps",
    "total_ps") == [
        (0, None, 0, "root", "all threads", None, 1, 0, 1030),
        (1, 0, 1, "thread", "python", None, 1, 0, 1030),
        (2, 1, 2, "function", "main", "train.py:1", 1, 400, 1000),
        (3, 2, 3, "function", "step", "train.py:5", 2, 310, 500),
        (4, 3, 4, "framework", "PjitFunction(f)", None, 2, 120, 150),
        (5, 4, 5, "op", "add:Add", None, 1, 30, 30),
        (6, 3, 4, "function", "step", "train.py:5", 1, 30, 40),
        (7, 6, 5, "function", "len", "builtins", 1, 10, 10),
        (8, 2, 3, "function", "block_until_ready", "api.py:7", 1, 40, 100),
        (9, 8, 4, "framework", "CommonPjRtBuffer::Await", None, 1, 60, 60),
        (10, 1, 2, "framework", "MemoryAllocation", None, 1, 30, 30),
    ]  # fmt: skip


@pytest.mark.parametrize("threads", [["python"], ["python/1", "python/2"]])
def test_times_that_do_not_add_up_in_64_bits_are_an_error(threads: list[str]) -> None:
    """Calls that cross each other, on one thread, or calls on several threads."""
    half = 2**62
    calls = [event("$a.py:1 f", 0, half), event("$b.py:1 g", 1, half), event("$c.py:1 h", 2, half)]
    lines = [line(name, calls[: 4 - len(threads)]) for name in threads]
    with pytest.raises(fastprof.CaptureError, match="do not add up in 64 bits"):
        python_time(xspace(plane("/host:CPU", lines)))


def test_calls_between_functions() -> None:
    assert rows(python_time(PROGRAM), "calls", "caller", "caller_source", "callee", "calls", "total_ps") == [
        (None, None, "main", 1, 1000),
        ("main", "train.py:1", "step", 2, 500),
        ("main", "train.py:1", "block_until_ready", 1, 100),
        ("step", "train.py:5", "step", 1, 40),
        ("step", "train.py:5", "len", 1, 10),
    ]


def test_functions_by_thread_and_host() -> None:
    def host(name: str, *threads: list[Event]) -> bytes:
        lines = [line(f"python/{i}", events) for i, events in enumerate(threads)]
        return xspace(plane("/host:CPU", lines), hostnames=[name])

    one = host("a", [event("$f.py:1 f", 0, 10)], [event("$f.py:1 f", 0, 20), event("$f.py:2 g", 5, 5)])
    other = host("b", [event("$f.py:1 f", 0, 40)], [event("none", 0, 4)])
    report = python_time([one, other])
    assert rows(report, "functions", "function", "threads", "calls", "self_ps") == [("f", 3, 3, 65), ("g", 1, 1, 5)]
    by_thread = rows(report, "thread_functions", "thread", "function", "self_ps", "total_ps")
    assert by_thread == [
        ("python/0", "f", 10, 10),
        ("python/1", "f", 15, 20),
        ("python/1", "g", 5, 5),
        ("python/0", "f", 40, 40),
    ]
    assert rows(report, "threads", "thread", "calls", "python_ps") == [
        ("python/0", 1, 10),
        ("python/1", 2, 20),
        ("python/0", 1, 40),
    ]
    names = [name for name, depth in rows(report, "stacks", "name", "depth") if depth == 1]
    assert len(names) == 3 and len(set(names)) == 3
    assert report.tables["stacks"]["total_ps"][0].as_py() == 70


def test_kernels_lie_below_the_call_that_launched_them() -> None:
    """Across threads, as launches and connected events say."""
    data = xspace(
        plane("/host:CPU", [
            line("python", [event("$a.py:1 f", 0, 100), event("submit", 10, 5, {"_p": 3, "_pt": 2}),
                            event("cuLaunchKernel", 50, 5, {"correlation_id": 8})]),
            line("worker", [event("run", 20, 50, {"_c": 3, "_ct": 2}),
                            event("cuLaunchKernel", 30, 5, {"correlation_id": 9})]),
        ]),
        plane("/device:GPU:0", [line("Stream #1", [
            event("add", 200, 40, {"correlation_id": 8, "kernel_details": ref("regs:1")}),
            event("mul", 300, 20, {"correlation_id": 9, "kernel_details": ref("regs:1")}),
            event("mul", 400, 7, {"correlation_id": 99, "kernel_details": ref("regs:1")}),
        ])]),
    )  # fmt: skip
    report = python_time(data)
    assert rows(report, "stacks", "depth", "kind", "name", "calls", "self_ps", "total_ps", "device_ps") == [
        (0, "root", "all threads", 1, 0, 100, 60),
        (1, "thread", "python", 1, 0, 100, 60),
        (2, "function", "f", 1, 90, 100, 60),
        (3, "framework", "cuLaunchKernel", 1, 5, 5, 40),
        (4, "kernel", "add", 1, 0, 0, 40),
        (3, "framework", "submit", 1, 5, 5, 20),
        (4, "kernel", "mul", 1, 0, 0, 20),
    ]
    assert rows(report, "functions", "function", "device_ps") == [("f", 60)]


def test_ops_of_pools_lie_below_the_call_that_scheduled_them() -> None:
    data = xspace(plane("/host:CPU", [
        line("python", [event("$a.py:1 f", 0, 100), event("PjitFunction(g)", 10, 50),
                        event("ThreadpoolListener::Record", 20, 0, {"_p": 7, "_pt": 15})]),
        line("pool/1", [event("ThreadpoolListener::StartRegion", 30, 0, {"_c": 7, "_ct": 15}),
                        event("dot", 40, 30, {"hlo_op": ref("dot")}),
                        event("inner", 45, 5, {"hlo_op": ref("inner")}),
                        event("ThreadpoolListener::Record", 75, 0, {"_p": 8, "_pt": 15}),
                        event("ThreadpoolListener::StopRegion", 80, 0),
                        event("dot", 90, 9, {"hlo_op": ref("dot")})]),
        line("pool/2", [event("ThreadpoolListener::StartRegion", 85, 0, {"_c": 8, "_ct": 15}),
                        event("add", 86, 3, {"hlo_op": ref("add")}),
                        event("ThreadpoolListener::StopRegion", 95, 0)]),
    ]))  # fmt: skip
    report = python_time(data)
    kernels = [row for row in rows(report, "stacks", "kind", "name", "calls", "device_ps", "depth") if row[0] == "op"]
    assert sorted(kernels) == [("op", "add", 1, 3, 5), ("op", "dot", 1, 30, 5)]
    assert report.scalars["device_ps"].value == 33


def test_a_capture_without_frames_says_how_to_record_them() -> None:
    report = python_time(thread(event("train", 0, 10)))
    assert [report.tables[name].num_rows for name in ("functions", "calls", "threads", "stacks")] == [0] * 4
    assert "with_stack in PyTorch, python_tracer_level in other profilers" in report.notices[0].text
    assert report.scalars["python_ps"].value is None
    assert "No Python" in report.to_svg()
    empty = json.loads(report.to_speedscope())
    assert empty["profiles"][0]["samples"] == []


# ---- sizes


def test_smaller_stacks_are_summed_up() -> None:
    events, at = [event("$m.py:1 main", 0, 100_000)], 0
    for number in range(40):
        events += [event(f"$f.py:{number} f{number}", at, 100 + number), event("$g.py:1 g", at, 50)]
        at += 1000
    report = python_time(thread(*events), nodes=10)
    stacks = report.tables["stacks"]
    names = stacks["name"].to_pylist()
    assert stacks.num_rows <= 2 * 10 + 2 and "f39" in names and "f0" not in names
    assert sum(stacks["self_ps"].to_pylist()) == stacks["total_ps"][0].as_py() == 100_000
    [rest] = [row for row in stacks.to_pylist() if row["kind"] == "rest" and row["depth"] == 3]
    assert rest["name"] == "(smaller)" and rest["calls"] == 40 - sum(name.startswith("f") for name in names)
    assert report.scalars["function_count"].value == 42


@pytest.mark.parametrize("seed", few(range(30), 8))
def test_a_bounded_tree_keeps_its_sums(seed: int) -> None:
    random_ = random.Random(seed)
    count = random_.randint(1, 60)
    parent = np.array([random_.randint(-1, i - 1) if i else -1 for i in range(count)], np.int64)
    depth = np.zeros(count, np.int32)
    for i in range(count):
        depth[i] = 0 if parent[i] < 0 else depth[parent[i]] + 1
    own = np.array([[random_.randint(0, 9), random_.randint(0, 3)] for _ in range(count)], np.int64)
    label = np.array([random_.randint(0, 4) for _ in range(count)], np.int64)
    tree, node = op_trees.build_call_tree(parent, depth, label, own)
    assert _paths(tree) == _slow_paths(parent, label, own)
    assert (tree.label[node] == label).all()
    for most in (1, 2, 5, 20, 100):
        small = tree.bounded(most)
        assert (small.label != REST).sum() <= most
        assert (small.parent < np.arange(len(small))).all()
        assert small.own.sum(axis=0).tolist() == own.sum(axis=0).tolist()
        assert small.total[small.parent < 0].sum(axis=0).tolist() == own.sum(axis=0).tolist()
        assert (op_trees.sum_subtrees(small.parent, small.depth, small.own) == small.total).all()
        assert (small.own >= 0).all()


def _paths(tree: CallTree) -> dict[tuple[int, ...], tuple[int, list[int], list[int]]]:
    paths: list[tuple[int, ...]] = []
    for parent, label in zip(tree.parent.tolist(), tree.label.tolist(), strict=True):
        paths.append((*(paths[parent] if parent >= 0 else ()), label))
    values = zip(tree.calls.tolist(), tree.own.tolist(), tree.total.tolist(), strict=True)
    found = dict(zip(paths, values, strict=True))
    assert len(found) == len(tree)
    return found


def _slow_paths(parent: Any, label: Any, own: Any) -> dict[tuple[int, ...], tuple[int, list[int], list[int]]]:
    paths: list[tuple[int, ...]] = []
    for above, name in zip(parent.tolist(), label.tolist(), strict=True):
        paths.append((*(paths[above] if above >= 0 else ()), name))
    found: dict[tuple[int, ...], tuple[int, list[int], list[int]]] = {}
    for path in set(paths):
        mine = [own[i] for i, one in enumerate(paths) if one == path]
        below = [own[i] for i, one in enumerate(paths) if one[: len(path)] == path]
        found[path] = (len(mine), sum(mine).tolist(), sum(below).tolist())
    return found


def test_calls_beyond_the_depth_count_for_the_one_around_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(op_trees, "MOST_DEPTH", 3)
    nest = [event(f"$f.py:{i} f", i, 100 - 2 * i) for i in range(10)]
    report = python_time(thread(*nest))
    assert rows(report, "stacks", "depth", "calls", "self_ps", "total_ps") == [
        (0, 1, 0, 100), (1, 1, 0, 100), (2, 1, 2, 100), (3, 1, 2, 98), (4, 1, 96, 96),
    ]  # fmt: skip
    assert report.tables["functions"].num_rows == 10


# ---- against a walk


FRAMES = ("$a.py:1 f", "$a.py:2 g", "$builtins h", "PjitFunction(x)", "mine")


def _nest(random_: random.Random, start: int, end: int, depth: int) -> list[Event]:
    made: list[Event] = []
    while start < end and depth:
        first = random_.randint(start, end - 1)
        last = random_.randint(first + 1, end)
        made.append(event(random_.choice(FRAMES), first, last - first))
        made += _nest(random_, first, last, depth - 1)
        start = last
    return made


@pytest.mark.parametrize("seed", few(range(40), 12))
def test_random_nestings_agree_with_a_walk_over_time(seed: int) -> None:
    """At each picosecond, the stack of what lasts."""
    random_ = random.Random(seed)
    made = [event("$a.py:9 main", 0, 80), *_nest(random_, 0, 80, 6)]
    own: Counter[str] = Counter()
    total: Counter[str] = Counter()
    native = 0
    spans = [(one.name, one.offset_ps, one.offset_ps + one.duration_ps) for one in made]
    for time in range(80):
        lasting = [name for name, first, last in spans if first <= time < last]
        frames = [name for name in lasting if str(name).startswith("$")]
        own[str(frames[-1])] += 1
        native += lasting[-1] != frames[-1]
        total.update({str(name) for name in frames})
    report = python_time(thread(*made))
    found = {row["function"]: row for row in report.tables["functions"].to_pylist()}
    assert {name: row["self_ps"] for name, row in found.items() if row["self_ps"]} == {
        parse_frame(name).function: time for name, time in own.items()
    }
    assert {name: row["total_ps"] for name, row in found.items()} == {
        parse_frame(name).function: time for name, time in total.items()
    }
    assert report.scalars["native_ps"].value == native
    calls = Counter(parse_frame(str(name)).function for name, _, _ in spans if str(name).startswith("$"))
    assert {name: row["calls"] for name, row in found.items()} == calls


@typical_captures
def test_sums_of_captures(capture: Path) -> None:
    """To the picosecond: stacks, threads, functions and the nesting that the capture has."""
    profile = fastprof.load(capture)
    report = profile.python_time()
    stacks = report.tables["stacks"]
    root = stacks["total_ps"][0].as_py() if stacks.num_rows else 0
    assert sum(stacks["self_ps"].to_pylist()) == root
    threads = report.tables["threads"].to_pylist()
    assert sum(row["python_ps"] + row["outside_ps"] for row in threads) == root
    assert sum(report.tables["functions"]["self_ps"].to_pylist()) == sum(row["python_ps"] for row in threads)
    assert sum(report.tables["thread_functions"]["self_ps"].to_pylist()) == sum(row["python_ps"] for row in threads)
    children: Counter[int] = Counter()
    for row in stacks.to_pylist()[1:]:
        children[row["parent"]] += row["total_ps"]
    for row in stacks.to_pylist():
        assert row["total_ps"] == row["self_ps"] + children[row["node"]]
    assert (report.scalars["python_ps"].value or 0) == sum(row["python_ps"] for row in threads)


# ---- flame graphs


def test_a_flame_graph_as_a_drawing_and_for_speedscope() -> None:
    report = python_time(PROGRAM)
    root = ElementTree.fromstring(report.to_svg())
    hints = [one.text.splitlines()[0] for one in root.iter() if one.tag.endswith("title") and one.text]
    assert {"main", "step", "PjitFunction(f)", "block_until_ready"} <= set(hints)
    document = json.loads(report.to_speedscope(), parse_float=Fraction)
    [profile] = document["profiles"]
    frames = document["shared"]["frames"]
    stacks = {tuple(frames[one]["name"] for one in stack): weight
              for stack, weight in zip(profile["samples"], profile["weights"], strict=True)}  # fmt: skip
    assert stacks["python", "main", "step"] == Fraction(310, 1000)
    assert sum(stacks.values()) == Fraction(1030, 1000)
    assert {"name": "step", "file": "train.py", "line": 5} in frames
