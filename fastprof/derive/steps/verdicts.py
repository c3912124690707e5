"""What a program waits for, in words: the verdicts on its shares of step time, and the thresholds behind them.

A share is a percentage of the time of all steps that count. Each rule gives a ``Finding``: a class, the sentence
that people know from XProf's pages, and the share that it rests on. Lower bounds are inclusive: 5.0 % is moderate.

    UNKNOWN HOST BOTH DEVICE       where to look first: nowhere yet, the host's side, both sides, the device's
    NO YES MODERATE HIGH           whether one kind of time is a bottleneck of its own

Where little waits for input, XProf takes all other time for input of a kind ("POTENTIALLY input-bound"); the verdicts
``as_measured`` take it for what it is. People see all classes as a ``severity``.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

UNKNOWN, HOST, BOTH, DEVICE = "unknown", "host", "both", "device"
NO, YES, MODERATE, HIGH = "no", "yes", "moderate", "high"
NONE = "none"
"""What people read for NO."""

INPUT_BOUND_PERCENT = (5.0, 20.0)
"""Share of step time from which input (or output) bounds a program moderately, and highly."""

OVERHEAD_PERCENT = (3.0, 15.0)
"""The same of kernel launches, collectives and all other time."""

TPU_IDLE_PERCENT = 3.0
ALL_REDUCE_PERCENT = 6.0
SPARSE_CORE_PERCENT = 10.0
LOW_PRECISION_PERCENT = 10.0
EAGER_PERCENT = 10.0
OUTSIDE_COMPILATION_PERCENT = 5.0
EXPENSIVE_CALL_PERCENT = 20.0
NAMES_QUOTED = 3

_PERCENT = re.compile(r"(?<=\d)%")
_SAMPLED = "of the total step time sampled is"
_NO_STEPS = "No step time measured. Therefore we cannot tell where the performance bottleneck is."


@dataclass(frozen=True, slots=True)
class Link:
    """Words of a statement that a page may show as a link; both are constants of ours."""

    words: str
    url: str


@dataclass(frozen=True, slots=True)
class Finding:
    """A verdict. ``percent`` is the share of step time that it rests on; None: there is no step time."""

    classification: str
    statement: str = ""
    percent: float | None = None
    link: Link | None = None

    @property
    def was_judged(self) -> bool:
        """Whether there was anything to judge, or should have been."""
        return self.percent is not None or self.classification in (UNKNOWN, YES)

    @property
    def severity(self) -> str:
        """How much it matters: none, moderate or high; unknown."""
        if self.classification in (UNKNOWN, MODERATE, HIGH):
            return self.classification
        if self.classification == YES:
            return MODERATE
        return {HOST: HIGH, BOTH: MODERATE}.get(self.classification, NONE)

    @property
    def plain_statement(self) -> str:
        """The statement with a space before each percent sign, as in all other texts."""
        return _PERCENT.sub(" %", self.statement)


NOTHING = Finding(NO)


@dataclass(frozen=True, slots=True)
class GenericBottleneck:
    """The verdicts on a program on GPUs or on a CPU."""

    input: Finding
    kernel_launch: Finding = NOTHING
    all_other: Finding = NOTHING
    device_collectives: Finding = NOTHING
    input_percent: float = 0.0
    output_percent: float = 0.0
    compute_percent: float = 0.0
    idle_percent: float = 0.0

    def as_measured(self) -> GenericBottleneck:
        """Without taking other time for input: each kind of time is judged by itself."""
        if self.input.percent is None or self.all_other.percent is None:
            return self
        bound, _ = _input(self.input.percent, 0.0)
        return replace(self, input=bound, all_other=_all_other(self.all_other.percent, False))


@dataclass(frozen=True, slots=True)
class TpuBottleneck:
    """The verdicts on a program on TPUs."""

    input: Finding
    output: Finding = Finding(UNKNOWN)
    tc_idle: Finding = NOTHING
    all_reduce: Finding = NOTHING
    sparse_core: Finding = NOTHING
    input_percent: float = 0.0
    output_percent: float = 0.0
    compute_percent: float = 0.0
    idle_percent: float = 0.0


def share(part: float, whole: float) -> float:
    """``part`` in percent of ``whole``; 0 of nothing. Divided first, as XProf does: of 747 and 1200 it shows 62.3%."""
    return 100.0 * (part / whole) if whole else 0.0


# ---- the whole program ----------------------------------------------------------------------------------


def of_generic(
    *, step: float, input: float, output: float, compute: float, collectives: float, launch: float, other: float,
    tf_data: bool,
) -> GenericBottleneck:  # fmt: skip
    """The verdicts from times summed over steps, all in one unit; ``tf_data`` says whether tf.data is in use."""
    if not step:
        return GenericBottleneck(Finding(UNKNOWN, _NO_STEPS))
    percent = {name: share(part, step) for name, part in (
        ("input", input), ("output", output), ("compute", compute), ("collectives", collectives),
        ("launch", launch), ("other", other),
    )}  # fmt: skip
    bound, other_is_told = _input(percent["input"], percent["other"])
    busy = percent["input"] + percent["output"] + percent["compute"] + percent["collectives"]
    return GenericBottleneck(
        input=bound,
        kernel_launch=_kernel_launch(percent["launch"], tf_data),
        all_other=_all_other(percent["other"], other_is_told),
        device_collectives=_graded(
            percent["collectives"], f"{{:.1f}} % {_SAMPLED} spent on 'Device Collective Communication'."
        ),
        input_percent=percent["input"],
        output_percent=percent["output"],
        compute_percent=percent["compute"],
        idle_percent=max(0.0, 100.0 - busy),
    )


def of_tpu(
    *, step: float, input: float, output: float, idle: float, all_reduce_compute: float, all_reduce_sync: float,
    sparse_core: float,
) -> TpuBottleneck:  # fmt: skip
    """The verdicts from times summed over steps, all in one unit, with one value a step across its cores."""
    if not step:
        return TpuBottleneck(Finding(UNKNOWN, _NO_STEPS))
    input_percent, output_percent, idle_percent = share(input, step), share(output, step), share(idle, step)
    reduce_percents = share(all_reduce_compute, step), share(all_reduce_sync, step)
    return TpuBottleneck(
        input=_input(input_percent, 0.0)[0],
        output=_output(output_percent),
        tc_idle=_tpu_idle(idle_percent),
        all_reduce=_all_reduce(*reduce_percents, input_percent),
        sparse_core=_sparse_core(share(sparse_core, step)),
        input_percent=input_percent,
        output_percent=output_percent,
        compute_percent=max(0.0, 100.0 - input_percent - output_percent - idle_percent),
        idle_percent=idle_percent,
    )


# ---- one kind of time -----------------------------------------------------------------------------------


def _input(percent: float, other: float) -> tuple[Finding, bool]:
    """The verdict on input, and whether its statement covers all other time too."""
    moderate, high = INPUT_BOUND_PERCENT
    if percent >= high:
        return Finding(HOST, f"Your program is HIGHLY input-bound because {percent:.1f}% {_SAMPLED} waiting for input. "
                       "Therefore, you should first focus on reducing the input time.", percent), False  # fmt: skip
    if percent >= moderate:
        return Finding(BOTH, f"Your program is MODERATELY input-bound because {percent:.1f}% {_SAMPLED} waiting for "
                       "input. Therefore, you would need to reduce both the input time and other time.",
                       percent), False  # fmt: skip
    if other >= OVERHEAD_PERCENT[0]:
        return Finding(BOTH, f"Your program is POTENTIALLY input-bound because {other:.1f}% {_SAMPLED} spent on 'All "
                       "Others' time (which could be due to I/O or Python execution or both).",
                       percent), True  # fmt: skip
    return Finding(DEVICE, f"Your program is NOT input-bound because only {percent:.1f}% {_SAMPLED} waiting for input. "
                   "Therefore, you should focus on reducing other time.", percent), False  # fmt: skip


def _output(percent: float) -> Finding:
    moderate, high = INPUT_BOUND_PERCENT
    if percent >= high:
        return Finding(HOST, f"Your program is HIGHLY output-bound because {percent:.1f}% {_SAMPLED} spent on output. "
                       "Therefore, you should first focus on reducing the output time.", percent)  # fmt: skip
    if percent >= moderate:
        return Finding(BOTH, f"Your program is MODERATELY output-bound because {percent:.1f}% {_SAMPLED} spent on "
                       "output. Therefore, you would need to reduce both the output time and other time.",
                       percent)  # fmt: skip
    return Finding(DEVICE, "", percent)


def _graded(percent: float, statement: str) -> Finding:
    """No, moderate or high, by the thresholds of overhead; ``statement`` has a place for the percentage."""
    moderate, high = OVERHEAD_PERCENT
    if percent < moderate:
        return Finding(NO, "", percent)
    return Finding(HIGH if percent >= high else MODERATE, statement.format(percent), percent)


def _kernel_launch(percent: float, tf_data: bool) -> Finding:
    contention = (" It could be due to CPU contention with tf.data. In this case, you may try to set the environment "
                  "variable TF_GPU_THREAD_MODE=gpu_private.")  # fmt: skip
    return _graded(percent, f"{{:.1f}} % {_SAMPLED} spent on 'Kernel Launch'.{contention if tf_data else ''}")


def _all_other(percent: float, explained: bool) -> Finding:
    if explained:
        return Finding(NO, "", percent)
    return _graded(percent, f"{{:.1f}} % {_SAMPLED} spent on 'All Others' time. This could be due to Python execution "
                   "overhead.")  # fmt: skip


def _tpu_idle(percent: float) -> Finding:
    if percent < TPU_IDLE_PERCENT:
        return Finding(NO, "", percent)
    loop = Link(
        "host-training loop (i.e. running multiple steps within a tf.function).",
        "https://www.tensorflow.org/guide/tpu#improving_performance_by_multiple_steps_within_tffunction",
    )
    return Finding(YES, f"{percent:.1f} % {_SAMPLED} due to host overhead that is not input-related. For TF 2.x, you "
                   f"may want to use a {loop.words}", percent, loop)  # fmt: skip


def _all_reduce(compute: float, sync: float, input: float) -> Finding:
    """Cores that wait for input make the others wait in the all-reduce: that part is input's fault."""
    if not compute + sync:
        return NOTHING
    if compute + sync - input < ALL_REDUCE_PERCENT:
        return Finding(NO, "", compute + sync)
    return Finding(YES, f"Also, {sync:.1f} % {_SAMPLED} spent on synchronization with other TPU cores, and "
                   f"{compute:.1f} % {_SAMPLED} spent on actual AllReduce.", compute + sync)  # fmt: skip


def _sparse_core(percent: float) -> Finding:
    if not percent:
        return NOTHING
    high = percent >= SPARSE_CORE_PERCENT
    advice = (
        "You should focus on reducing the SparseCoreV0 compute time as well."
        if high
        else "You may also want to reduce the SparseCoreV0 compute time."
    )
    statement = f"Also, {percent:.1f} % {_SAMPLED} spent on the SparseCoreV0 compute. {advice}"
    return Finding(HIGH if high else MODERATE, statement, percent)


# ---- ops ------------------------------------------------------------------------------------------------


def of_precision(compute_16bit: float, compute_32bit: float) -> Finding:
    """Whether device compute makes little use of 16-bit arithmetic."""
    total = compute_16bit + compute_32bit
    percent = share(compute_16bit, total)
    if not total or percent >= LOW_PRECISION_PERCENT:
        return Finding(NO, "", percent if total else None)
    return Finding(YES, f"Only {percent:.1f}% of device computation is 16 bit. So you might want to replace more "
                   "32-bit Ops by 16-bit Ops to improve performance (if the reduced accuracy is acceptable).",
                   percent)  # fmt: skip


def of_eager(host_percent: float | None, device_percent: float | None) -> Finding:
    """Whether much op time is spent in eager execution, in percent on the host and on devices; None: no op time."""
    percents = {side: percent for side, percent in (("host", host_percent), ("device", device_percent)) if percent}
    sentences = [
        f"{percent:.1f}% of Op time on the {side} used eager execution. "
        for side, percent in percents.items()
        if percent > EAGER_PERCENT
    ]
    known = [percent for percent in (host_percent, device_percent) if percent is not None]
    if not sentences:
        return Finding(NO, "", max(known, default=None))
    link = Link("tf.function.", "https://www.tensorflow.org/guide/function")
    return Finding(YES, "".join([*sentences, "Performance could be improved with ", link.words]),
                   max(known), link)  # fmt: skip


def of_outside_compilation(percent: float | None) -> Finding:
    """Whether much of the device's op time is for ops that XLA left to the host; None: it has no op time."""
    if percent is None or percent <= OUTSIDE_COMPILATION_PERCENT:
        return Finding(NO, "", percent)
    return Finding(YES, f"{percent:.1f} % of Op time on the device are for outside compilation. Performance could be "
                   "improved by avoiding outside compilation.", percent)  # fmt: skip


def of_tf_functions(expensive: list[tuple[str, float]]) -> Finding:
    """Whether tf.functions retrace or run eagerly: (name, share of its time in expensive calls) of each."""
    ranked = sorted((f for f in expensive if f[1] >= EXPENSIVE_CALL_PERCENT), key=lambda f: (-f[1], f[0]))
    if not ranked:
        return NOTHING
    names = ", ".join(f'"{name}"' for name, _ in ranked[:NAMES_QUOTED])
    more = " and more" if len(ranked) > NAMES_QUOTED else ""
    return Finding(YES, f"Expensive tf-functions detected ({names}{more}) due to either retracing or eager execution.",
                   ranked[0][1])  # fmt: skip


# ---- steps that are not there ---------------------------------------------------------------------------

NO_DEVICE_TRACE = (
    "No TensorCore device trace was collected. This might happen if your job hadn't been run on the device when "
    "sampling was turned on. You could try the sampling again later."
)
"""Said where a device is known by name and shows no core."""
