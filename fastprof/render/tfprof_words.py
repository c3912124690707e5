"""What tfprof says of its views, columns and options: the head of a report, and what stands around it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from fastprof.derive.tfprof.options import NAMES, Options

_VIEWS: Final = {
    "scope": "scope: The nodes in the model graph are organized by their names, which is hierarchical like filesystem.",
    "op": "op: The nodes are operation kernel type, such as MatMul, Conv2D. Graph nodes belonging to the same type are "
    "aggregated together.",
    "code": "code: When python trace is available, the nodes are python lines and their are organized by the python "
    "call stack.",
}
_VIEWS_OF_NODES: Final = ("scope", "graph")
_CPU: Final = (
    "cpu execution time: The time from the start to the end of the operation. It's the sum of actual cpu run time plus "
    "the time that it spends waiting if part of computation is launched asynchronously."
)
_ACCELERATOR: Final = (
    "accelerator execution time: Time spent executing on the accelerator. This is normally measured by the actual "
    "hardware library."
)
_MEANINGS: Final = {
    "accelerator_micros": _ACCELERATOR,
    "bytes": "requested bytes: The memory requested by the operation, accumulatively.",
    "cpu_micros": _CPU,
    "device": "device: which device is placed on.",
    "float_ops": "flops: Number of float operations. Note: Please read the implementation for the math behind it.",
    "input_shapes": "input shape: The shape of input tensors",
    "micros": "total execution time: Sum of accelerator execution time and cpu execution time.\n"
    f"{_CPU}\n{_ACCELERATOR}",
    "occurrence": "occurrence: The number of times it occurs",
    "op_types": "op_types: The attributes of the operation, includes the Kernel name device placed on and user-defined "
    "strings.",
    "output_bytes": "output bytes: The memory that is output from the operation (not necessarily allocated by the "
    "operation)",
    "params": "param: Number of parameters (in the Variable).",
    "peak_bytes": "peak bytes: The peak amount of memory that the operation is holding at some point.",
    "residual_bytes": "residual bytes: The memory not de-allocated after the operation finishes.",
    "tensor_value": "tensor_value: Not supported now.",
}
_TITLES: Final = {
    "params": "# parameters",
    "float_ops": "# float_ops",
    "bytes": "requested bytes",
    "peak_bytes": "peak bytes",
    "residual_bytes": "residual bytes",
    "output_bytes": "output bytes",
    "micros": "total execution time",
    "accelerator_micros": "accelerator execution time",
    "cpu_micros": "cpu execution time",
    "device": "assigned devices",
    "op_types": "op types",
    "occurrence": "op count (run|defined)",
    "input_shapes": "input shapes",
}
_COUNTS: Final = ("params", "float_ops")
_OF_GROUPS: Final = {"occurrence": "op occurrence (run|defined)"}
MISSES_STREAM: Final = (
    "\n\nFound accelerator operation but misses accelerator stream stats!\n\n"
    "It's likely a gpu tracing issue rather than tf-profiler issue.\n"
    "If you found your operation missing accelerator time, consider to post to discuss@tensorflow.org!\n\n"
)


def head(view: str, select: Sequence[str]) -> str:
    """All before the first row: what the view and its columns are, and their titles."""
    meanings = "\n".join(_MEANINGS[name] for name in sorted(set(select)))
    described = _VIEWS["scope" if view == "graph" else view]
    return f"\nDoc:\n{described}\n{meanings}\n\nProfile:\nnode name | {' | '.join(titles(view, select))}\n"


def titles(view: str, select: Sequence[str]) -> list[str]:
    """The titles of the columns. A sum of times brings its parts."""
    names = list(_TITLES)
    spelt = _TITLES
    if view not in _VIEWS_OF_NODES:
        names = [*names[2:9], *_COUNTS, *names[9:]]
        spelt = _TITLES | _OF_GROUPS
    chosen = {*select, "accelerator_micros", "cpu_micros"} if "micros" in select else set(select)
    return [spelt[name] for name in names if name in chosen]


def options_text(options: Options) -> str:
    """The options, one a line, as tfprof prints them before a report on standard output."""
    return "".join(f"{'-' + name:<28}{_value(options, name)}\n" for name in NAMES)


def _value(options: Options, name: str) -> str:
    value = getattr(options, name)
    if name == "select":
        return ",".join(sorted(set(value)))
    if name == "output":
        form, _, more = value.partition(":")
        return f"{form}:{more}"
    if isinstance(value, bool):
        return "true" if value else "false"
    return ",".join(value) if isinstance(value, tuple) else str(value)


def around(options: Options, report: str) -> str:
    """A report as it stands on standard output."""
    return (
        "\n=========================Options=============================\n"
        f"{options_text(options)}"
        "\n==================Model Analysis Report======================\n"
        f"{report}"
        "\n======================End of Report==========================\n"
    )
