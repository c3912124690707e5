"""The framework, name and type of an op, from the name of an event.

TensorFlow writes ``name:Type``, tf.data ``Iterator::…``, JAX ``path/primitive:primitive[parameters]``, drivers
``MEMCPYHtoD``. Follows the rules of TSL's ParseTfOpFullname.
"""

from __future__ import annotations

import re
from enum import IntEnum
from typing import Final, NamedTuple

from fastprof.wording.patterns import pattern_of

PYTHON_FRAME: Final = "$"
"""How names of the Python tracer's events begin: ``$file.py:12 function``."""
_KINETO_FRAME = pattern_of(r".+\(\d{1,9}\): .+|<built-in (?:function|method) .+>|nn\.Module: .+", re.DOTALL)
"""PyTorch's profiler: ``file.py(12): function``, ``<built-in function len>``, ``nn.Module: Linear_3``."""


def is_frame(name: str) -> bool:
    """Whether a tracer of Python names a call so, that of TensorFlow and JAX or that of PyTorch."""
    return name.startswith(PYTHON_FRAME) or _KINETO_FRAME.fullmatch(name) is not None


class Framework(IntEnum):
    """What wrote the name."""

    UNKNOWN = 0
    TENSORFLOW = 1
    JAX = 2
    TF_DATA = 3
    MEMCPY_H2D = 4
    MEMCPY_D2H = 5
    MEMCPY_D2D = 6
    MEMCPY_H2H = 7


class TfOp(NamedTuple):
    """``type`` is empty if the name has none."""

    framework: Framework
    name: str
    type: str


_COPIES = (
    ("memcpyhtod", Framework.MEMCPY_H2D, "MemcpyHToD"),
    ("memcpydtoh", Framework.MEMCPY_D2H, "MemcpyDToH"),
    ("memcpydtod", Framework.MEMCPY_D2D, "MemcpyDToD"),
    ("memcpyhtoh", Framework.MEMCPY_H2H, "MemcpyHToH"),
)
_TF_NAME = pattern_of(r"[A-Za-z0-9.][A-Za-z0-9_./>-]*")
_TF_TYPE = pattern_of(r"[A-Z_][a-zA-Z0-9_]*")
_JAX_TYPE = pattern_of(r"[a-z_][a-z0-9_]*(\[.*\])?", re.DOTALL)
_SERIAL = pattern_of(r"\d+|clone|remat\d*")
_TRAILING_NUMBER = pattern_of(r"\s*[+-]?\d+\s*", re.ASCII)
DATASET = "Dataset"


def parse(full_name: str) -> TfOp:
    """The op of a full name, as an event or a stat ``tf_op`` has it."""
    name, colon, kind = full_name.partition(":")
    if not colon:
        return _copy(full_name)
    if name == "Iterator":
        return TfOp(Framework.TF_DATA, full_name, DATASET)
    if _TF_NAME.fullmatch(name) and _TF_TYPE.fullmatch(kind):
        return TfOp(Framework.TENSORFLOW, name, kind)
    primitive = kind or _type_of(name)
    if _JAX_TYPE.fullmatch(primitive):
        return TfOp(Framework.JAX, name, primitive.partition("[")[0])
    if not kind:
        return TfOp(Framework.TENSORFLOW, name, primitive)
    return TfOp(Framework.UNKNOWN, full_name, "")


def _copy(full_name: str) -> TfOp:
    if full_name[:6].lower() == "memcpy":
        start = full_name[:10].lower()
        for prefix, framework, kind in _COPIES:
            if start == prefix:
                return TfOp(framework, full_name, kind)
    return TfOp(Framework.UNKNOWN, full_name, "")


def _type_of(name: str) -> str:
    """The last component of a path, without a trailing number: ``scope/MatMul_1`` is a MatMul."""
    last = name.rpartition("/")[2]
    stem, bar, number = last.rpartition("_")
    return stem if bar and _TRAILING_NUMBER.fullmatch(number) else last


def without_serial(name: str) -> str:
    """The name of an instruction without what XLA appends to those of copies: ``copy-start.3.clone`` is
    ``copy-start``. Takes time in proportion to the name, which may be damage of a megabyte."""
    end = len(name)
    while (dot := name.rfind(".", 0, end)) >= 0 and _SERIAL.fullmatch(name, dot + 1, end):
        end = dot
    return name[:end]
