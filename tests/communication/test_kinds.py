"""Which ops communicate, of what kind and role."""

from __future__ import annotations

import pytest
from flight_spaces import (
    AG_DONE,
    AG_START,
    AR,
    LOAD_DONE,
    LOAD_START,
    PREFETCH_DONE,
    PREFETCH_START,
    STORE_DONE,
    STORE_START,
    short,
)

from fastprof._native.communication_kernels import MOST_KINDS
from fastprof.derive.communication.gpu_flights import classify_kernel
from fastprof.derive.devices.communication_kinds import DONE, KINDS, START, WHOLE, find_communication


def kind_and_role(category: str, text: str = "", name: str = "") -> tuple[str, int] | None:
    part = find_communication(category, text, name)
    return None if part is None else (part.kind.title, part.role)


@pytest.mark.parametrize(
    ("category", "expected"),
    [
        ("all-reduce", ("all-reduce", WHOLE)),
        ("all-reduce-start", ("all-reduce", START)),
        ("all-reduce-scatter fusion", ("reduce-scatter", WHOLE)),
        ("ragged-all-to-all", ("all-to-all", WHOLE)),
        ("collective-permute-done", ("collective-permute", DONE)),
        ("send", ("send and recv", START)),
        ("recv-done", ("send and recv", DONE)),
        ("host send", ("host send and recv", START)),
        ("host recv-done", ("host send and recv", DONE)),
        ("infeed", ("infeed", WHOLE)),
        ("outfeed", ("outfeed", WHOLE)),
        ("async-done", ("offload", DONE)),
        ("loop fusion", None),
        ("copy", None),
        ("data formatting", None),
        ("dynamic-slice", None),
        ("custom-call", None),
        ("convolution fusion", None),
    ],
)
def test_categories(category: str, expected: tuple[str, int] | None) -> None:
    assert kind_and_role(category) == expected


@pytest.mark.parametrize(
    ("text", "category", "expected"),
    [
        (LOAD_START, "copy-start", ("copy host to device", START)),
        (LOAD_DONE, "copy-done", ("copy host to device", DONE)),
        (STORE_START, "copy-start", ("copy device to host", START)),
        (STORE_DONE, "copy-done", ("copy device to host", DONE)),
        (PREFETCH_START, "copy-start", ("copy within device", START)),
        (PREFETCH_DONE, "copy-done", ("copy within device", DONE)),
        ("%s = ((f32[8]{0:S(5)}), f32[2]{0}, u32[]) slice-start(f32[8]{0:S(5)} %p)", "async-start",
         ("copy host to device", START)),
        ("%s = ((f32[8]{0}), f32[2]{0:S(5)}, u32[]) slice-start(f32[8]{0} %p)", "async-start",
         ("copy device to host", START)),
        ("%reduce-scatter-start.2 = ((f32[8]{0}), f32[2]{0}) reduce-scatter-start(f32[8]{0} %p)", "async-start",
         ("reduce-scatter", START)),
        ("%all-to-all-done.1 = f32[8] async-done(((f32[8]), f32[8]) %all-to-all-start)", "async-done",
         ("all-to-all", DONE)),
        ("%call-start = ((f32[8]), f32[8], u32[]) call-start(f32[8] %p)", "async-start", ("offload", START)),
    ],
)  # fmt: skip
def test_instructions_record_what_is_asynchronous(text: str, category: str, expected: tuple[str, int]) -> None:
    assert kind_and_role(category, text, short(text)) == expected


def test_without_a_category_the_name_records() -> None:
    assert kind_and_role("", AR, "all-reduce.1") == ("all-reduce", WHOLE)
    assert kind_and_role("", AG_START, "all-gather-start.3") == ("all-gather", START)
    assert kind_and_role("", AG_DONE, "all-gather-done.7.remat") == ("all-gather", DONE)
    assert kind_and_role("", "", "%fusion.3") is None


@pytest.mark.parametrize(
    ("name", "category", "expected"),
    [
        ("ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)", "", "all-reduce"),
        ("ncclKernel_ReduceScatter_RING_LL_Sum_half", "", "reduce-scatter"),
        ("ncclDevKernel_SendRecv(ncclDevKernelArgsStorage<4096ul>)", "", "send and recv"),
        ("ncclDevKernel_SendRecv(ncclDevKernelArgsStorage<4096ul>)", "all-to-all", "all-to-all"),
        ("ncclDevKernel_Generic", "", "other collective"),
        ("ncclDevKernel_Generic_4", "all-gather-start", "all-gather"),
        ("rcclGenericKernel", "", "other collective"),
        ("nvshmem_barrier", "", "other collective"),
        ("OneShotAllReduceKernel", "all-reduce-start", "all-reduce"),
        ("MemcpyH2D", "", "copy host to device"),
        ("CopyDeviceToHost", "", "copy device to host"),
        ("MEMCPYDtoD", "", "copy within device"),
        ("MemcpyP2P", "", "copy between devices"),
        ("MemcpyP2P", "collective-permute", "collective-permute"),
        ("MemcpyD2D", "data formatting", "copy within device"),
        ("__amd_rocclr_copyBuffer.kd", "copy (H2D)", "copy host to device"),
        ("__amd_rocclr_copyBuffer.kd", "copy (P2P)", "copy between devices"),
        ("__amd_rocclr_copyBuffer.kd", "data formatting", "copy within device"),
        ("__amd_rocclr_fillBufferAligned.kd", "memset", None),
        ("wrapped_copy", "data formatting", None),
        ("loop_add_fusion", "loop fusion", None),
        ("Memset", "", None),
        ("reduce_kernel", "", None),
    ],
)
def test_kernels_and_copies(name: str, category: str, expected: str | None) -> None:
    kind = classify_kernel(name, category)
    assert (kind and kind.title) == expected


def test_all_kinds_have_room_in_the_kernel() -> None:
    assert len(KINDS) <= MOST_KINDS
    assert [kind.number for kind in KINDS] == list(range(len(KINDS)))
