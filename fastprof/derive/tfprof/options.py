"""The options of tfprof's views, by tfprof's names."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from typing import Any, Final

from fastprof.errors import UsageError
from fastprof.schema.value_classes import dataclass
from fastprof.wording.spelling import suggest_name

VIEWS: Final = ("scope", "graph", "op", "code")
ORDERS: Final = (
    *("name", "bytes", "peak_bytes", "residual_bytes", "output_bytes", "micros", "accelerator_micros", "cpu_micros"),
    *("params", "float_ops", "occurrence"),
)
SELECTABLE: Final = (
    *("bytes", "peak_bytes", "residual_bytes", "output_bytes", "micros", "accelerator_micros", "cpu_micros"),
    *("params", "float_ops", "tensor_value", "device", "op_types", "occurrence", "input_shapes"),
)


@dataclass(frozen=True, slots=True)
class ViewOptions:
    """What a view accounts and shows. The defaults are those of tfprof's command line."""

    max_depth: int = 10
    min_bytes: int = 0
    min_peak_bytes: int = 0
    min_residual_bytes: int = 0
    min_output_bytes: int = 0
    min_micros: int = 0
    min_accelerator_micros: int = 0
    min_cpu_micros: int = 0
    min_params: int = 0
    min_float_ops: int = 0
    min_occurrence: int = 0
    step: int = -1
    """Number of a step, or -1 for averages over the steps in which a node ran."""
    order_by: str = "name"
    account_type_regexes: tuple[str, ...] = (".*",)
    start_name_regexes: tuple[str, ...] = (".*",)
    trim_name_regexes: tuple[str, ...] = ()
    show_name_regexes: tuple[str, ...] = (".*",)
    hide_name_regexes: tuple[str, ...] = ()
    account_displayed_op_only: bool = False
    select: tuple[str, ...] = ("micros",)
    output: str = "stdout"
    """Form, and where it goes: ``stdout``, ``file:outfile=PATH``."""

    def replaced(self, **given: Any) -> ViewOptions:
        """Return these options with others in their place. UsageError: no such option, or a value that it cannot
        have."""
        checked = {name: _check_value(name, value) for name, value in given.items()}
        checked.pop(DUMP, None)
        return dataclasses.replace(self, **checked)


_HELP: Final = {
    "max_depth": "hide rows deeper than this; the root is at depth 1",
    "min_occurrence": "hide nodes with fewer runs",
    "step": "step number, or -1 for averages over the steps in which a node ran",
    "order_by": "sort rows by this, largest first, or by name",
    "account_type_regexes": "account for nodes whose type matches any of these: an op, a device, a type of a log",
    "start_name_regexes": "start at rows whose name any of these matches",
    "trim_name_regexes": "hide rows below those whose name matches any of these",
    "show_name_regexes": "show only rows whose name any of these matches",
    "hide_name_regexes": "hide rows whose name any of these matches",
    "account_displayed_op_only": "sum up only shown rows",
    "select": "columns to show",
}


def get_help(name: str) -> str:
    """Return what an option does, in a few words."""
    return _HELP.get(name) or f"hide rows whose {name.removeprefix('min_')} are smaller"


NAMES: Final = tuple(field.name for field in dataclasses.fields(ViewOptions))
DUMP: Final = "dump_to_file"
"""Deprecated option of tfprof, a path that replaces the output. Views ignore it."""
_KINDS: Final = {field.name: str(field.type) for field in dataclasses.fields(ViewOptions)} | {DUMP: "str"}
_CHOICES: Final = {"order_by": ORDERS, "select": SELECTABLE}
BUILT: Final = ViewOptions(
    account_type_regexes=(), start_name_regexes=(), show_name_regexes=(), select=(), output="stdout"
)
"""Defaults of the Python interface, to which a dictionary of options adds."""


def read_options(given: Mapping[str, Any]) -> ViewOptions:
    """Return the options of a dictionary as the Python interface takes it; what it lacks has that interface's
    defaults."""
    return BUILT.replaced(**given)


def find_kind(name: str) -> str:
    """Return the type of an option: int, str, bool or a tuple type. UsageError: an unknown option."""
    if name not in _KINDS:
        raise UsageError(
            f"unknown option of tfprof: {name!r}{suggest_name(name, NAMES)} (there are: {', '.join(NAMES)})"
        )
    return _KINDS[name]


def _check_value(name: str, value: Any) -> Any:
    kind = find_kind(name)
    if kind == "bool":
        if not isinstance(value, bool):
            raise UsageError(f"{name} is true or false, not {value!r}")
    elif kind == "int":
        if isinstance(value, bool) or not isinstance(value, int) or not -(1 << 63) <= value < 1 << 63:
            raise UsageError(f"{name} is a 64-bit integer, not {value!r}")
    elif kind == "str":
        if not isinstance(value, str):
            raise UsageError(f"{name} is a text, not {value!r}")
    else:
        is_list = isinstance(value, Iterable) and not isinstance(value, str)
        if not is_list or not all(isinstance(element, str) for element in value):
            raise UsageError(f"{name} is a list of texts, not {value!r}")
        return tuple(value)
    return value


def check_choices(options: ViewOptions) -> ViewOptions:
    """Return the options. UsageError: the order or a column is unknown, so tfprof would ignore it."""
    for name, choices in _CHOICES.items():
        given = getattr(options, name)
        for value in (given,) if isinstance(given, str) else given:
            if value not in choices:
                raise UsageError(
                    f"{name}: unknown value {value!r}{suggest_name(value, choices)} (choose from {', '.join(choices)})"
                )
    return options


PRESETS: Final[Mapping[str, Mapping[str, Any]]] = {
    "trainable_variables_parameter": {
        "max_depth": 10_000,
        "account_type_regexes": ("_trainable_variables",),
        "start_name_regexes": (".*",),
        "show_name_regexes": (".*",),
        "account_displayed_op_only": True,
        "select": ("params",),
    },
    "float_operation": {
        "max_depth": 10_000,
        "min_float_ops": 1,
        "order_by": "float_ops",
        "account_type_regexes": (".*",),
        "start_name_regexes": (".*",),
        "show_name_regexes": (".*",),
        "account_displayed_op_only": True,
        "select": ("float_ops",),
    },
    "time_and_memory": {
        "max_depth": 10_000,
        "min_bytes": 1,
        "min_micros": 1,
        "order_by": "micros",
        "account_type_regexes": (".*",),
        "start_name_regexes": (".*",),
        "show_name_regexes": (".*",),
        "account_displayed_op_only": True,
        "select": ("micros", "bytes"),
    },
}
"""Option sets that the Python interface offers ready-made."""
