"""Findings on time in which a device does not compute: what the host did meanwhile, and what the device waited for."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Final

from fastprof.analyses.findings.advice import ON_CPU
from fastprof.analyses.findings.facts import Facts, Lost, total
from fastprof.analyses.findings.finding import CERTAIN, LIKELY, POSSIBLE, Finding
from fastprof.analyses.findings.of_steps import in_slow_steps
from fastprof.derive.causes.budget import BETWEEN_STEPS
from fastprof.derive.causes.cause_names import GAP_CAUSES
from fastprof.derive.devices.framework import PYTORCH, TENSORFLOW
from fastprof.derive.host import CPU_ONLY
from fastprof.derive.steps.python_frames import waits_for_device
from fastprof.wording.patterns import pattern_of
from fastprof.wording.quantities import time_text
from fastprof.wording.screen import cut

MOSTLY: Final = 0.7
"""A cause is in one place if this share of its time is there."""
NEARLY_ALL: Final = 0.9
"""A title names what explains this share of its cause without the share."""
NOTABLE: Final = 0.1
"""A cost is an upper bound if something else goes on for this share of it."""

TITLES: Final = {
    "input": "{} for input",
    "compilation": "{} while programs are traced and compiled",
    "transfer": "{} for copies between host and device",
    "straggler": "{} for another device or host",
    "launch": "{} for the host to start work",
    "queue": "{} to begin work that was launched already",
    "between_kernels": "{} between kernels that were launched in time",
    "python": "{} while Python runs",
    "silent": "{} while threads of the host record nothing",
    "tail": "{} after the last work, until the step ends",
    "host_compute": "{} while ops run on the host",
    "eager": "{} while ops are dispatched one by one",
    "callback": "{} for callbacks to the host",
    "checkpoint": "{} while a checkpoint is written",
    "evaluation": "Evaluation takes time from training",
    "logging": "Logging and metrics take time from training",
    "lock": "{} while a thread waits for a lock",
    "garbage_collection": "{} while Python collects garbage",
    "memory_pressure": "{} for memory",
    "small_ops": "{} between ops that take less time than their launches",
    "outside_compilation": "{} for ops outside of compiled programs",
    "idle": "{} for a reason that is not recorded",
}
"""What each cause of a gap is, after a subject with its verb: "The GPU waits"."""
_UNSURE: Final = ("silent", "tail", "launch", "queue", "between_kernels", "python", "idle", "straggler")
_OF_COLLECTIVES: Final = "communication"
"""Judged with what is known of collectives."""

SHORT_PS: Final = 10_000_000
"""Work between gaps that takes less is too short for what it costs to launch."""
_OFTEN: Final = 20
_PER_PYTHON: Final = 4
"""Python runs between launches if there are at most this number of launches to each piece of it."""
_LETTERS: Final = 60
"""Longer names of events are cut in titles; the column annotation has them."""
_EAGER: Final = pattern_of(r"^Eager(Local|Kernel)?Execute(?!.*__inference_)|^TFE_Py_FastPath|^[\w/]+:\w+$")
"""Events of TensorFlow that execute a single op."""


def found(facts: Facts) -> Iterator[Finding]:
    between = _between_launches(facts)
    for recorded, rows in facts.lost.items():
        if recorded in (_OF_COLLECTIVES, "lost_records") or (between and recorded == "python"):
            continue
        slow = in_slow_steps(facts, recorded)
        time = facts.explanations(recorded) - slow
        event = _explanation(time)
        cause = _refined(facts, recorded, rows, event)
        others = slow.total() + (facts.waited_between_ps if recorded == "idle" else 0)
        cost = facts.per_device(total(rows.time_ps) - others + (between if recorded == "launch" else 0))
        if cost <= 0:
            continue
        beside = facts.per_device(facts.beside_ps(recorded))
        waits = event is not None and cause in _UNSURE and waits_for_device(event)
        known = None if waits else event
        yield Finding(
            cause,
            TITLES[cause].format(facts.devices()) + _place(facts, time, known),
            cost,
            _certainty(facts, cause, event),
            f"gaps.by_cause?cause={recorded}",
            _advice(facts, cause),
            is_bound=beside > NOTABLE * cost,
            host=rows.mostly(rows.host, MOSTLY),
            device=rows.mostly(rows.device, MOSTLY),
            step=None if slow else _step(facts, recorded),
            annotation=known,
            detail=f"Meanwhile the host waits for the device: {cut(str(event), _LETTERS)}."
            if waits
            else _bounded(beside)
            if beside > NOTABLE * cost
            else None,
        )


def _explanation(time: Counter[str | None]) -> str | None:
    """What explains the most time of a cause of gaps; None: nothing does, or less than is unexplained."""
    event, _ = max(time.items(), key=lambda one: one[1], default=(None, 0))
    return event


def _place(facts: Facts, time: Counter[str | None], event: str | None) -> str:
    """The end of a title: what explains the cause, with its share unless that is nearly all."""
    if event is None:
        return ""
    share, name = time[event] / max(time.total(), 1), cut(facts.names.called(event), _LETTERS)
    return f": {name}" if share >= NEARLY_ALL else f", most for {name} ({100 * share:.0f} %)"


_LAUNCHED: Final = frozenset(("launch", "queue", "between_kernels"))
"""Causes that only recorded launches show."""


def _certainty(facts: Facts, cause: str, event: str | None) -> str:
    """Names of PyTorch's annotations are the user's own: that one loads data is not certain because of its words.
    Without recorded launches, ops of the host are only known to run meanwhile."""
    if cause == "tail":
        return POSSIBLE
    on_gpu = facts.framework == PYTORCH and facts.hardware != CPU_ONLY
    by_words = cause == "input" and not (event or "").startswith("enumerate(Data")
    beside = cause == "host_compute" and not _LAUNCHED.intersection(facts.lost)
    return LIKELY if (on_gpu and (by_words or beside)) or cause in _UNSURE else CERTAIN


def _bounded(beside_ps: int) -> str:
    return (
        f"For {time_text(beside_ps)} of it other threads launch, copy or compile, or another device works: the device "
        "may have to wait for that anyway."
    )


def _between_launches(facts: Facts) -> int:
    """The time that Python takes between ops that are executed one by one: a part of what that costs; 0: other Python,
    or ops of threads, whose runs hold what is between them.

    Python  |-----|  |-----|  |-----|
    launch        |-|      |-|      |-|
    device          |op|     |op|     |op|
    """
    launches, python = facts.lost_to("launch"), facts.lost_to("python")
    few = _PER_PYTHON * total(python.count) < total(launches.count)
    if not len(launches) or not len(python) or _on_cpu(facts) or few:
        return 0
    cause = _refined(facts, "launch", launches, _explanation(facts.explanations("launch")))
    return total(python.time_ps) if cause in ("eager", "small_ops") else 0


def _refined(facts: Facts, cause: str, rows: Lost, event: str | None) -> str:
    """The cause as other reports know it better."""
    if cause == "callback" and facts.figure("hlo_stats", "outside_compilation_share"):
        return "outside_compilation"
    return _launched(facts, rows, event) if cause == "launch" else cause


def _launched(facts: Facts, rows: Lost, event: str | None) -> str:
    """Why launches take the time: ops that are executed one by one, ops that are too short, or late launches."""
    if _on_cpu(facts):
        return "small_ops"  # threads wait for no launches; what is called so are runs of short ops
    count = min(total(rows.count), facts.launch_waits)
    if count < _OFTEN * facts.device_count:
        return "launch"
    if facts.framework == TENSORFLOW and event and _EAGER.search(event):
        return "eager"
    return "small_ops" if facts.compute_ps < count * SHORT_PS else "launch"


def _on_cpu(facts: Facts) -> bool:
    """Whether threads are the device of a program of PyTorch."""
    return facts.framework == PYTORCH and facts.hardware == CPU_ONLY


def _advice(facts: Facts, cause: str) -> str:
    return facts.advise(ON_CPU.get(cause, cause) if _on_cpu(facts) else cause)


def _step(facts: Facts, cause: str) -> int | None:
    """The step with most of the time of a cause; None: no step has that much, or it is between steps."""
    steps, of_causes = facts.time_by_step
    time = of_causes[:, GAP_CAUSES.index(cause)]
    if not time.any() or time.max() < MOSTLY * time.sum():
        return None
    step = int(steps[time.argmax()])
    return None if step == BETWEEN_STEPS else step
