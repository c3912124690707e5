"""The tables of the analysis python_time: functions, stacks, threads, and calls between functions."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from types import SimpleNamespace
from typing import Any, Final

import numpy as np

from fastprof.derive.causes.python_calls import DEVICE_PS, FUNCTION, KINDS, REST, THREAD, THREAD_PS, PythonCalls
from fastprof.derive.ops.call_tree import REST as LEFT_OUT
from fastprof.derive.ops.call_tree import TIMES
from fastprof.derive.ops.tables import exact_sum, sums_by
from fastprof.derive.ops.tree.op_trees import Growth, Tree, laid_out
from fastprof.derive.steps.python_frames import frame_of
from fastprof.schema.array_types import Int64s
from fastprof.schema.column_kinds import Count, Picoseconds, Share, String, Text
from fastprof.schema.tables import Column, TableSchema
from fastprof.schema.value_classes import dataclass

ALL: Final = "all threads"
_NO_CALLER: Final = "null: no function calls it"


@dataclass(frozen=True, slots=True, eq=False)
class FunctionRows:
    """A row a function: those that take most of the run first; ``label``: its frame as recorded. ``window_ps``: of the
    runs of all hosts."""

    label: list[str]
    threads: Int64s
    calls: Int64s
    self_ps: Int64s
    run_ps: Int64s
    idle_ps: Int64s
    total_ps: Int64s
    run_total_ps: Int64s
    native_ps: Int64s
    waited_ps: Int64s
    device_ps: Int64s
    window_ps: int


def _of_frame() -> tuple[Column, ...]:
    return (
        Text("function", "name of the function", lambda rows: [frame_of(name).function for name in rows.label]),
        Text("file", "file that defines it; of a compiled function its module; null: PyTorch's profiler records no "
             "module of compiled functions", lambda rows: [frame_of(name).file or None for name in rows.label]),
        Count("line", "line at which it begins; null: it is compiled",
              lambda rows: [frame_of(name).line for name in rows.label]),
    )  # fmt: skip


_AMOUNTS: Final = (
    Count("calls", "calls that the tracer recorded"),
    Picoseconds("self_ps", "time in which it is the innermost function"),
    Picoseconds("run_ps", "part of self_ps on threads that run the steps, in the run"),
    Picoseconds("idle_ps", "part of self_ps in which threads that run no steps only wait: for a lock, a queue, a "
                "connection or a time"),
    Picoseconds("total_ps", "time during which a thread is in it; a call within a call counts once"),
    Picoseconds("native_ps", "part of self_ps in what frameworks, ops and annotations recorded"),
    Picoseconds("waited_ps", "part of self_ps in which it waits for a device, as far as recorded"),
    Picoseconds("device_ps", "sum of the durations of kernels, of programs of TPUs, and of ops on other threads, whose "
                "nearest function it is"),
)  # fmt: skip


def _share_of_run(amount: str) -> Any:
    return lambda rows: getattr(rows, amount) / max(rows.window_ps, 1)


_FUNCTIONS = TableSchema(
    "functions",
    "a function, over all threads and hosts: those that take most of the run first, waits of other threads last",
    (
        *_of_frame(),
        Count("threads", "threads that call it"),
        *_AMOUNTS[:3],
        Share("self_share", "run_ps / window_ps of the figures: its share of the run", _share_of_run("run_ps")),
        *_AMOUNTS[3:5],
        Share(
            "total_share",
            "part of the run in which a thread that runs the steps is in it; of several such threads their sum",
            _share_of_run("run_total_ps"),
        ),
        *_AMOUNTS[5:],
    ),
    derived=True,
)
_THREAD_FUNCTIONS = TableSchema(
    "thread_functions",
    "a function on a thread",
    (
        Text("host", "host of the thread", lambda rows: [rows.host] * len(rows.label)),
        Text("thread", "name of the thread"),
        *_of_frame(),
        *_AMOUNTS,
    ),
    derived=True,
)
_STACKS = TableSchema(
    "stacks",
    "a stack of calls: a node of a tree in preorder, children with most time first; equal stacks are one",
    (
        Count("node", "number of the row", lambda rows: np.arange(len(rows.tree))),
        Count("parent", "node of the stack without its last call; null: the root",
              lambda rows: [None, *rows.tree.parent[1:].tolist()]),
        Count("depth", "calls around it, with its thread", lambda rows: rows.tree.depth),
        Text("kind", f"what is called: one of {', '.join(KINDS)}", lambda rows: [KINDS[kind] for kind in rows.kind]),
        Text("name", "function, or name of the event", lambda rows: rows.names),
        String("source", "file and line of a function; null: it has none", lambda rows: rows.sources),
        Count("calls", "calls; of rest, those directly in its parent; of a thread 1"),
        Picoseconds("self_ps", "time on the thread less what is called, and less idle_ps; it adds up to total_ps of "
                    "the root"),
        Picoseconds("total_ps", "time on the thread, with all below"),
        Share("share", "total_ps / total_ps of the root", lambda rows: rows.total_ps / max(int(rows.total_ps[0]), 1)),
        Picoseconds("device_ps", "time of kernels, of programs of TPUs, and of ops on other threads, that it led to, "
                    "with all below"),
    ),
    derived=True,
)  # fmt: skip
_THREADS = TableSchema(
    "threads",
    "a thread on which the tracer recorded a call",
    (
        Text("host", "host of the thread"),
        Text("thread", "name of the thread"),
        Text("role", "steps: it marks steps or launches work; other: it does neither"),
        Count("calls", "calls that the tracer recorded"),
        Picoseconds("python_ps", "time during which it has a call of Python"),
        Picoseconds("idle_ps", "part of python_ps in which it only waits, if it runs no steps"),
        Picoseconds("outside_ps", "time of its events that lie in no call of Python"),
    ),
    derived=True,
)
_CALLS = TableSchema(
    "calls",
    "a function that calls another, over all threads and hosts, longest first",
    (
        Text("caller", f"function that calls; {_NO_CALLER}", lambda rows: [_named(name) for name in rows.caller]),
        String("caller_source", f"its file and line; {_NO_CALLER}, or it is unknown",
               lambda rows: [name and source_of(name) for name in rows.caller]),
        Text("callee", "function that is called", lambda rows: [_named(name) for name in rows.callee]),
        String("callee_source", "its file and line; null: it is unknown",
               lambda rows: [source_of(name) for name in rows.callee]),
        Count("calls", "calls of the second from the first, also through events that are not functions"),
        Picoseconds("total_ps", "sum of the durations of these calls"),
    ),
    derived=True,
)  # fmt: skip
TABLES: Final = {one.name: one for one in (_FUNCTIONS, _STACKS, _THREADS, _THREAD_FUNCTIONS, _CALLS)}


def _named(name: str | None) -> str | None:
    return None if name is None else frame_of(name).function


def source_of(name: str) -> str | None:
    """``file:line`` of a frame; of a compiled function its module; None: it has neither."""
    frame = frame_of(name)
    return f"{frame.file}:{frame.line}" if frame.line is not None else frame.file or None


def with_place(name: str, hosts: Sequence[PythonCalls]) -> str:
    """A function and its file and line, or if these are not recorded those of the function that calls it longest."""
    frame, rows = frame_of(name), call_rows(hosts)
    if frame.line is not None:
        return f"{frame.function} ({source_of(name)})"
    callers = (one for one, callee in zip(rows.caller, rows.callee, strict=True) if callee == name)
    caller = next(callers, None)
    if caller is None or frame_of(caller).line is None:
        return frame.function
    return f"{frame.function} in {frame_of(caller).function} ({source_of(caller)})"


def function_rows(hosts: Sequence[PythonCalls]) -> FunctionRows:
    """Over all threads and hosts. CaptureError: times do not add up in 64 bits."""
    numbers: dict[str, int] = {}
    row = np.concatenate([np.zeros(0, np.int64), *(
        np.array([numbers.setdefault(host.names[one], len(numbers)) for one in host.functions.label.tolist()], np.int64)
        for host in hosts
    )])  # fmt: skip

    def summed(name: str) -> Int64s:
        parts = [np.zeros(0, np.int64), *(getattr(host.functions, name) for host in hosts)]
        return sums_by(row, np.concatenate(parts), len(numbers))

    amounts = {name: summed(name) for name in (*(column.name for column in _AMOUNTS), "run_total_ps")}
    labels = list(numbers)
    works = amounts["self_ps"] - amounts["idle_ps"]
    keys = (np.array(labels, object), -amounts["total_ps"], -amounts["self_ps"], -works, -amounts["run_ps"])
    order = np.lexsort(keys) if labels else np.zeros(0, np.int64)
    threads = np.bincount(row, minlength=len(numbers)).astype(np.int64)
    return FunctionRows(
        [labels[one] for one in order.tolist()],
        threads[order],
        **{name: values[order] for name, values in amounts.items()},
        window_ps=sum(host.window_ps for host in hosts),
    )


def thread_function_rows(hosts: Sequence[PythonCalls]) -> Iterator[SimpleNamespace]:
    """By host, thread after thread, most self time first."""
    for host in hosts:
        functions = host.functions
        order = np.lexsort((functions.label, -functions.self_ps, functions.thread))
        yield SimpleNamespace(
            host=host.host,
            thread=[host.threads[one] for one in functions.thread[order].tolist()],
            label=[host.names[one] for one in functions.label[order].tolist()],
            **{column.name: getattr(functions, column.name)[order] for column in _AMOUNTS},
        )


def thread_rows(hosts: Sequence[PythonCalls]) -> SimpleNamespace:
    """A row a thread, in the order of the capture."""
    rows = SimpleNamespace(host=[], thread=[], role=[], calls=[], python_ps=[], idle_ps=[], outside_ps=[])
    for host in hosts:
        count = len(host.threads)
        rows.host += [host.host] * count
        rows.thread += host.threads
        rows.role += ["steps" if one else "other" for one in host.runs_steps]
        of = host.functions
        for name, values in (("calls", of.calls), ("python_ps", of.self_ps), ("idle_ps", of.idle_ps)):
            getattr(rows, name).extend(sums_by(of.thread, values, count, TIMES).tolist())
        rows.outside_ps += host.outside_ps
    return rows


def call_rows(hosts: Sequence[PythonCalls]) -> SimpleNamespace:
    """Calls between functions of all hosts, longest first."""
    sums: dict[tuple[str | None, str], list[int]] = {}
    for host in hosts:
        of = host.between
        rows = zip(of.caller.tolist(), of.callee.tolist(), of.calls.tolist(), of.total_ps.tolist(), strict=True)
        for caller, callee, calls, total in rows:
            amounts = sums.setdefault((None if caller < 0 else host.names[caller], host.names[callee]), [0, 0])
            amounts[0] += calls
            amounts[1] += total
    order = sorted(sums.items(), key=lambda one: (-one[1][1], -one[1][0], one[0][0] or "", one[0][1]))
    return SimpleNamespace(
        caller=[pair[0] for pair, _ in order],
        callee=[pair[1] for pair, _ in order],
        calls=[amounts[0] for _, amounts in order],
        total_ps=[amounts[1] for _, amounts in order],
    )


@dataclass(frozen=True, slots=True, eq=False)
class StackRows:
    """The stacks of all hosts below one root, in preorder."""

    tree: Tree
    kind: list[int]
    names: list[str]
    sources: list[str | None]
    calls: Int64s
    self_ps: Int64s
    total_ps: Int64s
    device_ps: Int64s


def stack_rows(hosts: Sequence[PythonCalls]) -> StackRows:
    """Nodes are few: the tree of each host is bounded."""
    growth = Growth(ALL)
    sources: list[str | None] = [None]
    parts = [(np.zeros(1, np.int64), np.zeros((1, 2), np.int64), np.zeros((1, 2), np.int64))]
    for host in hosts:
        tree, shift = host.tree, len(growth)
        for node, label in zip(tree.parent.tolist(), tree.label.tolist(), strict=True):
            kind, name, source = _node(host, label, len(hosts) > 1)
            growth.added(node + shift if node >= 0 else 0, kind, name)
            sources.append(source)
        parts.append((tree.calls, tree.own, tree.total))
    calls, own, total = (np.concatenate(part) for part in zip(*parts, strict=True))
    roots = np.flatnonzero(np.array(growth.parent) == 0)
    total[0] = [exact_sum(column, TIMES) for column in total[roots].T]
    calls[0] = calls[roots].sum()
    laid = laid_out(growth, total[:, THREAD_PS], total[:, DEVICE_PS].astype(np.float64))
    order = laid.grown
    return StackRows(
        laid,
        laid.kind.tolist(),
        laid.name,
        [sources[one] for one in order.tolist()],
        calls[order],
        own[order, THREAD_PS],
        total[order, THREAD_PS],
        total[order, DEVICE_PS],
    )


def _node(host: PythonCalls, label: int, several: bool) -> tuple[int, str, str | None]:
    """Kind, name and source of a node."""
    if label == LEFT_OUT:
        return REST, "(smaller)", None
    if label >= len(host.names):
        thread = host.threads[label - len(host.names)]
        return THREAD, f"{host.host} {thread}" if several else thread, None
    name = host.names[label]
    if host.kinds[label] == FUNCTION:
        return FUNCTION, frame_of(name).function, source_of(name)
    return int(host.kinds[label]), name, None
