"""The drawing of the roofline: whole whatever the capture, only shapes and texts, and all of it in its frame."""

from __future__ import annotations

from typing import Any

import pytest
from test_svg import HOSTILE, assert_inside, parsed, texts
from trace_builder import Event, Metadata, event, line, plane, u64, xspace

import fastprof

US = 1_000_000
PEAKS = {
    "peak_teraflops_per_second": 100.0,
    "peak_hbm_bw_gigabytes_per_second": 1_000.0,
    "peak_vmem_rd_bw_gigabytes_per_second": 20_000.0,
}


def drawn(*ops: tuple[str, int, float, float], peaks: dict[str, float] | None = None, name: str = "TPU v6 Lite") -> str:
    """Ops as (name, duration in microseconds, flops, bytes)."""
    metadata = [
        Metadata(one, display_name=one, stats={
            "program_id": u64(7), "symbol_id": u64(place + 1), "hlo_category": f"category {place % 9}",
            "flops": u64(int(flops)), "bytes_accessed": u64(int(size))})
        for place, (one, _, flops, size) in enumerate(ops)
    ]  # fmt: skip
    events: list[Event] = []
    at = 0
    for one, duration, _, _ in ops:
        events.append(event(one, at, duration * US))
        at += duration * US
    stats: dict[str, Any] = {**(PEAKS if peaks is None else peaks), "device_type_string": name}
    space = xspace(plane("/device:TPU:0", [line("XLA Ops", events, id=3)], event_metadata=metadata, stats=stats))
    return fastprof.load(space).roofline().to_svg()


def words(svg: str) -> list[str]:
    return [text.text or "" for text in texts(parsed(svg))]


def test_ops_are_dots_beneath_named_lines() -> None:
    svg = drawn(("dot.1", 100, 5e9, 1e6), ("add.2", 50, 1e6, 4e7))
    texts = words(svg)
    assert {"Roofline", "TPU v6 Lite", "Compute", "HBM", "VMEM Read", "dot.1", "add.2", "50.0 %"} <= set(texts)
    assert svg.count("<title>") == 2 * 2 + 1  # of each op its dot and its line in the list; of the drawing
    assert_inside(parsed(svg))


def test_what_has_no_place_is_reported() -> None:
    texts = words(drawn(("dot.1", 100, 5e9, 1e6), ("copy.2", 300, 0, 4e7)))
    assert any(text.startswith("Not drawn: 1 op with 75.0 % of the self time") for text in texts)


@pytest.mark.parametrize("ops", [(), (("copy.1", 5, 0, 100),)])
def test_without_any_op_to_place_it_says_why(ops: tuple[tuple[str, int, float, float], ...]) -> None:
    svg = drawn(*ops)
    assert len(words(svg)) == 3
    assert_inside(parsed(svg))


def test_without_peaks_there_are_dots_and_no_lines() -> None:
    texts = words(drawn(("dot.1", 100, 5e9, 1e6), peaks={}, name="TPU of tomorrow"))
    assert "dot.1" in texts and "Compute" not in texts and "HBM" not in texts


def test_names_are_only_text_and_cut_to_fit() -> None:
    svg = drawn((HOSTILE, 100, 5e9, 1e6), ("W" * 300, 100, 5e9, 1e6), name=HOSTILE)
    assert "<script" not in svg
    assert_inside(parsed(svg))


@pytest.mark.parametrize(("flops", "size"), [(1, 2**62), (2**62, 1), (1, 1), (2**62, 2**62)])
def test_figures_of_any_size_stay_in_the_frame(flops: int, size: int) -> None:
    assert_inside(parsed(drawn(("one", 1, flops, size), ("two", 10**6, 1e6, 1e6))))


def test_many_ops_are_drawn_as_the_most_expensive_of_them() -> None:
    svg = drawn(*((f"op{n}", 1 + n % 7, 1e6 * (n + 1), 1e4) for n in range(700)))
    assert svg.count("<rect") < 500 and len(svg) < 300_000
    assert_inside(parsed(svg))
