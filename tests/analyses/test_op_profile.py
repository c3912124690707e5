"""Op profile: trees that add up, figures, scopes, remarks, and the page as XProf has it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from reports import rows
from trace_builder import Event, Metadata, Plane, Value, event, line, plane, u64, xspace

import fastprof
from fastprof.errors import UsageError
from fastprof.profile.report import Report

PROGRAM = 7
NS = 1_000


def op(name: str, number: int, category: str, provenance: str = "", **stats: Value) -> Metadata:
    known: dict[str | int, Value] = {
        "program_id": u64(PROGRAM), "symbol_id": u64(number), "hlo_category": category, "tf_op": provenance,
    }  # fmt: skip
    known.update(stats.items())
    return Metadata(f"%{name} = f32[8]{{0}} {name}()", display_name=name, stats=known)


LAYER_0, LAYER_1 = "jit(step)/jvp(Model)/layer_0/mul:", "jit(step)/transpose(jvp(Model))/layer_1/mul:"
OPS = (
    op("dot.1", 1, "convolution", LAYER_0, flops=1000, bytes_accessed=100),
    op("dot.2", 2, "convolution", LAYER_1, flops=1000, bytes_accessed=100),
    op("copy.3", 3, "copy"),
    op("while.4", 4, "while", "jit(step)/while:", flops=10**9),
    op("loss.5", 5, "loop fusion", "jit(step)/loss/add:", deduplicated_name="loss.5"),
    op("loss.6", 6, "loop fusion", "jit(step)/loss/add:", deduplicated_name="loss.5"),
)


def ran(number: int, start_ns: int, duration_ns: int) -> Event:
    return event(OPS[number - 1].name, start_ns * NS, duration_ns * NS)


def tpu(*events: Event, ordinal: int = 0, peaks: bool = True) -> Plane:
    stats: dict[str | int, Value] = {"device_type_string": "TPU of one's own"}
    if peaks:
        stats |= {"peak_teraflops_per_second": 1.0, "peak_hbm_bw_gigabytes_per_second": 10.0}
    return plane(f"/device:TPU:{ordinal}", [line("XLA Ops", list(events), id=3)], id=ordinal + 2,
                 event_metadata=OPS, stats=stats)  # fmt: skip


CORE = tpu(
    ran(1, 0, 10), ran(2, 10, 20), ran(4, 40, 30), ran(3, 45, 15), ran(5, 70, 6), ran(6, 80, 4), ran(1, 90, 10)
)  # fmt: skip
"""100 ns, 20 of them idle; in the loop of 30 ns a copy of 15."""


def report_of(*planes: Plane, **params: Any) -> Report:
    return fastprof.load(xspace(*planes)).op_profile(**params)


def outline(report: Report, table: str = "tree") -> list[str]:
    """The names of nodes and their self time in ns, indented by their depth."""
    return [f"{'  ' * depth}{name} {own // NS}" for name, own, depth in rows(report, table, "name", "self_ps", "depth")]


# ---- trees


def test_programs_then_categories_then_ops_the_largest_first() -> None:
    assert outline(report_of(CORE)) == [
        "by program 100",
        "  program 7 80",
        "    convolution 40",
        "      dot.1 20",
        "      dot.2 20",
        "    copy 15",
        "      copy.3 15",
        "    while 15",
        "      while.4 15",
        "    loop fusion 10",
        "      loss.5 and its 1 duplicate 10",
        "        loss.5 6",
        "        loss.6 4",
        "  IDLE 20",
    ]


def test_categories_alone() -> None:
    assert outline(report_of(CORE, group_by="category"))[:4] == [
        "by category 100", "  convolution 40", "    dot.1 20", "    dot.2 20",
    ]  # fmt: skip


def test_parts_of_the_framework_op() -> None:
    assert outline(report_of(CORE, group_by="provenance")) == [
        "by provenance 100",
        "  program 7 80",
        "    jit(step) 65",
        "      jvp(Model) 20",
        "        layer_0 20",
        "          mul 20",
        "            dot.1 20",
        "      transpose(jvp(Model)) 20",
        "        layer_1 20",
        "          mul 20",
        "            dot.2 20",
        "      while 15",
        "        while.4 15",
        "      loss 10",
        "        add 10",
        "          loss.5 and its 1 duplicate 10",
        "            loss.5 6",
        "            loss.6 4",
        "    copy.3 15",
        "  IDLE 20",
    ]


def test_there_is_no_other_grouping() -> None:
    with pytest.raises(UsageError, match="program, category, provenance"):
        report_of(CORE, group_by="name")


@pytest.mark.parametrize("group_by", ["program", "category", "provenance"])
def test_parts_add_up_to_the_whole(group_by: str) -> None:
    report = report_of(CORE, tpu(ran(1, 5, 7), ordinal=1), group_by=group_by)
    table = report.tables["tree"].to_pydict()
    for column in ("self_ps", "ops", "share"):
        below = [0.0] * len(table["node"])
        for parent, value in zip(table["parent"], table[column], strict=True):
            if parent is not None:
                below[parent] += value or 0
        for node, children in enumerate(table["children"]):
            assert not children or below[node] == pytest.approx(table[column][node])
    assert table["self_ps"][0] == report.scalars["device_total_ps"].value


def test_ops_of_several_cores_and_hosts_are_one(tmp_path: Path) -> None:
    for name in "ab":
        (tmp_path / f"{name}.xplane.pb").write_bytes(xspace(CORE, tpu(ran(1, 0, 10), ordinal=1)))
    report = fastprof.load(tmp_path).op_profile()
    assert outline(report)[:4] == ["by program 220", "  program 7 180", "    convolution 100", "      dot.1 60"]
    assert rows(report, "devices", "host", "device", "busy_ps", "idle_ps") == [
        (host, device, busy * NS, idle * NS)
        for host in "ab"
        for device, busy, idle in (("/device:TPU:0", 80, 20), ("/device:TPU:1", 10, 0))
    ]


# ---- work


def figures(report: Report, name: str) -> dict[str, Any]:
    return next(row for row in report.tables["tree"].to_pylist() if row["name"] == name)


def test_utilization_is_work_by_time_by_peak() -> None:
    dots = figures(report_of(CORE), "convolution")
    assert (dots["flops"], dots["flops_per_s"], dots["compute_peak_percent"]) == (
        3000,
        pytest.approx(75e9),
        pytest.approx(7.5),
    )
    assert (dots["hbm_bytes"], dots["hbm_peak_percent"]) == (300, pytest.approx(75))
    one = figures(report_of(CORE), "dot.2")
    assert (one["total_ps"], one["mean_ps"], one["occurrences"], one["framework_op"]) == (
        20 * NS, 20 * NS, 1, "jit(step)/transpose(jvp(Model))/layer_1/mul",
    )  # fmt: skip
    assert one["flops_source"] == one["bytes_source"] == "capture"


def test_lost_is_the_time_beyond_what_bounds_an_op() -> None:
    """dot.1 moves 200 bytes in 20 ns, which takes 20 at 10 GB/s; dot.2 100 in 20 ns, which takes 10."""
    report = report_of(CORE)
    assert [figures(report, name)["lost_ps"] for name in ("dot.1", "dot.2", "convolution")] == [0, 10 * NS, 10 * NS]
    assert figures(report, "IDLE")["lost_ps"] is None and figures(report, "copy.3")["lost_ps"] is None


def test_a_loop_has_no_work_of_its_own() -> None:
    report = report_of(CORE)
    assert figures(report, "while.4")["flops"] is None and figures(report, "while.4")["total_ps"] == 30 * NS
    assert figures(report, "program 7")["flops"] == 3000


def test_what_is_not_known_is_null_and_reported() -> None:
    report = report_of(tpu(ran(1, 0, 10), ran(3, 10, 30), peaks=False))
    assert figures(report, "dot.1")["compute_peak_percent"] is None and figures(report, "dot.1")["flops"] == 1000
    copied = figures(report, "copy.3")
    assert (copied["flops"], copied["accessed_bytes"], copied["flops_source"]) == (None, None, None)
    assert report.scalars["work_known_share"].value == 0.25
    assert report.scalars["compute_peak_percent"].value is None and "peak" in (
        report.scalars["compute_peak_percent"].reason or ""
    )


def test_more_work_than_there_is_time_for_has_a_remark() -> None:
    assert not any("done more" in notice.text for notice in report_of(CORE).notices)
    texts = [notice.text for notice in report_of(tpu(ran(1, 0, 2))).notices if "done more" in notice.text]
    assert len(texts) == 1 and "dot.1 (5.00 x the peak of HBM)" in texts[0]


# ---- scopes


def test_scopes_are_the_models_and_passes_are_apart() -> None:
    report = report_of(CORE)
    assert outline(report, "scopes") == [
        "all 80", "  Model 40", "    layer_0 20", "      mul 20", "    layer_1 20", "      mul 20",
        "  (no scope) 15", "    copy 15", "  while 15", "  loss 10", "    add 10",
    ]  # fmt: skip
    model = rows(report, "scopes", "path", "forward_ps", "backward_ps", "recompute_ps", "other_ps")[1]
    assert model == ("Model", 20 * NS, 20 * NS, 0, 0)


def test_without_a_pass_in_any_name_passes_are_unknown() -> None:
    """As of inference: that nothing ran forward does not follow."""
    passes = ("forward_ps", "backward_ps", "recompute_ps", "other_ps")
    assert set(rows(report_of(tpu(ran(3, 0, 10), ran(5, 20, 10))), "scopes", *passes)) == {(None,) * 4}
    assert rows(report_of(CORE), "scopes", *passes)[0] == (20 * NS, 20 * NS, 0, 40 * NS)


def test_layers_alike_are_one() -> None:
    listed = rows(report_of(CORE), "layers", "path", "instances", "self_ps", "ops")
    assert [row[0] for row in rows(report_of(CORE), "layers", "category")][:4] == [None, None, None, "convolution"]
    assert listed[:4] == [
        ("", 1, 80 * NS, 6),
        ("Model", 1, 40 * NS, 2),
        ("Model/layer_*", 2, 40 * NS, 2),
        ("Model/layer_*/mul", 2, 40 * NS, 2),
    ]


def test_a_name_that_is_op_and_scope_records_its_own_time() -> None:
    metadata = [op("a", 1, "x", "m/f:"), op("b", 2, "x", "m/f/g:")]
    events = [event(one.name, 1000 * k, 400) for k, one in enumerate(metadata)]
    report = report_of(plane("/device:TPU:0", [line("XLA Ops", events, id=3)], event_metadata=metadata))
    assert rows(report, "scopes", "path", "self_ps", "own_ps") == [
        ("", 800, 0), ("m", 800, 0), ("m/f", 800, 400), ("m/f/g", 400, 400),
    ]  # fmt: skip


# ---- captures with little in them


def test_long_names_of_scopes_are_reported_once_each() -> None:
    """Not again in the paths of all that is below them."""
    parts = [f"{number}s{'y' * 2000}" for number in range(99)]
    deep = op("deep.1", 1, "custom", f"{'/'.join(parts)}/mul:")
    core = plane("/device:TPU:0", [line("XLA Ops", [event(deep.name, 0, 10)], id=3)], id=2, event_metadata=[deep])
    for table in ("scopes", "layers"):
        paths = [path for (path,) in rows(report_of(core), table, "path")]
        assert paths[1] == f"0s{'y' * 498}…{'y' * 500}" and max(map(len, paths)) == 1001
        assert paths[-1].startswith("0sy") and paths[-1].endswith("yyy/mul")


def test_a_capture_without_devices_says_so() -> None:
    report = report_of(plane("/host:CPU"))
    assert report.scalars["device_total_ps"].value is None
    assert [notice.severity for notice in report.notices] == ["warning"] and "no planes of devices" in report.notices[
        0
    ].text
    assert rows(report, "tree", "name", "self_ps", "share") == [("by program", None, None)]
    assert report.to_text() and report.to_svg() and report.to_speedscope()


def test_text_shows_the_largest_nodes_as_branches() -> None:
    text = report_of(CORE).to_text()
    assert "forward" in text and "other" in text and "recompute" not in text  # no op has such time
    assert "├─ program 7" in text and "│     └─ loss.5 and its 1 duplicate" in text
    assert "Model layers" in text and "Model scopes" not in text


def test_text_leaves_out_what_is_small_and_keeps_branches_right() -> None:
    metadata = [op(f"op.{k}", k + 1, f"kind {k % 3}") for k in range(90)]
    events = [event(one.name, 10**6 * k, 10**6 - 1000 * k) for k, one in enumerate(metadata)]
    core = plane("/device:TPU:0", [line("XLA Ops", events, id=3)], event_metadata=metadata)
    lines = report_of(core, group_by="category").to_text().splitlines()
    ops = [one for one in lines if "─ op." in one]
    assert 30 < len(ops) < 40
    assert all(one.startswith(("  │  ├─ op.", "  │  └─ op.")) for one in ops)
    assert [one.split()[1] for one in lines if one.startswith(("  ├─", "  └─"))] == ["kind", "kind", "kind", "IDLE"]


# ---- XProf's page


def page(*planes: Plane, **params: Any) -> Any:
    return json.loads(report_of(*planes, **params).to_xprof())


def shown(node: dict[str, Any], depth: int = 0) -> list[str]:
    lines = [f"{'  ' * depth}{node['name']} {node['metrics']['rawTime'] // NS}"]
    assert node["numChildren"] >= len(node["children"])
    return lines + [line for child in node["children"] for line in shown(child, depth + 1)]


def test_the_page_has_no_loops_and_calls_unknown_programs_main() -> None:
    answer = page(CORE)
    assert shown(answer["byProgram"]) == [
        "by_program 100",
        "  main 80",
        "    convolution 40",
        "      dot.1 20",
        "      dot.2 20",
        "    copy 15",
        "      copy.3 15",
        "    loop fusion 10",
        "      loss.5 and its duplicate(s) 10",
        "        loss.5 6",
        "        loss.6 4",
        "  IDLE 20",
    ]
    assert answer["byProgramExcludeIdle"]["metrics"]["rawTime"] == 80 * NS
    assert (answer["deviceType"], answer["aggDvfsTimeScaleMultiplier"]) == ("TPU", 1)


def test_the_page_records_utilization_times_the_share_of_time() -> None:
    dots = page(CORE)["byProgram"]["children"][0]["children"][0]["metrics"]
    assert dots["uncappedFlops"] == pytest.approx(0.075 * 0.4) and dots["occurrences"] == 3
    assert dots["rawFlops"] == 3000 and dots["bandwidthUtils"] == [0, 0, 0]  # no breakdown by memory, no bytes


def test_the_page_by_provenance_has_categories_below_scopes() -> None:
    lines = [one.strip() for one in shown(page(CORE, group_by="provenance")["byProvenance"])]
    at = lines.index("layer_0 20")
    assert lines[at : at + 4] == ["layer_0 20", "mul 20", "convolution 20", "dot.1 20"]


def test_the_page_shows_100_ops_of_a_category_and_counts_all() -> None:
    metadata = [op(f"op.{k}", k + 1, "copy") for k in range(150)]
    events = [event(one.name, 1000 * k, 100 + k) for k, one in enumerate(metadata)]
    core = plane("/device:TPU:0", [line("XLA Ops", events, id=3)], event_metadata=metadata)
    category = page(core, group_by="category")["byCategory"]["children"]
    copies = next(one for one in category if one["name"] == "copy")
    assert copies["numChildren"] == 150
    assert [one["name"] for one in copies["children"]] == [f"op.{k}" for k in range(149, 49, -1)]


def test_the_page_of_an_idle_device_is_idle_time_alone() -> None:
    assert page(plane("/device:TPU:0"))["byProgram"]["name"] == "IDLE"
    assert page(plane("/host:CPU"))["byProgram"]["name"] == "by_program"


def test_the_page_records_what_the_author_of_a_kernel_wrote() -> None:
    written = '{"xprof_metadata": "{\\"b\\": [1], \\"a\\": \\"é\\"}"}'
    for text, shown in ((written, '{"a":"é","b":[1]}'), ("{broken", ""), ('{"xprof_metadata": 3}', "")):
        name = f"%k = f32[] custom-call(), frontend_attributes={{kernel_metadata={text}}}"
        metadata = [Metadata(name, display_name="k", stats={"program_id": u64(1), "symbol_id": u64(1)})]
        core = plane("/device:TPU:0", [line("XLA Ops", [event(name, 0, 5)], id=3)], event_metadata=metadata)
        leaf = page(core, group_by="category")["byCategory"]["children"][0]["children"][0]
        assert leaf["xla"]["xprofKernelMetadata"] == shown


def test_deep_provenance_takes_no_recursion() -> None:
    metadata = [op("a", 1, "x", "/".join("ab" * 40_000))]
    core = plane("/device:TPU:0", [line("XLA Ops", [event(metadata[0].name, 0, 5)], id=3)], event_metadata=metadata)
    report = report_of(core, group_by="provenance")
    assert json.loads(report.to_xprof()) and report.to_json() and report.to_text() and report.to_svg()
    assert max(report.tables["tree"]["depth"].to_pylist()) < 110
