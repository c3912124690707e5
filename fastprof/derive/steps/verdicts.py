"""What a program waits for, in words: the verdicts on its shares of step time, and the thresholds behind them.

A share is a percentage of the time of all steps that count. Each rule gives a ``Finding``: a class, the sentence
that people know from XProf's pages, and the share that it rests on. Lower bounds are inclusive: 5.0 % is moderate.

    UNKNOWN HOST BOTH DEVICE       where to look first: nowhere yet, the host's side, both sides, the device's
    NO YES MODERATE HIGH           whether one kind of time is a bottleneck of its own

Where little waits for input, XProf takes all other time for input of a kind ("POTENTIALLY input-bound"); the verdicts
``as_measured`` take it for what it is. People see all classes as a ``severity``.
"""

from __future__ import annotations

from dataclasses import fields, replace

from fastprof.schema.value_classes import dataclass
from fastprof.wording.patterns import pattern_of

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

_PERCENT = pattern_of(r"(?<=\d)%")
_SAMPLED = "of the total step time sampled is"
_NO_STEPS = "No step time measured. Therefore we cannot tell where the performance bottleneck is."
_CONTENTION = (
    " It could be due to CPU contention with tf.data. In this case, you may try to set the environment variable "
    "TF_GPU_THREAD_MODE=gpu_private."
)


@dataclass(frozen=True, slots=True)
class Link:
    """Words of a statement that a page may show as a link; both are constants of ours."""

    words: str
    url: str


@dataclass(frozen=True, slots=True)
class Finding:
    """A verdict. ``percent``: the share of step time that it rests on; None: there are no steps. ``asks``: whether the
    statement says what to do, not only what is."""

    classification: str
    statement: str = ""
    percent: float | None = None
    link: Link | None = None
    asks: bool = True

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
class Bottleneck:
    """The verdicts on the time of steps. NOTHING for what the hardware lacks. Percentages are of step time."""

    input: Finding
    output: Finding = NOTHING  # of TPUs
    device_collectives: Finding = NOTHING
    kernel_launch: Finding = NOTHING
    all_other: Finding = NOTHING
    tc_idle: Finding = NOTHING
    all_reduce: Finding = NOTHING
    sparse_core: Finding = NOTHING
    input_percent: float = 0.0
    output_percent: float = 0.0
    compute_percent: float = 0.0
    idle_percent: float = 0.0

    def on_step_time(self) -> dict[str, Finding]:
        """The verdicts by name, that on input first."""
        return {one.name: getattr(self, one.name) for one in fields(self) if not one.name.endswith("_percent")}

    def as_measured(self) -> Bottleneck:
        """Without taking other time for input: each kind of time is judged by itself."""
        if self.input.percent is None or self.all_other.percent is None:
            return self
        return replace(self, input=_input(self.input.percent), all_other=_all_other(self.all_other.percent))


def share(part: float, whole: float) -> float:
    """``part`` in percent of ``whole``; 0 of nothing. Divided first, as XProf does: of 747 and 1200 it shows 62.3%."""
    return 100.0 * (part / whole) if whole else 0.0


# ---- all steps ------------------------------------------------------------------------------------------


def of_generic(
    *, step: float, input: float, output: float, compute: float, collectives: float, launch: float, other: float,
    tf_data: bool, copies: float = 0.0,
) -> Bottleneck:  # fmt: skip
    """The verdicts on GPUs or on a CPU from times summed over steps, all in one unit. ``copies``: those to devices that
    are not part of ``input``, and work that is not training; ``tf_data``: it is in use."""
    if not step:
        return Bottleneck(Finding(UNKNOWN, _NO_STEPS))
    times = (input, output, compute, collectives, launch, other)
    input, output, compute, collectives, launch, other = (share(time, step) for time in times)
    copied = share(copies, step)
    bound = _input(input)
    explained = bound.classification == DEVICE and other >= OVERHEAD_PERCENT[0]
    if explained:
        bound = Finding(BOTH, f"Your program is POTENTIALLY input-bound because {other:.1f}% {_SAMPLED} spent on 'All "
                        "Others' time (which could be due to I/O or Python execution or both).", input)  # fmt: skip
    return Bottleneck(
        input=bound,
        device_collectives=_graded(collectives, f"{{:.1f}} % {_SAMPLED} spent on 'Device Collective Communication'."),
        kernel_launch=replace(
            _graded(launch, f"{{:.1f}} % {_SAMPLED} spent on 'Kernel Launch'.{_CONTENTION if tf_data else ''}"),
            asks=tf_data,
        ),
        all_other=Finding(NO, "", other) if explained else _all_other(other),
        input_percent=input,
        output_percent=output,
        compute_percent=compute,
        idle_percent=max(0.0, 100.0 - (input + output + compute + collectives + copied)),
    )


def of_tpu(
    *, step: float, input: float, output: float, idle: float, copies: float, all_reduce_compute: float,
    all_reduce_sync: float, sparse_core: float,
) -> Bottleneck:  # fmt: skip
    """The verdicts from times summed over steps, all in one unit, with one value a step across its cores."""
    if not step:
        return Bottleneck(Finding(UNKNOWN, _NO_STEPS), output=Finding(UNKNOWN))
    input, output, idle = share(input, step), share(output, step), share(idle, step)
    return Bottleneck(
        input=_input(input),
        output=_bound("output", "spent on output", output) or Finding(DEVICE, "", output),
        tc_idle=_tpu_idle(idle),
        all_reduce=_all_reduce(share(all_reduce_compute, step), share(all_reduce_sync, step), input),
        sparse_core=_sparse_core(share(sparse_core, step)),
        input_percent=input,
        output_percent=output,
        compute_percent=max(0.0, 100.0 - input - output - idle - share(copies, step)),
        idle_percent=idle,
    )


# ---- one kind of time -----------------------------------------------------------------------------------


def _bound(kind: str, spent: str, percent: float) -> Finding | None:
    """The verdict on input or output that bounds a program; None: it does not."""
    moderate, high = INPUT_BOUND_PERCENT
    because = f"{kind}-bound because {percent:.1f}% {_SAMPLED} {spent}. Therefore, you"
    if percent >= high:
        return Finding(HOST, f"Your program is HIGHLY {because} should first focus on reducing the {kind} time.",
                       percent)  # fmt: skip
    if percent >= moderate:
        return Finding(BOTH, f"Your program is MODERATELY {because} would need to reduce both the {kind} time and "
                       "other time.", percent)  # fmt: skip
    return None


def _input(percent: float) -> Finding:
    found = _bound("input", "waiting for input", percent)
    return found or Finding(DEVICE, f"Your program is NOT input-bound because only {percent:.1f}% {_SAMPLED} waiting "
                            "for input. Therefore, you should focus on reducing other time.", percent)  # fmt: skip


def _graded(percent: float, statement: str) -> Finding:
    """No, moderate or high, by the thresholds of overhead; ``statement``, which asks for nothing, has a place for the
    percentage."""
    moderate, high = OVERHEAD_PERCENT
    if percent < moderate:
        return Finding(NO, "", percent)
    return Finding(HIGH if percent >= high else MODERATE, statement.format(percent), percent, asks=False)


def _all_other(percent: float) -> Finding:
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
                   f"{compute:.1f} % {_SAMPLED} spent on actual AllReduce.", compute + sync, asks=False)  # fmt: skip


def _sparse_core(percent: float) -> Finding:
    if not percent:
        return NOTHING
    spent = f"Also, {percent:.1f} % {_SAMPLED} spent on the SparseCoreV0 compute. You"
    if percent >= SPARSE_CORE_PERCENT:
        return Finding(HIGH, f"{spent} should focus on reducing the SparseCoreV0 compute time as well.", percent)
    return Finding(MODERATE, f"{spent} may also want to reduce the SparseCoreV0 compute time.", percent)


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
    known = {side: at for side, at in (("host", host_percent), ("device", device_percent)) if at is not None}
    most = max(known.values(), default=None)
    if most is None or most <= EAGER_PERCENT:
        return Finding(NO, "", most)
    sentences = [
        f"{percent:.1f}% of Op time on the {side} used eager execution. "
        for side, percent in known.items()
        if percent > EAGER_PERCENT
    ]
    link = Link("tf.function.", "https://www.tensorflow.org/guide/function")
    return Finding(YES, "".join([*sentences, "Performance could be improved with ", link.words]),
                   most, link)  # fmt: skip


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
                   ranked[0][1], asks=False)  # fmt: skip


# ---- steps that are not there ---------------------------------------------------------------------------

NO_DEVICE_TRACE = (
    "No TensorCore device trace was collected. This might happen if your job hadn't been run on the device when "
    "sampling was turned on. You could try the sampling again later."
)
"""Said where a device is known by name and shows no core."""
