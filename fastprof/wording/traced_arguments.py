"""The arguments of a traced function as text of an annotation: ``(x: float32[16,32]; rate: 0.1)``.

TensorFlow splits the text of an annotation at commas, and at quotes and brackets that do not match. So parentheses
enclose the arguments, and values lose quotes and brackets of their own.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from itertools import islice
from typing import Final

from fastprof.wording.patterns import compile_late

TRACED_ARGUMENTS: Final = "tf_function_arguments"
"""Stat of the annotation that ``fastprof run`` writes after a call that traced."""
_MOST_ARGUMENTS: Final = 64
_MOST_LETTERS: Final = 40
_LEFT_OUT: Final = compile_late(r"[^\w .+\-/<>|*]+", re.ASCII)
_TENSOR: Final = compile_late(r"\w+\[[\d,?]*\]", re.ASCII)
"""Texts of tensors."""


def format_tensor(type_name: str, sizes: Iterable[int | None] | None) -> str:
    """Return a tensor as text: ``float32[16,?]``. ``sizes``: None if the rank is unknown."""
    return f"{type_name}[{'?' if sizes is None else ','.join('?' if size is None else str(size) for size in sizes)}]"


def format_arguments(arguments: Iterable[tuple[str, str]]) -> str:
    """Return the text of the first arguments: their names, and tensors or values. Later arguments are not read."""
    shown = islice(arguments, _MOST_ARGUMENTS)
    return f"({'; '.join(f'{_clean(name)}: {_clean(text)}' for name, text in shown)})"


def _clean(text: str) -> str:
    return text if _TENSOR.fullmatch(text) else _LEFT_OUT.sub("", text)[:_MOST_LETTERS]


def parse_arguments(text: str) -> dict[str, str]:
    """Return the texts of arguments by name."""
    parts = (part.partition(": ") for part in text.strip("()").split("; "))
    return {name: value for name, separator, value in parts if separator}


def split_tensor(text: str) -> tuple[str, str]:
    """Return the type and sizes of a tensor, or "" and "" for a value."""
    kind, _, sizes = text.partition("[")
    return (kind, sizes) if _TENSOR.fullmatch(text) else ("", "")
