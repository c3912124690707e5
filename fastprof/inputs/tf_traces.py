"""Arguments of traced tf.functions. TensorFlow's profiler records that a call traced, but not its arguments.

TensorFlow's own count of traces is read around each call. If the call traced, an annotation with its arguments follows.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, Final

from fastprof.wording.traced_arguments import TRACED_ARGUMENTS, format_arguments, format_tensor

_NAME: Final = "tf.function arguments"
_LONGEST: Final = 128
"""Largest value that is written out: letters of a string, bytes, or bits of an integer."""
_DEEPEST: Final = 4
"""Most nested containers that are described."""


def call_marked(
    usual: Callable[..., object], mark: Callable[..., AbstractContextManager[object]], *words: Any, **others: Any
) -> object:
    """Call a tf.function, ``words[0]``, and annotate its arguments if the call traced it. An argument that cannot be
    described leaves its trace without annotations; the program goes on."""
    count = _count_traces(words[0])
    returned = usual(*words, **others)
    if count is not None and _count_traces(words[0]) != count:
        try:
            text = describe_arguments(getattr(words[0], "python_function", None), words[1:], others)
        except Exception:  # noqa: BLE001  whatever the program's own objects raise
            return returned
        with mark(_NAME, **{TRACED_ARGUMENTS: text}):
            pass
    return returned


def _count_traces(function: Any) -> int | None:
    try:
        return int(function.experimental_get_tracing_count())
    except (AttributeError, TypeError, ValueError):  # another version of TensorFlow
        return None


def describe_arguments(function: Any, words: Sequence[object], others: Mapping[str, object]) -> str:
    """Return the arguments of a call as text, with the names of the function's parameters."""
    try:
        bound = inspect.signature(function).bind(*words, **others)
        named = [*bound.arguments.items()]
    except (TypeError, ValueError):
        named = [*((f"argument {place}", word) for place, word in enumerate(words)), *others.items()]
    leaves = (leaf for name, value in named for leaf in _describe(name, value, 0))
    return format_arguments(leaves)


def _describe(name: str, value: Any, depth: int) -> Iterator[tuple[str, str]]:
    """Yield the tensors and values of an argument. Items of dictionaries and lists have names such as
    ``batch.x``."""
    if depth < _DEEPEST and isinstance(value, Mapping):
        for key, held in value.items():
            yield from _describe(f"{name}.{key}", held, depth + 1)
    elif depth < _DEEPEST and isinstance(value, list | tuple):
        for place, held in enumerate(value):
            yield from _describe(f"{name}.{place}", held, depth + 1)
    elif isinstance(value, bool | int | float | complex | str | bytes | None):
        length = value.bit_length() if isinstance(value, int) else len(value) if isinstance(value, str | bytes) else 0
        yield name, f"{type(value).__name__} of {length}" if length > _LONGEST else repr(value)
    else:
        yield name, _describe_tensor(value)


def _describe_tensor(value: Any) -> str:
    """Return the type and shape of a tensor, or the type of another object."""
    try:
        shape, kind = value.shape, value.dtype
        sizes = None if getattr(shape, "rank", 0) is None else [None if size is None else int(size) for size in shape]
        return format_tensor(str(getattr(kind, "name", kind)), sizes)
    except (AttributeError, TypeError, ValueError):
        return f"{type(value).__name__} object"
