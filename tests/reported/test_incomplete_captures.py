"""Reports that rest on records of devices say that some are missing or wrong, each once."""

from __future__ import annotations

from pathlib import Path

import pytest

import fastprof
from fastprof.analyses import ANALYSES

HERE = Path(__file__).parent
OF_HOSTS = ("memory_viewer", "memory_profile", "tf_data")
NOT_OF_TORCH = ("hlo_stats", "inference")


def load(name: str) -> fastprof.Profile:
    return fastprof.load(next(HERE.glob(f"{name}.*")))


def warnings(report: fastprof.Report) -> list[str]:
    return [one.text for one in report.notices if one.text.startswith("Capture incomplete: ")]


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("i05-lostkernels", "4 of 8 launches have no kernel (50 %)"),
        ("i36-nokernels", "8 of 8 launches have no kernel (100 %)"),
        ("i04-bogusdur", "1 device event is impossible and not counted"),
        ("x9-cuptierr", "the profiler recorded: CUPTI_ERROR_INSUFFICIENT_PRIVILEGES"),
    ],
)
def test_each_report_of_devices_says_it_once(name: str, text: str) -> None:
    """Reports that are made alone, too."""
    silent = (*OF_HOSTS, *(() if name.startswith("x9") else NOT_OF_TORCH))
    together = load(name).reports(*ANALYSES)
    for analysis, report in together.items():
        for one in (report, load(name).report(analysis)):
            said = warnings(one)
            assert len(said) == (analysis not in silent), analysis
            assert all(text in each for each in said), analysis


@pytest.mark.parametrize("name", ["i36-nokernels", "x9-cuptierr"])
def test_missing_records_are_why_figures_of_devices_are_unknown(name: str) -> None:
    profile = load(name)
    why = profile.diagnosis().scalars["window_ps"].reason
    for analysis, figures in (
        ("communication", ("recorded_ps", "compute_share", "exposed_share", "step_exposed_mean_ps")),
        ("overview", ("duty_cycle_percent", "device_idle_percent", "device_op_percent", "compute_16bit_percent")),
        ("op_stats", ("device_total_ps", "device_idle_ps")),
        ("op_profile", ("device_total_ps",)),
        ("streams", ("stream_count", "idle_share")),
        ("gaps", ("window_ps", "idle_share")),
        ("kernel_stats", ("kernel_count",)),
    ):
        scalars = profile.report(analysis).scalars
        assert {(scalars[one].value, scalars[one].reason) for one in figures} == {(None, why)}, analysis


def test_steps_whose_kernels_are_lost_are_no_part_of_means() -> None:
    """Steps 1 and 2 of 4 have lost their kernels; the others compute 0.5 of 1 ms. Step 4 may be cut off."""
    profile = load("i05-lostkernels")
    steps, cores = profile.steps().tables["steps"], profile.pod_viewer().tables["cores"]
    for table in (steps, cores):
        assert table["device_compute_ps"].to_pylist() == [None, None, 5 * 10**8, 5 * 10**8]
        assert table["input_ps"].to_pylist() == [None] * 4
        assert b"not fully recorded" in table.schema.field("device_compute_ps").metadata[b"reason"]
        assert b"would not show input" in table.schema.field("input_ps").metadata[b"reason"]
    assert steps["all_others_ps"].to_pylist() == [None, None, 5 * 10**8, 5 * 10**8]
    mean = {row["category"]: row["mean_ps"] for row in profile.overview().tables["breakdown"].to_pylist()}
    assert (mean["device_compute"], mean["all_others"], mean["input"]) == (5 * 10**8, 5 * 10**8, None)
    assert profile.overview().scalars["step_time_shared_out_ps"].value == 10**9
    assert set(profile.input_pipeline().tables["step_breakdown"]["step"].to_pylist()) == {3, 4}


def test_a_capture_without_devices_keeps_its_reasons() -> None:
    """Nothing is missing, so nothing is said."""
    path = HERE.parent / "planted" / "loops" / "torch_step_at_begin.pt.trace.json.gz"
    profile = fastprof.load(path)
    assert warnings(profile.communication()) == []
    reason = profile.communication().scalars["exposed_share"].reason
    assert str(reason).startswith("the capture has no devices")


def test_hosts_with_the_same_fault_are_one_warning(tmp_path: Path) -> None:
    for number in range(3):
        (tmp_path / f"vm{number}.xplane.pb").write_bytes(next(HERE.glob("x9-cuptierr.*")).read_bytes())
    (said,) = warnings(fastprof.load(tmp_path).steps())
    assert said.startswith("Capture incomplete: vm0: the profiler recorded: CUPTI_ERROR_INSUFFICIENT_PRIVILEGES")
    assert "; so have 2 other hosts. Fix" in said
