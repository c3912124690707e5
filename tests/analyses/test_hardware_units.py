"""Hardware units: how long values hold, means by time, programs and ops, and counters by id."""

from __future__ import annotations

import math
import random
from collections import defaultdict
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from gate import few
from reports import figures, notices, records, rows, session_of
from trace_builder import Event, Line, Value, event, line, plane, u64, xspace

import fastprof
from fastprof.analyses import hardware_units
from fastprof.derive.ops.unit_use import list_unit_peaks, read_counter_names

MS = 10**9
USE = ("unit", "known_ps", "mean_percent", "peak_percent", "busy_ps", "high_ps", "samples", "total")


def sample(unit: str, start: int, duration: int, value: Value, stat: str = "% util") -> Event:
    return event(unit, start, duration, {stat: value})


def counters(*samples: Event) -> Line:
    return line("_counters_", samples, id=2**32 - 1)


def report_of(*lines: Line, **rest: Any) -> fastprof.Report:
    return session_of(xspace(plane("/device:TPU:0", lines, id=2, **rest), hostnames=["vm"])).hardware_units()


def log(profile: fastprof.Profile) -> list[tuple[str, int]]:
    return [(row["code"], row["count"]) for row in profile.tables["import_log"].to_pylist()]


SAMPLES = counters(
    sample("MXU", 0, 10 * MS, 80.5),
    sample("Scalar ALU", 0, 10 * MS, 12.5),
    sample("MXU", 20 * MS, 10 * MS, 20.0),
    sample("Vector Spills", 30 * MS, 10 * MS, 4.0, "spills"),
)
MODULES = line("XLA Modules", [event("jit_f(1)", 5 * MS, 10 * MS), event("jit_g(2)", 15 * MS, 10 * MS)], id=3)
OPS = line("XLA Ops", [
    event("while", 5 * MS, 10 * MS), event("fusion.1", 5 * MS, 5 * MS), event("fusion.2", 12 * MS, MS),
    event("dot.3", 15 * MS, 10 * MS),
], id=4)  # fmt: skip
KERNEL = line("Tensor Core", [event("bundles 0-9", 0, 35 * MS)], id=5)


def test_a_value_holds_until_the_next_of_its_unit_and_the_last_until_samples_end() -> None:
    assert rows(report_of(SAMPLES), "units", *USE) == [
        ("MXU", 40 * MS, 50.25, 80.5, 20_100_000_000, 20 * MS, 2, None),
        ("Scalar ALU", 40 * MS, 12.5, 12.5, 5 * MS, 0, 1, None),
        ("Vector Spills", 10 * MS, None, None, None, None, 1, 4.0),
    ]


def test_programs_and_ranges_have_the_values_that_hold_while_they_run() -> None:
    report = report_of(SAMPLES, MODULES, KERNEL)
    assert rows(report, "programs", "kind", "program", *USE) == [
        (
            "range",
            "bundles 0-9",
            "MXU",
            35 * MS,
            19_100_000_000 / 35 / MS * 100,
            80.5,
            19_100_000_000,
            20 * MS,
            2,
            None,
        ),
        ("program", "jit_f(1)", "MXU", 10 * MS, 80.5, 80.5, 8_050_000_000, 10 * MS, 0, None),
        ("program", "jit_g(2)", "MXU", 10 * MS, 50.25, 80.5, 5_025_000_000, 5 * MS, 1, None),
        ("range", "bundles 0-9", "Scalar ALU", 35 * MS, 12.5, 12.5, 4_375_000_000, 0, 1, None),
        ("program", "jit_f(1)", "Scalar ALU", 10 * MS, 12.5, 12.5, 1_250_000_000, 0, 0, None),
        ("program", "jit_g(2)", "Scalar ALU", 10 * MS, 12.5, 12.5, 1_250_000_000, 0, 0, None),
        ("range", "bundles 0-9", "Vector Spills", 5 * MS, None, None, None, None, 1, 4.0),
    ]
    assert notices(report) == ["bundles 0-9 spills most vector registers: 4 in its samples."]


def test_ops_that_enclose_others_are_left_out() -> None:
    report = report_of(SAMPLES, MODULES, OPS)
    assert rows(report, "ops", "program", "op", "unit", "known_ps", "mean_percent", "high_ps") == [
        ("jit_g(2)", "dot.3", "MXU", 10 * MS, 50.25, 5 * MS),
        ("jit_f(1)", "fusion.1", "MXU", 5 * MS, 80.5, 5 * MS),
        ("jit_g(2)", "dot.3", "Scalar ALU", 10 * MS, 12.5, 0),
        ("jit_f(1)", "fusion.2", "MXU", MS, 80.5, MS),
        ("jit_f(1)", "fusion.1", "Scalar ALU", 5 * MS, 12.5, 0),
        ("jit_f(1)", "fusion.2", "Scalar ALU", MS, 12.5, 0),
    ]


def test_ops_of_several_devices_and_hosts_add_up() -> None:
    def host(name: str, value: float) -> bytes:
        lines = [counters(sample("MXU", 0, 10 * MS, value)), OPS]
        return xspace(*(plane(f"/device:TPU:{n}", lines, id=2 + n) for n in range(2)), hostnames=[name])

    report = session_of(host("a", 90.0), host("b", 30.0)).hardware_units()
    assert rows(report, "ops", "program", "op", "unit", "known_ps", "mean_percent", "peak_percent") == [
        (None, "fusion.1", "MXU", 20 * MS, 60.0, 90.0)
    ]
    assert rows(report, "units", "host", "device", "mean_percent") == [
        ("a", "/device:TPU:0", 90.0), ("a", "/device:TPU:1", 90.0),
        ("b", "/device:TPU:0", 30.0), ("b", "/device:TPU:1", 30.0),
    ]  # fmt: skip
    known = figures(report)
    assert (known["device_count"], known["busiest_unit"], known["matrix_percent"]) == (4, "MXU", 60.0)


def test_figures_name_the_busiest_unit_and_why_others_are_unknown() -> None:
    assert figures(report_of(SAMPLES)) == {
        "device_count": 1, "sampled_device_count": 1, "sample_count": 4, "busiest_unit": "MXU",
        "busiest_percent": 50.25, "matrix_percent": 50.25, "spills": 4, "counter_count": 0,
    }  # fmt: skip
    report = report_of(counters(sample("Vector ALU", 0, 10, 70.0)))
    assert report.scalars["matrix_percent"].reason == "the capture has no samples of the matrix units (MXU)"
    assert report.scalars["spills"].reason == "the capture does not count spills"


def test_a_capture_without_samples_says_so() -> None:
    report = report_of(MODULES, OPS)
    assert [report.tables[name].num_rows for name in report.tables] == [0] * 5
    assert {name for name, value in figures(report).items() if value is not None} == {"device_count"}
    assert notices(report) == [
        "No hardware units: the capture has no samples of them (% util, fills, spills) and no values of hardware "
        "counters."
    ]


@pytest.mark.parametrize("value", [math.nan, math.inf, -1.0, 100.5, 1e308, -5])
def test_values_that_are_no_percentages_are_unknown_and_counted(value: Value) -> None:
    profile = session_of(xspace(plane("/device:TPU:0", [
        counters(sample("MXU", 0, 10, 50.0), sample("MXU", 10, 10, value), sample("MXU", 30, 10, 10.0)), KERNEL,
    ])))  # fmt: skip
    report = profile.hardware_units()
    assert rows(report, "units", *USE) == [("MXU", 20, 30.0, 50.0, 6, 0, 2, None)]
    assert ("unusable_unit_value", 1) in log(profile)


def test_texts_and_other_stats_are_not_samples() -> None:
    report = report_of(counters(sample("MXU", 0, 10, "50"), sample("power", 0, 10, 5.0, "power"), event("MXU", 5, 10)))
    assert report.tables["units"].num_rows == 0


def test_of_samples_that_start_together_the_first_counts() -> None:
    profile = session_of(
        xspace(plane("/device:TPU:0", [counters(sample("MXU", 0, 10, 50.0), sample("MXU", 0, 10, 10.0))]))
    )
    assert rows(profile.hardware_units(), "units", "mean_percent", "samples") == [(50.0, 1)]
    assert ("repeated_unit_samples", 1) in log(profile)


def test_samples_without_duration_hold_for_no_time() -> None:
    (row,) = records(report_of(counters(sample("MXU", 5, 0, 50.0)), KERNEL), "units")
    assert (row["known_ps"], row["mean_percent"], row["samples"]) == (0, None, 1)


def test_means_over_hours_are_exact_for_short_ops() -> None:
    """A sum of hours in doubles would be wrong by more than the op is long."""
    hour = 3600 * 10**12
    samples = counters(sample("MXU", 0, hour, 33.333333), sample("MXU", hour, hour, 66.666667))
    ops = line("XLA Ops", [event("a", hour - 7, 8), event("b", hour + 3 * 10**12, 3)], id=4)
    assert rows(report_of(samples, ops), "ops", "op", "known_ps", "mean_percent", "busy_ps") == [
        ("a", 8, pytest.approx((7 * 33.333333 + 66.666667) / 8, rel=1e-15), 3),
        ("b", 3, pytest.approx(66.666667, rel=1e-15), 2),
    ]


def test_counters_by_id_are_listed_as_recorded() -> None:
    def read(name: str, value: Value, **rest: Value) -> Event:
        return event(name, 0, 1, {"counter_value": value, **rest})

    words = {"performance_counter_description": "cycles", "performance_counter_sets": "TC"}
    kernel = line("kernel", [
        read("CYCLES", u64(5), performance_counter_id=7, **words), read("LARGE", u64(2**63)), read("NONE", "text"),
        event("OTHER", 0, 1),
    ], id=9)  # fmt: skip
    report = session_of(xspace(plane("/device:TPU:3", [kernel]), hostnames=["vm"])).hardware_units()
    assert report.tables["counters"].to_pylist() == [
        {"host": "vm", "device": "/device:TPU:3", "kernel": "kernel", "sample": 9, "op": None, "top_op": None,
         "counter": "CYCLES", "counter_id": 7, "value": 5, "real_value": None, "description": "cycles", "sets": "TC"},
        {"host": "vm", "device": "/device:TPU:3", "kernel": "kernel", "sample": 9, "op": None, "top_op": None,
         "counter": "LARGE", "counter_id": None, "value": None, "real_value": None, "description": None, "sets": None},
    ]  # fmt: skip
    assert figures(report)["counter_count"] == 2


def test_selected_steps_choose_programs_and_ops_but_no_samples() -> None:
    profile = session_of(xspace(plane("/device:TPU:0", [SAMPLES, MODULES, OPS], id=2), hostnames=["vm"]))
    report = profile.select(steps=0).hardware_units()
    assert rows(report, "programs", "program", "unit") == [("jit_f(1)", "MXU"), ("jit_f(1)", "Scalar ALU")]
    assert rows(report, "units", "unit", "samples") == [("MXU", 2), ("Scalar ALU", 1), ("Vector Spills", 1)]


def test_host_threads_are_read_only_on_hosts_with_gpus() -> None:
    for device, needs_threads in (("/device:TPU:0", False), ("/device:GPU:0", True)):
        planes = hardware_units.READS.planes_of([("/host:CPU", 0), (device, 1)])
        assert (r"^/host:" in planes) is needs_threads


# ---- counters of known TPUs

CORE = "VF_CHIP_TC_TCS_TC_MISC_TCS_STATS_TCS_STATS_COUNTERS_UNPRIVILEGED_COUNT_"
PEAK = ("core", "metric", "achieved", "peak", "measured_in", "percent")


def counted(kernel: str, values: dict[str, int], ids: dict[str, int] | None = None) -> Line:
    """Return a line of counters by name, or by id alone if ``ids`` has it."""
    stats = {name: {"counter_value": u64(value)} for name, value in values.items()}
    given = {name: {"performance_counter_id": u64(number)} for name, number in (ids or {}).items()}
    return line(kernel, [
        event("" if name in given else name, 0, 10, {**own, **given.get(name, {})}) for name, own in stats.items()
    ], id=7)  # fmt: skip


def peaks_of(device: str, *lines: Line) -> list[tuple[Any, ...]]:
    return rows(report_of(*lines, stats={"device_type_string": device}), "peaks", *PEAK)


def test_units_of_tpu_v6e_reach_shares_of_their_peaks() -> None:
    hbm = "VF_CHIP_HBM_1_HBMC_15_CMN_HI_FREQ_STATS_COUNTERS_UNPRIVILEGED_"
    values = {
        f"{CORE}CYCLES": 1_750, f"{CORE}SCALAR_ALU_INSTRUCTION_0": 300, f"{CORE}SCALAR_ALU_INSTRUCTION_1": 50,
        f"{CORE}MATMUL_LMR_BF16_MXU_1": 100, f"{CORE}MATMUL_VREG_I8_MXU_0": 10,
        f"{hbm}RD_RESP_PS0": 7, f"{hbm}PARTIAL_WRITE_REQ_PS1": 3,
        "VF_CHIP_SC_1_SCT_0_SC_STATS_COUNTERS_UNPRIVILEGED_COUNT_CYCLES": 100,
        "VF_CHIP_SC_1_SCT_9_SC_STATS_COUNTERS_UNPRIVILEGED_COUNT_VECTOR_ISSUE": 400,
    }  # fmt: skip
    bytes_in_a_microsecond = 1525.5 * 2**30 / 1e6
    for lower in (False, True):
        line = counted("dot", {name.lower() if lower else name: value for name, value in values.items()})
        assert peaks_of("TPU v6 Lite", line) == [
            (0, "Scalar Unit", 350.0, 3_500.0, "instructions", 10.0),
            (0, "MXU BF16", 400.0, 3_500.0, "cycles", pytest.approx(100 * 4 / 35)),
            (0, "MXU I8", 80.0, 3_500.0, "cycles", pytest.approx(100 * 8 / 350)),
            (0, "MXU0", 80.0, 1_750.0, "cycles", pytest.approx(100 * 8 / 175)),
            (0, "MXU1", 400.0, 1_750.0, "cycles", pytest.approx(100 * 4 / 17.5)),
            (0, "HBM", 320.0, pytest.approx(bytes_in_a_microsecond), "bytes",
             pytest.approx(32_000 / bytes_in_a_microsecond)),
            (0, "HBM (Read)", 224.0, pytest.approx(bytes_in_a_microsecond), "bytes",
             pytest.approx(22_400 / bytes_in_a_microsecond)),
            (0, "HBM (Write)", 96.0, pytest.approx(bytes_in_a_microsecond), "bytes",
             pytest.approx(9_600 / bytes_in_a_microsecond)),
            (1, "SparseCore tiles: vector issue", 400.0, 1_600.0, "instructions", 25.0),
        ]  # fmt: skip


def test_units_of_tpu_v7x_are_of_a_die_each() -> None:
    die = "VF_CHIP_DIE1_"
    core = f"{die}TC_TCS_TC_MISC_TCS_STATS_TCS_STATS_COUNTERS_UNPRIVILEGED_COUNT_"
    throttle = f"{die}PWRMGR_PWRMGR_TC_THROTTLE_CORE_DEBUG_STATS_UNPRIVILEGED_"
    values = {
        f"{throttle}CYCLE_COUNT": 1_000, f"{throttle}CLOCKS_SKIPPED": 20, f"{core}MATMUL_VREG_F8_MXU_0": 50,
        f"{core}XLU_BUSY_1": 200, f"{core}XLU_BUSY_2": 300, f"{core}TRANSPOSE_XLU_1": 250,
    }  # fmt: skip
    assert peaks_of("TPU v7x", counted("dot", values)) == [
        (1, "Clocks Skipped", 20.0, 1_000.0, "cycles", 2.0),
        (1, "Avg XLU Busy", 400.0, 1_000.0, "cycles", 40.0),
        (1, "MXU E4M3 + E5M2", 400.0, 2_000.0, "cycles", 20.0),
        (1, "MXU0", 400.0, 1_000.0, "cycles", 40.0),
        (1, "XLU1", 250.0, 1_000.0, "instructions", 25.0),
    ]
    assert peaks_of("TPU v5 lite", counted("dot", values)) == []


def test_counters_without_a_name_are_named_by_their_id() -> None:
    """The 16th tile of the second SparseCore: ids go on by tile and core."""
    name = "VF_CHIP_SC_1_SCT_15_SC_STATS_COUNTERS_UNPRIVILEGED_COUNT_VECTOR_ISSUE"
    number = next(number for number, known in read_counter_names("TPU v6 Lite").items() if known == name)
    line = counted("dot", {"a": 5, "b": 6, "mine": 7}, {"a": number, "b": 1})
    report = report_of(line, stats={"device_type_string": "TPU v6 Lite"})
    assert rows(report, "counters", "counter", "counter_id", "value") == [
        (name, number, 5), ("", 1, 6), ("mine", None, 7),
    ]  # fmt: skip


@pytest.mark.parametrize(("device", "table"), [("TPU v6 Lite", "v6e"), ("TPU v7x", "v7x")])
def test_names_are_those_that_were_observed(captures: Path, device: str, table: str) -> None:
    observed = (captures.parent / "spec" / "tables" / f"tpu_counter_ids_{table}.csv").read_text().split()[1:]
    named = {int(number): name for name, number in (row.split(",") for row in observed)}
    known = read_counter_names(device)
    assert known == named
    used = {name for unit in list_unit_peaks(device) for name in (*unit.achieved, *unit.peak)}
    assert used <= set(known.values())


# ---- an oracle


def slow_use(samples: list[tuple[int, int, float]], spans: list[tuple[str, int, int]]) -> dict[str, tuple[Any, ...]]:
    """Picosecond by picosecond: known time, mean, peak and high time by name."""
    end = max(start + duration for start, duration, _ in samples)
    held: dict[int, float] = {}
    for start, _, value in sorted(samples, key=lambda one: one[0], reverse=True):
        for time in range(start, end):
            held.setdefault(time, value)
    first = min(start for start, _, _ in samples)
    found: dict[str, list[float]] = defaultdict(list)
    for name, start, duration in spans:
        values = [held[time] for time in range(max(start, first), min(start + duration, end))]
        found[name] += [value for value in values if 0 <= value <= 100]
    return {
        name: (len(values), float(sum(map(Fraction, values)) / len(values)), max(values), sum(v > 80 for v in values))
        for name, values in found.items() if values
    }  # fmt: skip


@pytest.mark.parametrize("seed", few(range(12), 5))
def test_random_samples_and_ops_agree_with_the_oracle(seed: int) -> None:
    chance = random.Random(seed)
    starts = sorted(chance.sample(range(20, 400), 25))
    samples = [
        (start, chance.randrange(1, 40), chance.choice([chance.random() * 100, 81.0, 150.0])) for start in starts
    ]
    at, spans = 0, []
    while at < 480:
        spans.append((chance.choice("abcd"), at, chance.randrange(1, 30)))
        at += spans[-1][2] + chance.randrange(0, 9)
    given = [
        counters(*(sample("MXU", *one) for one in samples)), line("XLA Ops", [event(*one) for one in spans], id=4),
    ]  # fmt: skip
    found = {
        row[0]: row[1:]
        for row in rows(report_of(*given), "ops", "op", "known_ps", "mean_percent", "peak_percent", "high_ps")
    }
    expected = slow_use(samples, spans)
    assert found.keys() == expected.keys()
    for name, (known, mean, peak, high) in expected.items():
        assert (found[name][0], found[name][3]) == (known, high)
        assert found[name][1:3] == (pytest.approx(mean, abs=1e-6), pytest.approx(peak, abs=1e-6))
