"""Arrays that do not fit what C expects are refused by every native function: see fastprof/_native/border.pyx.

`make asan-native` runs this under AddressSanitizer, which sees what C reads and writes beside its arrays.
"""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from native.border_calls import Given, plain
from native.border_files import CALLS

import fastprof._native
from fastprof.errors import FastprofError

REFUSED = (TypeError, ValueError, IndexError, BufferError, OverflowError, FastprofError)
MODULES = sorted(path.stem for path in Path(fastprof._native.__path__[0]).glob("*.pyi"))


def public() -> Iterator[str]:
    """Every native function and method with an argument, and every class that takes one."""
    for module in MODULES:
        for name, value in vars(importlib.import_module(f"fastprof._native.{module}")).items():
            if name.startswith("_") or getattr(value, "__module__", None) != f"fastprof._native.{module}":
                continue
            if not inspect.isclass(value):
                if callable(value):
                    yield f"{module}.{name}"
                continue
            yield f"{module}.{name}"
            for method, what in vars(value).items():
                if not method.startswith("_") and callable(what) and len(inspect.signature(what).parameters) > 1:
                    yield f"{module}.{name}.{method}"


WITHOUT_ARGUMENTS = {
    "border.Array", "border.Items", "border.bind_blocks", "border.adopt_arrays", "border.sum_blocks",
    "kernels.LineNesting", "lod.Tile", "trace_writers.JsonWriter", "trace_writers.PerfettoWriter",
    "xprof_events.Writer", "xspace.Memory", "xspace.Window", "chrome.Tape",
}  # fmt: skip


def test_every_native_function_is_tried() -> None:
    found = set(public())
    assert found - WITHOUT_ARGUMENTS == set(CALLS)
    assert len(found) > 80


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[tuple[Any, ...], Given]]:
    """Where the arrays are among nested arguments."""
    if isinstance(value, Given):
        yield path, value
    elif isinstance(value, (list, tuple, dict)):
        for key, one in value.items() if isinstance(value, dict) else enumerate(value):
            yield from places(one, (*path, key))


def changed(value: Any, path: tuple[Any, ...], array: Any) -> Any:
    """The plain arguments, with another array at one place."""
    if not path:
        return array
    if isinstance(value, dict):
        return {key: changed(one, path[1:], array) if key == path[0] else plain(one) for key, one in value.items()}
    return type(value)(changed(one, path[1:], array) if i == path[0] else plain(one) for i, one in enumerate(value))


def with_other_type(array: np.ndarray) -> np.ndarray:
    return np.zeros(array.shape, np.complex64)


def with_type_of_same_size(array: np.ndarray) -> np.ndarray:
    size = array.dtype.itemsize
    other = {1: "S1", 2: np.float16, 4: np.float32}.get(size, np.float64 if array.dtype == np.int64 else f"S{size}")
    return np.zeros(array.shape, other)


def strided(array: np.ndarray) -> np.ndarray:
    return np.repeat(array, 2, axis=0)[::2]


def read_only(array: np.ndarray) -> np.ndarray:
    array = array.copy()
    array.flags.writeable = False
    return array


def unaligned(array: np.ndarray) -> np.ndarray:
    return np.frombuffer(b"\0" + array.tobytes(), np.uint8)[1:].view(array.dtype).reshape(array.shape)


def shorter(array: np.ndarray) -> np.ndarray:
    return array[:-1].copy()


def longer(array: np.ndarray) -> np.ndarray:
    return np.concatenate([array, array[-1:]])


def with_numbers(array: np.ndarray, value: int) -> np.ndarray:
    """The array with a number too large or too small in every integer of its last item."""
    array = array.copy()
    last = array.reshape(-1)[-1:]
    for name in array.dtype.names or (None,):
        field = last if name is None else last[name]
        info = np.iinfo(field.dtype)
        field[:] = max(info.min, min(info.max, value))
    return array


def refusals(given: Given) -> Iterator[Callable[[np.ndarray], np.ndarray]]:
    yield with_other_type
    yield with_type_of_same_size
    if len(given.array) > 1:
        yield strided
    if not given.free:
        yield from (shorter, longer)
    if given.written:
        yield read_only
    if given.index and len(given.array):
        yield lambda array: with_numbers(array, 1 << 62)


@pytest.mark.parametrize("name", CALLS)
def test_the_valid_call_is_valid(name: str) -> None:
    function, arguments = CALLS[name]()
    try:
        function(*plain(arguments))
    except ValueError as error:  # bytes that are no HLO are refused by what they say
        assert name.startswith("hlo.") and getattr(error, "offset", None) is not None


@pytest.mark.parametrize("name", CALLS)
def test_arrays_that_do_not_fit_are_refused(name: str) -> None:
    for path, given in places(CALLS[name]()[1]):
        for change in refusals(given):
            function, arguments = CALLS[name]()
            wrong = changed(arguments, path, change(given.array))
            try:
                function(*wrong)
            except REFUSED:
                continue
            pytest.fail(f"{name} takes at {path} an array {getattr(change, '__name__', 'of numbers out of range')}")


@pytest.mark.parametrize("name", CALLS)
def test_any_values_are_harmless(name: str) -> None:
    """Whatever the values and lengths, a call returns or raises."""
    chance = np.random.default_rng(7)
    for path, given in places(CALLS[name]()[1]):
        tries = [read_only, shorter, longer, unaligned, lambda array: array[:0].copy()]
        tries += [lambda array, value=value: with_numbers(array, value) for value in (-(1 << 63), -1, 1 << 33)]
        for _ in range(6):
            noise = chance.integers(0, 4 if given.index else 256, given.array.nbytes, np.uint8).tobytes()
            tries.append(lambda array, noise=noise: np.frombuffer(noise, array.dtype).reshape(array.shape).copy())
        for change in tries:
            function, arguments = CALLS[name]()
            try:
                function(*changed(arguments, path, change(given.array)))
            except (*REFUSED, MemoryError):
                continue
