"""Verdicts on step time, the thresholds behind them, and advice in terms of the program's framework.

A share is a percentage of the time of all steps that count. Each rule gives a ``Verdict``: a class, the sentence that
people know from XProf's pages, and the share that it rests on. Lower bounds are inclusive: 5.0 % is moderate.

    UNDECIDED HOST BOTH DEVICE     where to look first: nowhere yet, the host's side, both sides, the device's
    NO YES MODERATE HIGH           whether one kind of time is a bottleneck of its own

Where little waits for input, XProf takes all other time for input of a kind ("POTENTIALLY input-bound"); the verdicts
``as_measured`` take it for what it is. People see all classes as a ``severity``. XProf's sentences are about TensorFlow
only: a program of another framework is given what that framework offers, or no remedy.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, replace
from typing import Final

from fastprof.derive.devices.op_names import JAX, PYTORCH, TENSORFLOW, UNKNOWN, is_frame
from fastprof.derive.steps.event_origin import parse_frame
from fastprof.derive.steps.host_calls import LoaderTime
from fastprof.schema.value_classes import dataclass
from fastprof.wording.patterns import compile_late
from fastprof.wording.quantities import count_noun, format_measure, format_time
from fastprof.wording.screen import fit_text

UNDECIDED, HOST, BOTH, DEVICE = "unknown", "host", "both", "device"
NO, YES, MODERATE, HIGH = "no", "yes", "moderate", "high"
NONE = "none"
"""What people read for NO."""

INPUT_BOUND_PERCENT = (5.0, 20.0)
"""Share of step time from which input (or output) bounds a program moderately, and highly."""

OVERHEAD_PERCENT = (3.0, 15.0)
"""Thresholds of kernel launches, collectives and all other time: moderate and high."""

TPU_IDLE_PERCENT = 3.0
ALL_REDUCE_PERCENT = 6.0
SPARSE_CORE_PERCENT = 10.0
LOW_PRECISION_PERCENT = 10.0
EAGER_PERCENT = 10.0
OUTSIDE_COMPILATION_PERCENT = 5.0
EXPENSIVE_CALL_PERCENT = 20.0
NAMES_QUOTED = 3

_PERCENT = compile_late(r"(?<=\d)%")
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
class Verdict:
    """A verdict. ``percent``: the share of step time that it rests on, or None if there are no steps. ``asks``: whether
    the statement says what to do, not only what is."""

    classification: str
    statement: str = ""
    percent: float | None = None
    link: Link | None = None
    asks: bool = True

    @property
    def was_judged(self) -> bool:
        """Return whether there was anything to judge, or should have been."""
        return self.percent is not None or self.classification in (UNDECIDED, YES)

    @property
    def severity(self) -> str:
        """Severity: none, moderate, high or unknown."""
        if self.classification in (UNDECIDED, MODERATE, HIGH):
            return self.classification
        if self.classification == YES:
            return MODERATE
        return {HOST: HIGH, BOTH: MODERATE}.get(self.classification, NONE)

    @property
    def plain_statement(self) -> str:
        """The statement with a space before each percent sign, as in all other messages."""
        return _PERCENT.sub(" %", self.statement)


NO_VERDICT = Verdict(NO)


@dataclass(frozen=True, slots=True)
class Bottleneck:
    """The verdicts on the time of steps. NOTHING for what the hardware lacks. Percentages are of step time."""

    input: Verdict
    output: Verdict = NO_VERDICT  # of TPUs
    device_collectives: Verdict = NO_VERDICT
    kernel_launch: Verdict = NO_VERDICT
    all_other: Verdict = NO_VERDICT
    tc_idle: Verdict = NO_VERDICT
    all_reduce: Verdict = NO_VERDICT
    sparse_core: Verdict = NO_VERDICT
    input_percent: float = 0.0
    output_percent: float = 0.0
    compute_percent: float = 0.0
    idle_percent: float = 0.0

    def on_step_time(self) -> dict[str, Verdict]:
        """Return the verdicts by name, that on input first."""
        return {field.name: getattr(self, field.name) for field in fields(self) if not field.name.endswith("_percent")}

    def as_measured(self) -> Bottleneck:
        """Return verdicts that judge each kind of time by itself, without taking other time for input."""
        if self.input.percent is None or self.all_other.percent is None:
            return self
        return replace(self, input=_judge_input(self.input.percent), all_other=_judge_all_other(self.all_other.percent))


def compute_percent(part: float, whole: float) -> float:
    """Return ``part`` in percent of ``whole``, or 0 of nothing. Divided first, as XProf does: of 747 and 1200 it shows
    62.3%."""
    return 100.0 * (part / whole) if whole else 0.0


# ---- all steps ------------------------------------------------------------------------------------------


def judge_generic(
    *, step: float, input: float, output: float, compute: float, collectives: float, launch: float, other: float,
    tf_data: bool, copies: float = 0.0,
) -> Bottleneck:  # fmt: skip
    """Return the verdicts on GPUs or on a CPU from times summed over steps, all in one unit. ``copies``: those to
    devices that are not part of ``input``, and work that is not training; ``tf_data``: it is in use."""
    if not step:
        return Bottleneck(Verdict(UNDECIDED, _NO_STEPS))
    times = (input, output, compute, collectives, launch, other)
    input, output, compute, collectives, launch, other = (compute_percent(time, step) for time in times)
    copied = compute_percent(copies, step)
    bound = _judge_input(input)
    explained = bound.classification == DEVICE and other >= OVERHEAD_PERCENT[0]
    if explained:
        bound = Verdict(BOTH, f"Your program is POTENTIALLY input-bound because {other:.1f}% {_SAMPLED} spent on 'All "
                        "Others' time (which could be due to I/O or Python execution or both).", input)  # fmt: skip
    return Bottleneck(
        input=bound,
        device_collectives=_grade(collectives, f"{{:.1f}} % {_SAMPLED} spent on 'Device Collective Communication'."),
        kernel_launch=replace(
            _grade(launch, f"{{:.1f}} % {_SAMPLED} spent on 'Kernel Launch'.{_CONTENTION if tf_data else ''}"),
            asks=tf_data,
        ),
        all_other=Verdict(NO, "", other) if explained else _judge_all_other(other),
        input_percent=input,
        output_percent=output,
        compute_percent=compute,
        idle_percent=max(0.0, 100.0 - (input + output + compute + collectives + copied)),
    )


def judge_tpu(
    *, step: float, input: float, output: float, idle: float, copies: float, all_reduce_compute: float,
    all_reduce_sync: float, sparse_core: float,
) -> Bottleneck:  # fmt: skip
    """Return the verdicts from times summed over steps, all in one unit, with one value a step across its cores."""
    if not step:
        return Bottleneck(Verdict(UNDECIDED, _NO_STEPS), output=Verdict(UNDECIDED))
    input, output, idle = compute_percent(input, step), compute_percent(output, step), compute_percent(idle, step)
    return Bottleneck(
        input=_judge_input(input),
        output=_judge_bound("output", "spent on output", output) or Verdict(DEVICE, "", output),
        tc_idle=_judge_tpu_idle(idle),
        all_reduce=_judge_all_reduce(
            compute_percent(all_reduce_compute, step), compute_percent(all_reduce_sync, step), input
        ),
        sparse_core=_judge_sparse_core(compute_percent(sparse_core, step)),
        input_percent=input,
        output_percent=output,
        compute_percent=max(0.0, 100.0 - input - output - idle - compute_percent(copies, step)),
        idle_percent=idle,
    )


# ---- one kind of time -----------------------------------------------------------------------------------


def _judge_bound(kind: str, spent: str, percent: float) -> Verdict | None:
    """Return the verdict on input or output that bounds a program, or None if it does not."""
    moderate, high = INPUT_BOUND_PERCENT
    because = f"{kind}-bound because {percent:.1f}% {_SAMPLED} {spent}. Therefore, you"
    if percent >= high:
        return Verdict(HOST, f"Your program is HIGHLY {because} should first focus on reducing the {kind} time.",
                       percent)  # fmt: skip
    if percent >= moderate:
        return Verdict(BOTH, f"Your program is MODERATELY {because} would need to reduce both the {kind} time and "
                       "other time.", percent)  # fmt: skip
    return None


def _judge_input(percent: float) -> Verdict:
    bound = _judge_bound("input", "waiting for input", percent)
    return bound or Verdict(DEVICE, f"Your program is NOT input-bound because only {percent:.1f}% {_SAMPLED} waiting "
                            "for input. Therefore, you should focus on reducing other time.", percent)  # fmt: skip


def _grade(percent: float, statement: str) -> Verdict:
    """Grade as no, moderate or high, by the thresholds of overhead; ``statement``, which asks for nothing, has a place
    for the percentage."""
    moderate, high = OVERHEAD_PERCENT
    if percent < moderate:
        return Verdict(NO, "", percent)
    return Verdict(HIGH if percent >= high else MODERATE, statement.format(percent), percent, asks=False)


def _judge_all_other(percent: float) -> Verdict:
    return _grade(percent, f"{{:.1f}} % {_SAMPLED} spent on 'All Others' time. This could be due to Python execution "
                   "overhead.")  # fmt: skip


def _judge_tpu_idle(percent: float) -> Verdict:
    if percent < TPU_IDLE_PERCENT:
        return Verdict(NO, "", percent)
    loop = Link(
        "host-training loop (i.e. running multiple steps within a tf.function).",
        "https://www.tensorflow.org/guide/tpu#improving_performance_by_multiple_steps_within_tffunction",
    )
    return Verdict(YES, f"{percent:.1f} % {_SAMPLED} due to host overhead that is not input-related. For TF 2.x, you "
                   f"may want to use a {loop.words}", percent, loop)  # fmt: skip


def _judge_all_reduce(compute: float, sync: float, input: float) -> Verdict:
    """Judge all-reduce time. Cores that wait for input make the others wait in the all-reduce: that part is input's
    fault."""
    if not compute + sync:
        return NO_VERDICT
    if compute + sync - input < ALL_REDUCE_PERCENT:
        return Verdict(NO, "", compute + sync)
    return Verdict(YES, f"Also, {sync:.1f} % {_SAMPLED} spent on synchronization with other TPU cores, and "
                   f"{compute:.1f} % {_SAMPLED} spent on actual AllReduce.", compute + sync, asks=False)  # fmt: skip


def _judge_sparse_core(percent: float) -> Verdict:
    if not percent:
        return NO_VERDICT
    spent = f"Also, {percent:.1f} % {_SAMPLED} spent on the SparseCoreV0 compute. You"
    if percent >= SPARSE_CORE_PERCENT:
        return Verdict(HIGH, f"{spent} should focus on reducing the SparseCoreV0 compute time as well.", percent)
    return Verdict(MODERATE, f"{spent} may also want to reduce the SparseCoreV0 compute time.", percent)


# ---- ops ------------------------------------------------------------------------------------------------


def judge_precision(compute_16bit: float, compute_32bit: float) -> Verdict:
    """Return whether device compute makes little use of 16-bit arithmetic."""
    total = compute_16bit + compute_32bit
    percent = compute_percent(compute_16bit, total)
    if not total or percent >= LOW_PRECISION_PERCENT:
        return Verdict(NO, "", percent if total else None)
    return Verdict(YES, f"Only {percent:.1f}% of device computation is 16 bit. So you might want to replace more "
                   "32-bit Ops by 16-bit Ops to improve performance (if the reduced accuracy is acceptable).",
                   percent)  # fmt: skip


def judge_eager(host_percent: float | None, device_percent: float | None) -> Verdict:
    """Return whether much op time is spent in eager execution, in percent on the host and on devices, or None if no op
    time."""
    known = {side: at for side, at in (("host", host_percent), ("device", device_percent)) if at is not None}
    most = max(known.values(), default=None)
    if most is None or most <= EAGER_PERCENT:
        return Verdict(NO, "", most)
    sentences = [
        f"{percent:.1f}% of Op time on the {side} used eager execution. "
        for side, percent in known.items()
        if percent > EAGER_PERCENT
    ]
    link = Link("tf.function.", "https://www.tensorflow.org/guide/function")
    return Verdict(YES, "".join([*sentences, "Performance could be improved with ", link.words]),
                   most, link)  # fmt: skip


def judge_outside_compilation(percent: float | None) -> Verdict:
    """Return whether much of the device's op time is for ops that XLA left to the host, or None if it has no op
    time."""
    if percent is None or percent <= OUTSIDE_COMPILATION_PERCENT:
        return Verdict(NO, "", percent)
    return Verdict(YES, f"{percent:.1f} % of Op time on the device are for outside compilation. Performance could be "
                   "improved by avoiding outside compilation.", percent)  # fmt: skip


def judge_tf_functions(expensive: list[tuple[str, float]]) -> Verdict:
    """Return whether tf.functions retrace or run eagerly: (name, share of its time in expensive calls) of each."""
    ranked = sorted((f for f in expensive if f[1] >= EXPENSIVE_CALL_PERCENT), key=lambda f: (-f[1], f[0]))
    if not ranked:
        return NO_VERDICT
    names = ", ".join(f'"{name}"' for name, _ in ranked[:NAMES_QUOTED])
    more = " and more" if len(ranked) > NAMES_QUOTED else ""
    return Verdict(YES, f"Expensive tf-functions detected ({names}{more}) due to either retracing or eager execution.",
                   ranked[0][1], asks=False)  # fmt: skip


# ---- steps that are not there ---------------------------------------------------------------------------

NO_DEVICE_TRACE = (
    "No TensorCore device trace was collected. This might happen if your job hadn't been run on the device when "
    "sampling was turned on. You could try the sampling again later."
)
"""Message for a device that is known by name and shows no core."""


_OF_TENSORFLOW: Final = {
    "tc_idle": " For TF 2.x,",
    "kernel_launch": " It could be due to CPU contention with tf.data.",
    "eager": "Performance could be improved with tf.function.",
}
"""Beginning of each verdict's remedy for TensorFlow."""
_INSTEAD: Final = {
    ("tc_idle", JAX): " Run several steps in one call of a compiled function (jax.lax.scan or jax.lax.fori_loop).",
    ("tc_idle", PYTORCH): " Mark steps less often (torch_xla.sync), or run several in one compiled function.",
}
_INPUT: Final = {
    TENSORFLOW: (
        "The capture has no tf.data ops, so input time cannot be broken down: use the tf.data API "
        "(https://www.tensorflow.org/guide/data) to break down the host side."
    ),
    JAX: "Enclose data loading in jax.profiler.TraceAnnotation, and prefetch batches to the device.",
    PYTORCH: "Enclose data loading in torch.profiler.record_function, and load ahead, on other threads or processes.",
}
_TORCH_ON_TPU: Final = (
    "Enclose data loading in torch_xla's profiler.Trace, and load ahead, on other threads or processes."
)
_ONLY_WAITS: Final = compile_late(
    r"^infeed|IteratorGetNext|Iterator::(?:\w+::)*Prefetch$|^\$builtins next$|^enumerate\(Data"
)
_LETTERS: Final = 60
_UNKNOWN_INPUT: Final = "The capture has no input pipeline ops, so input time cannot be broken down."
KINDS_OF_INPUT: Final = (
    "combine small chunks of input data into fewer but larger ones",
    "read files in advance, several at a time, through large buffers",
    "read further ahead, from more files at a time",
    "preprocess on more threads or processes, or offline",
    "read and prepare batches on other threads while devices compute",
)
"""Advice that shortens each kind of input work, in any framework."""


def adapt_to_framework(findings: Mapping[str, Verdict], framework: str) -> dict[str, Verdict]:
    """Return the verdicts by name, with remedies of the framework."""
    adapted = dict(findings)
    for name, finding in findings.items():
        begins = _OF_TENSORFLOW.get(name)
        if framework == TENSORFLOW or begins is None or begins not in finding.statement:
            continue
        if name == "eager" and framework == UNKNOWN:  # only TensorFlow records eager ops
            continue
        instead = _INSTEAD.get((name, framework), "")
        statement = finding.statement.partition(begins)[0].rstrip() + instead
        adapted[name] = replace(finding, statement=statement, link=None, asks=bool(instead))
    return adapted


_WORKERS: Final = "load with workers (num_workers > 0), so that batches are ready before they are needed"
_MORE_WORKERS: Final = "give it more workers (num_workers) if there are cores for them"


def advise_on_loader(loader: LoaderTime) -> str:
    """Advise on the time in which a PyTorch program waits for its DataLoader."""
    times, total = count_noun(loader.count, "time", "times"), format_time(loader.waited_ps)
    waits = f"The program waits {times} for its DataLoader, {total} in total."
    workers = _MORE_WORKERS if loader.has_workers else _WORKERS
    if loader.function is None:
        return f"{waits} Python stacks (with_stack=True) would show the function that takes the time; {workers}."
    frame, share = parse_frame(loader.function), format_measure(loader.function_ps / loader.waited_ps, "share")
    place = f"{frame.function} ({frame.file}:{frame.line})"
    return f"{waits} {place} takes {share} of that: make it faster, or {workers}."


def make_faster(event: str | None) -> str:
    """Return a sentence that asks to make a function, annotation or iterator faster; empty if none is known, or the
    event only waits for it."""
    if event is None or _ONLY_WAITS.search(event):
        return ""
    name = event
    if is_frame(event):
        frame = parse_frame(event)
        name = frame.function if frame.line is None else f"{frame.function} ({frame.file}:{frame.line})"
    return f"{fit_text(name, _LETTERS)} takes the largest part of it: make it faster, or hide it behind compute. "


def advise_on_unknown_input(framework: str, loading: str | None = None, *, on_tpu: bool = False) -> str:
    """Return advice for input time that no op explains. ``loading``: the event that takes most of it; ``on_tpu``:
    PyTorch on TPUs, which has its own profiler."""
    if faster := make_faster(loading):
        return f"{faster}{KINDS_OF_INPUT[-1].capitalize()}."
    known = _TORCH_ON_TPU if framework == PYTORCH and on_tpu else _INPUT.get(framework, "")
    return known if framework == TENSORFLOW else f"{_UNKNOWN_INPUT} {known}".rstrip()
