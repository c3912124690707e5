"""Reports as text: what comes first, how figures and tables stand, and what is said of what is left out."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pyarrow as pa
import pytest
import sample_analysis
from reports import session_of
from sample_analysis import SCALARS, TABLES
from step_captures import host, ran, spaces, step

from fastprof.analyses.contract import AnalysisReport, Notice, Section, has_rows, is_known, make_scalars
from fastprof.render.report_text import draw_branches, get_label, lines
from fastprof.render.table_forms import Look
from fastprof.wording import quantities
from fastprof.wording.kernel_names import shorten_kernel_name
from fastprof.wording.screen import measure_width


@pytest.fixture(autouse=True)
def registered() -> Iterator[None]:
    with sample_analysis.registered():
        yield


def sample(names: list[str] | None = None, **values: object) -> AnalysisReport:
    """A report of two hosts; the second has a name that steers a terminal."""
    rows = {
        "host": ["alpha", "be\x1b[2Jta", "gamma"],
        "events": [3_000, 1_000, 0],
        "duration_ps": [7_500_000_000, 2_500_000_000, 0],
        "event_share": [0.75, 0.25, None],
    }
    hosts = pa.table([pa.array(rows[f.name], f.type) for f in TABLES["hosts"].arrow()], schema=TABLES["hosts"].arrow())
    names = ["a", "b"] if names is None else names
    known = {
        "event_count": 4_000, "total_ps": 10_000_000_000, "mean_ps": (None, "nobody measured it"), "first_name": "a\nb",
        "loud": True, "steps": (None, "nobody measured it"),
    }  # fmt: skip
    tables = {"hosts": hosts, "names": pa.table({"name": pa.array(names, pa.string())})}
    notices = (Notice("info", "First."), Notice("recommendation", "Do\x07 this."), Notice("warning", "Beware."))
    return AnalysisReport("sample_analysis", tables, make_scalars(SCALARS, {**known, **values}), notices)  # type: ignore[arg-type]


def text(report: AnalysisReport, look: Look | None = None, limit: int | None = None) -> str:
    return "\n".join(lines(report, look or Look(), limit)) + "\n"


def test_the_whole_text() -> None:
    assert text(sample()) == (
        "Sample analysis\n"
        "\n"
        "Recommendation\n"
        "  Do\\x07 this.\n"
        "\n"
        "Figures\n"
        "  event count  4,000\n"
        "  total        10.00 ms\n"
        "  first name   a\\nb\n"
        "  loud           yes\n"
        "  Unknown: mean, steps (nobody measured it)\n"
        "\n"
        "Hosts\n"
        "  host         events  duration (ms)  event (%)\n"
        "  alpha         3,000          7.500       75.0  █████████\n"
        "  be\\x1b[2Jta   1,000          2.500       25.0  ███\n"
        "  showing 2 of 3; --limit all shows the others\n"
        "\n"
        "Names\n"
        "  name\n"
        "  a\n"
        "  b\n"
        "\n"
        "Remark\n"
        "  First.\n"
        "\n"
        "Warning\n"
        "  Beware.\n"
    )


def test_a_limit_counts_for_every_table_and_nulls_are_dashes() -> None:
    shown = text(sample(), limit=-1)
    assert "  gamma             0          0.000          -\n" in shown
    assert "--limit all" not in shown
    none = text(sample(), limit=0)
    assert "  showing 0 of 3;" in none and "  showing 0 of 2;" in none


def test_an_empty_table_says_so() -> None:
    assert "\nNames\n  none\n" in text(sample([]))


def test_long_names_and_texts_stay_within_the_width() -> None:
    report = sample(["n" * 500], first_name="words " * 60)
    report = replace(report, notices=(Notice("warning", "long " * 100), Notice("warning", "x" * 300)))
    for columns in (60, 100):
        shown = text(report, Look(width=columns)).splitlines()
        assert max(measure_width(line) for line in shown) <= columns
    assert "n" * 500 in text(report, Look(width=None))


def test_columns_without_room_are_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    columns = ("host", "events", "duration_ps", "event_share")
    monkeypatch.setattr(sample_analysis, "SECTIONS", (Section("Hosts", "hosts", columns, "event_share"),))
    shown = text(sample(), Look(width=40, verbose=True))
    assert "host         events  event (%)\n" in shown
    assert "  Hidden columns: duration; --wide shows\n  all\n" in shown
    assert max(map(measure_width, shown.splitlines())) <= 40
    assert "no room" not in text(sample(), Look(width=None))


def test_a_section_that_does_not_apply_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    sections = (
        Section("Kept", "names", ("name",), shown=has_rows("names")),
        Section("Gone", "names", ("name",), shown=lambda _: False),
        Section("Known", scalars=("total_ps",), shown=is_known("total_ps")),
        Section("Unknown", scalars=("mean_ps",), shown=is_known("mean_ps")),
    )
    monkeypatch.setattr(sample_analysis, "SECTIONS", sections)
    shown = text(sample())
    assert "\nKept\n" in shown and "\nKnown\n" in shown
    assert "Gone" not in shown and "Unknown" not in shown
    assert "Kept" not in text(sample([]))


def test_rows_of_zero_are_only_named(monkeypatch: pytest.MonkeyPatch) -> None:
    section = Section("Hosts", "hosts", ("host", "events"), nonzero="events")
    monkeypatch.setattr(sample_analysis, "SECTIONS", (section,))
    shown = text(sample(), Look(verbose=True))
    assert "  alpha         3,000\n  be\\x1b[2Jta   1,000\n  Always 0: gamma\n" in shown
    assert "Always 0" not in text(sample()) and "gamma" not in text(sample()).partition("Hosts\n")[2]
    assert "throughout" not in text(sample(), limit=-1)


def test_kernels_have_short_names(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sample_analysis, "SECTIONS", (Section("Names", "names", ("name",), kernels="name"),))
    assert "\n  run<int>\n" in text(sample(["void a::b::run<int>(int*, a::T<int, (a::E)1>)"]))


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("input_transpose_fusion", "input_transpose_fusion"),
        ("Memcpy HtoD (Device)", "Memcpy HtoD (Device)"),
        ("void (anonymous namespace)::sgemm<float>(float*)", "sgemm<float>"),
        ("void gemm(int)", "gemm"),
        (
            "void Eigen::internal::EigenMetaKernel<Eigen::TensorAssignOp<Eigen::T, Eigen::TensorConversionOp<"
            "Eigen::half> const> const, long>(Eigen::T)",
            "EigenMetaKernel<TensorConversionOp>",
        ),
        ("void a::f<", "f<"),
        ("::", "::"),
    ],
)
def test_names_of_kernels_lose_what_cpp_writes_around_them(name: str, shown: str) -> None:
    assert shorten_kernel_name(name) == shown


def test_an_encoding_without_blocks_has_bars_of_hashes() -> None:
    shown = text(sample(total_ps=3_000_000), Look(encoding="ascii"))
    assert "  #########\n" in shown
    assert "  total        3.000 us\n" in shown
    assert shown.isascii()


def test_without_a_layout_everything_is_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sample_analysis, "SECTIONS", ())
    shown = text(sample())
    assert shown.count("\nFigures\n") == shown.count("\nHosts\n") == shown.count("\nNames\n") == 1


def test_titles_are_strong_where_there_is_colour() -> None:
    assert text(sample(), Look(color=True)).startswith("\x1b[1mSample analysis\x1b[0m\n")


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("step_time_ps", "step time"),
        ("idle_percent", "idle"),
        ("idle_share", "idle share"),
        ("peak_bytes_per_s", "peak"),
        ("flops", "flops"),
        ("steps", "steps"),
        ("s", "s"),
    ],
)
def test_labels(name: str, words: str) -> None:
    assert get_label(name) == words


@pytest.mark.parametrize(
    ("value", "unit", "shown"),
    [
        (1_234_567, None, "1,234,567"),
        (0.1234567, None, "0.123457"),
        (1_500_000, "ps", "1.500 µs"),
        (1_500_000.4, "ps", "1.500 µs"),
        (2.5, "ms", "2.500 ms"),
        (0, "ps", "0 ps"),
        (1 << 20, "bytes", "1.000 MiB"),
        (12.345, "%", "12.3 %"),
        (0.12345, "share", "12.3 %"),
        (1.5e12, "flop/s", "1.5 TFLOP/s"),
        (900.0, "bytes/s", "900 B/s"),
        (3, "apples", "3 apples"),
        (float("nan"), "ps", "NaN"),
        (float("inf"), "bytes", "Infinity"),
        (float("-inf"), "flop/s", "-Infinity FLOP/s"),
    ],
)
def test_figures_with_units(value: float, unit: str | None, shown: str) -> None:
    assert quantities.format_measure(value, unit) == shown


def test_the_host_is_shown_where_there_are_several(monkeypatch: pytest.MonkeyPatch) -> None:
    """First, but for the names of a tree; of one host it is not worth a column."""
    table = pa.table({"host": ["a", "b"], "name": ["x", "y"], "depth": pa.array([0, 1])})
    report = replace(sample(), tables={"hosts": table}, notices=())
    for depth, shown in (
        (None, "  host  name\n  a     x\n  b     y\n"),
        ("depth", "  name  host\n  x     a\n  └─ y  b\n"),
    ):
        monkeypatch.setattr(sample_analysis, "SECTIONS", (Section("Hosts", "hosts", ("name",), depth=depth),))
        assert text(report).endswith(f"\nHosts\n{shown}")
    monkeypatch.setattr(sample_analysis, "SECTIONS", (Section("Hosts", "hosts", ("name",)),))
    assert text(replace(report, tables={"hosts": table.slice(0, 1)})).endswith("\nHosts\n  name\n  x\n")


def test_a_program_that_is_the_same_in_all_rows_is_reported_once(monkeypatch: pytest.MonkeyPatch) -> None:
    table = pa.table({"name": ["x", "y"], "program": ["f(1)", "f(1)"]})
    report = replace(sample(), tables={"ops": table}, notices=())
    monkeypatch.setattr(sample_analysis, "SECTIONS", (Section("Ops", "ops", ("name", "program")),))
    assert text(report).endswith("\nOps\n  name\n  x\n  y\n  All in program f(1)\n")
    two = table.set_column(1, "program", pa.array(["f(1)", "g(2)"]))
    assert text(replace(report, tables={"ops": two})).endswith("\n  name  program\n  x     f(1)\n  y     g(2)\n")


def test_parts_that_are_nothing_are_left_out_and_the_last_column_goes_first(monkeypatch: pytest.MonkeyPatch) -> None:
    table = pa.table({"name": ["x", "y"], "left": [0, 0], "right": [1, 0], "what": ["word " * 3] * 2})
    report = replace(sample(), tables={"ops": table}, notices=())
    section = Section("Ops", "ops", tuple(table.column_names), parts=("left", "right"), by_worth=True)
    monkeypatch.setattr(sample_analysis, "SECTIONS", (section,))
    shown = text(report, Look(width=20, verbose=True))
    assert "  name  right\n" in shown and "left" not in shown and "Hidden columns:\n  what" in shown


TREE = [0, 1, 2, 2, 1, 2, 3, 0, 1]


def test_branches_of_a_tree() -> None:
    assert draw_branches(TREE, unicode=True) == ["", "├─ ", "│  ├─ ", "│  └─ ", "└─ ", "   └─ ", "      └─ ", "", "└─ "]
    assert draw_branches(TREE, unicode=False) == [
        "",
        "|- ",
        "|  |- ",
        "|  `- ",
        "`- ",
        "   `- ",
        "      `- ",
        "",
        "`- ",
    ]
    assert draw_branches([], unicode=True) == []
    assert len(draw_branches(list(range(100_000)), unicode=True)[-1]) == 3 * 40  # deeper is drawn no deeper


def test_a_table_that_is_a_tree(monkeypatch: pytest.MonkeyPatch) -> None:
    section = Section("Hosts", "hosts", ("host",), depth="events")
    monkeypatch.setattr(sample_analysis, "SECTIONS", (section,))
    hosts = sample().tables["hosts"]
    tree = hosts.set_column(1, "events", pa.array([0, 1, 2], pa.int64()))
    shown = text(replace(sample(), tables={"hosts": tree}, notices=()))
    assert shown == "Sample analysis\n\nHosts\n  host\n  alpha\n  └─ be\\x1b[2Jta\n     └─ gamma\n"


@pytest.mark.parametrize(
    ("share", "bar"),
    [(0.0, ""), (1.0, "█" * 12), (0.5, "█" * 6), (1 / 96, "▏"), (0.99, "█" * 11 + "▉"), (-1.0, ""), (7.0, ""),
     (float("nan"), "")],
)  # fmt: skip
def test_bars(share: float, bar: str) -> None:
    assert quantities.draw_bar(share, unicode=True) == bar


def test_categories_of_step_time_are_in_plain_words() -> None:
    main = [one for k in range(3) for one in (step(k, 100 * k, 60), ran("op:Op", 100 * k, 40))]
    shown = text(session_of(spaces(host(main))).report("overview").answer, Look(verbose=True))
    words = shown.partition("Where step time goes")[2].partition("\n\n")[0]
    assert "host compute" in words and "unattributed time" in words
    assert "Always 0: device compute, copies between devices, collectives, launch preparation," in words
    assert "_" not in words.replace("(µs)", "")
