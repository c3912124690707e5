"""Communication of sessions with many hosts: only their middle steps are compared."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from clock_pods import ROWS, Pod, judged, write_clocks
from equal_reports import check_equal

import fastprof
from fastprof.analyses import runner
from fastprof.derive.communication import collectives, meetings
from fastprof.derive.communication.collectives import HostArrivals, KeptSteps, choose_compared_steps, keep_middle_steps
from fastprof.derive.communication.communication_sums import CompressedColumns, StepNumbers

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "engines"))
from faulty_executors import TestExecutor

sys.path.pop(0)

POD = Pod(seed=5, hosts=4, steps=9, collectives=30, cores=2, straggler=2)
ROWS_OF_STEP = POD.collectives * POD.cores
OF_COMPARED = ("meetings", "stragglers", "clocks", "blame", "host_steps")


@pytest.fixture(scope="module")
def pod(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("pod")
    write_clocks(folder, POD)
    return folder


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    """Four steps of each host fit."""
    monkeypatch.setattr(collectives, "MOST_BYTES", 4 * POD.hosts * ROWS_OF_STEP * 100 + 10_000)
    assert 4 * ROWS_OF_STEP <= collectives.limit_rows(POD.hosts, POD.cores) < 5 * ROWS_OF_STEP


def met(report: fastprof.Report, steps: range) -> list[dict[str, Any]]:
    """What meetings of these steps are, but for what follows from clocks, which all meetings show."""
    rows = [row for row in report.tables["meetings"].to_pylist() if row["step"] in steps]
    return [{key: row[key] for key in row if key not in ("first_device", "last_device", "skew_ps")} for row in rows]


@pytest.mark.usefixtures("few")
def test_the_middle_steps_are_compared_and_all_are_summed(pod: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    report = fastprof.load(pod).communication()
    monkeypatch.undo()
    entire = fastprof.load(pod).communication()
    assert met(report, range(9)) == met(entire, range(2, 6)) != []
    assert report.scalars["compared_step_count"].value == 4 and entire.scalars["compared_step_count"].value == 9
    assert report.scalars["straggler_host"].value == "host002"
    assert {row["step"] for row in report.tables["host_steps"].to_pylist()} == {2, 3, 4, 5}
    for name, table in report.tables.items():
        assert name in OF_COMPARED or table.equals(entire.tables[name]), name
    for name in [*report.scalars][: [*report.scalars].index("compared_step_count")]:
        assert report.scalars[name] == entire.scalars[name]
    text = "The session has 4 hosts: waits between hosts are found from 4 of 9 steps, in the middle."
    assert [one.text for one in report.notices if "The session has" in one.text] == [text]
    assert not any("The session has" in one.text for one in entire.notices)


@pytest.mark.usefixtures("few")
def test_an_executor_compares_the_same_steps(pod: Path) -> None:
    names = ("communication", "diagnosis")
    session = fastprof.load(pod, executor=TestExecutor)
    check_equal(session.reports(*names), fastprof.load(pod, threads=1).reports(*names))
    two = session.select(hosts=["host001", "host002"]).communication()
    assert two.scalars["compared_step_count"].value == 8, "only selected hosts take room"
    check_equal({"": two}, {"": fastprof.load(pod).select(hosts=["host001", "host002"]).communication()})


@pytest.mark.usefixtures("few")
def test_what_a_straggler_costs_is_that_of_all_steps(pod: Path) -> None:
    session = fastprof.load(pod)
    figures = session.communication().scalars
    saved = figures["straggler_saved_ps"].value + figures["straggler_before_ps"].value
    (finding,) = (one for one in session.diagnosis().tables["findings"].to_pylist() if one["cause"] == "straggler")
    assert finding["host"] == "host002" and finding["is_bound"] and finding["cost_ps"] == saved * 9 // 4


def test_blocks_of_any_size_make_the_same_report(pod: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_clocks(tmp_path, Pod(seed=1, hosts=4, steps=6, collectives=2, cores=2, groups=ROWS, late={1: 2}))
    for folder in (pod, tmp_path):
        entire = fastprof.load(folder).communication()
        with monkeypatch.context() as patched:
            patched.setattr(meetings, "MOST_ROWS", 5)
            patched.setattr(meetings, "_PIECE_ROWS", 2)
            check_equal({"": fastprof.load(folder).communication()}, {"": entire})


def test_stragglers_are_named_from_three_steps() -> None:
    for seed in range(12):
        one = Pod(seed=seed, hosts=16, steps=3, collectives=30)
        assert judged(replace(one, straggler=seed))[0].paths[0].named == seed
        assert judged(one)[0].paths[0].named < 0


def kept(groups: list[int], rows: int = 2) -> HostArrivals:
    """A host with a device that came to ``rows`` collectives in each of these steps."""
    group = np.repeat(np.arange(len(groups)), rows)
    column = np.zeros(len(group), np.int64)
    begin = np.arange(len(group)) * 10
    return HostArrivals(
        column, group, column, column, begin, column, column, column == 0, column[:0], np.array(groups), 0
    )


def test_steps_in_the_middle_that_are_complete_are_kept() -> None:
    every = kept([-1, 3, 4, 5, 6, 7, 8])
    complete = np.array([4, 5, 6, 7])
    assert keep_middle_steps(every, complete, 14) is every
    for most, groups in ((13, [4, 5, 6, 7]), (8, [4, 5, 6, 7]), (7, [4, 5, 6]), (1, [4, 5, 6])):
        found = keep_middle_steps(every, complete, most)
        assert sorted({found.groups[one] for one in found.group.tolist()}) == groups and found.of_steps == 4
    assert keep_middle_steps(every, complete[:2], 6).of_steps == 6, "if few are complete, others count"
    none = keep_middle_steps(kept([-1]), complete[:0], 1)
    assert (len(none), none.of_steps) == (0, 0)


def test_steps_that_few_hosts_kept_are_not_compared() -> None:
    assert choose_compared_steps([KeptSteps(None, np.array([1])), KeptSteps(None, np.array([2]))]) is None
    most, other = [KeptSteps(20, np.array([-1, 3, 4, 5]))] * 10, KeptSteps(20, np.array([4, 5, 6]))
    found = choose_compared_steps([*most, other])
    assert found is not None and found.tolist() == [3, 4, 5]
    found = choose_compared_steps([*most[:3], other, other])
    assert found is not None and found.tolist() == [4, 5]
    found = choose_compared_steps([*most, other], np.array([2] * 10 + [1]))
    assert found is not None and found.tolist() == [5, 6, 7]


def test_other_analyses_have_all_but_the_tables_of_steps(pod: Path) -> None:
    tables = fastprof.load(pod).table_set
    of_others = runner.run(tables, ["diagnosis"])["diagnosis"].after["communication"]
    own = runner.run(tables, ["communication"])["communication"]
    assert [name for name in own.tables if not own.tables[name].equals(of_others.tables[name])] == [
        "steps",
        "step_kinds",
    ]
    assert of_others.scalars == own.scalars and of_others.notices == own.notices


def test_groups_without_a_step_have_no_number() -> None:
    numbers = StepNumbers(np.array([7, -1, 3]), np.array([0, 1, 2]))
    assert numbers.of(np.array([3, -1, 5, 7, 9])).tolist() == [2, -1, -1, 0, -1]
    assert StepNumbers(np.zeros(0, np.int64), np.zeros(0, np.int64)).of(np.array([1])).tolist() == [-1]


def test_columns_are_the_same_after_they_were_compressed() -> None:
    given = {
        "a": np.array([[1, -(2**63)], [2**63 - 1, 0]]),
        "b": np.array([True, False]),
        "c": np.zeros((0, 3), np.int64),
    }
    columns, texts = CompressedColumns.of(given, ["a\n", "é"]).unpack()
    assert texts == ["a\n", "é"] and list(columns) == list(given)
    for name, column in columns.items():
        assert column.dtype == given[name].dtype and column.shape == given[name].shape
        assert column.tolist() == given[name].tolist()
