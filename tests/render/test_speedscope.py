"""Reports as speedscope's file format: the shape that its schema asks for, and weights that add up to the report's."""

from __future__ import annotations

import json
from collections import Counter
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from trace_builder import Metadata, event, line, plane, u64, xspace

import fastprof
from fastprof.cli.main import main
from fastprof.errors import UsageError
from fastprof.render import report_graphics

HOSTILE = '</script>"\\\x00\x1b[2J\u202e é 漢字\n'


def capture(*durations: int, name: str = "op") -> bytes:
    metadata = [
        Metadata(f"%{name}.{k}", display_name=f"{name}.{k}",
                 stats={"program_id": u64(7), "symbol_id": u64(k + 1), "hlo_category": "copy", "source": f"/a/m.py:{k}",
                        "tf_op": f"jit(f)/Model/layer_{k}/mul:", "flops": 10})
        for k in range(len(durations))
    ]  # fmt: skip
    events = [event(one.name, 10**6 * k, ps) for k, (one, ps) in enumerate(zip(metadata, durations, strict=True))]
    stats = {"peak_teraflops_per_second": 1.0, "peak_hbm_bw_gigabytes_per_second": 1.0}
    return xspace(plane("/device:TPU:0", [line("XLA Ops", events, id=3)], event_metadata=metadata, stats=stats))


def document(space: bytes, **params: Any) -> Any:
    """The document, its numbers exact; checked against what the format's schema requires."""
    document = json.loads(fastprof.load(space).op_profile(**params).to_speedscope(), parse_float=Fraction)
    assert document["$schema"] == "https://www.speedscope.app/file-format-schema.json"
    frames = document["shared"]["frames"]
    assert all(isinstance(frame["name"], str) and set(frame) <= {"name", "file", "line", "col"} for frame in frames)
    for profile in document["profiles"]:
        assert set(profile) == {"type", "name", "unit", "startValue", "endValue", "samples", "weights"}
        assert (profile["type"], profile["unit"], profile["startValue"]) == ("sampled", "nanoseconds", 0)
        assert len(profile["samples"]) == len(profile["weights"])
        assert all(0 <= frame < len(frames) for stack in profile["samples"] for frame in stack)
        assert sum(profile["weights"]) == profile["endValue"]
    assert 0 <= document["activeProfileIndex"] < len(document["profiles"])
    return document


def stacks(found: Any, number: int) -> dict[str, int]:
    """By the names in a stack, the picoseconds of it."""
    names = [frame["name"] for frame in found["shared"]["frames"]]
    times: Counter[str] = Counter()
    profile = found["profiles"][number]
    for stack, weight in zip(profile["samples"], profile["weights"], strict=True):
        times[" / ".join(names[frame] for frame in stack)] += int(weight * 1000)
    return dict(times)


def test_stacks_are_the_ways_down_to_ops_and_weights_their_self_times() -> None:
    parsed = document(capture(1_001, 2_500))
    assert stacks(parsed, 0) == {
        "program 7 / copy / op.0": 1_001,
        "program 7 / copy / op.1": 2_500,
        "IDLE": 10**6 - 1_001,
    }
    assert stacks(parsed, 1) == {"Model / layer_0 / mul": 1_001, "Model / layer_1 / mul": 2_500}
    assert [profile["name"] for profile in parsed["profiles"]][:2] == [
        "Device time by program", "Device time by scope of the model",
    ]  # fmt: skip


def test_ops_record_where_their_source_is() -> None:
    frames = {frame["name"]: frame for frame in document(capture(5, 5))["shared"]["frames"]}
    assert (frames["op.1"]["file"], frames["op.1"]["line"]) == ("/a/m.py", 1)
    assert "file" not in frames["copy"]


def test_names_are_texts_whatever_is_in_them() -> None:
    names = [frame["name"] for frame in document(capture(5, name=HOSTILE))["shared"]["frames"]]
    assert f"{HOSTILE}.0" in names


def test_the_grouping_is_that_of_the_report() -> None:
    assert stacks(document(capture(5), group_by="category"), 0) == {"copy / op.0": 5}


def test_a_report_without_ops_has_an_empty_profile() -> None:
    parsed = document(xspace(plane("/host:CPU")))
    assert [profile["samples"] for profile in parsed["profiles"]] == [[]]


def test_other_analyses_have_no_stacks() -> None:
    with pytest.raises(UsageError, match="op-profile"):
        list(report_graphics.write_speedscope(fastprof.load(capture(5)).op_stats().answer))


def test_a_file_named_for_it_is_written_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "a.xplane.pb").write_bytes(capture(5))
    out = tmp_path / "a.speedscope.json"
    assert main(["op-profile", str(tmp_path / "a.xplane.pb"), "-o", str(out)]) == 0
    assert json.loads(out.read_text())["profiles"]
    assert main(["op-stats", str(tmp_path / "a.xplane.pb"), "-o", str(tmp_path / "b.speedscope.json")]) == 2
    assert "cannot write speedscope files; verbs that can: op-profile, python-time" in capsys.readouterr().err
    assert not (tmp_path / "b.speedscope.json").exists()
    assert main(["op-profile", str(tmp_path / "a.xplane.pb"), "--format", "speedscope", "--table", "tree"]) == 2
