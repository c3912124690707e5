"""The numbers of steps: the program's own, else their place; and how steps are chosen by them."""

from __future__ import annotations

import pyarrow as pa
import pytest
from step_captures import US, host, ran, spaces, step
from trace_builder import Event, event, line, plane

import fastprof
from fastprof.errors import UsageError


def marked(*marks: tuple[str, int | None]) -> bytes:
    """Steps of 8 us, one every 10 us, of these names and numbers, with an op in each."""
    events: list[Event] = []
    for place, (name, number) in enumerate(marks):
        stats = {"_r": 1} if number is None else {"_r": 1, "step_num": number}
        events += [event(name, 10 * place * US, 8 * US, stats), ran(f"op {place}", 10 * place + 1, 5)]
    return spaces(host(events))


def rows(table: pa.Table, *columns: str) -> list[tuple[object, ...]]:
    return [tuple(row.values()) for row in table.select(list(columns)).to_pylist()]


def ops(profile: fastprof.Profile) -> list[str]:
    return [name for name in profile.events["name"].to_pylist() if name.startswith("op ")]


def test_a_step_has_the_number_of_the_program_everywhere() -> None:
    main = [one for k in (7, 8, 10) for one in (step(k, 100 * k, 90), ran("launch", 100 * k + 1, 1, correlation_id=k))]
    kernels = [ran("gemm", 100 * k + at, 20, correlation_id=k) for k in (7, 8, 10) for at in (5, 35)]
    profile = fastprof.load(spaces(host(main), plane("/device:GPU:0", [line("Stream #1", kernels)])))
    tables = {
        "steps": ["steps", "breakdown"],
        "gaps": ["by_step", "gaps"],
        "annotations": ["steps"],
        "pod_viewer": ["cores"],
        "input_pipeline": ["steps", "step_breakdown"],
        "communication": ["steps"],
        "roofline": ["totals"],
    }
    reports = profile.reports(*tables)
    assert rows(reports["steps"].tables["steps"], "step", "name", "group_id") == [
        (7, "train 7", 0), (8, "train 8", 1), (10, "train 10", 2),
    ]  # fmt: skip
    for analysis, names in tables.items():
        for name in names:
            assert {*reports[analysis].tables[name]["step"].to_pylist()} - {None} == {7, 8, 10}, (analysis, name)


def test_the_choice_of_steps_takes_these_numbers_and_keeps_them() -> None:
    profile = fastprof.load(marked(("train", 7), ("train", 8), ("train", 10)))
    assert ops(profile.select(steps=8)) == ["op 1"]
    assert ops(profile.select(steps=(8, 11))) == ops(profile.select(steps="8:11")) == ["op 1", "op 2"]
    assert rows(profile.select(steps=(8, None)).steps().tables["steps"], "step", "name", "group_id") == [
        (8, "train 8", 1), (10, "train 10", 2),
    ]  # fmt: skip
    assert ops(profile.select(steps=(8, None)).select(steps=(None, 10))) == ["op 1"]
    with pytest.raises(UsageError, match=r"^no step 9; choose from 7:9, 10 \(ends excluded\)$"):
        profile.select(steps=9).steps()
    with pytest.raises(UsageError, match=r"^steps: 'train=' is not a range of steps"):
        profile.select(steps="train=")


def test_steps_without_a_number_count_from_0_and_keep_their_place() -> None:
    """The first group makes no step, because nothing computes in it."""
    quiet = [event("train", 0, 8 * US, {"_r": 1})]
    later = [
        one for k in (1, 2, 3) for one in (event("train", 10 * k * US, 8 * US, {"_r": 1}), ran("op", 10 * k + 1, 5))
    ]
    profile = fastprof.load(spaces(host([*quiet, *later])))
    assert rows(profile.steps().tables["steps"], "step", "name", "group_id") == [
        (0, "train 0", 1), (1, "train 1", 2), (2, "train 2", 3),
    ]  # fmt: skip
    assert rows(profile.select(steps=(1, 3)).steps().tables["steps"], "step", "name", "group_id") == [
        (1, "train 1", 2), (2, "train 2", 3),
    ]  # fmt: skip


def test_names_distinguish_steps_of_one_number() -> None:
    profile = fastprof.load(marked(("train", 3), ("eval", 3), ("train", 4), ("eval", 4)))
    report = profile.select(steps=3).report("steps", steps_from="markers")
    assert rows(report.tables["steps"], "step", "name") == [(3, "train 3"), (3, "eval 3")]
    assert [notice.text for notice in report.notices if "number" in notice.text] == [
        "1 number belongs to several of the chosen steps: all of these are selected. To choose by name, write "
        "train=A:B."
    ]
    of_eval = profile.select(steps="eval=3:").report("steps", steps_from="markers")
    assert rows(of_eval.tables["steps"], "step", "name") == [(3, "eval 3"), (4, "eval 4")]
    assert not [notice.text for notice in of_eval.notices if "number" in notice.text]
    with pytest.raises(UsageError, match=r"^no step test=3; choose from train=3:5, eval=3:5 \(ends excluded\)$"):
        profile.select(steps="test=3").report("steps", steps_from="markers")


def test_steps_of_hosts_have_the_number_of_their_name() -> None:
    """The second host began a step later: groups differ, numbers do not."""
    captures = [marked(("train", 7), ("train", 8)), marked(("train", 8), ("train", 9))]
    report = fastprof.load(captures).steps()
    assert rows(report.tables["steps"], "step", "name", "group_id") == [
        (None, "train 7", 0), (8, "train 8", 1), (8, "train 8", 0), (None, "train 9", 1),
    ]  # fmt: skip
    assert not [notice.text for notice in report.notices if "differently" in notice.text]
    assert ops(fastprof.load(captures).select(steps=(8, 10))) == ["op 1", "op 0", "op 1"]


def test_a_report_of_chosen_steps_gives_them_as_the_reason_for_an_empty_table() -> None:
    profile = fastprof.load(marked(*(("train", k) for k in range(7, 12))))
    report = profile.select(steps=8).steps()
    assert report.answer.steps == (8, 9, None)
    assert profile.steps().answer.steps is None


def test_a_name_that_no_marker_has_is_an_error_unless_another_host_has_it() -> None:
    trains, tests = marked(("train", 1), ("train", 2)), marked(("test", 1), ("test", 2))
    for profile in (fastprof.load(trains), fastprof.load([trains, trains])):
        with pytest.raises(UsageError, match=r"is called 'test' \(markers of this capture: train\)$"):
            profile.steps(steps_from="test")
    steps = fastprof.load([trains, tests]).steps(steps_from="test").tables["steps"]
    assert steps["name"].to_pylist() == ["test 1", "test 2"]


def test_long_and_odd_names_are_shortened_and_quoted() -> None:
    profile = fastprof.load(marked(*((f"{letter}{'x' * 5_000}", 3) for letter in "abcdefgh")))
    with pytest.raises(UsageError, match=r"^no step in y{39}…=3:5; choose from ") as caught:
        profile.select(steps="y" * 5_000 + "=3:5").steps()
    assert len(str(caught.value)) < 450
    for name, quoted in (("auto ", "'auto '"), ("y" * 5_000, f"'{'y' * 39}…'")):
        with pytest.raises(UsageError) as caught:
            profile.overview(steps_from=name)
        text = str(caught.value)
        assert text.startswith(f"no marker and no annotation is called {quoted} (markers of this capture: axxx")
        assert text.endswith("and 3 more)")
        assert len(text) < 400
