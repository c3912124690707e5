"""Remedies are those of the framework that made the capture."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from gate import typical_captures
from step_captures import host, in_order, ran, spaces, step, tpu

import fastprof
from fastprof.derive.steps.step_advice import (
    YES,
    Verdict,
    adapt_to_framework,
    advise_on_unknown_input,
    judge_eager,
    judge_generic,
    judge_tpu,
)

OF_TENSORFLOW = re.compile(r"TF 2|tf\.function|TF_GPU|Keras|tensorflow\.org")


def idle() -> Verdict:
    of = {"step": 100.0, "input": 0.0, "output": 0.0, "idle": 50.0, "all_reduce_compute": 0.0, "all_reduce_sync": 0.0}
    return judge_tpu(**of, copies=0.0, sparse_core=0.0).tc_idle


@pytest.mark.parametrize(
    ("framework", "remedy"),
    [
        ("TensorFlow", "you may want to use a host-training loop"),
        ("JAX", "(jax.lax.scan or jax.lax.fori_loop)."),
        ("PyTorch", "(torch_xla.sync)"),
    ],
)
def test_idle_tpus_have_the_remedy_of_the_framework(framework: str, remedy: str) -> None:
    finding = adapt_to_framework({"tc_idle": idle()}, framework)["tc_idle"]
    assert finding.statement.startswith("50.0 % of the total step time sampled is due to host overhead")
    assert remedy in finding.statement and finding.asks
    assert bool(OF_TENSORFLOW.search(finding.statement)) == (framework == "TensorFlow")


def test_without_a_remedy_a_verdict_asks_for_nothing() -> None:
    finding = adapt_to_framework({"tc_idle": idle()}, "unknown")["tc_idle"]
    assert finding.statement.endswith("that is not input-related.")
    assert (finding.asks, finding.link, finding.classification) == (False, None, YES)


def test_other_frameworks_hear_nothing_of_tf_function_or_threads_of_tf_data() -> None:
    launch = judge_generic(
        step=100, input=0, output=0, compute=10, collectives=0, launch=50, other=0, tf_data=True
    ).kernel_launch
    assert adapt_to_framework({"eager": judge_eager(50.0, None)}, "unknown")[
        "eager"
    ].link  # only TensorFlow records eager ops
    for framework in ("JAX", "PyTorch"):
        found = adapt_to_framework({"kernel_launch": launch, "eager": judge_eager(50.0, None)}, framework)
        assert not any(OF_TENSORFLOW.search(one.statement) for one in found.values())
        assert found["eager"].statement == "50.0% of Op time on the host used eager execution."
    assert adapt_to_framework({"kernel_launch": launch}, "TensorFlow")["kernel_launch"] is launch


def test_unknown_time_for_input_has_advice_of_the_framework() -> None:
    assert "tf.data" in advise_on_unknown_input("TensorFlow")
    assert "jax.profiler.TraceAnnotation" in advise_on_unknown_input("JAX")
    assert "torch.profiler.record_function" in advise_on_unknown_input("PyTorch")
    assert "torch_xla" in advise_on_unknown_input("PyTorch", on_tpu=True)
    assert advise_on_unknown_input("unknown").endswith("cannot be broken down.")


def test_reports_of_a_jax_program_recommend_what_jax_has() -> None:
    main = [step(0, 0, 900), ran("enqueue", 1, 1, _pt=1, _p=5), ran("PjitFunction(f)", 3, 5)]
    core = tpu(0, [ran("0", 10, 900, _ct=1, _c=5)], [("fusion", "loop fusion", 100, 300)])
    profile = fastprof.load(spaces(host(in_order(main)), core))
    texts = [one.text for name in ("input_pipeline", "steps") for one in profile.report(name).notices]
    texts += filter(None, profile.overview().tables["verdicts"]["statement"].to_pylist())
    assert any("jax.lax.scan" in text for text in texts)
    assert not any(OF_TENSORFLOW.search(text) for text in texts)
    advice = profile.input_pipeline().tables["input_time"]["advice"].to_pylist()
    assert not any("tf.data" in text for text in advice)


@typical_captures
def test_no_report_of_a_capture_names_remedies_of_another_framework(capture: Path) -> None:
    profile = fastprof.load(capture)
    if profile.overview().scalars["framework"].value == "TensorFlow":
        pytest.skip("a capture of TensorFlow")
    for name in ("overview", "input_pipeline", "steps"):
        for notice in profile.report(name).notices:
            assert not OF_TENSORFLOW.search(notice.text), (name, notice.text)
