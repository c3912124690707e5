"""What collectives move and among whom, from their HLO."""

from __future__ import annotations

import numpy as np
import pytest
from flight_spaces import AG_START, AR, LOAD_START

from fastprof._native.communication_kernels import SIZES
from fastprof.derive.communication.collectives import parse_groups, parse_payload
from fastprof.derive.communication.flights import TRANSFER
from fastprof.derive.communication.tpu_flights import find_places
from fastprof.derive.devices.communication_kinds import KINDS
from fastprof.derive.ops.launches import find_latest_begin
from fastprof.derive.steps.event_graph import STRETCH

KIND = {kind.title: kind for kind in KINDS}


def test_records_have_the_sizes_of_the_structs() -> None:
    assert {"STRETCH": STRETCH.itemsize, "TRANSFER": TRANSFER.itemsize} == SIZES


@pytest.mark.parametrize(
    ("kind", "text", "size"),
    [
        ("all-reduce", AR, 1024),
        ("all-reduce", "%a = (f32[4], bf16[8]) all-reduce(f32[4] %x, bf16[8] %y), replica_groups={}", 32),
        ("all-reduce", "%a = f32[4] all-reduce-start(f32[4] %x), replica_groups={}", 16),
        ("all-gather", AG_START, 1024),
        ("all-gather", "%a = bf16[16] all-gather(bf16[4] %x), replica_groups={{0,1,2,3}}", 32),
        ("reduce-scatter", "%r = f32[2] reduce-scatter(f32[8] %x), replica_groups={{0,1,2,3}}", 32),
        ("reduce-scatter", "%r = ((f32[8]), f32[2]) reduce-scatter-start(f32[8] %x)", 32),
        ("all-to-all", "%r = (f32[2], f32[2]) all-to-all(f32[2] %x, f32[2] %y)", 16),
        ("collective-permute", "%c = (f32[8], f32[8], u32[], u32[]) collective-permute-start(f32[8] %x)", 32),
        ("collective-permute", "%c = f32[8] collective-permute(f32[8] %x), source_target_pairs={{0,1},{1,0}}", 32),
        ("send and recv", "%s = (f32[8], u32[], token[]) send(f32[8] %x, token[] %t), channel_id=3", 32),
        ("send and recv", "%s = (f32[8], u32[], token[]) recv(token[] %t), channel_id=3", 32),
        ("infeed", "%i = (f32[8], token[]) infeed(token[] %t)", 32),
        ("outfeed", "%o = token[] outfeed(f32[8] %x, token[] %t)", 32),
        ("copy host to device", LOAD_START, 4096),
        ("all-reduce", "%a = u4[3] all-reduce(u4[3] %x)", 3),
        ("all-reduce", "all-reduce.1", None),
    ],
)
def test_bytes(kind: str, text: str, size: int | None) -> None:
    assert parse_payload(KIND[kind], text).bytes == size


@pytest.mark.parametrize(
    ("groups", "size", "count"),
    [
        ("{{0,1},{2,3}}", 2, 2),
        ("{{0,1,2},{3}}", 3, 2),
        ("{}", None, None),
        ("[4,2]<=[2,4]T(1,0)", 2, 4),
        ("[8]<=[8]", None, None),
        ("[1,8]<=[8]", 8, 1),
    ],
)
def test_replica_groups(groups: str, size: int | None, count: int | None) -> None:
    moved = parse_payload(
        KIND["all-reduce"], f"%a = f32[4] all-reduce(f32[4] %x), replica_groups={groups}, to_apply=%add"
    )
    assert (moved.groups, moved.size, moved.count) == (groups, size, count)


def test_devices_are_in_groups() -> None:
    def of_devices(text: str) -> list[int] | None:
        groups = parse_groups(text)
        return None if groups is None else groups(np.array([0, 1, 2, 3, 4, 5, 6, 7, 8, 2**62])).tolist()

    assert of_devices("{{0,1},{2,3}}") == [0, 0, 1, 1, -1, -1, -1, -1, -1, -1]
    assert of_devices("[4,2]<=[2,4]T(1,0)") == [0, 1, 2, 3, 0, 1, 2, 3, -1, -1]
    assert of_devices("[2,4]<=[8]") == [0, 0, 0, 0, 1, 1, 1, 1, -1, -1]
    assert of_devices("[4,2]<=[2,2,2]T(2,0,1)") == [0, 2, 0, 2, 1, 3, 1, 3, -1, -1]
    assert of_devices("{}") is None
    assert of_devices("[2,4]<=[9]") is None
    assert of_devices("[2,4]<=[2,4]T(1,1)") is None
    assert of_devices(f"[2,{2**62}]<=[{2**63}]") is None
    assert of_devices(f"[2,1]<=[2{',1' * 70}]") is None  # more dimensions than arrays have


def test_sizes_that_no_groups_have_are_not_reported() -> None:
    groups = "[2,999999999999999999,999999999999999999]<=[2,3]"
    moved = parse_payload(KIND["all-reduce"], f"%a = f32[4] all-reduce(f32[4] %x), replica_groups={groups}")
    assert (moved.groups, moved.size, moved.count) == (groups, None, None)


@pytest.mark.parametrize(
    ("kind", "factor"),
    [("all-reduce", 1.5), ("all-gather", 0.75), ("reduce-scatter", 0.75), ("all-to-all", 0.75), ("infeed", 1.0)],
)
def test_bus_factors(kind: str, factor: float) -> None:
    moved = parse_payload(KIND[kind], "%a = f32[4] all-reduce(f32[4] %x), replica_groups={{0,1,2,3}}")
    assert moved.bus_factor(KIND[kind]) == factor


def test_the_bus_factor_of_unknown_devices_is_unknown() -> None:
    assert parse_payload(KIND["all-reduce"], "%a = f32[4] all-reduce(f32[4] %x), replica_groups={}").bus_factor(
        KIND["all-reduce"]
    ) is None  # fmt: skip


def test_ends_belong_to_the_start_just_before_them() -> None:
    key = np.array([1, 1, 2, 1, 1, 1, 2])
    time = np.array([0, 5, 6, 7, 8, 9, 3])
    begins = np.array([True, False, False, True, True, False, True])
    assert find_latest_begin(key, time, begins).tolist() == [-1, 0, 6, -1, -1, 4, -1]


def test_places_of_equal_pairs() -> None:
    known = (np.array([3, 1, 3, 1]), np.array([5, 5, 5, 6]))
    wanted = (np.array([3, 1, 1, 9]), np.array([5, 6, 7, 5]))
    assert find_places(known, wanted).tolist() == [0, 3, -1, -1]
    assert find_places((np.zeros(0, np.int64),) * 2, wanted).tolist() == [-1] * 4
