"""The analyses of a profile as methods, and steps as a selection."""

from __future__ import annotations

import inspect
import pickle
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pytest
import sample_analysis
from trace_builder import event, line, plane, xspace

import fastprof
from fastprof.analyses import ANALYSES, runner
from fastprof.decode.selection import Selection
from fastprof.tables.table_set import TableSet


@pytest.fixture
def sample() -> Iterator[None]:
    with sample_analysis.registered():
        yield


def host_capture(host: int) -> bytes:
    """Three steps of 10 ns, 100 ns apart, later on the second host; each with an op inside, and one between them."""
    first = 50_000 * host
    events = []
    for step in range(3):
        start = first + 100_000 * step
        events.append(event("train", start, 10_000, {"_r": 1, "step_num": step}))
        events.append(event(f"op{step}", start + 1_000, 2_000))
        events.append(event("between", start + 60_000, 5_000))
    return xspace(plane("/host:CPU", [line("main", events)]))


@pytest.fixture
def run(tmp_path: Path) -> Path:
    for host in range(2):
        (tmp_path / f"vm{host}.xplane.pb").write_bytes(host_capture(host))
    return tmp_path


# ---- reports


@pytest.mark.usefixtures("sample")
def test_a_report_is_computed_once_and_shows_itself(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    runs: list[list[str]] = []
    real = runner.run
    monkeypatch.setattr(runner, "run", lambda t, names, *rest: runs.append(list(names)) or real(t, names, *rest))
    p = fastprof.load(run)
    report = p.report("sample_analysis")
    assert p.report("sample_analysis") is report
    assert p.report("sample_analysis", least=0) is not report
    assert runs == [["sample_analysis"]] * 2
    assert repr(report).startswith("Sample analysis\n\nRecommendation\n")
    assert repr(report) == str(report) == report.to_text()
    assert report.scalars["event_count"].value == 18
    assert report.notices[0].text == "This is a sample."
    assert report.analysis == "sample_analysis"


@pytest.mark.usefixtures("sample")
def test_a_report_as_tables(run: Path) -> None:
    report = fastprof.load(run).report("sample_analysis")
    assert report.to_arrow() is report.tables["hosts"]
    assert report.to_arrow("names").column_names == ["name"]
    with pytest.raises(fastprof.UsageError, match="sample_analysis has no table 'nome'; there are: hosts, names"):
        report.to_arrow("nome")
    pandas = pytest.importorskip("pandas")
    assert isinstance(report.to_pandas("names"), pandas.DataFrame)


@pytest.mark.usefixtures("sample")
def test_tables_and_figures_by_name(run: Path) -> None:
    report = fastprof.load(run).report("sample_analysis")
    assert list(report.tables) == ["hosts", "names"] and len(report.scalars) == 6
    assert repr(report.tables) == (
        "<2 tables of sample_analysis\n  hosts  2 rows, 4 columns\n  names  5 rows, 1 columns>"
    )
    assert "\n  event_count  18\n" in repr(report.scalars)
    assert repr(report.scalars).endswith("\n  steps        unknown: nobody counts steps here>")
    with pytest.raises(KeyError, match="no table 'host'; there are: hosts, names; did you mean 'hosts'"):
        report.tables["host"]
    with pytest.raises(KeyError, match="sample_analysis has no figure 'nothing'; there are: event_count, total_ps, "):
        report.scalars["nothing"]
    assert "nothing" not in report.scalars and report.scalars.get("nothing") is None
    assert pickle.loads(pickle.dumps(report)).tables == report.tables


@pytest.mark.usefixtures("sample")
def test_text_of_other_widths_and_limits(run: Path) -> None:
    report = fastprof.load(run).report("sample_analysis")
    assert max(map(len, report.to_text(width=60).splitlines())) <= 60
    assert "showing 0 of 5" in report.to_text(limit=0)
    assert 'limit="all"' in report.to_text() and 'limit="all"' not in report.to_text(limit="all", wide=True)
    for wrong in ({"limit": -1}, {"limit": "none"}, {"width": 10}, {"width": None}):
        with pytest.raises(fastprof.UsageError, match=r"limit must be a number|width must be a number"):
            report.to_text(**wrong)  # type: ignore[arg-type]


@pytest.mark.usefixtures("sample")
def test_notebooks_show_tables_and_no_markup_of_a_trace() -> None:
    capture = xspace(plane("/host:CPU", [line("main", [event("<script>alert(1)</script>", 0, 5)])]))
    html = fastprof.load(capture).report("sample_analysis")._repr_html_()
    assert html.startswith("<div ") and html.endswith("</div>") and "<table " in html
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in html and "<script" not in html


@pytest.mark.usefixtures("sample")
def test_a_report_is_arrow_data(run: Path) -> None:
    duckdb = pytest.importorskip("duckdb")
    hosts = duckdb.from_arrow(pa.table(fastprof.load(run).report("sample_analysis")))
    assert hosts.sum("events").fetchall() == [(18,)]


@pytest.mark.usefixtures("sample")
def test_parameters_and_hosts_narrow(run: Path) -> None:
    p = fastprof.load(run)
    assert p.report("sample_analysis", least=10).tables["hosts"].num_rows == 0
    assert p.select(hosts="vm1").report("sample_analysis").tables["hosts"]["host"].to_pylist() == ["vm1"]
    with pytest.raises(fastprof.UsageError, match="no parameter 'lust'; there are: least, loud, order, ratio"):
        p.report("sample_analysis", lust=3)
    with pytest.raises(fastprof.UsageError, match="order: 'size' is not one of host, events"):
        p.report("sample_analysis", order="size")
    for least in (-1, "3"):
        with pytest.raises(fastprof.UsageError, match=r"least: .* is not an integer of at least 0"):
            p.report("sample_analysis", least=least)
    with pytest.raises(fastprof.UsageError, match=r"no analysis 'op-stat'; there are: .*; did you mean 'op_stats'"):
        p.report("op-stat")


def test_every_analysis_is_a_method_and_hides_nothing_of_a_profile() -> None:
    from fastprof.profile.analysis_methods import AnalysisMethods

    for name in ANALYSES:
        assert getattr(fastprof.Profile, name) is getattr(AnalysisMethods, name)
        assert inspect.signature(getattr(fastprof.Profile, name)).return_annotation == "Report"


# ---- steps


def names(profile: fastprof.Profile) -> list[tuple[str, str]]:
    table = profile.event_table(columns=["host", "name"])
    return list(zip(*(column.to_pylist() for column in table.columns), strict=True))


def test_windows_differ_by_host(run: Path) -> None:
    profile = fastprof.load(run)
    times = {"vm0": (100_000, 110_000), "vm1": (150_000, 160_000)}
    tables = TableSet(profile.table_set.session, Selection().within(times))
    for host, time in times.items():
        alone = profile.select(hosts=host, time_ps=time)
        assert tables["events"].filter(pc.equal(tables["events"]["host"], host)).equals(alone.events)
        assert [name for _, name in names(alone)] == ["train", "op1"]
    assert tables["nesting"].num_rows == 4
    one = TableSet(profile.table_set.session, Selection().within({"vm1": (0, 1 << 40)}))
    assert one["events"]["host"].unique().to_pylist() == ["vm1"]
    both = Selection().narrowed(time_ps=(0, 101_500)).within(times)
    assert TableSet(profile.table_set.session, both)["events"]["name"].to_pylist() == ["train", "op1"]


def test_steps_of_tables_are_the_time_that_they_take_on_each_host(run: Path) -> None:
    p = fastprof.load(run)
    expected = [(host, name) for host in ("vm0", "vm1") for name in ("train", "op1")]
    chosen = p.select(steps=(1, 2))
    assert names(chosen) == expected
    assert sum(batch.num_rows for batch in chosen.scan()) == 4
    between = p.select(steps=(1, 3))
    assert [name for host, name in names(between) if host == "vm0"] == ["train", "op1", "between", "train", "op2"]
    with pytest.raises(fastprof.UsageError, match=r"^no step in 7:9; choose from 0:3 \(ends excluded\)$"):
        names(p.select(steps=(7, 9)))


def test_selections_of_steps_narrow_and_survive(run: Path) -> None:
    p = fastprof.load(run).select(steps=(1, None))
    assert names(p.select(steps=(None, 2), hosts="vm1")) == [("vm1", "train"), ("vm1", "op1")]
    assert names(p.select(names="op", steps=(0, 2), time_ps=(0, 1 << 40))) == [("vm0", "op1"), ("vm1", "op1")]
    assert names(pickle.loads(pickle.dumps(p.select(steps=(0, 2))))) == names(p.select(steps=(0, 2)))
    assert "selected hosts vm1; steps 1" in repr(p.select(steps=(None, 2), hosts="vm1"))
    assert not repr(p).endswith("rows>")


def test_one_step_by_its_number(run: Path) -> None:
    p = fastprof.load(run)
    assert names(p.select(steps=1)) == names(p.select(steps=(1, 2)))


@pytest.mark.parametrize("steps", [True, 1.0, (1,), (1, 2, 3), ("a", "b"), (1.5, 2), (True, 2)])
def test_steps_that_make_no_sense(run: Path, steps: object) -> None:
    with pytest.raises(fastprof.UsageError, match="steps must be a number, a pair"):
        fastprof.load(run).select(steps=steps)  # type: ignore[arg-type]


@pytest.mark.usefixtures("sample")
def test_steps_of_analyses_are_the_events_that_belong_to_them(run: Path) -> None:
    report = fastprof.load(run).select(steps=(1, 3)).report("sample_analysis")
    assert report.tables["names"]["name"].to_pylist() == ["op1", "op2", "train"]
    assert report.notices[-1].text == (
        "Only some steps are selected. 6 events belong to no step, for example on background threads, and are not "
        "counted."
    )
    assert "no step" not in fastprof.load(run).report("sample_analysis").notices[-1].text
