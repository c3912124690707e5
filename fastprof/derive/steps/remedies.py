"""What verdicts recommend, in terms of the framework of the program.

The sentences of ``verdicts`` are XProf's, which knows TensorFlow only. Here a program of another framework is given
what that framework offers, or no remedy; a program of unknown framework gets none that only one framework has.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from fastprof.derive.devices.framework import JAX, PYTORCH, TENSORFLOW, UNKNOWN
from fastprof.derive.devices.op_names import is_frame
from fastprof.derive.steps.python_frames import frame_of
from fastprof.derive.steps.torch_loaders import LoaderTime
from fastprof.derive.steps.verdicts import Finding
from fastprof.wording.patterns import pattern_of
from fastprof.wording.quantities import counted, measured, time_text
from fastprof.wording.screen import cut

_OF_TENSORFLOW: Final = {
    "tc_idle": " For TF 2.x,",
    "kernel_launch": " It could be due to CPU contention with tf.data.",
    "eager": "Performance could be improved with tf.function.",
}
"""By verdict, how its remedy for TensorFlow begins."""
_INSTEAD: Final = {
    ("tc_idle", JAX): " Run several steps in one call of a compiled function (jax.lax.scan or jax.lax.fori_loop).",
    ("tc_idle", PYTORCH): " Mark steps less often (torch_xla.sync), or run several in one compiled function.",
}
_INPUT: Final = {
    TENSORFLOW: (
        "No op of a tf.data pipeline was seen, so what the time for input is spent on is not known: with the tf.data "
        "API (https://www.tensorflow.org/guide/data) the host's side can be broken down."
    ),
    JAX: "Enclose what loads data in jax.profiler.TraceAnnotation, and prefetch batches to the device.",
    PYTORCH: "Enclose what loads data in torch.profiler.record_function, and load it ahead, on other threads or "
    "processes.",
}
_TORCH_ON_TPU: Final = (
    "Enclose what loads data in torch_xla's profiler.Trace, and load it ahead, on other threads or processes."
)
_ONLY_WAITS: Final = pattern_of(
    r"^infeed|IteratorGetNext|Iterator::(?:\w+::)*Prefetch$|^\$builtins next$|^enumerate\(Data"
)
_LETTERS: Final = 60
_UNKNOWN_INPUT: Final = "No op of an input pipeline was seen, so what the time for input is spent on is not known."
KINDS_OF_INPUT: Final = (
    "combine small chunks of input data into fewer but larger ones",
    "read files in advance, several at a time, through large buffers",
    "read further ahead, from more files at a time",
    "preprocess on more threads or processes, or offline",
    "read and prepare batches on other threads while devices compute",
)
"""By kind of work for input, what makes it shorter in any framework."""


def in_framework(findings: Mapping[str, Finding], framework: str) -> dict[str, Finding]:
    """The verdicts by name, with remedies of the framework."""
    return {name: _one(name, finding, framework) for name, finding in findings.items()}


def _one(name: str, finding: Finding, framework: str) -> Finding:
    begins = _OF_TENSORFLOW.get(name)
    if framework == TENSORFLOW or begins is None or begins not in finding.statement:
        return finding
    if name == "eager" and framework == UNKNOWN:  # only TensorFlow records eager ops
        return finding
    instead = _INSTEAD.get((name, framework), "")
    statement = finding.statement.partition(begins)[0].rstrip() + instead
    return replace(finding, statement=statement, link=None, asks=bool(instead))


_WORKERS: Final = "load with workers (num_workers > 0), so that batches are ready before they are needed"
_MORE_WORKERS: Final = "give it more workers (num_workers) if there are cores for them"


def on_loader(loader: LoaderTime) -> str:
    """What takes the time in which a program of PyTorch waits for its DataLoader."""
    times, total = counted(loader.count, "time", "times"), time_text(loader.waited_ps)
    waits = f"The program waits {times} for its DataLoader, {total} in all."
    workers = _MORE_WORKERS if loader.has_workers else _WORKERS
    if loader.function is None:
        return f"{waits} With stacks of Python (with_stack=True) it is known which function takes it; {workers}."
    frame, share = frame_of(loader.function), measured(loader.function_ps / loader.waited_ps, "share")
    place = f"{frame.function} ({frame.file}:{frame.line})"
    return f"{waits} {place} takes {share} of that: make it faster, or {workers}."


def make_faster(event: str | None) -> str:
    """Return a sentence that asks to make a function, annotation or iterator faster; empty if none is known, or the
    event only waits for it."""
    if event is None or _ONLY_WAITS.search(event):
        return ""
    name = event
    if is_frame(event):
        frame = frame_of(event)
        name = frame.function if frame.line is None else f"{frame.function} ({frame.file}:{frame.line})"
    return f"{cut(name, _LETTERS)} takes the largest part of it: make it faster, or hide it behind compute. "


def on_unknown_input(framework: str, loading: str | None = None, *, on_tpu: bool = False) -> str:
    """What to do if no op explains the time for input. ``loading``: the event that takes most of it; ``on_tpu``:
    PyTorch runs on TPUs with another profiler."""
    if faster := make_faster(loading):
        return f"{faster}{KINDS_OF_INPUT[-1].capitalize()}."
    known = _TORCH_ON_TPU if framework == PYTORCH and on_tpu else _INPUT.get(framework, "")
    return known if framework == TENSORFLOW else f"{_UNKNOWN_INPUT} {known}".rstrip()
