"""What other reports know of a finding: the slow iterator, the function that is compiled, the bytes that are copied.

A finding of a gap says what the device waited for. Here it gets the figures of the report that measures just that, as
sentences, and the line of source where the tracer of Python recorded it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from fastprof.analyses.findings.advice import (
    MORE_THAN_COMPUTE,
    OF_LOADER,
    OF_LOADER_ON_CPU,
    OF_QUEUE,
    TO_DEVICE,
    TO_HOST,
    WITH_WORKERS,
)
from fastprof.analyses.findings.facts import Facts, total
from fastprof.analyses.findings.finding import LIKELY, Finding
from fastprof.analyses.findings.of_tfprof import use_in_words
from fastprof.analyses.findings.start_up import EARLY, Once, once_of
from fastprof.derive.causes.budget import BETWEEN_STEPS
from fastprof.derive.causes.cause_names import GAP_CAUSES
from fastprof.derive.communication.communication_remarks import copies_fill
from fastprof.derive.devices.communication_kinds import WITH_HOST
from fastprof.derive.devices.framework import TENSORFLOW
from fastprof.derive.devices.op_names import is_frame
from fastprof.derive.host import CPU_ONLY
from fastprof.derive.steps.input_words import asks_queue
from fastprof.derive.steps.python_frames import frame_of
from fastprof.derive.steps.remedies import make_faster
from fastprof.wording.patterns import pattern_of
from fastprof.wording.quantities import counted, measured, size_text, time_text

FIRST_STEP: Final = 0.9
"""A cause is of the first step only if this share of its time is there."""
FEWEST_STEPS: Final = 3
_ONLY_FIRST: Final = (
    "It is in the first step only and does not come again: run some steps before the capture starts, and look at the "
    "other findings first."
)


def specific(facts: Facts, finding: Finding) -> Finding:
    """The finding with what other reports know of it."""
    found = replace(finding, source=finding.source or _source(facts, finding.annotation))
    if found.is_once and found.cause in EARLY:
        detail = _waits_once(once_of(facts, found.cause))
        return replace(found, certainty=LIKELY, is_bound=False, advice=_FIRST_BATCHES, detail=detail)
    more = _OF_CAUSE.get(found.cause)
    return found if more is None else more(facts, found)


_FIRST_BATCHES: Final = (
    "It comes before the second step only, as when iterators are built and first batches are loaded, and does not come "
    "again: run some steps before the capture starts, and look at the other findings first."
)


def _source(facts: Facts, annotation: str | None) -> str | None:
    """Where a function of Python is defined, if the tracer recorded one of the name."""
    if annotation is None:
        return None
    if is_frame(annotation):
        frame = frame_of(facts.names.callers.get(annotation, annotation))
        return None if frame.line is None else f"{frame.file}:{frame.line}"
    return facts.names.defined.get(annotation) or None


# ---- by cause


def _of_input(facts: Facts, finding: Finding) -> Finding:
    """The iterator that calls of the slow pipeline wait for, if these calls explain half of the cost."""
    finding = _with_python(facts, finding)
    row = slow_pipeline(facts, finding)
    event = finding.annotation
    if row is None and event is not None and (kind := _filled_by(event)) is not None:
        return replace(finding, advice=facts.advise(kind))
    if row is None:
        return replace(finding, advice=f"{make_faster(event)}{_ahead(facts, finding)}")
    share, pipeline, of_each = measured(row["critical_share"], "share"), row["pipeline"], time_text(row["critical_ps"])
    text = f"{row['name']} takes {share} of the calls of the tf.data pipeline {pipeline}, {of_each} of each."
    change, now, then = (facts.figure("tf_data", name) for name in ("best_change", "batch_ps", "best_batch_ps"))
    known = change is not None and facts.figure("tf_data", "slow_pipeline") == pipeline
    if known and isinstance(now, int) and isinstance(then, int):
        text += f" With {change}, a batch would take {time_text(then)} instead of {time_text(now)}."
    suggestion = row["suggestion"]
    others = "" if facts.framework == TENSORFLOW and known else f" {finding.advice}"
    detail = f"{text} {finding.detail}" if finding.detail else text
    return replace(finding, detail=detail, advice=f"{suggestion}{others}" if suggestion else finding.advice)


def _ahead(facts: Facts, finding: Finding) -> str:
    """How to load ahead: in tf.data if the program uses it, with the DataLoader if the program waits for one in at
    least half of the cost."""
    if facts.figure("tf_data", "pipeline_count") and facts.framework == TENSORFLOW:
        return f"{finding.advice} The report tf_data names the slow stage."
    if 2 * facts.loader.waited_ps < max(finding.cost_ps or 0, 1):
        return finding.advice
    return facts.advise(OF_LOADER_ON_CPU if facts.hardware == CPU_ONLY else OF_LOADER)


def _filled_by(event: str) -> str | None:
    """Return the cause for advice if the event waits for loader workers or a queue, else None."""
    if _OF_WORKERS.search(event):
        return WITH_WORKERS
    return OF_QUEUE if asks_queue(event) else None


_OF_WORKERS: Final = pattern_of(r"_MultiProcessingDataLoaderIter|dataloader\.py.* (?:_try_get_data|_get_data)$")
_CALLS_PYTHON: Final = ("PyFunc", "PyFuncStateless", "EagerPyFunc")


def _with_python(facts: Facts, finding: Finding) -> Finding:
    """That functions of the pipeline call Python, if this takes half of the cost or more."""
    rows = [row for row in facts.table("op_stats", "ops").to_pylist() if row["type"] in _CALLS_PYTHON]
    total = sum(row["total_ps"] for row in rows)
    if not rows or 2 * total < (finding.cost_ps or 0):
        return finding
    calls, most = sum(row["occurrences"] for row in rows), max(rows, key=lambda row: int(row["total_ps"]))
    text = f"{counted(calls, 'call', 'calls')} of Python from tf.data ({most['name']}) take {time_text(total)} in all."
    detail = f"{text} {finding.detail}" if finding.detail else text
    return replace(finding, detail=detail, advice=f"{_ONE_AT_A_TIME} {finding.advice}")


_ONE_AT_A_TIME: Final = (
    "tf.py_function and tf.numpy_function run one at a time, whatever num_parallel_calls is, because Python has one "
    "lock: write the function with ops of TensorFlow, or let processes of their own prepare the data."
)


def slow_pipeline(facts: Facts, finding: Finding) -> Mapping[str, Any] | None:
    """The row of the table bottlenecks that explains at least half of what input costs; None: none does."""
    rows = facts.table("tf_data", "bottlenecks").slice(0, 1).to_pylist()
    explains = rows and finding.cost_ps is not None and 2 * rows[0]["total_ps"] >= finding.cost_ps
    return rows[0] if explains else None


def _of_compilation(facts: Facts, finding: Finding) -> Finding:
    """How often what was compiled, and in how many steps."""
    words = []
    names = [(count, name) for name, count in facts.names.compiled.items()]
    if count := sum(count for count, _ in names):
        most, name = max(names)
        words.append(counted(count, "compilation or trace", "compilations or traces"))
        words[-1] += f", {most:,} of them of the function {name}." if name else "."
    traced = facts.table("op_stats", "tf_functions").to_pylist()
    traced = [row for row in traced if row["mode"] == "traced"]
    if traced:
        row = max(traced, key=lambda row: int(row["self_ps"]))
        words.append(f"{counted(row['calls'], 'call', 'calls')} of {row['name']} traced it; since the program began it "
                     f"was traced {counted(row['tracing_count'], 'time', 'times')}.")  # fmt: skip
    by_step = time_by_step(facts, finding.cause)
    count = int(facts.figure("steps", "step_count") or 0)
    if by_step:
        most_ps = max(by_step.values())
        several = sum(time_ps * 10 >= most_ps for time_ps in by_step.values())
        words.append(f"{several} of {counted(count, 'step', 'steps')} spend time on it.")
    found = replace(finding, detail=" ".join(words) or None)
    if _only_first(facts, finding.cause, count):
        return replace(found, certainty=LIKELY, advice=_ONLY_FIRST, is_once=True)
    return found


def time_by_step(facts: Facts, cause: str) -> dict[int, int]:
    """By step, the time of the cause on all devices."""
    spent = _spent(facts, cause)
    spent.pop(BETWEEN_STEPS, None)
    return spent


def _spent(facts: Facts, cause: str) -> dict[int, int]:
    """Return the time of a cause on all devices, by step and BETWEEN_STEPS; steps without any are left out."""
    steps, time = facts.time_by_step
    spent = time[:, GAP_CAUSES.index(cause)]
    return dict(zip(steps[spent > 0].tolist(), spent[spent > 0].tolist(), strict=True))


def _only_first(facts: Facts, cause: str, step_count: int) -> bool:
    """Return whether nearly all time of the cause is in step 0 or before it: a period of a GPU begins with the work of
    the step, so that what prepares the first one is in no step."""
    spent, steps = _spent(facts, cause), facts.time_by_step[0]
    if step_count < FEWEST_STEPS or not spent or 0 not in steps:
        return False
    return spent.get(BETWEEN_STEPS, 0) + spent.get(0, 0) >= FIRST_STEP * sum(spent.values())


def _of_transfer(facts: Facts, finding: Finding) -> Finding:
    """Copies by direction, those that devices wait for longest first."""
    rows = [row for row in facts.table("communication", "kinds").to_pylist() if row["scope"] == WITH_HOST]
    rows = sorted((row for row in rows if row["exposed_ps"]), key=lambda row: -int(row["exposed_ps"]))
    words = [_copies(row) for row in rows if row["exposed_ps"] * 20 >= rows[0]["exposed_ps"]]
    found = replace(finding, detail=" ".join(words) or None, advice=_on_copies(facts, finding, rows))
    if not copies_fill(facts.table("communication", "devices"), facts.table("communication", "kinds")):
        return found
    return replace(found, advice=facts.advise(MORE_THAN_COMPUTE))


def _on_copies(facts: Facts, finding: Finding, rows: Sequence[Mapping[str, Any]]) -> str:
    """Advice on copies of the direction that devices wait for, or on both."""
    exposed = {row["kind"]: int(row["exposed_ps"]) for row in rows}
    for kind, cause in (("copy host to device", TO_DEVICE), ("copy device to host", TO_HOST)):
        if exposed.get(kind, 0) >= _ONE_WAY * sum(exposed.values()) > 0:
            return facts.advise(cause)
    return finding.advice


_ONE_WAY: Final = 0.9
"""Copies of this share of the time are what to avoid."""


def _copies(row: Mapping[str, Any]) -> str:
    exposed, total = time_text(row["exposed_ps"]), time_text(row["time_ps"])
    count = counted(row["occurrences"], "operation", "operations")
    move, take = ("moves", "takes") if row["occurrences"] == 1 else ("move", "take")
    size = "" if row["moved_bytes"] is None else f" {move} {size_text(row['moved_bytes'])} in all and"
    return f"{count} ({row['kind']}){size} {take} {total}; no compute hides {exposed} of that."


def _of_launch(facts: Facts, finding: Finding) -> Finding:
    """How often devices wait for a launch, and what they run between."""
    time_ps = total(facts.lost_to("launch").time_ps)
    if not time_ps or not facts.launch_waits:
        return finding
    once = once_of(facts, finding.cause)
    if finding.is_once:
        return replace(finding, detail=_waits_once(once), advice=_FIRST_LAUNCH)
    count = max(facts.launch_waits - once.count, 1)
    rest_ps = time_ps - once.time_ps
    waits = _each(count, "wait", "waits", rest_ps)
    if not facts.kernels:
        return replace(finding, detail=f"{waits}.")
    kernels = _each(facts.kernels, "kernel", "kernels", int(facts.figure("kernel_stats", "total_ps") or 0))
    kernels += " was launched" if facts.kernels == 1 else " were launched"
    if count == facts.kernels:
        return replace(finding, detail=f"{kernels}; devices wait {time_text(rest_ps // count)} for each.")
    return replace(finding, detail=f"{waits}; {kernels}.")


def _each(count: int, one: str, more: str, time_ps: int) -> str:
    """Return how many there are, and how long each takes: one has no average."""
    return f"{counted(count, one, more)} of {time_text(time_ps // count)}{' on average' if count > 1 else ''}"


def _waits_once(once: Once) -> str:
    longest = time_text(once.longest_ps)
    return f"One wait of {longest}." if once.count == 1 else f"{once.count} waits, the longest {longest}."


_FIRST_LAUNCH: Final = (
    "It is far longer than the other waits, as when kernels and libraries are loaded at their first use, "
    "which does not come again: run some steps before the capture starts, and look at the other findings first."
)


def _of_queue(facts: Facts, finding: Finding) -> Finding:
    """How often work waits that was launched."""
    rows = facts.lost_to(finding.cause)
    count = total(rows.count)
    longest = f", the longest {time_text(int(rows.longest_ps.max()))}" if count > 1 else ""
    return replace(finding, detail=f"{_each(count, 'wait', 'waits', total(rows.time_ps))}{longest}.")


def _of_memory(facts: Facts, finding: Finding) -> Finding:
    """What is allocated, and how full and how fragmented the allocator with the largest peak is."""
    if finding.is_once:
        once = _waits_once(once_of(facts, finding.cause))
        return replace(finding, certainty=LIKELY, advice=_FIRST_USE, detail=once)
    if finding.detail is not None:
        return finding  # a leak, which memory_profile describes
    figure = {name: facts.figure("memory_profile", name) for name in _MEMORY}
    if not figure["snapshot_count"]:
        return finding
    words = []
    sizes = facts.table("memory_profile", "ops")["allocated_bytes"].to_pylist()
    if figure["allocation_count"] and any(sizes):
        many = counted(int(figure["allocation_count"]), "allocation takes", "allocations take")
        words.append(f"{many} {size_text(sum(sizes))} in all.")
    peak, capacity, share = (figure[name] for name in ("peak_bytes", "capacity_bytes", "fragmentation_share"))
    if isinstance(peak, int) and isinstance(capacity, int):
        words.append(f"At the peak {size_text(peak)} of {size_text(capacity)} are in use.")
    if isinstance(share, float):
        words.append(f"The free memory is fragmented to {measured(share, 'share')}.")
    found = replace(finding, detail=" ".join(words) or None)
    is_scarce = not isinstance(peak, int) or not isinstance(capacity, int) or 2 * peak >= capacity
    return found if is_scarce else replace(found, advice=_ENOUGH_MEMORY)


_FIRST_USE: Final = (
    "It is far longer than the other waits, as when memory is used for the first time, which does not come "
    "again: run some steps before the capture starts, and look at the other findings first."
)
_ENOUGH_MEMORY: Final = (
    "Memory is not scarce, but allocating it takes time: allocate once and use the same buffers in every step."
)
_MEMORY: Final = ("snapshot_count", "allocation_count", "peak_bytes", "capacity_bytes", "fragmentation_share")


def _of_idle(facts: Facts, finding: Finding) -> Finding:
    """To record more of the host helps only if its Python is not recorded, nor was asked for."""
    between = facts.between_steps_share("idle")
    where = f"{measured(between, 'share')} of it is between steps." if between >= _MOSTLY_BETWEEN else None
    details = [finding.detail, where, use_in_words(facts)]
    finding = replace(finding, detail=" ".join(filter(None, details)) or None)
    has_all = facts.names.has_python or (facts.levels is not None and facts.levels.has_all)
    if has_all:
        return replace(finding, advice=_NOTHING_KNOWN)
    return replace(finding, advice=f"{_BETWEEN_STEPS} {finding.advice}") if where else finding


_MOSTLY_BETWEEN: Final = 0.9
_BETWEEN_STEPS: Final = (
    "Programs often load the next batch between steps: put an annotation around that, which names the time."
)


_NOTHING_KNOWN: Final = (
    "Threads of the host and Python are recorded, and they do nothing meanwhile that explains it: look at the longest "
    "gap on the timeline. What is waited for may be another process, another host or storage."
)
_OF_CAUSE: Final[Mapping[str, Callable[[Facts, Finding], Finding]]] = {
    "input": _of_input,
    "compilation": _of_compilation,
    "transfer": _of_transfer,
    "launch": _of_launch,
    "queue": _of_queue,
    "between_kernels": _of_queue,
    "small_ops": _of_launch,
    "eager": _of_launch,
    "memory_pressure": _of_memory,
    "idle": _of_idle,
}
