"""Search by name over the whole session, and the way from hit to hit."""

from __future__ import annotations

import random
import re
import time
from pathlib import Path
from typing import Any

import pytest
from served import Served, written
from trace_builder import Event, event, line, plane, xspace


def threads(*lines: list[Event]) -> bytes:
    return xspace(plane("/host:CPU", [line(f"thread {n}", events, id=n) for n, events in enumerate(lines, 1)]))


def shown(*lines: list[Event]) -> Served:
    served = Served(threads(*lines))
    served.timeline()
    return served


def names(found: Any) -> list[str]:
    return [row["name"] for row in found["rows"]]


EVENTS = [event("MatMul_1", 0, 10), event("matmul_2", 20, 30), event("MatMul_1", 60, 5), event("a.b", 80, 1)]


def test_hits_at_the_ends_of_what_64_bits_record_are_found() -> None:
    """Of a session of nearly 2**64 ps: from hit to hit, both ways, and in ranges."""
    starts = [-(2**63) + 10, 0, 2**63 - 1]
    served = Served(
        xspace(
            plane("/host:CPU", [line(f"thread {n}", [event("op", start, 0)], id=n) for n, start in enumerate(starts)])
        )
    )
    assert served.timeline()["span_ps"] == str(2**64 - 11)
    assert served.get("/api/search", q="op")["rows"][0]["count"] == 3
    assert served.get("/api/range", start_ps=-(2**64), end_ps=2**64)["events"] == 3
    assert served.get("/api/range", start_ps=0, end_ps=2**63 - 1)["events"] == 2
    for direction, places in (("next", [0, 1, 2]), ("previous", [2, 1, 0])):
        asked: dict[str, Any] = {"q": "op", "direction": direction}
        found = []
        while hit := served.get("/api/search/next", **asked)["hit"]:
            found.append(int(hit["start_ps"]))
            asked |= {"from_ps": hit["start_ps"], "track": hit["track"], "lane": hit["lane"]}
        assert found == [starts[place] - starts[0] for place in places]
    assert served.refused("/api/range", start_ps=0, end_ps=2**64 + 1)[0] == 400


def test_a_substring_is_found_in_any_case_unless_asked() -> None:
    served = shown(EVENTS)
    answer = served.get("/api/search", q="matmul")
    assert (answer["events"], answer["names"]) == (3, 2)
    assert [(row["name"], row["count"], row["total_ps"]) for row in answer["rows"]] == [
        ("matmul_2", 1, "30"),
        ("MatMul_1", 2, "15"),
    ]
    assert sum(answer["tracks"].values()) == 3
    assert names(served.get("/api/search", q="matmul", case=1)) == ["matmul_2"]
    assert names(served.get("/api/search", q=".")) == ["a.b"]
    assert served.get("/api/search", q="nothing")["rows"] == []


def test_an_expression_is_found_too() -> None:
    served = shown(EVENTS)
    assert names(served.get("/api/search", q="^matmul_[0-9]$", mode="regex")) == ["matmul_2", "MatMul_1"]
    assert names(served.get("/api/search", q="^matmul_[0-9]$", mode="regex", case=1)) == ["matmul_2"]
    assert names(served.get("/api/search", q="a[.]b|nothing", mode="regex")) == ["a.b"]


@pytest.mark.parametrize("pattern", ["(", "[a", "a{2,1}", "(?=x)", "\\", "(a)\\1", "x{100000}", "((x{20}){20}){20}"])
def test_what_is_not_an_expression_is_refused_in_a_sentence(pattern: str) -> None:
    status, sentence = shown(EVENTS).refused("/api/search", q=pattern, mode="regex")
    assert status == 400
    assert "is not a regular expression" in sentence or (
        "the regular expression" in sentence and "is too large" in sentence
    )


def test_no_expression_takes_for_ever() -> None:
    served = shown([event("a" * 20_000 + f"!{n}", n * 10, 5) for n in range(5)])
    hard = "(a|b)*a" + "(a|b|c)" * 100 + "z"
    for pattern in (hard, "(a+)+$", "(a|a)*b", "(a|aa)+$", "(.*)(.*)(.*)(.*)[^a]$", "(a*)*" * 20 + "c"):
        began = time.monotonic()
        served.client.get("/api/search", {"q": pattern, "mode": "regex"})
        assert time.monotonic() - began < 3


def test_searches_that_make_no_sense_are_refused() -> None:
    served = shown(EVENTS)
    assert served.refused("/api/search")[0] == 400
    assert served.refused("/api/search", q="x" * 1001)[0] == 400
    assert served.refused("/api/search", q="x", mode="glob") == (400, "mode is one of substring, regex, not 'glob'")
    assert served.refused("/api/search/next", q="x", direction="up")[0] == 400
    assert served.refused("/api/search/next", q="x", track=99)[0] == 404


def walked(served: Served, direction: str, **params: Any) -> list[tuple[str, int, str]]:
    """All hits in a direction, from one to the next."""
    found: list[tuple[str, int, str]] = []
    place: dict[str, Any] = {}
    while True:
        answer = served.get("/api/search/next", direction=direction, **params, **place)
        hit = answer["hit"]
        if hit is None:
            return found
        found.append((hit["host"], hit["at"], hit["start_ps"]))
        place = {"from_ps": hit["start_ps"], "track": hit["track"], "lane": hit["lane"]}
        assert len(found) < 1000


def test_hits_follow_each_other_over_tracks_and_hosts(tmp_path: Path) -> None:
    draw = random.Random(1)
    captures = []
    for _ in range(3):
        lines = []
        for _ in range(3):
            starts = sorted(draw.randrange(50) for _ in range(10))
            lines.append(
                [event(draw.choice(["hit one", "hit two", "miss"]), start, draw.randrange(9)) for start in starts]
            )
        captures.append(threads(*lines))
    served = Served(written(tmp_path, *captures, names=["h0", "h1", "h2"]))
    served.timeline()
    total = served.get("/api/search", q="hit")["events"]
    onward = walked(served, "next", q="hit")
    assert len(onward) == len(set(onward)) == total
    assert [int(start) for *_, start in onward] == sorted(int(start) for *_, start in onward)
    assert walked(served, "previous", q="hit") == onward[::-1]
    for place, (host, at, start) in enumerate(onward):
        before = {"from_ps": int(start)}
        answer = served.get("/api/search/next", q="hit", **before)
        assert int(answer["hit"]["start_ps"]) == int(start)
        if (answer["hit"]["host"], answer["hit"]["at"]) == (host, at):
            assert answer["number"] == place


def test_names_that_are_distinct_are_looked_through_once(tmp_path: Path) -> None:
    served = Served(written(tmp_path, threads([event(f"name {n % 7}", n * 10, 5) for n in range(3000)])))
    served.timeline()
    answer = served.get("/api/search", q=r"name [0-2]", mode="regex")
    wanted = [f"name {n % 7}" for n in range(3000) if re.search("name [0-2]", f"name {n % 7}")]
    assert (answer["events"], answer["names"]) == (len(wanted), 3)
