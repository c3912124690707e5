"""Arguments of traced tf.functions: written as an annotation after the call, and read again."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import pytest

from fastprof.inputs.tf_traces import call_marked, describe_arguments
from fastprof.wording.traced_arguments import TRACED_ARGUMENTS, parse_arguments


def tensor(kind: str, *sizes: int | None) -> Any:
    return SimpleNamespace(shape=sizes, dtype=SimpleNamespace(name=kind))


def train_step(x: object, rate: object = 0.1, *rest: object, **others: object) -> None:
    """The function that is traced."""


@pytest.mark.parametrize(
    ("words", "others", "expected"),
    [
        ((tensor("float32", 200, 512),), {}, {"x": "float32[200,512]"}),
        ((tensor("int32"),), {"rate": 0.05}, {"x": "int32[]", "rate": "0.05"}),
        ((tensor("float32", None, 4), True), {}, {"x": "float32[?,4]", "rate": "True"}),
        (
            ({"x": tensor("int64", 8), "more": [tensor("bool", 1), None]},),
            {},
            {"x.x": "int64[8]", "x.more.0": "bool[1]", "x.more.1": "None"},
        ),
        (([1, 2],), {}, {"x.0": "1", "x.1": "2"}),
        ((object(),), {}, {"x": "object object"}),
        (("it's #1, (a=b); c: d",), {}, {"x": "its 1 ab c d"}),
        (("a" * 1000, 10**5000), {}, {"x": "str of 1000", "rate": "int of 16610"}),
        ((1,), {"x": 2}, {"argument 0": "1", "x": "2"}),  # not the arguments of the function
    ],
)
def test_arguments_have_the_names_of_parameters(
    words: tuple[object, ...], others: dict[str, object], expected: dict[str, str]
) -> None:
    text = describe_arguments(train_step, words, others)
    assert parse_arguments(text) == expected
    assert not set(text[1:-1]) & set("#'\"(){}=")  # an annotation is split at these


def test_large_and_endless_arguments_are_cut() -> None:
    endless: list[object] = [1]
    endless.append(endless)
    assert len(describe_arguments(train_step, (list(range(10**6)),), {})) < 1000
    assert len(describe_arguments(train_step, (endless,), {})) < 1000


class Function:
    """A compiled function: it traces for each new value."""

    def __init__(self, python_function: Callable[..., object]) -> None:
        self.python_function = python_function
        self.known: set[object] = set()

    def experimental_get_tracing_count(self) -> int:
        return len(self.known)

    def __call__(self, value: object) -> str:
        self.known.add(value)
        return f"returned {value}"


def test_calls_that_trace_are_annotated() -> None:
    marks: list[tuple[str, dict[str, str]]] = []

    @contextmanager
    def mark(name: str, **stats: str) -> Iterator[None]:
        marks.append((name, stats))
        yield

    function = Function(train_step)
    returned = [call_marked(Function.__call__, mark, function, value) for value in (1, 2, 1, 3)]
    assert returned == ["returned 1", "returned 2", "returned 1", "returned 3"]
    texts = ["(x: 1)", "(x: 2)", "(x: 3)"]
    assert marks == [("tf.function arguments", {TRACED_ARGUMENTS: text}) for text in texts]


def test_functions_that_do_not_count_traces_are_only_called() -> None:
    def fail(name: str, **_: str) -> Any:
        raise AssertionError(name)

    assert call_marked(lambda _function, value: value, fail, object(), 5) == 5


def test_the_program_does_not_fail_for_arguments_that_cannot_be_described() -> None:
    class Closed:
        @property
        def shape(self) -> object:
            raise RuntimeError("closed")

    def fail(name: str, **_: str) -> Any:
        raise AssertionError(name)

    value = Closed()
    assert call_marked(Function.__call__, fail, Function(train_step), value) == f"returned {value}"
