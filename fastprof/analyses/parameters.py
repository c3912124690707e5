"""Parameter values of analyses: the only reader for Python arguments, flags and addresses.

All functions raise ValueError with a sentence for the user if the parameter does not take a value.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import Field
from typing import Any, NamedTuple

from fastprof.derive.devices.device_peaks import ChosenPeaks, find_named_device, format_peaks
from fastprof.wording.amounts import parse_size, parse_time

_TRUTHS = {"1": True, "true": True, "0": False, "false": False}


class ParamKind(NamedTuple):
    """Kind of parameter. ``wanted``: its values in words; ``read``: reader of a string; ``types``: types of Python
    values; ``least``: least value; ``metavar``: placeholder of a value in help and docs."""

    wanted: str
    read: Callable[[str], Any]
    types: tuple[type, ...]
    metavar: str = "TEXT"
    least: int | None = None


_KINDS = {
    "int": ParamKind("an integer", int, (int,), "N"),
    "float": ParamKind("a number", float, (int, float), "X"),
    "bool": ParamKind("true or false", _TRUTHS.__getitem__, (bool,)),
    "str": ParamKind("a text", str, (str,)),
    "name": ParamKind("a name or an integer", str, (str, int)),
    "time": ParamKind(
        "a time such as '1.5s', or an integer number of picoseconds", parse_time, (int,), "TIME", 1 - (1 << 63)
    ),
    "bytes": ParamKind("a size such as '2GiB', or an integer number of bytes above 0", parse_size, (int,), "SIZE", 1),
    "device": ParamKind("the name of a device", find_named_device, (str,), "NAME"),
    "peak": ParamKind("peaks such as 'flops=312T,hbm=2039GB/s'", format_peaks, (str,), "PEAKS"),
}
_READ = tuple(_KINDS[name] for name in ("time", "bytes", "device", "peak"))
"""Kinds whose readers raise errors with sentences of their own."""
_AMOUNTS = (_KINDS["time"], _KINDS["bytes"])

DEVICE_NAME: dict[str, Any] = {
    "help": "compare ops with the published peaks of this device, such as H100 or TPU v5e",
    "type": "device",
}
PEAKS: dict[str, Any] = {
    "help": "compare ops with these per-device peaks: flops=312T,hbm=2039GB/s, or only one of the two",
    "type": "peak",
}
"""Field metadata of ``peak``; like ``device``, its default is None."""


def get_chosen_peaks(params: Any) -> ChosenPeaks:
    """Return the peaks that the parameters of an analysis choose."""
    return ChosenPeaks(params.device, params.peak)


def get_kind(field: Field[Any]) -> ParamKind:
    """Return the kind of a parameter: ``type`` in its metadata, or else its annotation."""
    annotation = field.type if isinstance(field.type, str) else getattr(field.type, "__name__", str(field.type))
    return _KINDS[field.metadata.get("type") or annotation.partition("|")[0].strip()]


def parse_param(field: Field[Any], text: str) -> Any:
    """Parse the value of a parameter from the command line or an address."""
    kind = get_kind(field)
    if kind in _READ:
        return kind.read(text)
    try:
        value = kind.read(text)
    except (ValueError, KeyError):
        raise ValueError(f"{text[:60]!r} is not {kind.wanted}") from None
    return check_param(field, value)


def check_param(field: Field[Any], value: Any) -> Any:
    """Return the checked value of a parameter from Python. Times and sizes may be strings; a name may be a number."""
    kind = get_kind(field)
    if kind in (*_READ, _KINDS["name"]):
        if value is None:
            return None
        if isinstance(value, str):
            return kind.read(value)
    if kind is _KINDS["name"] and hasattr(value, "__index__") and not isinstance(value, bool):
        return str(int(value))
    choices = field.metadata.get("choices")
    if choices is not None:
        is_name = isinstance(value, str) and value.strip() != "" and field.metadata.get("or_name", False)
        if not is_name and not (isinstance(value, str) and value in choices):
            raise ValueError(f"{value!r} is not one of {', '.join(choices)}")
        return value
    least = field.metadata.get("min", kind.least)
    fits = isinstance(value, kind.types) and (bool in kind.types or not isinstance(value, bool))
    if not fits or (least is not None and not value >= least):
        bound = "" if least is None or kind in _AMOUNTS else f" of at least {least}"
        raise ValueError(f"{value!r} is not {kind.wanted}{bound}")
    if isinstance(value, int) and abs(value) >= 1 << 63:
        raise ValueError(f"{value!r} does not fit 64 bits")
    return value
