"""The verdicts on a program: their classes, their words, and thresholds that count as reached where they are met."""

from __future__ import annotations

import pytest

from fastprof.derive.steps import step_advice
from fastprof.derive.steps.step_advice import (
    BOTH,
    DEVICE,
    HIGH,
    HOST,
    MODERATE,
    NO,
    NO_VERDICT,
    UNDECIDED,
    YES,
    Bottleneck,
)
from fastprof.xprof.steps import list_step_warnings


def generic(**times: float) -> Bottleneck:
    """The verdicts on 1,000 units of step time, with these parts known."""
    parts = dict.fromkeys(("input", "output", "compute", "collectives", "launch", "other"), 0.0) | times
    return step_advice.judge_generic(step=1000, **{k: v for k, v in parts.items() if k != "tf_data"}, tf_data=False)


def tpu(**times: float) -> step_advice.Bottleneck:
    names = ("input", "output", "idle", "copies", "all_reduce_compute", "all_reduce_sync", "sparse_core")
    return step_advice.judge_tpu(step=1000, **(dict.fromkeys(names, 0.0) | times))


@pytest.mark.parametrize(
    ("input", "other", "classification", "word"),
    [
        (200, 0, HOST, "HIGHLY input-bound because 20.0%"),
        (199.9, 0, BOTH, "MODERATELY input-bound because 20.0%"),
        (50, 900, BOTH, "MODERATELY input-bound because 5.0%"),
        (49.9, 30, BOTH, "POTENTIALLY input-bound because 3.0%"),
        (49.9, 29.9, DEVICE, "NOT input-bound because only 5.0%"),
        (0, 0, DEVICE, "NOT input-bound because only 0.0%"),
    ],
)
def test_input_is_judged_at_5_and_20_percent_and_by_all_other_time_from_3(
    input: float, other: float, classification: str, word: str
) -> None:
    found = generic(input=input, other=other).input
    assert found.classification == classification
    assert word in found.statement


def test_the_words_are_those_that_people_know() -> None:
    assert generic(input=661).input.statement == (
        "Your program is HIGHLY input-bound because 66.1% of the total step time sampled is waiting for input. "
        "Therefore, you should first focus on reducing the input time."
    )
    assert generic(other=916).input.statement == (
        "Your program is POTENTIALLY input-bound because 91.6% of the total step time sampled is spent on 'All Others' "
        "time (which could be due to I/O or Python execution or both)."
    )
    assert generic(input=500, other=193).all_other.statement == (
        "19.3 % of the total step time sampled is spent on 'All Others' time. This could be due to Python execution "
        "overhead."
    )


@pytest.mark.parametrize(("part", "classification"), [(150, HIGH), (149, MODERATE), (30, MODERATE), (29, NO)])
def test_overheads_are_judged_at_3_and_15_percent(part: float, classification: str) -> None:
    bottleneck = generic(input=500, collectives=part, launch=part, other=part)
    assert bottleneck.device_collectives.classification == classification
    assert bottleneck.kernel_launch.classification == classification
    assert bottleneck.all_other.classification == classification
    assert bool(bottleneck.all_other.statement) == (classification != NO)


def test_all_other_time_is_reported_once() -> None:
    assert generic(input=0, other=400).all_other.classification == NO
    assert generic(input=60, other=400).all_other.classification == HIGH


def test_kernel_launches_beside_tf_data_get_advice_on_threads() -> None:
    times = {"input": 0.0, "output": 0.0, "compute": 0.0, "collectives": 0.0, "launch": 56.0, "other": 0.0}
    alone = step_advice.judge_generic(step=1000, **times, tf_data=False).kernel_launch
    beside = step_advice.judge_generic(step=1000, **times, tf_data=True).kernel_launch
    assert alone.statement == "5.6 % of the total step time sampled is spent on 'Kernel Launch'."
    assert beside.statement.endswith("set the environment variable TF_GPU_THREAD_MODE=gpu_private.")


def test_idle_time_is_what_the_other_parts_leave_and_never_negative() -> None:
    assert generic(input=100, output=50, compute=600, collectives=50).idle_percent == pytest.approx(20.0)
    assert generic(input=900, compute=900).idle_percent == 0.0


def test_without_step_time_nothing_is_judged() -> None:
    found = step_advice.judge_generic(
        step=0, input=0, output=0, compute=0, collectives=0, launch=0, other=0, tf_data=True
    )
    assert found.input.classification == UNDECIDED
    assert found.input.statement.startswith("No step time measured.")
    assert found.input.percent is None
    assert (found.kernel_launch, found.all_other, found.device_collectives) == (NO_VERDICT, NO_VERDICT, NO_VERDICT)
    nothing = dict.fromkeys(
        ("input", "output", "idle", "copies", "all_reduce_compute", "all_reduce_sync", "sparse_core"), 0.0
    )
    assert step_advice.judge_tpu(step=0, **nothing).input.classification == UNDECIDED


@pytest.mark.parametrize(
    ("output", "classification", "word"),
    [(200, HOST, "HIGHLY output-bound"), (50, BOTH, "MODERATELY output-bound"), (49, DEVICE, "")],
)
def test_output_of_tpus_is_judged_at_5_and_20_percent(output: float, classification: str, word: str) -> None:
    found = tpu(output=output).output
    assert (found.classification, word in found.statement) == (classification, True)
    assert bool(found.statement) == bool(word)


def test_all_other_time_is_not_a_matter_of_tpus() -> None:
    assert tpu(input=10, idle=500).input.classification == DEVICE


def test_idle_tensorcores_are_reported_from_3_percent_with_a_link_whose_words_are_in_the_sentence() -> None:
    assert tpu(idle=29).tc_idle.classification == NO
    found = tpu(idle=30).tc_idle
    assert found.classification == YES
    assert found.statement.startswith("3.0 % of the total step time sampled is due to host overhead")
    assert found.link is not None
    assert found.link.words in found.statement


def test_without_all_reduces_they_are_not_judged() -> None:
    assert not tpu().all_reduce.was_judged
    assert tpu(all_reduce_compute=1).all_reduce.was_judged


def test_all_reduce_that_waits_for_input_is_inputs_fault() -> None:
    assert tpu(all_reduce_compute=30, all_reduce_sync=30).all_reduce.classification == YES
    assert tpu(all_reduce_compute=30, all_reduce_sync=30, input=1).all_reduce.classification == NO


@pytest.mark.parametrize(("part", "classification"), [(0, NO), (1, MODERATE), (99, MODERATE), (100, HIGH)])
def test_sparse_core_compute_is_reported_wherever_there_is_any(part: float, classification: str) -> None:
    assert tpu(sparse_core=part).sparse_core.classification == classification


def test_what_tpus_compute_is_what_input_output_and_idle_time_leave() -> None:
    bottleneck = tpu(input=100, output=200, idle=300)
    assert (bottleneck.input_percent, bottleneck.output_percent, bottleneck.idle_percent) == (10, 20, 30)
    assert bottleneck.compute_percent == pytest.approx(40)


def test_little_16_bit_compute_is_reported_below_10_percent() -> None:
    assert step_advice.judge_precision(99, 901).statement.startswith("Only 9.9% of device computation is 16 bit.")
    assert step_advice.judge_precision(100, 900).classification == NO
    assert step_advice.judge_precision(0, 0) == NO_VERDICT


def test_eager_execution_is_reported_above_10_percent_on_either_side() -> None:
    assert step_advice.judge_eager(10.0, 10.0).classification == NO
    assert step_advice.judge_eager(10.1, 0).statement == (
        "10.1% of Op time on the host used eager execution. Performance could be improved with tf.function."
    )
    both = step_advice.judge_eager(30, 20).statement
    assert "30.0% of Op time on the host" in both
    assert "20.0% of Op time on the device" in both


def test_outside_compilation_is_reported_above_5_percent() -> None:
    assert step_advice.judge_outside_compilation(5.0).statement == ""
    assert step_advice.judge_outside_compilation(5.1).statement.startswith("5.1 % of Op time on the device")


def test_at_most_three_expensive_functions_are_named_the_most_expensive_first() -> None:
    functions = [("a", 20.0), ("b", 80.0), ("c", 19.9), ("d", 50.0), ("e", 30.0)]
    assert step_advice.judge_tf_functions(functions).statement == (
        'Expensive tf-functions detected ("b", "d", "e" and more) due to either retracing or eager execution.'
    )
    assert '"a")' in step_advice.judge_tf_functions([("a", 20.0)]).statement
    assert step_advice.judge_tf_functions([("c", 19.9)]) == NO_VERDICT


def test_missing_steps_have_a_reason() -> None:
    assert list_step_warnings(3, empty_intersection=False) == []
    assert list_step_warnings(0, empty_intersection=False)[0].startswith("No step marker observed")
    assert "intersection of the steps over all hosts is empty" in (list_step_warnings(0, empty_intersection=True)[0])
