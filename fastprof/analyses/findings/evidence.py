"""Whether a capture shows what an item of advice is about.

Each function takes the facts and the finding to advise on.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from typing import Any, Final

import numpy as np

from fastprof.analyses.findings.facts import Facts, times, total
from fastprof.analyses.findings.finding import Finding
from fastprof.analyses.findings.of_ops import single_precision_kernels
from fastprof.analyses.findings.specifics import slow_pipeline
from fastprof.derive.causes.budget import CAUSE_NAMES
from fastprof.derive.devices.communication_kinds import BETWEEN_DEVICES
from fastprof.derive.devices.tensor_cores import NVIDIA
from fastprof.derive.host import CPU_ONLY, GPU
from fastprof.derive.steps.step_source import LAUNCHED, MARKERS
from fastprof.wording.patterns import pattern_of

Row = Mapping[str, Any]

MANY: Final = 20
"""Launches of a program, or sums of a step, that are worth joining."""
FEW_SUMS: Final = 2
SMALL_BYTES: Final = 1 << 20
FEW_WAITS: Final = 4
SHORT_STEP_PS: Final = 50_000_000_000
SHORT_CALL_PS: Final = 100_000_000
"""Calls of a function of map that take less cost about as much to start."""
ELEMENTS: Final = 8
"""Elements of a batch from which a call for each is worth avoiding."""
NOTABLE: Final = 0.1
WORTH_WORDS: Final = 0.05
"""Findings that cost less of the run get no advice on how launches are made."""
_FROM_DEVICE: Final = pattern_of(r"^(?:cu|cuda|hip)(?:Mem)?(?:Alloc|Malloc|Free)")
_FIRST: Final = pattern_of(r"nchw", re.IGNORECASE)


# ---- input pipelines


def _iterators(facts: Facts, finding: Finding) -> tuple[Row, list[Row]] | None:
    """The bottleneck of the slow pipeline, and the iterators of that pipeline; None: none explains the finding."""
    slow = slow_pipeline(facts, finding)
    if slow is None:
        return None
    rows = facts.table("tf_data", "iterators").to_pylist()
    own = [row for row in rows if (row["host"], row["pipeline"]) == (slow["host"], slow["pipeline"])]
    worst = next((row for row in own if row["is_bottleneck"]), None)
    return None if worst is None else (worst, own)


def no_prefetch(facts: Facts, finding: Finding) -> bool:
    known = _iterators(facts, finding)
    return known is not None and not any(row["name"].startswith("Prefetch") for row in known[1])


def map_of_single_elements(facts: Facts, finding: Finding) -> bool:
    """The bottleneck runs a short function for each element of a batch."""
    known = _iterators(facts, finding)
    if known is None:
        return False
    worst, rows = known
    parent = next((row for row in rows if row["iterator_id"] == worst["parent_id"]), None)
    if parent is None or "Batch" not in parent["name"] or "Map" not in worst["name"]:
        return False
    each = worst["event_count"] >= ELEMENTS * max(1, parent["event_count"])
    return bool(each and 0 < worst["function_ps"] < SHORT_CALL_PS * worst["event_count"])


def repeats_without_cache(facts: Facts, finding: Finding) -> bool:
    """The bottleneck lies below a repeat, and nothing of the pipeline is cached."""
    known = _iterators(facts, finding)
    if known is None:
        return False
    worst, rows = known
    repeats = [row["depth"] for row in rows if "Repeat" in row["name"]]
    return bool(repeats) and min(repeats) < worst["depth"] and not any("Cache" in row["name"] for row in rows)


def waits_for_order(facts: Facts, finding: Finding) -> bool:
    """The bottleneck calls in parallel, keeps the order, and its consumer mostly waits for its buffer."""
    known = _iterators(facts, finding)
    if known is None or known[0]["deterministic"] is not True:
        return False
    worst = known[0]
    parts = facts.table("tf_data", "self_time").to_pylist()
    own = [row for row in parts if all(row[name] == worst[name] for name in ("host", "pipeline", "iterator_id"))]
    return bool(own) and max(own, key=lambda row: int(row["time_ps"]))["part"] == "waiting for a buffer"


def input_beside_launches(facts: Facts, _finding: Finding) -> bool:
    """Functions of iterators run for half of the run or longer on other threads of a host with GPUs."""
    if facts.hardware != GPU:
        return False
    of_host: Counter[str] = Counter()
    for row in facts.table("tf_data", "iterators").to_pylist():
        if row["is_async"]:
            of_host[row["host"]] += row["function_ps"]
    return 2 * max(of_host.values(), default=0) >= facts.window_ps


# ---- launches


def _matters(facts: Facts, finding: Finding) -> bool:
    return (finding.cost_ps or 0) >= WORTH_WORDS * facts.window_ps


def no_xla(facts: Facts, finding: Finding) -> bool:
    """Neither programs nor functions that XLA compiled are recorded."""
    functions = facts.table("op_stats", "tf_functions")["compiler"].to_pylist()
    compiled = facts.figure("hlo_stats", "program_count") or any(one in ("xla", "mixed") for one in functions)
    return _matters(facts, finding) and not compiled


def short_steps(facts: Facts, finding: Finding) -> bool:
    """Steps are short, and devices wait a few times in each for its start, not for each of many launches."""
    median, steps = (facts.figure("steps", name) for name in ("step_time_p50_ps", "step_count"))
    if not isinstance(median, (int, float)) or not _matters(facts, finding):
        return False
    return 0 < median <= SHORT_STEP_PS and facts.launch_waits <= FEW_WAITS * int(steps or 0) * facts.device_count


def many_kernels_of_programs(facts: Facts, _finding: Finding) -> bool:
    kernels, programs = facts.figure("kernel_stats", "occurrences"), facts.figure("steps", "module_execution_count")
    return bool(programs) and int(kernels or 0) >= MANY * int(programs or 0)


def memory_to_spare(facts: Facts, _finding: Finding) -> bool:
    share = facts.figure("memory_profile", "peak_share")
    return facts.hardware != CPU_ONLY and isinstance(share, float) and share < 0.5


def between_steps(facts: Facts, finding: Finding) -> bool:
    """Half of the finding's time or more is outside of what the program marks as steps."""
    cost, marked = finding.cost_ps, facts.figure("steps", "steps_source") in (MARKERS, LAUNCHED)
    every = total(facts.time_by_step[1][:, CAUSE_NAMES.index(finding.cause)])
    inside = facts.per_device(every - facts.between_steps_ps(finding.cause))
    return cost is not None and marked and bool(facts.figure("steps", "step_count")) and 2 * inside <= cost


# ---- kernels


def single_precision(facts: Facts, _finding: Finding) -> bool:
    kernels = facts.table("kernel_stats", "kernels")
    every = times(kernels, "total_ps")
    single = np.array(single_precision_kernels(kernels), bool)
    return bool(every[single].sum() >= NOTABLE * every.sum() > 0)


def channels_first(facts: Facts, _finding: Finding) -> bool:
    """Names of kernels or their ops have the layout with channels before height and width."""
    kernels = facts.table("kernel_stats", "kernels")
    names = [*kernels["name"].to_pylist(), *kernels["op_name"].to_pylist()]
    return any(_FIRST.search(name or "") for name in names)


def bandwidth_of_nvidia(facts: Facts, _finding: Finding) -> bool:
    return facts.on_gpus and facts.maker == NVIDIA


def allocates_from_device(_facts: Facts, finding: Finding) -> bool:
    return finding.annotation is not None and _FROM_DEVICE.match(finding.annotation) is not None


# ---- communication and copies


def _sums(facts: Facts) -> tuple[list[Row], float]:
    """All-reduces and reduce-scatters, and how many of them a device runs in a step; none if other collectives cost
    more."""
    rows = facts.table("communication", "operations").to_pylist()
    rows = [row for row in rows if row["scope"] == BETWEEN_DEVICES]
    sums = [row for row in rows if "reduce" in row["kind"]]
    if 2 * sum(row["exposed_ps"] for row in sums) < sum(row["exposed_ps"] for row in rows):
        return [], 0.0
    rows = sums
    steps = int(facts.figure("steps", "step_count") or 0)
    devices = max((row["device_count"] for row in rows), default=0)
    return rows, sum(row["occurrences"] for row in rows) / max(1, steps * devices) if steps else 0.0


def one_sum_after_compute(facts: Facts, _finding: Finding) -> bool:
    rows, of_step = _sums(facts)
    hidden, every = (sum(row[name] for row in rows) for name in ("hidden_ps", "total_ps"))
    return 0 < of_step <= FEW_SUMS and hidden < NOTABLE * every


def many_small_sums(facts: Facts, _finding: Finding) -> bool:
    rows, of_step = _sums(facts)
    sizes = [row["payload_bytes"] for row in rows]
    return of_step >= MANY and all(size is not None and size < SMALL_BYTES for size in sizes)


def copies_both_ways(facts: Facts, _finding: Finding) -> bool:
    """Return whether most of the longest waits for host ops lie between a copy to the host and a copy back."""
    pieces = facts.gaps.pieces("host_compute")
    beside = zip(pieces.before_op.tolist(), pieces.after_op.tolist(), pieces.duration_ps.tolist(), strict=True)
    copied = sum(
        time_ps for before, after, time_ps in beside if _TO_HOST.search(before or "") and _FROM_HOST.search(after or "")
    )
    return bool(len(pieces) and 2 * copied >= pieces.duration_ps.sum())


_TO_HOST: Final = pattern_of(r"(?i:d(?:evice)?[ _-]?to?2?[ _-]?h(?:ost)?\b|D2H|DtoH|device_?to_?host)")
_FROM_HOST: Final = pattern_of(r"(?i:h(?:ost)?[ _-]?to?2?[ _-]?d(?:evice)?\b|H2D|HtoD|host_?to_?device)")
