"""Keys that repeat: the last value counts, at the place of the first, in time that grows with the number of keys."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from effort import Work, takes_less
from loaded_traces import slices

import fastprof

EVENT = '{"ph":"X","pid":1,"tid":1,"ts":1,"dur":1,"name":"a"}'


def document(event: str = EVENT, members: str = "") -> bytes:
    return f'{{"traceEvents":[{event},{EVENT}]{members}}}'.encode()


def args(pairs: list[str], phase: str = "X", name: str = "a") -> bytes:
    event = f'{{"ph":"{phase}","pid":1,"tid":1,"ts":1,"dur":1,"name":"{name}","args":{{{",".join(pairs)}}}}}'
    return document(event)


def test_the_last_value_stands_at_the_place_of_the_first() -> None:
    pairs = ['"a":1', '"b":"x"', '"c":3', '"a":"a longer text"', '"c":[]', '"b":2', '"d":4', '"a":5']
    [event, _] = sorted(slices(fastprof.load(args(pairs))), key=lambda event: -len(event.stats))
    assert event.stats == (("a", "int64", 5), ("b", "int64", 2), ("c", "str", "[]"), ("d", "int64", 4))


def test_of_labels_of_a_process_and_members_the_last_counts() -> None:
    labels = fastprof.load(args(['"x":1', '"y":2', '"x":3'], phase="M", name="process_labels"))
    stats = [(row["stat"], row["int_value"]) for row in labels.tables["plane_stats"].to_pylist()]
    assert stats[:2] == [("process_labels.y", 2), ("process_labels.x", 3)]
    members = fastprof.load(document(members=',"one":1,"two":2,"one":3'))
    stats = [(row["stat"], row["str_value"]) for row in members.tables["plane_stats"].to_pylist()]
    assert stats[-2:] == [("two", "2"), ("one", "3")]


KINDS: dict[str, Callable[[list[str]], bytes]] = {
    "arguments": args,
    "a counter": lambda pairs: args(pairs, phase="C"),
    "labels of a process": lambda pairs: args(pairs, phase="M", name="process_labels"),
    "members of the document": lambda pairs: document(members="," + ",".join(pairs)),
}


@pytest.mark.parametrize("kind", KINDS)
def test_time_grows_with_the_number_of_keys(kind: str) -> None:
    def reading(count: int) -> Work:
        # texts of many lengths, so that values move; half of the keys are there twice
        text = KINDS[kind]([f'"k{number % (count // 2)}":"{"x" * (number % 7)}"' for number in range(count)])
        return lambda: fastprof.load(text)

    assert takes_less(reading(120_000), 16, reading(15_000), noise_s=0.5)  # by pairs it would be 64
