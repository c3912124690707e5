"""What is read from the texts of ops."""

from __future__ import annotations

import pytest

from fastprof.derive.ops.op_table import (
    OpTable,
    is_outside_compilation,
    is_rematerialized,
    parse_group_size,
    parse_replica_groups,
)


@pytest.mark.parametrize(
    ("long_name", "provenance", "again"),
    [
        ("%fusion.remat.2 = f32[] fusion()", "", True),
        ("%fusion.2 = f32[] fusion(f32[] %x.remat)", "", False),
        ("%fusion.2 = f32[] fusion()", "jit(f)/rematted_computation/add:", True),
        ("%fusion.2 = f32[] fusion()", "jit(f)/checkpoint/add:", False),
        ("", "", False),
    ],
)
def test_computing_again_is_given_by_the_name_or_the_path(long_name: str, provenance: str, again: bool) -> None:
    assert is_rematerialized(OpTable.of(["x"], long_name=[long_name], provenance=[provenance])).tolist() == [again]


def test_outside_compilation_is_given_by_the_type_or_the_transfer() -> None:
    texts = ["%a = send-done(%x), is_host_transfer=true", "%a = send-done(%x)", ""]
    table = OpTable.of(["x"] * 3, long_name=texts, provenance=["", "", "a:XlaSendToHost"])
    assert is_outside_compilation(table).tolist() == [True, False, True]


@pytest.mark.parametrize(
    ("attributes", "groups", "size"),
    [
        (", replica_groups={{0,1},{2,3}}, to_apply=%add", "{{0,1},{2,3}}", 2),
        (", replica_groups={{0,1,2},{3}}", "{{0,1,2},{3}}", None),
        (", replica_groups=[4,2]<=[2,4]T(1,0), use_global_device_ids=true", "[4,2]<=[2,4]T(1,0)", 2),
        (", replica_groups=[1,8]<=[8]", "[1,8]<=[8]", 8),
        (", replica_groups={}, to_apply=%add", "{}", None),
        (", replica_groups={ {0,1}, {2,3} }", "{ {0,1}, {2,3} }", 2),
        (", replica_groups=[,]<=[]", "[,]<=[]", None),
        (", channel_id=1", None, None),
    ],
)
def test_groups_of_devices_are_as_the_text_has_them(attributes: str, groups: str | None, size: int | None) -> None:
    (found,) = parse_replica_groups([f"%all-reduce = f32[] all-reduce(%x), channel_id=1{attributes}"])
    assert found == groups
    assert found is None or parse_group_size(found) == size


def test_a_long_text_of_groups_that_never_ends_is_read_once() -> None:
    (found,) = parse_replica_groups(["replica_groups={" + "{0," * 200_000])
    assert found is not None
