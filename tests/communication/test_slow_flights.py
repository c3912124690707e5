"""Random cores against a reader that looks at every microsecond by itself."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path
from random import Random

import pytest
from flight_spaces import CATEGORIES, FUSION, Op, core, report_of, rows
from gate import few
from step_captures import spaces

import fastprof

LOOP = "%while.1 = f32[8] while(f32[8] %x), condition=%c, body=%b"
KINDS = ("all-reduce", "all-gather", "copy host to device", "copy device to host", "copy within device")
"""In the order in which they take the blame."""


def _start(kind: str, number: int) -> str:
    if kind == "all-gather":
        return f"%all-gather-start.{number} = (f32[4]{{0}}, f32[8]{{0}}) all-gather-start(f32[4]{{0}} %y)"
    spaces_of = {"copy host to device": ("", "S(5)"), "copy device to host": ("S(5)", "")}.get(kind, ("S(1)", ""))
    target, source = (f"f32[8]{{0:{one}}}" for one in spaces_of)
    return f"%copy-start.{number} = ({target}, {source}, u32[]) copy-start({source} %p)"


def _done(start: str) -> str:
    name, _, rest = start.removeprefix("%").partition(" = ")
    shape = rest[: rest.index(") ") + 1]
    return f"%{name.replace('-start', '-done')} = f32[8] {name.partition('-start')[0]}-done({shape} %{name})"


@dataclass
class Made:
    """Ops, and flights as (kind, begin, end, ops that it is made of); ``innermost``: by microsecond, of op numbers."""

    ops: list[Op]
    flights: list[tuple[str, int, int, list[int]]]
    categories: dict[str, str]


def _made(random: Random) -> Made:
    made = Made([], [], {**CATEGORIES, LOOP: "while"})
    now, open_ = random.randrange(3), {}
    texts = {}
    for number in range(5):
        kind = random.choice(KINDS[1:])
        texts[number] = (kind, _start(kind, number))
        made.categories[texts[number][1]] = "all-gather-start" if kind == "all-gather" else "copy-start"
        made.categories[_done(texts[number][1])] = "all-gather-done" if kind == "all-gather" else "copy-done"
    loop_until = 0
    for _ in range(random.randrange(1, 25)):
        took = random.randrange(1, 7)
        if now < loop_until < now + took:  # nothing crosses the end of a loop
            took = loop_until - now
        number = random.randrange(5)
        kind, start = texts[number]
        what = random.random()
        if what < 0.3 and number not in open_:
            open_[number] = (now, len(made.ops))
            made.ops.append((start, now, took))
        elif what < 0.6 and number in open_:
            begin, place = open_.pop(number)
            made.flights.append((kind, begin, now + took, [place, len(made.ops)]))
            made.ops.append((_done(start), now, took))
        elif what < 0.7:
            made.flights.append(("all-reduce", now, now + took, [len(made.ops)]))
            text = "%all-reduce.1 = f32[8] all-reduce(f32[8] %x)"
            made.categories[text] = "all-reduce"
            made.ops.append((text, now, took))
        elif what < 0.78 and now >= loop_until:
            loop_until = now + 30
            made.ops.append((LOOP, now, 30))
            took = 0
        else:
            made.ops.append((FUSION, now, took))
        now += took + random.choice((0, 0, 1, 3))
    for number, (begin, place) in open_.items():
        made.flights.append((texts[number][0], begin, begin + int(made.ops[place][2]), [place]))
    return made


def _split(made: Made, first: int, last: int) -> tuple[dict[str, int], dict[str, dict[str, int]]]:
    """What the microseconds from first to last are spent on, and what each kind is of them."""
    total: dict[str, int] = defaultdict(int)
    kinds: dict[str, dict[str, int]] = {kind: defaultdict(int) for kind in KINDS}
    flight_of = {op: flight for flight, parts in enumerate(made.flights) for op in parts[3]}
    for now in range(first, last):
        at = [i for i, (_, begin, took) in enumerate(made.ops) if begin <= now < begin + took]
        nested = [i for i in at if made.ops[i][0] != LOOP] or at
        op = nested[0] if nested else None
        under_way = {made.flights[f][0] for f in _aloft(made, now)}
        if op is not None and op in flight_of:
            under_way.add(made.flights[flight_of[op]][0])
        works = op is not None and op not in flight_of
        total["compute"] += works
        total["hidden"] += works and bool(under_way)
        total["exposed"] += not works and bool(under_way)
        total["idle"] += not works and not under_way
        for kind in under_way:
            kinds[kind]["time"] += 1
            kinds[kind]["hidden"] += works
        if under_way and not works:
            stood = flight_of.get(op) if op is not None else None
            blamed = made.flights[stood][0] if stood is not None else min(under_way, key=KINDS.index)
            kinds[blamed]["exposed"] += 1
    return total, kinds


def _aloft(made: Made, now: int) -> list[int]:
    return [f for f, (_, begin, end, parts) in enumerate(made.flights) if begin <= now < end and len(parts) == 2]


@pytest.mark.parametrize("seed", few(range(60), 12))
def test_a_random_core_is_divided_as_by_looking_at_each_microsecond(seed: int) -> None:
    random = Random(seed)
    made = _made(random)
    begin = int(min(start for _, start, _ in made.ops))
    end = int(max(start + took for _, start, took in made.ops))
    middle = random.randrange(begin, end + 1)
    marks = [(begin, middle - begin), (middle, end - middle)]
    steps = [mark for mark in marks if mark[1] > 0]
    late = random.choice((0, 50))
    report = report_of(spaces(core(0, made.ops, steps=steps, late_us=late, categories=made.categories)))
    columns = ("compute_ps", "hidden_ps", "exposed_ps", "idle_ps")
    spans = rows(report, "steps", "start_ps", "duration_ps")
    assert spans and set(spans) <= set(steps)  # steps in which nothing begins are none
    wanted = [_split(made, int(start), int(start + took)) for start, took in spans]
    assert rows(report, "steps", *columns) == [
        tuple(total[column.removesuffix("_ps")] for column in columns) for total, _ in wanted
    ]
    ordered = sorted(rows(report, "step_kinds", "step", "kind", "time_ps", "hidden_ps", "exposed_ps"))
    assert ordered == sorted(
        (step, kind, sums["time"], sums["hidden"], sums["exposed"])
        for (step,), (_, kinds) in zip(rows(report, "steps", "step"), wanted, strict=True)
        for kind, sums in kinds.items()
        if sums["time"]
    )


def test_a_flight_that_ends_before_it_begins_takes_no_time(captures: Path) -> None:
    """The begin of one of 1,200 asynchronous ops is damaged: 3 ps."""
    whole = (captures / "xspace" / "tpu-v6e-jax-inference" / "host0.xplane.pb").read_bytes()
    begin, damaged = bytes.fromhex("18cebab69387c809"), bytes.fromhex("1883808080808000")
    assert whole.count(begin) == 1
    operations = fastprof.load(whole.replace(begin, damaged)).communication().tables["operations"]
    assert min(operations["total_ps"].to_pylist()) >= 0 and min(operations["min_ps"].to_pylist()) >= 0
