"""Python: self and total time by function, callers, callees, ops and kernels below, flame graphs.

Covers only functions that the Python tracer recorded. Formulas: docs/analyses/python-time.md.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field

import pyarrow as pa

from fastprof.analyses.contract import (
    AnalysisReport,
    Evidence,
    Known,
    Notice,
    Opening,
    ScalarSpec,
    Section,
    has_rows,
    is_known,
    make_scalars,
)
from fastprof.derive.causes import python_calls
from fastprof.derive.causes.gaps import RUN_WINDOW_WORDS
from fastprof.derive.causes.python_calls import TABLES as TABLES
from fastprof.derive.causes.python_calls import FunctionRows, PythonCalls, StackRows
from fastprof.derive.communication import host_communication
from fastprof.derive.communication.host_communication import list_device_spans
from fastprof.derive.host import Host
from fastprof.derive.steps import host_steps
from fastprof.derive.steps.host_causes import is_computing_op
from fastprof.schema.columns import mark_largest, sum_exactly
from fastprof.schema.tables import Need
from fastprof.schema.value_classes import dataclass
from fastprof.tables.needs import Needs, unite_needs

NAME = "python_time"
TITLE = "Python time"
READS = unite_needs([
    Host.GROUPING,
    Needs(stats=host_steps.STATS, metadata_stats=host_steps.METADATA_STATS),
    Needs(stats=host_communication.EVENT_STATS, metadata_stats=host_communication.METADATA_STATS),
    Needs(stats=python_calls.STATS),
])  # fmt: skip
AFTER: tuple[str, ...] = ()
CONTENT = Evidence(
    "No Python: the capture has no frames of the Python tracer; enable it with with_stack in PyTorch, "
    "python_tracer_level in other profilers.",
    events=(r"^\$", r"\.py\(\d+\): ", r"^<built-in "),
)
MOST_SHOWN = 40
"""Number of the largest tree nodes, each below its parent, that text shows."""


@dataclass(frozen=True, slots=True)
class Params:
    nodes: int = field(
        default=5_000,
        metadata={"help": "maximum rows of the stacks table per host; smaller stacks are summed", "min": 1},
    )


_LED_TO = Need("device_ps", "no work that these threads launched is recorded")
SCALARS = {
    "window_ps": ScalarSpec("ps", f"run time, summed over hosts: {RUN_WINDOW_WORDS}", "run"),
    "run_ps": ScalarSpec("ps", "part of python_ps on threads that run the steps, in the run", "on threads of steps"),
    "longest": ScalarSpec(None, "function with the largest run_ps"),
    "longest_ps": ScalarSpec("ps", "its run_ps", "it takes"),
    "longest_share": ScalarSpec("share", "its run_ps / window_ps", "its share of the run"),
    "idle_ps": ScalarSpec("ps", "part of python_ps in which threads that run no steps only wait", "other threads wait"),
    "python_ps": ScalarSpec("ps", "sum of self_ps over functions: time within Python calls, summed over threads"),
    "native_ps": ScalarSpec("ps", "part of python_ps in events of frameworks, ops and annotations within functions"),
    "waited_ps": ScalarSpec("ps", "part of python_ps in which a function waits for a device", "waiting for devices",
                            need=_LED_TO),
    "device_ps": ScalarSpec("ps", "sum of the durations of kernels, TPU programs and ops on other threads that these "
                            "threads launched", "on devices", need=_LED_TO),
    "outside_ps": ScalarSpec("ps", "time of these threads' events outside Python calls", "outside Python"),
    "call_count": ScalarSpec(None, "calls that the tracer recorded", "calls"),
    "function_count": ScalarSpec(None, "different functions", "functions"),
    "thread_count": ScalarSpec(None, "threads on which the tracer recorded a call", "threads"),
}  # fmt: skip
OPENING = Opening(
    (
        "{longest} has the largest self time, {longest_share} of the run: {longest_ps} of {window_ps}.",
        "Python runs for {python_ps} on {thread_count} threads.",
    ),
    ("window_ps", "run_ps", "longest_share", "native_ps", "waited_ps", "device_ps"),
)


def is_largest(table: pa.Table) -> pa.Array:
    """Return whether each row of stacks is among the MOST_SHOWN largest; parents of such rows are, too."""
    total = table["total_ps"].to_numpy()
    return pa.array(mark_largest(total, MOST_SHOWN) & (total > 0))


_FUNCTION_COLUMNS = (
    "function", "file", "line", "calls", "self_ps", "self_share", "total_ps", "native_ps", "waited_ps", "device_ps",
    "idle_ps",
)  # fmt: skip
SECTIONS = (
    Section("Python", scalars=tuple(SCALARS), shown=is_known("python_ps")),
    Section("Functions by their share of the run", "functions", _FUNCTION_COLUMNS, "self_share", 20,
            shown=has_rows("functions"), parts=("native_ps", "waited_ps", "device_ps", "idle_ps")),
    Section("Stacks", "stacks", ("name", "kind", "calls", "self_ps", "total_ps", "share", "device_ps"), "share",
            MOST_SHOWN, shown=has_rows("functions"), depth="depth", only=is_largest, parts=("device_ps",)),
    Section("Threads", "threads", ("host", "thread", "role", "calls", "python_ps", "idle_ps", "outside_ps"), rows=16,
            shown=has_rows("functions"), parts=("idle_ps",)),
)  # fmt: skip


def of_host(host: Host, params: Params) -> PythonCalls | None:
    return python_calls.find_python_calls(
        host,
        params.nodes,
        lambda: list_device_spans(host.events, host.modules, host.forest, host.workers, is_computing_op),
    )


def run(kept: Sequence[PythonCalls | None], params: Params, after: Mapping[str, AnalysisReport]) -> AnalysisReport:
    hosts = [host for host in kept if host is not None]
    functions = python_calls.make_function_rows(hosts)
    stacks = python_calls.make_stack_rows(hosts)
    tables = {
        "functions": TABLES["functions"].of(functions),
        "stacks": TABLES["stacks"].of(stacks) if hosts else TABLES["stacks"].empty(),
        "threads": TABLES["threads"].of(python_calls.make_thread_rows(hosts)),
        "thread_functions": TABLES["thread_functions"].of_parts(python_calls.make_thread_function_rows(hosts)),
        "calls": TABLES["calls"].of(python_calls.make_call_rows(hosts)),
    }
    notices = () if hosts else (Notice("info", CONTENT.absent),)
    return AnalysisReport(NAME, tables, make_scalars(SCALARS, _compute_values(hosts, functions, stacks)), notices)


def _compute_values(hosts: Sequence[PythonCalls], functions: FunctionRows, stacks: StackRows) -> dict[str, Known]:
    if not hosts:
        return dict.fromkeys(SCALARS, (None, "the capture has no frames of the Python tracer"))
    of_run, nothing = functions.run_ps, (None, "no function takes time of the run")
    most: Known = int(of_run[0]) if of_run.any() else nothing
    return {
        "window_ps": functions.window_ps,
        "run_ps": sum_exactly(of_run),
        "longest": python_calls.describe_function(functions.label[0], hosts) if of_run.any() else nothing,
        "longest_ps": most,
        "longest_share": most / functions.window_ps if isinstance(most, int) else most,
        "idle_ps": sum_exactly(functions.idle_ps),
        "python_ps": sum_exactly(functions.self_ps),
        "native_ps": sum_exactly(functions.native_ps),
        "waited_ps": sum_exactly(functions.waited_ps),
        "device_ps": int(stacks.device_ps[0]),
        "outside_ps": sum(sum(host.outside_ps) for host in hosts),
        "call_count": int(functions.calls.sum()),
        "function_count": len(functions.label),
        "thread_count": sum(len(host.threads) for host in hosts),
    }
