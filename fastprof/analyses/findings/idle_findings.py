"""Findings on idle devices: causes of waits, start-up apart from recurring waits, and details from other reports.

Kernels and libraries are loaded at their first use, and memory is taken. The longest wait comes once if it takes half
of the time of its cause on its device. So do the next ones down to a wait that is ten times as long as its successor,
or without such a wait, as long as each takes half of what is left.

    waits   |==================| |=========| |====|   |-| |-| |-|
                        come once                        recur
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Final

import numpy as np

from fastprof.analyses.findings import advice, recompilation, reports
from fastprof.analyses.findings.facts import (
    CALLS_PYTHON,
    CERTAIN,
    LIKELY,
    POSSIBLE,
    DiagnosisFacts,
    Finding,
    LostTime,
)
from fastprof.analyses.findings.op_findings import describe_use
from fastprof.analyses.findings.step_findings import sum_slow_step_time
from fastprof.derive.causes.cause_names import GAP_CAUSES
from fastprof.derive.causes.time_by_cause import BETWEEN_STEPS
from fastprof.derive.communication.communication_remarks import is_filled_by_copies
from fastprof.derive.devices.communication_kinds import WITH_HOST
from fastprof.derive.devices.op_names import PYTORCH, TENSORFLOW, is_frame
from fastprof.derive.host import CPU_ONLY
from fastprof.derive.steps.event_origin import parse_frame, waits_for_device
from fastprof.derive.steps.host_calls import asks_queue
from fastprof.derive.steps.step_advice import make_faster
from fastprof.derive.steps.step_source import CERTAINTY
from fastprof.schema.columns import sum_unbounded
from fastprof.schema.value_classes import dataclass
from fastprof.wording.patterns import compile_late
from fastprof.wording.quantities import count_noun, format_measure, format_size, format_time
from fastprof.wording.screen import fit_text

MOSTLY: Final = 0.7
"""Share of a cause's time from which the cause is in one place."""
NEARLY_ALL: Final = 0.9
"""Share of a cause from which a title names the explanation without the share."""
NOTABLE: Final = 0.1
"""Share of a cost from which something else that goes on makes it an upper bound."""

TITLES: Final = {
    "input": "{} for input",
    "compilation": "{} while programs compile",
    "transfer": "{} for copies between host and device",
    "straggler": "{} for a slower device or host",
    "launch": "{} for the host to launch work",
    "queue": "Launched work waits in the queue",
    "between_kernels": "Gaps between back-to-back kernels",
    "python": "{} while Python runs",
    "silent": "{} while host threads record nothing",
    "synchronization": "{device} idle after the host waited for it",
    "tail": "{device} idle from the last work to the end of the step",
    "host_compute": "{} while ops run on the host",
    "eager": "{} while ops are dispatched one by one",
    "callback": "{} for callbacks to the host",
    "checkpoint": "{} for checkpoints",
    "evaluation": "Evaluation takes training time",
    "logging": "Logging and metrics take training time",
    "lock": "{} while a thread waits for a lock",
    "garbage_collection": "{} for Python garbage collection",
    "memory_pressure": "{} for memory allocation",
    "small_ops": "Ops are shorter than their launch overhead",
    "outside_compilation": "{} for ops outside of compiled programs",
    "idle": "{device} idle, cause not captured",
}
"""Titles by cause of gaps. {}: a subject with its verb, such as "The GPU waits"; {device}: such as "GPU"."""
_UNSURE: Final = ("silent", "tail", "launch", "queue", "between_kernels", "python", "idle", "straggler")
_APART: Final = ("communication", "lost_records")
"""Causes that are no findings on idle devices: step_findings judges collectives."""

SHORT_PS: Final = 10_000_000
"""Duration below which work between gaps is too short for its launch cost."""
_OFTEN: Final = 20
_PER_PYTHON: Final = 4
"""Most launches per piece of Python at which Python runs between launches."""
_LETTERS: Final = 60
"""Letters at which titles cut event names; the column annotation has the whole names."""
_EAGER: Final = compile_late(r"^Eager(Local|Kernel)?Execute(?!$|.*__inference_)|^TFE_Py_FastPath|^[\w/]+:\w+$")
"""Events of TensorFlow that execute a single op."""


_AFTER_WAIT: Final = (
    "The host waits for the device and has launched nothing ahead, so the device idles until the next launch."
)
"""Detail of host silence that follows a wait for the device."""


def find_idle_time(facts: DiagnosisFacts) -> Iterator[Finding]:
    """Find causes of gaps, apart from those that other rules judge."""
    between = _measure_python_between(facts)
    for recorded, rows in facts.lost.items():
        if recorded in _APART or (between and recorded == "python"):
            continue
        slow = sum_slow_step_time(facts, recorded)
        time = facts.sum_explanations(recorded) - slow
        event = _get_main_event(time)
        cause = _refine_cause(facts, recorded, rows, event)
        others = slow.total() + (facts.waited_between_ps if recorded == "idle" else 0)
        cost = facts.per_device(sum_unbounded(rows.time_ps) - others + (between if recorded == "launch" else 0))
        if cost <= 0:
            continue
        beside = facts.per_device(facts.measure_concurrent_time(recorded))
        is_bound = beside > NOTABLE * cost
        waits = event is not None and cause in _UNSURE and waits_for_device(event)
        known, topic, detail = None if waits else event, cause, None
        if cause == "silent" and event is not None and (waits or event.startswith("aten::")):
            known, topic, detail = event, "synchronization", _AFTER_WAIT
        elif waits:
            detail = f"Meanwhile the host waits for the device: {fit_text(str(event), _LETTERS)}."
        elif is_bound:
            detail = (
                f"During {format_time(beside)} of it, other threads launch, copy or compile, or another device works: "
                "that part may remain."
            )
        title = _make_title(facts, topic)
        if known is not None:
            title += _format_share(facts.names.add_caller(known), time[known] / max(time.total(), 1))
        yield Finding(
            cause,
            title,
            cost,
            _judge_certainty(facts, cause, event),
            f"gaps.by_cause?cause={recorded}",
            facts.advise(advice.ON_CPU.get(cause, cause) if _is_on_cpu(facts) else topic),
            is_bound=is_bound,
            host=rows.find_main(rows.host, MOSTLY),
            device=rows.find_main(rows.device, MOSTLY),
            step=None if slow else _find_main_step(facts, recorded),
            annotation=known,
            detail=detail,
        )


def _make_title(facts: DiagnosisFacts, cause: str) -> str:
    """Return the title of a finding on waits, without its place."""
    return TITLES[cause].format(facts.name_devices(), device=facts.name_idle_devices())


def _get_main_event(time: Counter[str | None]) -> str | None:
    """Return what explains the most time of a cause of gaps, or None if more is unexplained."""
    event, _ = max(time.items(), key=lambda entry: entry[1], default=(None, 0))
    return event


def _format_share(name: str, share: float) -> str:
    name = fit_text(name, _LETTERS)
    return f": {name}" if share >= NEARLY_ALL else f", most for {name} ({100 * share:.0f} %)"


_LAUNCHED: Final = frozenset(("launch", "queue", "between_kernels"))
"""Causes that only recorded launches show."""


def _judge_certainty(facts: DiagnosisFacts, cause: str, event: str | None) -> str:
    """Judge how certain a cause of gaps is.

    PyTorch annotations have names of the user's own, so that words do not prove that one loads data. Without recorded
    launches, host ops are only known to run meanwhile."""
    if cause == "tail":
        return POSSIBLE
    on_gpu = facts.framework == PYTORCH and facts.hardware != CPU_ONLY
    by_words = cause == "input" and not (event or "").startswith("enumerate(Data")
    beside = cause == "host_compute" and not _LAUNCHED.intersection(facts.lost)
    return LIKELY if (on_gpu and (by_words or beside)) or cause in _UNSURE else CERTAIN


def _measure_python_between(facts: DiagnosisFacts) -> int:
    """Return the time that Python takes between ops that are executed one by one, which is part of their cost.

    0 for other Python, and for CPU runs, whose ops hold what is between them.

    Python  |-----|  |-----|  |-----|
    launch        |-|      |-|      |-|
    device          |op|     |op|     |op|
    """
    launches, python = facts.get_lost_time("launch"), facts.get_lost_time("python")
    few = _PER_PYTHON * sum_unbounded(python.count) < sum_unbounded(launches.count)
    if not len(launches) or not len(python) or _is_on_cpu(facts) or few:
        return 0
    cause = _refine_cause(facts, "launch", launches, _get_main_event(facts.sum_explanations("launch")))
    return sum_unbounded(python.time_ps) if cause in ("eager", "small_ops") else 0


def _refine_cause(facts: DiagnosisFacts, cause: str, rows: LostTime, event: str | None) -> str:
    """Return the cause as other reports know it better.

    Launches take time because ops are executed one by one, because ops are too short, or because launches are late."""
    if cause == "callback" and facts.figures(reports.HloStats).outside_compilation_share:
        return "outside_compilation"
    if cause != "launch":
        return cause
    if _is_on_cpu(facts):
        return "small_ops"  # threads wait for no launches; runs of short ops have this cause
    count = min(sum_unbounded(rows.count), facts.launch_waits)
    if count < _OFTEN * facts.device_count:
        return "launch"
    if facts.framework == TENSORFLOW and event and _EAGER.search(event):
        return "eager"
    return "small_ops" if facts.compute_ps < count * SHORT_PS else "launch"


def _is_on_cpu(facts: DiagnosisFacts) -> bool:
    """Return whether threads are the device of a PyTorch program."""
    return facts.framework == PYTORCH and facts.hardware == CPU_ONLY


def _find_main_step(facts: DiagnosisFacts, cause: str) -> int | None:
    """Return the step with most of the time of a cause, or None if no step has that much."""
    steps, of_causes = facts.time_by_step
    time = of_causes[:, GAP_CAUSES.index(cause)]
    if not time.any() or time.max() < MOSTLY * time.sum():
        return None
    step = int(steps[time.argmax()])
    return None if step == BETWEEN_STEPS else step


EARLY: Final = ("input", "python", "transfer")
"""Causes that come once only before the second step: iterators are built, first batches are loaded and copied."""
_RECORDED: Final = {
    "launch": "launch", "small_ops": "launch", "eager": "launch", "memory_pressure": "memory_pressure",
    **{cause: cause for cause in EARLY},
}  # fmt: skip
"""Causes of gaps by cause of the finding."""
_LEAST_WAITS: Final = {"launch": 20, "memory_pressure": 1, **dict.fromkeys(EARLY, 1)}
_FEWEST_STEPS: Final = 3
"""Fewest steps at which a cause may come once: in fewer it may come in each."""


@dataclass(frozen=True, slots=True)
class OneTimeWaits:
    """Waits of all devices that come once."""

    count: int
    time_ps: int
    longest_ps: int


NEVER: Final = OneTimeWaits(0, 0, 0)


def split_start_up(facts: DiagnosisFacts, finding: Finding) -> list[Finding]:
    """Split the finding into what recurs and what comes once."""
    once = find_one_time_waits(facts, finding.cause)
    time_ps = facts.per_device(once.time_ps)
    if not time_ps or finding.cost_ps is None:
        return [finding]
    time_ps = min(time_ps, finding.cost_ps)
    title = f"{finding.title}, at start-up"
    first = replace(finding, title=title, cause=_RECORDED[finding.cause], cost_ps=time_ps, is_once=True)
    rest = finding.cost_ps - time_ps
    if finding.cause in EARLY and rest > 0:
        return [replace(finding, cost_ps=rest), first]
    title = _make_title(facts, finding.cause)
    return [replace(finding, cost_ps=rest, title=title, annotation=None, source=None), first] if rest > 0 else [first]


def find_one_time_waits(facts: DiagnosisFacts, cause: str) -> OneTimeWaits:
    """Return the one-time waits of a finding's cause; NEVER if some device has none."""
    recorded = _RECORDED.get(cause, "")
    rows = facts.get_lost_time(recorded)
    # the allocator moves what it has: memory that is used for the first time is not fragmented
    if not len(rows) or any("defragment" in event.lower() for event in rows.event if event):
        return NEVER
    every, pieces = facts.gaps, facts.gaps.pieces(recorded)
    if recorded in EARLY:
        steps = facts.time_by_step[0]
        steps = steps[steps != BETWEEN_STEPS]
        is_early = np.zeros(len(pieces), np.bool_)
        if len(steps) >= _FEWEST_STEPS:  # in the first step, or before any wait of later steps
            later = pieces.start_ps[pieces.step > steps[0]].min(initial=np.iinfo(np.int64).max)
            is_early |= (pieces.step == steps[0]) | ((pieces.step == BETWEEN_STEPS) & (pieces.start_ps < later))
        pieces = pieces[is_early]
    times: dict[tuple[str, str], list[int]] = {}
    for place, time_ps in zip(pieces.device.tolist(), pieces.duration_ps.tolist(), strict=True):
        times.setdefault((every.hosts[every.host_of[place]], every.devices[place]), []).append(time_ps)
    for longest in times.values():
        longest.sort(reverse=True)
    waits = []
    amounts = zip(rows.host, rows.device, rows.time_ps.tolist(), rows.count.tolist(), strict=True)
    for host, device, time_ps, count in amounts:
        longest = times.get((host, device), [])
        waits.append(_take_one_time(longest, time_ps) if count >= _LEAST_WAITS[recorded] else [])
    if not all(waits):
        return NEVER
    return OneTimeWaits(sum(map(len, waits)), sum(map(sum, waits)), max(map(max, waits)))


_MUCH_LONGER: Final = 10


def _take_one_time(times: list[int], left: int) -> list[int]:
    """Return the waits that come once. ``times``: the longest, in order; ``left``: time of all waits of the device."""
    count = 0
    while count < len(times) and 2 * times[count] >= left:
        left -= times[count]
        count += 1
    if not count:
        return []
    apart = (place for place, (before, after) in enumerate(pairwise(times), 1) if before >= _MUCH_LONGER * after)
    return times[: next(apart, count)]


FIRST_STEP: Final = 0.9
"""Share of a cause's time from which it is in the first step only."""
_ONLY_FIRST: Final = (
    "One-time cost of the first step: run some steps before the capture starts, and look at the other findings first."
)


def add_context(facts: DiagnosisFacts, finding: Finding) -> Finding:
    """Add details, sources and advice that rest on other reports."""
    known = replace(finding, source=finding.source or _find_source(facts, finding.annotation))
    if known.is_once and known.cause in EARLY:
        detail = _describe_once(find_one_time_waits(facts, known.cause))
        return replace(known, certainty=LIKELY, is_bound=False, advice=_FIRST_BATCHES, detail=detail)
    more = _OF_CAUSE.get(known.cause)
    return known if more is None else more(facts, known)


_FIRST_BATCHES: Final = (
    "One-time cost before the second step, as when iterators are built and first batches are loaded: run some steps "
    "before the capture starts, and look at the other findings first."
)


def _find_source(facts: DiagnosisFacts, annotation: str | None) -> str | None:
    """Return where a Python function is defined, if the tracer recorded one of the name."""
    if annotation is None:
        return None
    if is_frame(annotation):
        frame = parse_frame(facts.names.callers.get(annotation, annotation))
        return None if frame.line is None else f"{frame.file}:{frame.line}"
    return facts.names.defined.get(annotation) or None


# ---- by cause


def _add_input(facts: DiagnosisFacts, finding: Finding) -> Finding:
    """Name the slowest iterator and Python function of the slow pipeline, if its calls explain half of the cost."""
    return _name_function(facts, _name_callee(facts, _name_iterator(facts, _add_python(facts, finding))))


def _name_iterator(facts: DiagnosisFacts, finding: Finding) -> Finding:
    row = find_slow_pipeline(facts, finding)
    event = finding.annotation
    if row is None:
        is_queue = event is not None and asks_queue(event)
        if _OF_WORKERS.search(event or "") or (is_queue and facts.loader.has_workers):
            return replace(finding, advice=facts.advise(advice.WITH_WORKERS))
        if is_queue:
            return replace(finding, advice=facts.advise(advice.OF_QUEUE))
        return replace(finding, advice=f"{make_faster(event)}{_advise_loading_ahead(facts, finding)}")
    in_python = finding.advice == _ONE_AT_A_TIME
    suggestion = None if in_python and "num_parallel_calls" in (row.suggestion or "") else row.suggestion
    share, of_each = format_measure(row.critical_share, "share"), format_time(row.critical_ps)
    text = f"{row.name} takes {share} of the calls of the tf.data pipeline {row.pipeline}, {of_each} of each."
    figures = facts.figures(reports.TfData)
    known = figures.best_change is not None and figures.slow_pipeline == row.pipeline
    known = known and not (in_python and " in parallel by " in str(figures.best_change))
    if known and isinstance(figures.batch_ps, int) and isinstance(figures.best_batch_ps, int):
        now, then = format_time(figures.batch_ps), format_time(figures.best_batch_ps)
        text += f" With {figures.best_change}, a batch would take {then} instead of {now}."
    others = "" if facts.framework == TENSORFLOW and known and not in_python else f" {finding.advice}"
    detail = f"{text} {finding.detail}" if finding.detail else text
    return replace(finding, detail=detail, advice=f"{suggestion}{others}" if suggestion else finding.advice)


def _advise_loading_ahead(facts: DiagnosisFacts, finding: Finding) -> str:
    """Return advice on loading ahead: by processes if Python loads, by tf.data if the program uses it, by the
    DataLoader if waits for it take at least half of the cost."""
    if finding.advice == _ONE_AT_A_TIME:
        return finding.advice
    if facts.framework == TENSORFLOW and is_frame(finding.annotation or ""):
        return facts.advise(advice.OF_PYTHON)
    if facts.figures(reports.TfData).pipeline_count and facts.framework == TENSORFLOW:
        return f"{finding.advice} The report tf_data names the slow stage."
    if 2 * facts.loader.waited_ps < max(finding.cost_ps or 0, 1):
        return finding.advice
    return facts.advise(advice.OF_LOADER_ON_CPU if facts.hardware == CPU_ONLY else advice.OF_LOADER)


_OF_WORKERS: Final = compile_late(r"_MultiProcessingDataLoaderIter|dataloader\.py.* (?:_try_get_data|_get_data)$")


def _add_python(facts: DiagnosisFacts, finding: Finding) -> Finding:
    """Say that functions of the pipeline call Python, if this takes half of the cost or more."""
    rows = [row for row in facts.rows(reports.OpStats.ops) if row.type in CALLS_PYTHON]
    total = sum(row.total_ps for row in rows)
    if not rows or 2 * total < (finding.cost_ps or 0):
        return finding
    calls = count_noun(sum(row.occurrences for row in rows), "Python call", "Python calls")
    most = max(rows, key=lambda row: int(row.total_ps)).name
    text = f"{calls} from tf.data ({most}) take {format_time(total)} in total."
    detail = f"{text} {finding.detail}" if finding.detail else text
    return replace(finding, detail=detail, advice=_ONE_AT_A_TIME)


def _name_callee(facts: DiagnosisFacts, finding: Finding) -> Finding:
    """Name the innermost callee that takes at least half of the loading function's time."""
    event = finding.annotation or ""
    callee = facts.names.callees.get(event)
    if callee is None or event not in finding.title or not (old := make_faster(event)):
        return finding
    frame, outer = parse_frame(callee), parse_frame(event)
    return replace(
        finding,
        title=finding.title.replace(event, f"{fit_text(callee, _LETTERS)} in {outer.function}"),
        source=f"{frame.file}:{frame.line}",
        advice=f"{make_faster(callee)}{finding.advice.removeprefix(old)}",
    )


def _name_function(facts: DiagnosisFacts, finding: Finding) -> Finding:
    """Name the Python function in tf.data with the most self time, if this is at least a quarter of the cost. The rest
    is time of its callees and callers."""
    function, own_ps = max(facts.names.in_pipelines.items(), key=lambda entry: entry[1], default=("", 0))
    event = finding.annotation
    if 4 * own_ps < (finding.cost_ps or 0) or not function or event is None or event not in finding.title:
        return finding
    frame = parse_frame(function)
    text = f"{frame.function} takes {format_time(own_ps)} on tf.data threads."
    return replace(
        finding,
        title=finding.title if event == function else finding.title.replace(event, f"{function} in {event}"),
        source=f"{frame.file}:{frame.line}",
        detail=f"{text} {finding.detail}" if finding.detail else text,
        advice=f"{make_faster(function)}{finding.advice.removeprefix(make_faster(event))}",
    )


_ONE_AT_A_TIME: Final = (
    "tf.py_function and tf.numpy_function run one at a time for any num_parallel_calls, because of Python's global "
    "lock: write the function with TensorFlow ops, or load in processes (workers and use_multiprocessing=True of "
    "keras.utils.PyDataset)."
)


def find_slow_pipeline(facts: DiagnosisFacts, finding: Finding) -> reports.TfData.bottlenecks | None:
    """Return the row of the table bottlenecks that explains at least half of the cost of input, or None."""
    rows = facts.rows(reports.TfData.bottlenecks, most=1)
    return rows[0] if rows and finding.cost_ps is not None and 2 * rows[0].total_ps >= finding.cost_ps else None


def _add_compilation(facts: DiagnosisFacts, finding: Finding) -> Finding:
    """Add how often functions were compiled, in how many steps, and what changed."""
    words = []
    names = [(count, name) for name, count in facts.compilations.items()]
    if count := sum(count for count, _ in names):
        most, name = max(names)
        words.append(count_noun(count, "compilation or trace", "compilations or traces"))
        words[-1] += f", {most:,} of them of the function {name}." if name else "."
    if traced := [row for row in facts.rows(reports.OpStats.tf_functions) if row.mode == "traced"]:
        row = max(traced, key=lambda row: int(row.self_ps))
        calls, times = count_noun(row.calls, "call", "calls"), count_noun(row.tracing_count, "time", "times")
        words.append(f"{calls} of {row.name} traced it; since the program began it was traced {times}.")
    steps, time = facts.time_by_step
    time_ps = time[:, GAP_CAUSES.index(finding.cause)]
    spent = dict(zip(steps[time_ps > 0].tolist(), time_ps[time_ps > 0].tolist(), strict=True))
    by_step = {step: time_ps for step, time_ps in spent.items() if step != BETWEEN_STEPS}
    count = facts.figures(reports.Steps).step_count or 0
    if by_step:
        most_ps = max(by_step.values())
        several = sum(time_ps * 10 >= most_ps for time_ps in by_step.values())
        words.append(f"{several} of {count_noun(count, 'step', 'steps')} spend time on it.")
    functions = recompilation.group_by_function(facts.recompilations)
    functions = [own for own in functions if not all(row.compilation.is_early for row in own)]
    hosts = len({row.host for row in facts.recompilations})
    words += [recompilation.describe_function(own, hosts) for own in functions[:_FUNCTIONS]]
    if (left := len(functions) - _FUNCTIONS) > 0:
        words.append(f"{count_noun(left, 'more function was', 'more functions were')} recompiled.")
    known = replace(finding, detail=" ".join(words) or None)
    if functions:
        known = _name_compiled_functions(facts, known, functions)
        known = replace(known, advice=recompilation.advise(functions[:_FUNCTIONS], finding.advice))
    # A GPU step begins with its work, so that what prepares the first one is in no step.
    in_first = spent.get(BETWEEN_STEPS, 0) + spent.get(0, 0)
    is_only_first = bool(spent) and in_first >= FIRST_STEP * sum(spent.values())
    if is_only_first and count >= _FEWEST_STEPS and 0 in steps:
        is_known = any(row.changes for own in functions for row in own)
        return replace(known, certainty=LIKELY, advice=known.advice if is_known else _ONLY_FIRST, is_once=True)
    return known


def _name_compiled_functions(
    facts: DiagnosisFacts, finding: Finding, functions: Sequence[Sequence[recompilation.Recompilation]]
) -> Finding:
    """Name the recompiled functions instead of the compiler if they take half of the cost. Add where a single function
    is defined or, if unknown, called."""
    cost_ps = finding.cost_ps or 0
    named = recompilation.name_functions(functions, cost_ps)
    if named is None:
        return finding
    names, time_ps = named
    is_single = names == functions[0][0].compilation.function
    place = facts.names.defined.get(names) or (recompilation.find_source(functions[0]) if is_single else None)
    title = _make_title(facts, finding.cause)
    title += _format_share(f"{names} ({place})" if place else names, time_ps / cost_ps)
    return replace(finding, title=title, source=place)


_FUNCTIONS: Final = 2
"""Most functions whose changes the finding describes; the table recompilations has all."""


def _add_transfer(facts: DiagnosisFacts, finding: Finding) -> Finding:
    """Describe copies by direction, the longest exposed ones first."""
    rows = [row for row in facts.rows(reports.Communication.kinds) if row.scope == WITH_HOST and row.exposed_ps]
    rows = sorted(rows, key=lambda row: -int(row.exposed_ps))
    words = []
    for row in rows:
        if row.exposed_ps * 20 >= rows[0].exposed_ps:
            exposed, total = format_time(row.exposed_ps), format_time(row.time_ps)
            count = count_noun(row.occurrences, "operation", "operations")
            move, take = ("moves", "takes") if row.occurrences == 1 else ("move", "take")
            size = "" if row.moved_bytes is None else f" {move} {format_size(row.moved_bytes)} and"
            words.append(f"{count} ({row.kind}){size} {take} {total}; {exposed} of that is exposed.")
    known = replace(finding, detail=" ".join(words) or None)
    exposed_ps = {row.kind: row.exposed_ps for row in rows}
    for kind, cause in (("copy host to device", advice.TO_DEVICE), ("copy device to host", advice.TO_HOST)):
        if exposed_ps.get(kind, 0) >= _ONE_WAY * sum(exposed_ps.values()) > 0:
            known = replace(known, advice=facts.advise(cause))
            break
    if not is_filled_by_copies(facts.table(reports.Communication.devices), facts.table(reports.Communication.kinds)):
        return known
    return replace(known, advice=facts.advise(advice.MORE_THAN_COMPUTE))


_ONE_WAY: Final = 0.9
"""Least share of copy time at which one direction gets its own advice."""


def _add_launch(facts: DiagnosisFacts, finding: Finding) -> Finding:
    """Say how often devices wait for a launch, and what they run in between."""
    time_ps = sum_unbounded(facts.get_lost_time("launch").time_ps)
    if not time_ps or not facts.launch_waits:
        return finding
    once = find_one_time_waits(facts, finding.cause)
    if finding.is_once:
        return replace(finding, detail=_describe_once(once), advice=_FIRST_LAUNCH)
    count = max(facts.launch_waits - once.count, 1)
    rest_ps = time_ps - once.time_ps
    waits = _format_each(count, "wait", "waits", rest_ps)
    if not facts.kernels:
        return replace(finding, detail=f"{waits}.")
    kernels = _format_each(facts.kernels, "kernel", "kernels", facts.figures(reports.KernelStats).total_ps or 0)
    kernels += " was launched" if facts.kernels == 1 else " were launched"
    if count == facts.kernels:
        return replace(finding, detail=f"{kernels}; devices wait {format_time(rest_ps // count)} for each.")
    return replace(finding, detail=f"{waits}; {kernels}.")


def _format_each(count: int, singular: str, more: str, time_ps: int) -> str:
    """Return the count and the average duration; a single one has no average."""
    return f"{count_noun(count, singular, more)} of {format_time(time_ps // count)}{' on average' if count > 1 else ''}"


def _describe_once(once: OneTimeWaits) -> str:
    longest = format_time(once.longest_ps)
    return f"One wait of {longest}." if once.count == 1 else f"{once.count} waits, the longest {longest}."


_FIRST_LAUNCH: Final = (
    "Far longer than the other waits, as when kernels and libraries are loaded at their first use: run some steps "
    "before the capture starts, and look at the other findings first."
)


def _add_queue(facts: DiagnosisFacts, finding: Finding) -> Finding:
    """Say how often launched work waits."""
    rows = facts.get_lost_time(finding.cause)
    count = sum_unbounded(rows.count)
    longest = f", the longest {format_time(int(rows.longest_ps.max()))}" if count > 1 else ""
    return replace(finding, detail=f"{_format_each(count, 'wait', 'waits', sum_unbounded(rows.time_ps))}{longest}.")


def _add_memory(facts: DiagnosisFacts, finding: Finding) -> Finding:
    """Say how much is allocated, and how full and how fragmented the allocator with the largest peak is."""
    if finding.is_once:
        once = _describe_once(find_one_time_waits(facts, finding.cause))
        return replace(finding, certainty=LIKELY, advice=_FIRST_USE, detail=once)
    figures = facts.figures(reports.MemoryProfile)
    if finding.detail is not None or not figures.snapshot_count:
        return finding  # memory_profile describes a leak
    words = []
    sizes = facts.columns(reports.MemoryProfile.ops).allocated_bytes.to_pylist()
    if figures.allocation_count and any(sizes):
        many = count_noun(figures.allocation_count, "allocation takes", "allocations take")
        words.append(f"{many} {format_size(sum(sizes))} in total.")
    peak, capacity = figures.peak_bytes, figures.capacity_bytes
    has_sizes = isinstance(peak, int) and isinstance(capacity, int)
    if has_sizes:
        words.append(f"Peak memory is {format_size(peak)} of {format_size(capacity)}.")
    if isinstance(figures.fragmentation_share, float):
        words.append(f"Fragmentation of free memory is {format_measure(figures.fragmentation_share, 'share')}.")
    known = replace(finding, detail=" ".join(words) or None)
    return replace(known, advice=_ENOUGH_MEMORY) if has_sizes and 2 * peak < capacity else known


_FIRST_USE: Final = (
    "Far longer than the other waits, as when memory is used for the first time: run some steps before the capture "
    "starts, and look at the other findings first."
)
_ENOUGH_MEMORY: Final = (
    "Memory is not scarce, but allocating it takes time: allocate once and use the same buffers in every step."
)


def _add_idle(facts: DiagnosisFacts, finding: Finding) -> Finding:
    """Advise to record more of the host only if its Python is neither recorded nor was asked for."""
    between = facts.measure_share_between_steps("idle")
    source = facts.figures(reports.Steps).steps_source
    steps = "steps" if CERTAINTY.get(str(source)) == "certain" else "inferred steps"
    where = f"{format_measure(between, 'share')} of it is between {steps}." if between >= _MOSTLY_BETWEEN else None
    details = [finding.detail, where, describe_use(facts)]
    finding = replace(finding, detail=" ".join(filter(None, details)) or None)
    if facts.names.has_python or (facts.levels is not None and facts.levels.has_all):
        return replace(finding, advice=_NOTHING_KNOWN)
    return replace(finding, advice=f"{_BETWEEN_STEPS} {finding.advice}") if where else finding


_MOSTLY_BETWEEN: Final = 0.9
_BETWEEN_STEPS: Final = "Programs often load the next batch between steps: annotate that code to name this time."


_NOTHING_KNOWN: Final = (
    "No recorded host thread or Python function explains it: look at the longest gap on the timeline. The device may "
    "be waiting for another process, another host or storage."
)
_OF_CAUSE: Final[Mapping[str, Callable[[DiagnosisFacts, Finding], Finding]]] = {
    "input": _add_input, "compilation": _add_compilation, "transfer": _add_transfer, "memory_pressure": _add_memory,
    "idle": _add_idle, **dict.fromkeys(("launch", "small_ops", "eager"), _add_launch),
    **dict.fromkeys(("queue", "between_kernels"), _add_queue),
}  # fmt: skip
"""Functions that add details and advice, by cause."""
