"""XProf's 42 commands on three real captures, and the answers that docs/from-other-tools.md names for them.

Figures with a unit equal ours after rounding to their digits. They are those of XProf 2.24.2, unless a comment says
what XProf prints instead; docs/xprof-differences.md has the reasons.
"""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path
from typing import Any

import pytest

from fastprof.cli import main as command

DOCS = Path(__file__).resolve().parents[2] / "docs" / "from-other-tools.md"
US, MS, S = 1e6, 1e9, 1e12
MIB, GIB = 2.0**20, 2.0**30
NO_COUNTERS = ("hardware-units", {"status": "cannot_answer", "reason": "No hardware units: the capture has no samples"})
Figures = dict[str, Any]
Answers = dict[str, list[tuple[str, Figures]]]
"""Commands of XProf, several with blanks between, to the commands here and what their ``--brief`` says, by the paths of
``follow``."""

COUNTERS = "get_perf_counters get_utilization_viewer get_kernel_utilization compute_utilization"
WITHOUT_ANSWER = {
    *("get_llo_analysis", "get_llo_debug_string", "get_llo_static_analysis", "get_llo_dump_analysis"),
    *("get_xspace_proto", "upload_trace", "install_skills"),
}
"""LLO is not read; the others print no figures."""

TPU: Answers = {
    "get_hosts": [("info", {"host_names": "host0", "hosts": 1})],
    "inspect_capture check_kernel_profiling list_xplane_lines": [
        ("info", {"events": 26_723, "lines": 142, "total": 7,
                  "row.event_count": 2_317, "row 5.event_count": 19_270}),
        ("diagnosis --table unrecorded", {"row.what": "Python functions"}),
    ],
    "get_profile_summary export_json get_hlo_op_profile": [
        ("op-profile --table tree?name=copy-done.4", {
            "device_total_ps": (363.729699, S), "device_idle_ps": (48_611.7951, MS),
            "row.self_ps": (77.773216, S), "row.share": (0.213821, 1)}),
        ("op-profile --table 'tree?name=loop fusion'", {"row.self_ps": 9_619_893_637_500}),  # XProf: 9,619.8937 ms
    ],
    "get_kpi_metrics": [("", {
        "duty_cycle_percent": (86.5, 1), "mxu_utilization_percent": (0.0, 1),
        "memory_utilization_percent": (4.35, 1), "peak_memory_bytes": (20.02, GIB),
        "device_type": "TPU v6 Lite", "device_count": 4,
        "step_time_p50_ps": 784_338_045_000,  # XProf: 0.00 ms
    })],
    "get_overview": [("overview", {
        "duty_cycle_percent": (86.5, 1), "device_idle_percent": (13.4, 1),
        "memory_utilization_percent": (4.35, 1), "host_count": 1, "is_training": False,
        "device_op_percent": (99.8, 1),  # XProf: 99.7 %, with the occurrences of one instruction per op
    })],
    "get_device_information": [
        ("roofline", {"peak_flops_per_s": (918_000.0, 1e9), "peak_hbm_bytes_per_s": (1_525.5, GIB),
                      "ridge_flops_per_byte": (560.442, 1), "device_type": "TPU v6 Lite"}),
        ("roofline --table 'device?resource=VMEM Read'", {
            "row.peak": (21_696.1, GIB), "row.ridge_flops_per_byte": (39.4059, 1)}),
    ],
    "get_step_trace": [("steps", {"step_count": 100, "step_time_p50_ps": 784_338_045_000})],  # no data
    "check_host_boundness": [("gaps", {  # XProf: INSUFFICIENT_DATA
        "largest_cause": "transfer", "largest_cause_share": (0.8888, 1)})],
    "get_top_hlo_ops get_hlo_stats": [
        ("hlo-stats --table ops?name=copy-done.4", {
            "op_count": 17, "device_op_ps": (315_117.9037, MS),
            "row.self_ps": (77_773_215.73125, US), "row.occurrences": 400}),
        ("hlo-stats --table ops?name=all-reduce", {
            "row.self_ps": (1_460_345.25875, US), "row.occurrences": 12,
            "row.flops_per_s": (11.02899, 1e9)}),
        ("sql 'select name, flops from hlo_stats.ops order by flops desc'", {
            "row.name": "broadcast_add_fusion.1", "row.flops": 536_870_912_000}),
    ],
    "get_kernel_stats": [
        ("kernel-stats", {"status": "cannot_answer", "reason": "No kernels: the capture has no GPU planes."}),
        ("op-stats --table device_ops?name=copy-done.2", {"row.occurrences": 400}),
        ("events --name ^%copy-done.2 --sort total_ps", {"row.total_ps": (87_957_829.8464, US)}),
    ],
    "get_device_time_attribution": [
        ("op-profile --table devices", {"row.busy_ps": (78.784, S)}),  # XProf: 78.794 s, all merged
        ("sql \"select sum(duration_ps) as ps from events where line = 'XLA Ops' and plane = '/device:TPU:0'\"",
         {"row.ps": 78_784_927_635_502}),
    ],
    "get_roofline_model": [
        ("roofline", {"bound_by": "HBM", "hbm_peak_percent": (4.35, 1),
                      "flops_per_s": (4.47, 1e9), "hbm_bytes_per_s": (66.33, GIB)}),
        ("roofline --table totals?scope=session", {
            "row.total_ps": (363_729.699, MS), "row.flops_per_byte": (0.0628, 1)}),
    ],
    "analyze_async_overlap": [  # XProf: 1,128 s in 2,395 copies, 331.7 s of them on a device that has 197.9 s
        ("communication --table operations?name=copy-start.4", {
            "row.occurrences": 400, "row.exposed_ps": 77_773_218_812_500}),
        ("events --line ^Async.XLA.Ops$ --sort total_ps", {
            "row.count": 100, "row.total_ps": 60_045_955_439_566}),
    ],
    "get_memory_profile": [("memory-profile", {
        "peak_bytes": (20.02, GIB), "capacity_bytes": (31.25, GIB),
        "peak_share": (0.6406, 1), "fragmentation_share": (0.1096, 1)})],
    "get_peak_allocations": [
        ("memory-viewer --table modules?program_id=-6255983156473747731", {
            "row.allocated_bytes": (20_480.093780517578, MIB)}),
        ("memory-viewer --table buffers_at_peak", {"row.buffer": "copy-start{0}", "row.bytes": (5_120.0, MIB)}),
    ],
    COUNTERS: [NO_COUNTERS],
    "list_hlo_modules": [("hlo", {"total": 4})],
    "get_hlo_module_content get_hlo_text": [("hlo --module jit_f", {"total": 31})],
    "get_hlo_neighborhood get_graph_viewer": [
        ("hlo --module jit_f --instruction copy-done.4 --width 2", {"total": 5})],
    "query_hlo_graph": [
        ("hlo --module jit_f --graph opcodes", {
            "row.opcode": "copy-done", "row.instruction_count": 6}),
        ("hlo --module jit_f --graph calls", {"total": 4}),
    ],
    "list_xplane_events": [("events --list", {
        "total": 26_723, "row.start_ps": 5_353_251_593_250,
        "row.duration_ps": 961_328})],
    "aggregate_xplane_events": [("events --percentiles 50,90,99 --sort total_ps", {
        "total": 351, "row.count": 400,
        "row.total_ps": (313_657_988_976_350, 1),
        "row.max_ps": (982_114_773_500, 1)})],
    "create_events_db query_events_db": [  # XProf: 25,697, without Async XLA Ops and XLA TraceMe
        ("sql 'select count(*) as n from events'", {"answer": "n = 26,723"})],
    "diff_sessions": [("compare", {"verdict": "unchanged", "step_change_ps": 0})],
}  # fmt: skip

CPU: Answers = {
    "get_hosts": [("info", {"host_names": "vm"})],
    "inspect_capture check_kernel_profiling list_xplane_lines": [
        ("info", {"events": 752, "lines": 3, "row 1.event_count": 752})],
    "get_profile_summary export_json get_hlo_op_profile": [  # XProf: no operations
        ("op-profile --table tree?name=dot.3", {"row.self_ps": 32_445_990_000})],
    "get_kpi_metrics": [("", {  # XProf: 0.0 %, -1.0 GiB
        "device_type": "CPU", "step_time_p50_ps": 272_753_000,
        "unknown.the capture has no events MemoryAllocation or MemoryDeallocation": [
            "peak_memory_bytes", "peak_memory_share"],
    })],
    "get_overview": [("overview", {"is_training": True, "host_count": 1})],
    "get_device_information": [("roofline", {  # XProf: 0.0
        "unknown.the device peaks are unknown": [
            *("peak_flops_per_s", "peak_hbm_bytes_per_s", "ridge_flops_per_byte", "compute_peak_percent"),
            "hbm_peak_percent"]})],
    "get_step_trace": [  # XProf: 8 steps of 0.0221 ms, the dispatch alone, 100 % idle
        ("steps --table steps?step=1", {"step_count": 10, "incomplete_step_count": 2,
                                        "row.period_ps": 379_346_000}),
        ("events --name ^train$", {"row.count": 10,
                                   "row.total_ps": 319_104_000}),
    ],
    "check_host_boundness": [("gaps", {  # XProf: INSUFFICIENT_DATA
        "compute_share": (0.957, 1), "largest_cause": "launch"})],
    "get_top_hlo_ops get_hlo_stats": [  # XProf: no data
        ("hlo-stats --table ops?name=dot.3", {"op_count": 22, "row.occurrences": 11,
                                              "row.self_ps": 32_445_990_000})],
    "get_kernel_stats": [
        ("kernel-stats", {"status": "cannot_answer", "reason": "No kernels: the capture has no GPU planes."}),
        ("op-stats --table host_ops?name=dot.3", {"row.occurrences": 11})],  # XProf: no kernels
    "get_device_time_attribution": [("op-stats", {"host_op_ps": (42.287, MS)})],  # XProf: no kernels
    "get_roofline_model": [("roofline", {"flops_per_s": (5.98, 1e9)})],  # XProf: no rows
    "analyze_async_overlap": [("communication", {"status": "cannot_answer", "reason": "The capture has no devices"})],
    "get_memory_profile": [("memory-profile", {
        "status": "cannot_answer",
        "reason": "No memory profile: the capture has no events MemoryAllocation or MemoryDeallocation."})],
    "get_peak_allocations": [
        ("memory-viewer --table modules?program_id=10", {
            "row.allocated_bytes": (0.593780517578125, MIB)}),
        ("memory-viewer --table modules?program_id=4", {
            "row.allocated_bytes": (0.25078582763671875, MIB)}),
    ],
    COUNTERS: [NO_COUNTERS],
    "list_hlo_modules": [("hlo", {"total": 6})],
    "get_hlo_module_content get_hlo_text": [("hlo --module jit_train_step", {"total": 114})],
    "get_hlo_neighborhood get_graph_viewer": [
        ("hlo --module jit_train_step --instruction dot.3 --width 2", {"total": 10})],
    "query_hlo_graph": [
        ("hlo --module jit_train_step --graph opcodes", {
            "row 1.opcode": "fusion", "row 1.instruction_count": 18,
            "row.unfused_count": 5}),
        ("hlo --module jit_train_step --graph calls", {"total": 19}),
    ],
    "list_xplane_events": [("events --list", {
        "total": 752, "row.name": "$contextlib.py:132 __enter__",
        "row.start_ps": 9_872_000, "row.duration_ps": 51_669_000})],
    "aggregate_xplane_events": [("events --percentiles 50,90,99 --name ^dot.3$", {
        "row.count": 11, "row.total_ps": (32_445_990_000, 1),
        "row.p50_ps": (22_092_000, 1)})],
    "create_events_db query_events_db": [("sql 'select count(*) as n from events'", {"answer": "n = 752"})],
    "diff_sessions": [("compare", {"verdict": "unchanged", "step_change_ps": 0})],
}  # fmt: skip

GPU: Answers = {
    "get_hosts": [("info", {"host_names": "34.83.195.179_6003"})],  # XProf: 179_6003
    "inspect_capture check_kernel_profiling list_xplane_lines": [
        ("info", {"events": 23_128, "lines": 37, "row.event_count": 15_354}),
        ("diagnosis --table unrecorded", {"row 1.what": "programs"}),
    ],
    "get_profile_summary export_json get_hlo_op_profile": [  # XProf: nothing but idle time
        ("op-profile", {"device_total_ps": (0.623196, S), "op_ps": (30.162, MS)})],
    "get_kpi_metrics": [("", {
        "step_time_p50_ps": (21.3, MS), "peak_memory_bytes": (5.78, GIB), "device_count": 8,
        "duty_cycle_percent": (4.8, 1)})],  # XProf: N/A
    "get_overview": [("overview", {
        "step_time_mean_ps": (21.3, MS), "device_op_percent": (18.5, 1),  # XProf: 0.0 %
        "device_count": 8})],
    "get_device_information": [("roofline", {
        "peak_hbm_bytes_per_s": (836.372, GIB), "peak_flops_per_s": (125.3, 1e12)})],  # XProf: 0.0
    "get_step_trace": [("steps --table steps", {
        "step_count": 1, "row.period_ps": (21.3104, MS),
        "row.device_compute_ps": (14.865, MS),  # XProf: 14.8755, with copies
        "row.input_ps": (2.385, MS)})],  # XProf: 0.0
    "check_host_boundness": [("gaps", {  # XProf: NOT_HOST_BOUND, with every figure 0
        "idle_share": (0.989, 1), "largest_cause": "idle"})],
    "get_top_hlo_ops get_hlo_stats": [  # XProf: no data
        ("hlo-stats", {"op_count": 1_356, "device_op_ps": (30.162, MS)})],
    "get_kernel_stats": [("kernel-stats", {  # XProf: first "0", "bert_span_labeler" and other scopes
        "kernel_count": 15, "occurrences": 1_330,
        "row.total_ps": (7_908.309, US), "row.occurrences": 194})],
    "get_device_time_attribution": [
        ("streams --table 'streams?stream=Stream #142(Compute)'", {
            "row.compute_ps": (14.865363, MS), "row.count": 665}),
        ("streams --table 'streams?stream=Stream #135(MemcpyH2D)'", {"row.copy_ps": (153.853, US)}),
        ("sql \"select sum(duration_ps) as ps from events where line = 'TensorFlow Ops'\"", {
            "row.ps": (29_690.748, US)}),
    ],
    "get_roofline_model": [("roofline --table totals?scope=session", {
        "row.total_ps": (623.196, MS),
        "unknown.no op records its work": [
            "flops_per_s", "hbm_bytes_per_s", "compute_peak_percent", "hbm_peak_percent"]})],  # XProf: 0.00 %
    "analyze_async_overlap": [("communication", {  # XProf: no events
        "exposed_ps": (0.377, MS), "hidden_ps": (94.24, US)})],
    "get_memory_profile": [("memory-profile", {
        "peak_bytes": (5.78, GIB), "fragmentation_share": (0.001, 1),
        "capacity_bytes": (14.41, GIB), "peak_share": (0.401, 1)})],  # XProf: 64 GiB, 9.03 %
    "get_peak_allocations": [("memory-viewer", {
        "status": "cannot_answer", "reason": "No programs: the capture carries no compiled programs."})],
    COUNTERS: [NO_COUNTERS],
    "list_hlo_modules get_hlo_module_content get_hlo_text get_hlo_neighborhood get_graph_viewer query_hlo_graph": [
        ("hlo", {"status": "cannot_answer", "reason": "No programs: the session has no compiled programs",
                 "remedy": "Profile a compiled program while it runs."})],
    "list_xplane_events": [("events --list", {
        "total": 23_128, "row.start_ps": 2_575_285_879_000,
        "row.duration_ps": 49_493_000})],
    "aggregate_xplane_events": [("events --percentiles 50,90,99 --name ^dropout$", {
        "row.count": 928, "row.total_ps": (24_757.142, US)})],
    "create_events_db query_events_db": [  # XProf: 16,910, without steps, name scopes and TensorFlow ops
        ("sql 'select count(*) as n from events'", {"answer": "n = 23,128"})],
    "diff_sessions": [
        ("compare", {"answer": "Cannot compare: a run has fewer than two complete steps."}),
        ("compare --table ops", {"total": 1_330, "row.status": "unchanged"}),
    ],
}  # fmt: skip
ANSWERS = {"tpu-v6e-jax-inference": TPU, "cpu-jax-train": CPU, "gpu-v100x8-tf": GPU}
ASKED = [
    pytest.param(name, words, figures, id=f"{name}-{words or 'summary'}")
    for name, answers in ANSWERS.items()
    for each in answers.values()
    for words, figures in each
]


@pytest.mark.captures
@pytest.mark.parametrize(("name", "words", "figures"), ASKED)
def test_a_command_has_the_figures(
    captures: Path, name: str, words: str, figures: Figures, capsys: pytest.CaptureFixture[str]
) -> None:
    session = str(captures / "xspace" / name)
    verb, *flags = shlex.split(words) or ["summary"]
    query = [flags.pop()] if verb == "sql" else []
    sessions = [session] * (2 if verb == "compare" else 1)
    command.main([verb, *sessions, *query, *flags, "--brief", "-q"])
    document = json.loads(capsys.readouterr().out)
    found = {path: follow(document, path) for path in figures}
    assert found == {path: expect(found[path], figure) for path, figure in figures.items()}


def follow(document: Any, path: str) -> Any:
    """Return a figure; ``row.NAME`` and ``row 1.NAME`` are cells of the first table, ``total`` are its rows, and
    ``unknown.REASON`` are the figures that are unknown for a reason."""
    if path in ("status", "reason", "remedy", "answer"):
        return document[path]
    place, _, name = path.partition(".")
    if place == "unknown":
        return document["unknown"].get(name)
    if not name and place != "total":
        return document["figures"][path]
    table = next(iter(document["tables"].values()))
    return table["rows"][int(place[4:] or 0)][name] if name else table["total"]


def expect(found: Any, figure: Any) -> Any:
    """Return what ``found`` is if it equals the figure: itself after rounding to the digits of the figure."""
    if isinstance(figure, str) and isinstance(found, str) and found.startswith(figure):
        return found
    if not isinstance(figure, tuple):
        return figure
    number, unit = figure
    digits = len(str(number).partition(".")[2])
    return found if round(found / unit, digits) == number else number * unit


def read_documented() -> dict[str, str]:
    """Return what the docs name for each of XProf's commands."""
    rows = re.findall(r"^\| (`[a-z_]+`(?:, `[a-z_]+`)*) \| (.+) \|$", DOCS.read_text(encoding="utf-8"), re.MULTILINE)
    return {name: answer for names, answer in rows for name in re.findall(r"`([a-z_]+)`", names)}


@pytest.mark.parametrize("name", ANSWERS)
def test_every_command_has_an_answer_that_the_docs_name(name: str) -> None:
    documented = read_documented()
    answered = {one: [words for words, _ in each] for names, each in ANSWERS[name].items() for one in names.split()}
    assert len(answered) + len(WITHOUT_ANSWER) == 42
    assert {*answered} | WITHOUT_ANSWER <= {*documented}
    for one, commands in answered.items():
        verbs = {(words or "fastprof SESSION --brief").partition(" ")[0] for words in commands}
        named = documented[one]
        assert {verb for verb in verbs - {"fastprof", "events"} if f"`{verb}" not in named} == set(), one
