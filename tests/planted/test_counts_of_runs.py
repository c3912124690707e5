"""Kernels, collectives, copies, bytes, ops and steps of planted runs equal a count over their captures."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest
import slow_reader
from gate import few
from independent_counts import (
    count,
    count_tpu_ops,
    counted_by_fastprof,
    records_of_xspace,
    steps_of_xspace,
    tpu_ops_by_fastprof,
)
from planted_cases import GPU, HEALTHY, PLANTED, TPU, Case

import fastprof

WRITTEN = {case.name: case for case in (*PLANTED, *HEALTHY) if case.make is not None}
RECORDED = sorted(Path(__file__).parent.glob("*/*.xplane.pb.gz"))
_OF_KERAS = "tf_fit_tensorboard"
"""Its numbered regions mark no step of a group: steps are made from them as annotations."""


def captures_of(case: Case) -> list[bytes]:
    return list(case.run().captures.values())


@pytest.mark.parametrize(
    "case", few((case for case in WRITTEN.values() if case.device == GPU), 8), ids=lambda case: case.name
)
def test_what_gpus_ran(case: Case) -> None:
    for data in captures_of(case):
        records = list(records_of_xspace(slow_reader.parse(data)))
        assert records
        assert counted_by_fastprof(fastprof.load(data)) == count(records)


@pytest.mark.parametrize("case", [case for case in WRITTEN.values() if case.device == TPU], ids=lambda case: case.name)
def test_what_tpus_ran(case: Case) -> None:
    for data in captures_of(case):
        counted = count_tpu_ops(slow_reader.parse(data))
        assert counted.ops
        assert tpu_ops_by_fastprof(fastprof.load(data)) == counted


@pytest.mark.parametrize("case", few(WRITTEN.values(), 10), ids=lambda case: case.name)
def test_steps_of_written_runs(case: Case) -> None:
    for data in captures_of(case):
        steps = steps_of_xspace(slow_reader.parse(data))
        assert fastprof.load(data).steps(steps_from="markers").scalars["step_count"].value == steps


@pytest.mark.parametrize("path", few(RECORDED, 15), ids=lambda path: path.name.partition(".")[0])
def test_steps_of_recorded_runs(path: Path) -> None:
    data = gzip.decompress(path.read_bytes())
    steps = steps_of_xspace(slow_reader.parse(data))
    source = "auto" if path.name.startswith(_OF_KERAS) else "markers"
    assert fastprof.load(data).steps(steps_from=source).scalars["step_count"].value == steps
