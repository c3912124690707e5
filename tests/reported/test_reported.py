"""Captures in shapes that were reported as read wrongly: kernels, communication and steps have the right values."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import pytest

import fastprof

HERE = Path(__file__).parent


class Right(NamedTuple):
    """``kernels`` and ``kernel_us`` of kernel stats, times of communication, and the number of steps; None: the case is
    not about it."""

    why: str
    kernels: int
    kernel_us: int
    exposed_us: int = 0
    hidden_us: int = 0
    compute_share: float | None = None
    steps: int | None = 4


_LIBRARY = Right("the collective of any library is communication, 4 x 0.3 ms exposed", 12, 3200, 1200, 0, 0.5)
CASES = {
    "i01-ts0": Right("records of time 0 and duration 0 are left out", 8, 2000),
    "i06-inf": Right("inf is not valid in JSON, and noted", 8, 2000),
    "i16-noattrs": Right("kernels record no device, stream, correlation or dimensions", 12, 3200, 1200, 0, 0.5),
    **{f"i17-comm-{name}": _LIBRARY
       for name in ("nccl", "rccl", "vllm", "aiter", "trtllm", "symm1", "deepep", "oneccl")},
    "i17-notcomm": Right("names that only sound like communication compute", 16, 2400, 0, 0, 0.6),
    "i22-gpuannot": Right("steps that GPUs repeat as annotations count once", 8, 2000),
    "i31-bom": Right("UTF-8 with a mark of the order of bytes", 8, 2000),
    "i31-utf16": Right("UTF-16, as tools of Windows save it", 8, 2000),
    "i35-cudagraph": Right("all kernels of a graph have the correlation of its launch", 20, 2800),
    "i37-xpu": Right("kernels of Intel record no dimensions", 12, 3200, 1200, 0, 0.5),
    "i54-bytes": Right("collectives record their arguments", 8, 3200, 3200, 0, None, 1),
    "i64-vllm": Right("what repeats over launches of graphs is steps", 24, 4560, 0, 0, None, 6),
    "i69-p2p": Right("what nccl:coalesced launched is what its kernel names", 8, 2800, 1200, 0, 0.4),
    "i74-hpu": Right("ops of Gaudi are kernels of a device", 4, 1600),
    "i75-lag": Right("kernels run in the steps after those that launched them", 20, 3800, 0, 0, None, 5),
    "i81-layers-cuda": Right("what repeats within one launch of a graph is layers", 60, 4320, 0, 0, None, 0),
    "p2-zerodur": Right("a kernel of no length is a kernel, and takes no time", 12, 800, 0, 0, 0.2),
    "r01-ep-overlap": Right("dispatch and combine of experts are all-to-all", 12, 8550, 600, 3450, None, 3),
}  # fmt: skip


def load(name: str) -> fastprof.Profile:
    return fastprof.load(HERE / f"{name}.json.gz")


@pytest.mark.parametrize("name", CASES)
def test_kernels_communication_and_steps_are_right(name: str) -> None:
    right, profile = CASES[name], load(name)
    kernels, communication = profile.kernel_stats().scalars, profile.communication().scalars
    assert (kernels["occurrences"].value, kernels["total_ps"].value) == (right.kernels, right.kernel_us * 10**6)
    found = communication["exposed_ps"].value, communication["hidden_ps"].value
    assert found == (right.exposed_us * 10**6, right.hidden_us * 10**6), right.why
    assert profile.steps().scalars["step_count"].value == right.steps
    if right.compute_share is not None:
        assert profile.diagnosis().scalars["compute_share"].value == pytest.approx(right.compute_share)


KINDS = {
    **{f"i17-comm-{name}": "all-reduce" for name in ("nccl", "vllm", "aiter", "trtllm", "symm1", "oneccl")},
    "i17-comm-rccl": "other collective",
    "i17-comm-deepep": "all-to-all",
    "i37-xpu": "all-reduce",
    "i69-p2p": "send and recv",
    "r01-ep-overlap": "all-to-all",
}


@pytest.mark.parametrize("name", KINDS)
def test_collectives_have_their_kind(name: str) -> None:
    assert load(name).communication().tables["kinds"]["kind"].to_pylist() == [KINDS[name]]


def test_bytes_and_bandwidths_of_collectives_follow_from_their_arguments() -> None:
    """Bus bandwidth: bytes over 0.4 ms, times 7/8 of what all gather or scatter, 14/8 of what they reduce."""
    operations = load("i54-bytes").communication().tables["operations"].to_pylist()
    assert {row["name"]: (row["group_size"], row["moved_bytes"], row["bus_bytes_per_s"]) for row in operations} == {
        "_allgather_base": (8, 16_000, pytest.approx(35.0e6)),
        "_reduce_scatter_base": (8, 32_000, pytest.approx(70.0e6)),
        "allreduce": (8, 2_048 + 200 + 100, pytest.approx((2_048 + 200 + 100) / 1.2e-3 * 14 / 8)),
        "all_to_allv": (8, 4_096, pytest.approx(4_096 / 0.4e-3 * 7 / 8)),
        "broadcast": (8, 80, pytest.approx(0.2e6)),
        "allreduce_coalesced": (8, 600, pytest.approx(2.625e6)),
    }


def test_advice_for_a_loader_fits_one_that_has_workers() -> None:
    first = load("r06b-workers").diagnosis().tables["findings"].to_pylist()[0]
    assert (first["cause"], first["cost_ps"]) == ("input", 3_000_000_000)
    assert "num_workers > 0" not in first["advice"]
    [*texts] = (one.text for one in load("r06b-workers").input_pipeline().notices)
    assert any("more workers" in one for one in texts) and not any("num_workers > 0" in one for one in texts)


def test_records_without_a_time_are_not_lost() -> None:
    profile = load("i01-ts0")
    assert profile.diagnosis().scalars["incomplete"].value is None
    assert "lost_records" not in profile.tables["import_log"]["code"].to_pylist()


def test_layers_within_one_annotation_are_no_steps() -> None:
    steps = load("r02-layers").steps().scalars
    assert (steps["step_count"].value, steps["step_time_mean_ps"].value) == (0, None)


def test_an_op_next_to_no_copy_is_not_accused_of_copies() -> None:
    findings = load("r06a-copies").diagnosis().tables["findings"].to_pylist()
    [stall] = [one for one in findings if "aten::ones_like" in one["title"]]
    assert "cop" not in stall["advice"]


def test_steps_from_launches_that_repeat_are_said_to_be() -> None:
    profile = fastprof.load(HERE / "x3-nosteps.xplane.pb.gz")
    steps = profile.steps().scalars
    assert (steps["step_count"].value, steps["steps_certainty"].value) == (5, "possible")
    assert "launches" in str(steps["steps_inferred"].value)
    assert profile.communication().scalars["exposed_ps"].value == 1_500_000_000
