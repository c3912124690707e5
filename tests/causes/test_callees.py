"""The innermost function that takes most of another one's time."""

from __future__ import annotations

import pytest
from trace_builder import Event, event, line, plane, xspace

import fastprof
from fastprof.derive.causes.callees import find_callees
from fastprof.derive.steps.event_graph import STATS
from fastprof.tables.host_reader import read_host

MS = 10**9
Call = tuple[str, int, int]
"""Function, begin and end in ms."""


def call(one: Call) -> Event:
    name, begin, end = one
    return event(name, begin * MS, (end - begin) * MS)


@pytest.mark.parametrize(
    ("calls", "callees"),
    [
        ([("$t.py:1 load", 0, 100), ("$t.py:5 decode", 0, 30), ("$t.py:5 decode", 40, 70)], {"load": "decode"}),
        ([("$t.py:1 load", 0, 100), ("$t.py:5 decode", 0, 49)], {}),
        ([("$t.py:1 load", 0, 100), ("$other.py:5 decode", 0, 90)], {}),
        ([("$t.py:1 load", 0, 100), ("$fetch.py:5 fetch", 0, 95), ("$t.py:9 decode", 1, 90)], {"load": "decode"}),
        ([("$t.py:1 load", 0, 100), ("$time sleep", 0, 95)], {}),
        ([("$t.py:1 load", 0, 100), ("$builtins map", 0, 95), ("$t.py:9 decode", 1, 90)], {"load": "decode"}),
        (
            [("$t.py:1 load", 0, 100), ("$t.py:5 read", 0, 90), ("$t.py:7 parse", 0, 80), ("$t.py:8 trim", 0, 30)],
            {"load": "parse", "read": "parse"},
        ),
        ([("$t.py:1 load", 0, 100), ("$t.py:1 load", 0, 99), ("$t.py:1 load", 0, 98)], {}),
        (
            [("$t.py:1 load", 0, 100), ("$t.py:2 more", 0, 98), ("$t.py:1 load", 0, 96)],
            {"load": "more", "more": "load"},
        ),
        ([("$t.py:1 load", 0, 100), ("$t.py:5 decode", 0, 90), ("op", 0, 80), ("$t.py:3 main", 100, 10_000)], {}),
    ],
)
def test_the_innermost_function_of_a_file_that_takes_half_of_the_time_is_the_callee(
    calls: list[Call], callees: dict[str, str]
) -> None:
    host = plane("/host:CPU", [line("python", list(map(call, calls)))])
    events = read_host(fastprof.load(xspace(host)).table_set, 0, (), STATS, ())
    assert {outer.split()[1]: inner.split()[1] for outer, inner in find_callees(events).items()} == callees
