"""What holds of every capture, real or made, whatever is in it: figures of compiled programs add up and agree."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from demo_captures import XLA
from gate import few, typical_captures
from xla_spaces import gpu_capture, tpu_capture

import fastprof
from fastprof.profile.report import Report

OP_LINES = ("XLA Ops", "Framework Ops")
MADE: dict[str, Callable[[], bytes]] = {
    "demo": XLA.read_bytes,
    **{f"tpu {seed}": (lambda seed=seed: tpu_capture(seed, steps=seed % 3)) for seed in range(6)},  # type: ignore[misc]
    **{f"gpu {seed}": (lambda seed=seed: gpu_capture(seed)) for seed in range(4)},  # type: ignore[misc]
}


@cache
def reports(source: str | Path) -> dict[str, Report]:
    profile = fastprof.load(MADE[source]() if isinstance(source, str) else source)
    return {name: profile.report(name) for name in ("op_profile", "hlo_stats", "roofline", "memory_viewer")}


@pytest.fixture(params=few(MADE, 5))
def made(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def column(table: pa.Table, name: str) -> np.ndarray:
    """Null is 0."""
    return pc.fill_null(table[name], 0).to_numpy()


# ---- the invariants


Spans = list[tuple[int, int]]


def spans_by_line(profile: fastprof.Profile) -> dict[tuple[str, str, int], Spans]:
    """By plane, name and number of the line: begin and end of its events, by the device's clock where they have it."""
    planes = {row["plane_id"]: row["name"] for row in profile.planes.to_pylist()}
    lines = {
        row["line_id"]: (planes[row["plane_id"]], row["name"], row["line_id"]) for row in profile.lines.to_pylist()
    }
    declared = set(profile.stat_metadata["name"].to_pylist())
    clock = [name for name in ("device_offset_ps", "device_duration_ps") if name in declared]
    events = profile.event_table(["line_id", "start_ps", "duration_ps"], clock)
    spans: dict[tuple[str, str, int], Spans] = {}
    for row in events.to_pylist():
        start, took = row["start_ps"], row["duration_ps"]
        by_device = [row.get("device_offset_ps"), row.get("device_duration_ps")]
        if None not in by_device:
            start, took = by_device
        if start is not None:
            spans.setdefault(lines[row["line_id"]], []).append((start, start + max(took, 0)))
    return spans


def covered(spans: Spans) -> int:
    """The time in which any of them goes on."""
    total, reached = 0, -(2**63)
    for start, end in sorted(spans):
        total += max(end - max(start, reached), 0)
        reached = max(reached, end)
    return total


def check_self_times_add_up(source: bytes | Path, found: dict[str, Report]) -> None:
    """On TPUs line by line, on GPUs, where streams go on at once, over all of a device."""
    lines = spans_by_line(fastprof.load(source).select(planes=r"^/device:(TPU|GPU):\d+$"))
    by_line: dict[str, int] = {}
    streams: dict[str, Spans] = {}
    for (plane, line, _), spans in lines.items():
        if line in OP_LINES:
            by_line[plane] = by_line.get(plane, 0) + covered(spans)
        elif line.startswith("Stream"):
            streams.setdefault(plane, []).extend(spans)
    for row in found["op_profile"].tables["devices"].to_pylist():
        device = row["device"]
        assert row["op_ps"] == by_line.get(device, row["op_ps"]), row
        assert row["busy_ps"] == (covered(streams[device]) if device in streams else row["busy_ps"]), row
        if row["op_ps"] is None:
            continue
        assert row["busy_ps"] <= row["op_ps"], row
        assert row["busy_ps"] + row["idle_ps"] == row["total_ps"], row
        assert row["idle_ps"] >= 0, row


def check_tools_agree(found: dict[str, Report]) -> None:
    total = found["op_profile"].scalars["op_ps"].value or 0  # unknown where there are no devices
    assert total == sum(column(found["op_profile"].tables["devices"], "op_ps").tolist())
    for name in ("hlo_stats", "roofline"):
        ops = found[name].tables["ops"]
        assert sum(column(ops, "self_ps").tolist()) == total, name
    for table in ("categories", "programs", "attribution"):
        assert sum(column(found["hlo_stats"].tables[table], "self_ps").tolist()) == total, table


def check_children_add_up(tree: pa.Table, *, own_time: bool = False) -> None:
    """The time of a node is the sum of its children's, as far as any child has a time of its own; with ``own_time`` it
    may be more: a scope can have ops of its own beside scopes within it."""
    own = tree["self_ps"].to_pylist()
    parents = tree["parent"].to_pylist()
    nodes = tree["node"].to_pylist()
    place = {node: row for row, node in enumerate(nodes)}
    sums: dict[int, int] = {}
    for parent, value in zip(parents, own, strict=True):
        if parent is not None and parent in place and value is not None:
            sums[parent] = sums.get(parent, 0) + value
    for parent, total in sums.items():
        of_node = own[place[parent]]
        assert of_node == total or (own_time and of_node > total), tree.slice(place[parent], 1).to_pylist()
    depths = tree["depth"].to_pylist()
    for row, parent in enumerate(parents):
        if parent is not None and parent in place:
            assert place[parent] < row and depths[place[parent]] == depths[row] - 1


def check_shares(found: dict[str, Report]) -> None:
    tree = found["op_profile"].tables["tree"]
    total = found["op_profile"].scalars["device_total_ps"].value
    if tree.num_rows and total:
        assert pc.sum(tree.filter(pc.equal(tree["depth"], 1))["share"]).as_py() == pytest.approx(1.0)
    ops, scalars = found["hlo_stats"].tables["ops"], found["hlo_stats"].scalars
    busy, idle = scalars["device_op_ps"].value, scalars["device_idle_ps"].value
    if ops.num_rows and busy:
        assert pc.sum(ops["busy_share"]).as_py() == pytest.approx(1.0)
        assert column(ops, "self_share").sum() == pytest.approx(busy / (busy + idle))


def check_utilisation(found: dict[str, Report]) -> None:
    """None is over 1 without a notice."""
    for name, table, names in (
        ("op_profile", "tree", ("compute_peak_percent", "hbm_peak_percent")),
        ("op_profile", "memory", ("peak_percent",)),
        ("roofline", "ops", ("roofline_percent", "compute_peak_percent", "hbm_peak_percent")),
        ("roofline", "totals", ("roofline_percent",)),
    ):
        for one in names:
            values = column(found[name].tables[table], one)
            if (values > (100 if one.endswith("_percent") else 1)).any():
                text = " ".join(notice.text for notice in found[name].notices)
                assert "than the device can" in text, f"{name}.{table}.{one} is {values.max()} and no notice says so"


def check_padding(found: dict[str, Report]) -> None:
    layouts = found["hlo_stats"].tables["layouts"]
    assert (column(layouts, "padded_bytes") >= column(layouts, "bytes")).all()
    ops = found["hlo_stats"].tables["ops"]
    assert (column(ops, "padded_bytes") >= column(ops, "array_bytes")).all()


def check_memory(report: Report, *, padded: bool) -> None:
    peak = report.scalars["peak_bytes"].value
    if peak is None:
        return
    held = report.tables["buffers_at_peak"]
    assert sum(column(held, "bytes").tolist()) == peak
    assert sum(column(report.tables["peak_by_op"], "bytes").tolist()) == peak
    heap = report.tables["heap"]
    if heap.num_rows:
        assert max(column(heap, "total_bytes").tolist()) == peak
        assert min(column(heap, "heap_bytes").tolist()) >= 0
    lifetimes = report.tables["lifetimes"]
    ends = lifetimes.filter(pc.and_(pc.is_valid(lifetimes["start"]), pc.is_valid(lifetimes["end"])))
    assert (column(ends, "start") <= column(ends, "end")).all()
    if padded:
        assert (column(held, "bytes") >= column(held, "unpadded_bytes")).all()


def check(source: bytes | Path, found: dict[str, Report], *, padded: bool) -> None:
    check_self_times_add_up(source, found)
    check_tools_agree(found)
    check_children_add_up(found["op_profile"].tables["tree"])
    for tree in ("scopes", "layers"):
        check_children_add_up(found["op_profile"].tables[tree], own_time=True)
    check_shares(found)
    check_utilisation(found)
    check_padding(found)
    check_memory(found["memory_viewer"], padded=padded)


# ---- the captures


def test_figures_of_a_real_capture_add_up(capture: Path) -> None:
    check(capture, reports(capture), padded=True)


def test_figures_of_a_made_capture_add_up(made: str) -> None:
    check(MADE[made](), reports(made), padded=made == "demo")


@typical_captures
@pytest.mark.parametrize("group_by", ["category", "provenance"])
def test_other_trees_of_op_profile_add_up_too(capture: Path, group_by: str) -> None:
    report = fastprof.load(capture).report("op_profile", group_by=group_by)
    check_children_add_up(report.tables["tree"])
    assert report.scalars["op_ps"].value == reports(capture)["op_profile"].scalars["op_ps"].value


@typical_captures
def test_memory_of_every_program_and_space_of_a_real_capture_adds_up(capture: Path) -> None:
    profile = fastprof.load(capture)
    for row in reports(capture)["memory_viewer"].tables["modules"].to_pylist():
        report = profile.report("memory_viewer", module=row["module"], memory_space=str(row["memory_space"]))
        check_memory(report, padded=True)
        assert report.scalars["peak_bytes"].value == row["peak_bytes"], row
