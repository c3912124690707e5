"""What lines of ops show of the full name of an op."""

from __future__ import annotations

from fastprof.derive.devices.op_names import Framework, parse
from fastprof.derive.timeline.plane_names import PlaneNames

_SPACES = " \t\n\v\f\r"


def scopes_of(full_name: str) -> list[str]:
    """The scopes that an op of TensorFlow or JAX lies in, outermost first."""
    op = parse(full_name)
    return op.name.split("/")[:-1] if op.framework in (Framework.TENSORFLOW, Framework.JAX) else []


def displayed_op(full_name: str) -> str:
    """The op as trace viewers show it: its type."""
    op = parse(full_name)
    if op.framework is Framework.UNKNOWN:
        return op.name.rstrip(_SPACES)
    return "Iterator::" + op.name.split("::")[-1] if op.framework is Framework.TF_DATA else op.type


def number_of_op(names: PlaneNames, full_name: str) -> int:
    return names.number(full_name, displayed_op(full_name))
