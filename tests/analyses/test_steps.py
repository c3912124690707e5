"""The report on steps: its tables whole, and why there are none."""

from __future__ import annotations

from typing import Any

import pytest
from reports import rows, session_of
from step_captures import HOST, US, host, ran, spaces, step, tpu
from trace_builder import event, line, plane

import fastprof
from fastprof.analyses import steps as analysis
from fastprof.errors import UsageError


def report_of(*captures: bytes, **params: Any) -> fastprof.Report:
    return session_of(*captures).report("steps", **params)


def cpu(count: int, duration: float = 8, name: str = "vm") -> bytes:
    """Steps each 10 microseconds; the op of step k takes k + 1 of them, waiting for input 1. The last one counts if its
    marker is long enough to show where it ends."""
    events = []
    for k in range(count):
        events += [step(k, 10 * k, duration), ran("IteratorGetNext", 10 * k, 1), ran("op", 10 * k + 1, k + 1)]
    return spaces(host(events), hostnames=[name])


def test_every_step_has_a_row() -> None:
    report = report_of(cpu(3))
    assert report.tables["steps"].select([
        "step", "group_id", "name", "host", "core_name", "core_id", "sparse_core", "complete", "start_ps",
        "duration_ps", "period_ps", "host_compute_ps", "input_ps", "all_others_ps", "device_compute_ps",
        "host_to_host_ps",
    ]).to_pylist() == [
        {
            "step": k, "group_id": k, "name": f"train {k}", "host": report.tables["steps"]["host"][0].as_py(),
            "core_name": "vm", "core_id": 1, "sparse_core": False, "complete": k < 2, "start_ps": 10 * k * US,
            "duration_ps": 8 * US, "period_ps": period * US, "host_compute_ps": (k + 1) * US, "input_ps": US,
            "all_others_ps": others * US, "device_compute_ps": None, "host_to_host_ps": 0,
        }
        for k, period, others in ((0, 10, 8), (1, 10, 7), (2, 8, 4))
    ]  # fmt: skip


def test_the_breakdown_adds_up_to_the_step() -> None:
    assert rows(report_of(cpu(3)), "breakdown", "step", "kind", "time_ps", "share") == [
        (0, "unknown_time", 8 * US, 0.8),
        (0, "host_compute", US, 0.1),
        (0, "host_wait_input", US, 0.1),
        (1, "unknown_time", 7 * US, 0.7),
        (1, "host_compute", 2 * US, 0.2),
        (1, "host_wait_input", US, 0.1),
        (2, "unknown_time", 4 * US, 0.5),
        (2, "host_compute", 3 * US, 0.375),
        (2, "host_wait_input", US, 0.125),
    ]


def test_incomplete_steps_are_there_and_do_not_count() -> None:
    report = report_of(cpu(8, 9.5))
    assert [row[0] for row in rows(report, "steps", "complete")] == [False, *[True] * 6, False]
    assert report.scalars["step_count"].value == 8 and report.scalars["incomplete_step_count"].value == 2
    compute = [row for row in report.tables["step_summary"].to_pylist() if row["quantity"] == "host_compute"]
    assert compute == [{
        "host": compute[0]["host"], "core_id": 1, "quantity": "host_compute", "count": 6, "mean_ps": 4.5 * US,
        "stdev_ps": pytest.approx(1.8708286933869707 * US), "min_ps": 2 * US, "p50_ps": 4 * US, "p90_ps": 7 * US,
        "p99_ps": 7 * US, "max_ps": 7 * US,
    }]  # fmt: skip
    assert rows(report, "step_summary", "core_id", "quantity") == [
        (None, "step_time"), (1, "step_time"), (1, "host_compute"), (1, "input"), (1, "all_others"),
    ]  # fmt: skip


def test_figures_are_of_the_slowest_core() -> None:
    late = [one for k in range(3) for one in (step(k, 12 * k, 9), ran("op", 12 * k, 1))]
    report = report_of(cpu(3, 8, "a"), spaces(host(late), hostnames=["b"]))
    figures = {name: scalar.value for name, scalar in report.scalars.items()}
    assert figures["step_time_mean_ps"] == 12 * US and figures["step_time_stdev_ps"] == 0.0
    assert (figures["host_count"], figures["core_count"], figures["step_count"]) == (2, 2, 3)


def test_the_slowest_host_of_a_step_is_a_straggler() -> None:
    report = report_of(*(cpu(1, duration, name) for duration, name in ((8, "a"), (12, "b"), (9, "c"))))
    assert rows(
        report, "stragglers", "step", "core_name", "core_id", "core_count", "duration_ps", "median_ps", "excess_ps",
        "excess_share", "category", "category_excess_ps",
    ) == [(0, "b", 1, 3, 12 * US, 9 * US, 3 * US, pytest.approx(1 / 3), "all_others", 3 * US)]  # fmt: skip


def test_on_a_tpu_host_the_core_that_computes_longest_is_the_straggler() -> None:
    def core(ordinal: int, fusion: float, wait: float) -> Any:
        ops = [("f", "fusion", 10, fusion), ("ar", "all-reduce", 10 + fusion, wait)]
        return tpu(ordinal, [ran("0", 0, 100)], ops)

    report = report_of(spaces(core(0, 30, 40), core(1, 65, 5), core(2, 40, 30)))
    assert rows(report, "stragglers", "core_name") == []  # it took no core longer than the others
    quick = [tpu(k, [ran("0", 0, 80)], [("f", "fusion", 0, 30)]) for k in range(2)]
    late = report_of(spaces(core(0, 30, 40), core(1, 65, 5), hostnames=["a"]), spaces(*quick, hostnames=["b"]))
    assert rows(late, "stragglers", "core_name", "excess_ps", "category", "category_excess_ps") == [
        ("a:1", 20 * US, "device_compute", 35 * US)
    ]


def test_a_straggler_has_the_category_that_holds_half_of_its_excess() -> None:
    quick = [tpu(k, [ran("0", 0, 80)], [("f", "fusion", 0, 30)]) for k in range(2)]
    idle = [tpu(k, [ran("0", 0, 100)], [("f", "fusion", 0, 30 + k)]) for k in range(2)]  # computes 1 longer, idles 19
    report = report_of(spaces(*idle, hostnames=["a"]), spaces(*quick, hostnames=["b"]))
    assert rows(report, "stragglers", "core_name", "excess_ps", "category", "category_excess_ps") == [
        ("a:1", 20 * US, "all_others", 19 * US)
    ]


@pytest.mark.parametrize(
    ("waited", "computed", "category", "excess"),
    [
        (1.5, 1, None, 0),
        (1, 1, "all_others", 2),
        (1, 2, "host_compute", 2),
        (0, 2, "host_compute", 2),
        (3, 0, "input", 3),
    ],
)
def test_no_category_explains_a_straggler_if_each_is_less_than_half_of_its_excess(
    waited: float, computed: float, category: str | None, excess: float
) -> None:
    """The slow one takes 4 longer: it waits for input and computes longer, and the rest is neither."""

    def one(name: str, waited: float, computed: float, duration: float) -> bytes:
        ops = [ran("IteratorGetNext", 0, waited), ran("op", waited, computed)]
        return spaces(host([step(0, 0, duration), *ops]), hostnames=[name])

    report = report_of(one("a", 1, 1, 3), one("b", 1 + waited, 1 + computed, 7), one("c", 1, 1, 3))
    assert rows(report, "stragglers", "core_name", "excess_ps", "category", "category_excess_ps") == [
        ("b", 4 * US, category, excess * US)
    ]
    of_host = (4 * US, category, excess * US if category else None)
    assert rows(report, "hosts", "excess_ps", "category", "category_excess_ps")[1] == of_host


def test_a_single_core_has_no_stragglers() -> None:
    assert report_of(cpu(3)).tables["stragglers"].num_rows == 0


def test_steps_that_not_all_hosts_have_are_without_a_number() -> None:
    late = [one for k in range(2) for one in (step(k, 10 * k + 20, 8), ran("op", 10 * k + 21, 2))]
    report = report_of(cpu(4), spaces(host(late), hostnames=["b"]))
    assert rows(report, "steps", "core_name", "group_id", "step") == [
        ("vm", 0, 0), ("vm", 1, 1), ("vm", 2, None), ("vm", 3, None), ("b", 0, 0), ("b", 1, 1),
    ]  # fmt: skip
    assert report.notices[0].text == "2 steps are not on all hosts, and so without a number"


def test_hosts_are_compared_step_by_step() -> None:
    """The extents are compared: equal periods hide the slow host."""
    report = report_of(cpu(4, 8, "a"), cpu(4, 9.5, "b"), cpu(4, 8, "c"))
    assert rows(report, "hosts", "hostname", "step_count", "mean_ps", "p99_ps", "compared_count", "slowest_count",
                 "excess_ps", "excess_share", "category", "category_excess_ps") == [
        ("a", 3, 8 * US, 8 * US, 3, 0, 0, 0, None, None),
        ("b", 3, 9.5 * US, 9.5 * US, 3, 3, 1.5 * US, 0.1875, None, None),
        ("c", 3, 8 * US, 8 * US, 3, 0, 0, 0, None, None),
    ]  # fmt: skip
    assert [one.text for one in report.notices if one.severity == "recommendation"] == [
        f"{report.tables['hosts']['host'][1]} is the slowest host in 3 of 3 steps: it takes 18.8 % longer than the "
        "median of the hosts."
    ]


def test_of_equally_slow_hosts_each_is_the_slowest_and_noise_is_none() -> None:
    report = report_of(cpu(4, 8, "a"), cpu(4, 9, "b"), cpu(4, 9, "c"), cpu(4, 8, "d"))
    assert rows(report, "hosts", "slowest_count") == [(0,), (3,), (3,), (0,)]
    noise = report_of(cpu(4, 8, "a"), cpu(4, 8.07, "b"), cpu(4, 8, "c"))
    assert rows(noise, "hosts", "slowest_count") == [(0,), (0,), (0,)]
    assert rows(noise, "stragglers", "core_name") == [("b",)] * 4
    assert "\nStragglers" in report.to_text() and "\nStragglers" not in noise.to_text()


def test_of_many_slow_hosts_none_is_named_alone() -> None:
    slow = [cpu(4, 9.5 - 0.1 * k, f"slow{k}") for k in range(3)]
    report = report_of(*(cpu(4, 8, f"usual{k}") for k in range(4)), *slow)
    (text,) = (one.text for one in report.notices if one.severity == "recommendation")
    first = report.tables["hosts"]["host"][4]
    assert text.startswith(f"{first} and 2 other hosts take up to 18.8 % longer than the median of the hosts")
    assert text.endswith(", over 3 steps.")


def test_a_host_alone_is_compared_with_none() -> None:
    report = report_of(cpu(4))
    assert rows(report, "hosts", "step_count", "compared_count", "excess_ps", "excess_share") == [(3, 0, None, None)]
    assert not [one for one in report.notices if one.severity == "recommendation"]


def test_chosen_steps_keep_their_numbers() -> None:
    """Those of the tables, also where another host numbers its groups differently."""
    later = [one for k in range(2, 5) for one in (step(k, 10 * k, 8), ran("op", 10 * k + 1, 2))]
    session = fastprof.load([cpu(5, name="a"), spaces(host(later), hostnames=["b"])])
    assert sorted(set(rows(session.steps(), "steps", "step")) - {(None,)}) == [(2,), (3,), (4,)]
    chosen = session.select(steps=(3, 5))
    assert rows(chosen.steps(), "steps", "step", "group_id", "name") == [
        (3, 3, "train 3"), (4, 4, "train 4"), (3, 1, "train 3"), (4, 2, "train 4"),
    ]  # fmt: skip
    assert chosen.hosts.num_rows == 2 and chosen.events.num_rows == 10


def test_numbers_of_executions_choose_executions() -> None:
    report = fastprof.load(kernels(4)).select(steps=(1, 3)).report("steps", steps_from="modules")
    assert rows(report, "steps", "step", "name") == [(1, "jit_f"), (2, "jit_f")]


@pytest.mark.parametrize("name", ["steps", "overview", "op_stats", "memory_viewer"])
def test_steps_that_are_not_there_are_an_error_that_lists_those_that_are(name: str) -> None:
    profile = fastprof.load(cpu(4))
    with pytest.raises(UsageError, match=r"^no step 9; choose from 0:4 \(ends excluded\)$"):
        profile.select(steps=9).report(name)
    with pytest.raises(UsageError, match=r"^no step in 1:; the only step is 0$"):
        fastprof.load(cpu(1)).select(steps=(1, None)).report(name)
    with pytest.raises(UsageError, match=r"^no step eval=1; choose from 0:4 \(ends excluded\)$"):
        profile.select(steps="eval=1").report(name)
    with pytest.raises(UsageError, match=r"^no step in 30:50; choose from 0:4 \(ends excluded\)$"):
        _ = profile.select(steps=(30, 50)).events


def kernels(count: int) -> bytes:
    events = [ran("k", 10 * k, 5, correlation_id=k, hlo_module="jit_f", hlo_op="k") for k in range(count)]
    return spaces(plane(HOST), plane("/device:GPU:0", [line("Stream #1", events)]))


@pytest.mark.parametrize(
    ("captures", "reason"),
    [
        ([spaces()], "no step markers in this capture"),
        ([kernels(0)], "no step markers in this capture"),
        (
            [kernels(1)],
            'no step markers in this capture; 1 module execution could serve as a step: steps_from="modules"',
        ),
        (
            [kernels(1204)],
            'no step markers in this capture; 1,204 module executions could serve as steps: steps_from="modules"',
        ),
        (
            [spaces(host([step(0, 0, 10), ran("IteratorGetNext", 1, 2)]))],
            "1 step marker in this capture, but no compute belongs to it",
        ),
        (
            [spaces(host([step(0, 0, 10), ran("op", 1, 2)]), plane("/device:GPU:0"))],
            "no step markers on the devices of this capture",
        ),
        (
            [spaces(host([step(0, 0, 10), ran("ForOp", 1, 2), ran("op", 4, 1)]))],
            "no steps can be distinguished: the capture has loops whose events do not record their iterations",
        ),
    ],
)
def test_where_there_are_no_steps_a_sentence_says_why(captures: list[bytes], reason: str) -> None:
    report = report_of(*captures, steps_from="markers")
    (notice,) = (one for one in report.notices if not one.text.startswith("Capture incomplete: 1 GPU is listed"))
    assert notice.severity == "warning" and notice.text.startswith(("The session has no events: ", reason))
    assert report.scalars["step_count"].value == 0
    for name, scalar in report.scalars.items():
        if name.startswith("step_time"):
            assert scalar.value is None and scalar.reason is not None and scalar.reason.startswith(reason)
            assert len(captures) > 1 or scalar.reason == reason
    assert report.tables["stragglers"].num_rows == 0
    assert len(captures) > 1 or report.tables["step_summary"].num_rows == 0


def test_hosts_without_steps_are_left_out_and_named() -> None:
    report = report_of(cpu(3, name="a"), spaces(plane(HOST), hostnames=["b"]), cpu(3, name="c"))
    assert (report.scalars["step_count"].value, report.scalars["host_count"].value) == (3, 2)
    assert report.tables["hosts"]["hostname"].to_pylist() == ["a", "c"]
    text = "b has no steps and is left out of step comparisons."
    assert [one.text for one in report.notices if "no steps" in one.text] == [text]
    together = report_of(cpu(3, name="a"), cpu(3, name="c"))
    assert report.scalars["step_time_mean_ps"] == together.scalars["step_time_mean_ps"]


def test_executions_become_steps_where_that_is_asked_for() -> None:
    report = report_of(kernels(3), steps_from="modules")
    assert rows(report, "steps", "step", "name", "start_ps", "device_compute_ps") == [
        (k, "jit_f", 10 * k * US, 5 * US) for k in range(3)
    ]
    assert report.scalars["module_execution_count"].value == 3


def test_a_single_step_has_no_deviation() -> None:
    report = report_of(cpu(3))
    assert report.scalars["step_time_stdev_ps"].value == 0.0
    alone = report_of(spaces(host([step(0, 0, 8), ran("op", 1, 2)])))
    assert alone.scalars["step_time_stdev_ps"].reason == "a single step has none"
    assert alone.tables["step_summary"]["stdev_ps"].null_count == 4


def test_chosen_steps_are_what_is_left() -> None:
    session = fastprof.load(cpu(8)).select(steps=(2, 5))
    assert session.report("steps").tables["steps"]["step"].to_pylist() == [2, 3, 4]


def test_markers_without_computation_are_counted() -> None:
    report = report_of(spaces(host([step(0, 0, 8), ran("op", 1, 2), step(1, 10, 8), event("train", 20 * US, 0)])))
    assert [notice.text for notice in report.notices] == [
        "1 step marker is left out: the step has no compute, or not on every core"
    ]


def test_the_parameter_has_its_choices() -> None:
    assert analysis.Params().steps_from == "auto"
