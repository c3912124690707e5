"""Reports as files of pprof: what a reader with the published schema finds in them."""

from __future__ import annotations

import gzip
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from pprof_messages import PROFILE
from test_speedscope import HOSTILE, capture, stacks
from test_speedscope import document as speedscope_document
from trace_builder import plane, xspace

import fastprof
from fastprof.cli.main import main
from fastprof.errors import UsageError


def parsed(data: bytes) -> Any:
    """The profile, after what pprof itself checks of one: numbers lead somewhere, ids count from 1."""
    profile = PROFILE()
    profile.ParseFromString(gzip.decompress(data))
    assert profile.string_table[0] == ""
    assert len(set(profile.string_table)) == len(profile.string_table)
    assert sorted(one.id for one in profile.location) == list(range(1, len(profile.location) + 1))
    assert sorted(one.id for one in profile.function) == list(range(1, len(profile.function) + 1))
    for sample in profile.sample:
        assert len(sample.value) == len(profile.sample_type)
        assert sample.location_id
    return profile


def found(profile: Any, value: int = 0) -> Counter[str]:
    """By the names in a stack, from outside to inside, nanoseconds."""
    texts = profile.string_table
    functions = {one.id: texts[one.name] for one in profile.function}
    names = {one.id: functions[one.line[0].function_id] for one in profile.location}
    times: Counter[str] = Counter()
    for sample in profile.sample:
        times[" / ".join(names[number] for number in reversed(sample.location_id))] += sample.value[value]
    return times


def test_samples_are_the_stacks_and_their_times_in_nanoseconds() -> None:
    profile = parsed(fastprof.load(capture(1_499, 2_500)).op_profile().to_pprof())
    texts = profile.string_table
    kinds = [(texts[one.type], texts[one.unit]) for one in profile.sample_type]
    assert kinds == [("time", "nanoseconds")]
    assert texts[profile.default_sample_type] == "time"
    assert found(profile)["program 7 / copy / op.0"] == 1  # 1,499 ps
    assert found(profile)["program 7 / copy / op.1"] == 3  # 2,500 ps: a half is rounded up
    files = {texts[one.name]: texts[one.filename] for one in profile.function}
    assert (files["op.1"], files["copy"]) == ("/a/m.py", "")
    line_of = {one.line[0].function_id: one.line[0].line for one in profile.location}
    assert {texts[one.name]: line_of[one.id] for one in profile.function}["op.1"] == 1


def test_they_are_those_of_speedscope() -> None:
    space = capture(10_000, 25_000, 3_000)
    ours = found(parsed(fastprof.load(space).op_profile().to_pprof()))
    theirs = stacks(speedscope_document(space), 0)
    assert {name: ns * 1000 for name, ns in ours.items() if ns} == theirs


def test_names_are_texts_whatever_is_in_them() -> None:
    assert f"{HOSTILE}.0" in parsed(fastprof.load(capture(5_000, name=HOSTILE)).op_profile().to_pprof()).string_table


def test_a_report_without_ops_has_no_samples() -> None:
    profile = parsed(fastprof.load(xspace(plane("/host:CPU"))).op_profile().to_pprof())
    assert not profile.sample
    assert len(profile.sample_type) == 1


def test_equal_reports_give_equal_files() -> None:
    assert (
        fastprof.load(capture(5_000)).op_profile().to_pprof() == fastprof.load(capture(5_000)).op_profile().to_pprof()
    )


def test_other_analyses_have_no_stacks() -> None:
    with pytest.raises(
        UsageError, match="op_stats has no stacks for pprof; these analyses have: op-profile, python-time"
    ):
        fastprof.load(capture(5)).op_stats().to_pprof()


@pytest.mark.parametrize("name", ["a.pprof", "a.pprof.pb.gz"])
def test_a_file_named_for_it_is_written_so(tmp_path: Path, name: str, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "a.xplane.pb").write_bytes(capture(5_000))
    assert main(["op-profile", str(tmp_path / "a.xplane.pb"), "-o", str(tmp_path / name)]) == 0
    assert parsed((tmp_path / name).read_bytes()).sample
    assert main(["op-stats", str(tmp_path / "a.xplane.pb"), "-o", str(tmp_path / f"b{name}")]) == 2
    assert "cannot write pprof files; verbs that can: op-profile, python-time" in capsys.readouterr().err


@pytest.mark.captures
def test_python_of_a_real_capture(captures: Path) -> None:
    """Times of threads and of devices, each rounded by at most half a nanosecond a sample."""
    report = fastprof.load(captures / "chrome" / "kineto" / "h100_qwen.json.gz").python_time()
    profile = parsed(report.to_pprof())
    texts = profile.string_table
    assert [texts[one.type] for one in profile.sample_type] == ["time", "device"]
    assert len(profile.sample) > 1000
    root = report.tables["stacks"].slice(0, 1).to_pylist()[0]
    for value, column in enumerate(("total_ps", "device_ps")):
        assert abs(sum(found(profile, value).values()) * 1000 - root[column]) <= 500 * len(profile.sample)
