"""Ops that start something asynchronous lead to those that end it."""

from __future__ import annotations

from pathlib import Path

import pytest
from hlo_builder import Op, Program, f32
from timelines import host_of
from trace_builder import Event, Metadata, event, line, plane, u64, xspace

from fastprof.derive.timeline.flows import SHOWN_KINDS, pair_flows

Linked = list[tuple[str, int, str, int]]


def linked(*planes: bytes) -> Linked:
    """Names and starts of both ends of each flow, which are all between asynchronous ops."""
    host = host_of(xspace(*planes))
    found = pair_flows(host)
    assert {SHOWN_KINDS[kind] for kind in found.kind.tolist()} <= {"async_op"}
    names = [host.raw.display_names[meta] or host.raw.names[meta] for meta in host.raw.meta.tolist()]
    ends = zip(found.producer.tolist(), found.consumer.tolist(), strict=True)
    return [
        (names[one], int(host.raw.start_ps[one]), names[other], int(host.raw.start_ps[other])) for one, other in ends
    ]


def ops(*events: Event, line_name: str = "XLA Ops") -> bytes:
    return plane("/device:TPU:0", [line(line_name, events)])


def test_by_name_each_start_leads_to_the_next_end() -> None:
    assert linked(
        ops(
            event("copy-start.1", 0, 1), event("all-reduce-start", 2, 1), event("fusion.7", 4, 9),
            event("copy-done.1", 20, 5), event("all-reduce-done", 26, 5),
            event("copy-start.1", 40, 1), event("copy-done.1", 50, 5),
        )
    ) == [
        ("copy-start.1", 0, "copy-done.1", 20), ("all-reduce-start", 2, "all-reduce-done", 26),
        ("copy-start.1", 40, "copy-done.1", 50),
    ]  # fmt: skip


def test_an_end_without_its_start_and_a_start_without_its_end_lead_nowhere() -> None:
    assert linked(
        ops(
            event("copy-done.1", 0, 1), event("copy-start.1", 5, 1), event("copy-start.1", 10, 1),
            event("copy-done.1", 15, 1), event("copy-done.1", 20, 1), event("copy-start.2", 30, 1),
        )
    ) == [("copy-start.1", 10, "copy-done.1", 15)]  # fmt: skip


def test_the_operand_in_the_text_of_an_op_counts_more_than_its_name() -> None:
    """Of an asynchronous op in three parts each leads to the next one; ``send`` has no ``-start``."""
    texts = {
        "async-start.1": "%async-start.1 = ((f32[8]), f32[8], s32[]) async-start(f32[8] %p)",
        "step.3": "%step.3 = ((f32[8]), f32[8], s32[]) async-update(((f32[8]), f32[8], s32[]) %async-start.1)",
        "async-done.9": "%async-done.9 = f32[8] async-done(((f32[8]), f32[8], s32[]) %step.3)",
        "send.4": "%send.4 = (f32[8], u32[], token[]) send(f32[8] %p, token[] %t)",
        "send-done.6": "%send-done.6 = token[] send-done((f32[8], u32[], token[]) %send.4)",
    }
    metas = [Metadata(text, id, name) for id, (name, text) in enumerate(texts.items(), 1)]
    ids = {name: id for id, name in enumerate(texts, 1)}
    events = [event(ids[name], 10 * place, 5) for place, name in enumerate(texts)]
    assert linked(plane("/device:TPU:0", [line("XLA Ops", events)], event_metadata=metas)) == [
        ("async-start.1", 0, "step.3", 10), ("step.3", 10, "async-done.9", 20), ("send.4", 30, "send-done.6", 40),
    ]  # fmt: skip


def test_the_program_of_the_capture_counts_more_than_the_name_of_an_op() -> None:
    made = Program("jit_f")
    made.entry(
        Op("p", "parameter", f32(8)),
        Op("all-reduce-start.5", "all-reduce-start", f32(8), ["p"]),
        Op("all-reduce-done.2", "all-reduce-done", f32(8), ["all-reduce-start.5"]),
    )
    programs = plane("/host:metadata", event_metadata=[Metadata("jit_f(3)", 3, stats={"Hlo Proto": made.proto()})])

    def thunk(name: str, start: int, program: int) -> Event:
        return event(name, start, 2, {"hlo_op": name, "hlo_module": "jit_f", "program_id": u64(program)})

    first = [thunk("all-reduce-start.5", 0, 3), thunk("all-reduce-start.2", 3, 3), thunk("all-reduce-done.2", 9, 3)]
    other = [thunk("all-reduce-start.2", 1, 4), thunk("all-reduce-done.2", 8, 4)]
    assert linked(plane("/host:CPU", [line("one", first), line("two", other)]), programs) == [
        ("all-reduce-start.5", 0, "all-reduce-done.2", 9), ("all-reduce-start.2", 1, "all-reduce-done.2", 8),
    ]  # fmt: skip


def test_ops_of_other_cores_threads_and_records_of_flights_are_not_ends() -> None:
    aside = line("Async XLA Ops", [event("copy-start.1", 0, 30)], id=2)
    start, done = event("copy-start.1", 0, 1), event("copy-done.1", 29, 1)
    assert linked(plane("/device:TPU:0", [line("XLA Ops", [start, done]), aside])) == [
        ("copy-start.1", 0, "copy-done.1", 29)
    ]
    assert linked(ops(start), plane("/device:TPU:1", [line("XLA Ops", [done])], id=1)) == []
    assert linked(plane("/host:CPU", [line("one", [start]), line("two", [done], id=2)])) == []
    assert linked(ops(event("dynamic-update-slice.1", 0, 1), event("well-done steak", 2, 1))) == []


@pytest.mark.captures
def test_all_copies_of_a_real_core_are_paired(captures: Path) -> None:
    host = host_of(captures / "xspace" / "tpu-v6e-jax-inference" / "host0.xplane.pb")
    found = pair_flows(host)
    chosen = found.kind == SHOWN_KINDS.index("async_op")
    producer, consumer = found.producer[chosen], found.consumer[chosen]
    names = [name.partition(" ")[0] for name in host.raw.display_names]
    pairs = {(names[one], names[other]) for one, other in host.raw.meta[[producer, consumer]].T.tolist()}
    assert pairs == {(f"copy-start{n}", f"copy-done{n}") for n in ("", ".1", ".2", ".3", ".4", ".5")}
    assert len(producer) == 2400
    assert (host.raw.start_ps[producer] <= host.raw.start_ps[consumer]).all()
