"""What a notebook shows of a session and of a report: HTML of escaped texts, and advice in terms of Python."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from pathlib import Path

import pytest
from exported import put_run
from step_captures import host, in_order, ran, spaces, step
from trace_builder import Event, event, line, plane, xspace

import fastprof
from fastprof.decode.decoder import Decoder
from fastprof.profile import profile
from fastprof.wording.spelling import translate_flags

DEMO = Path(__file__).parent.parent / "demo"
ILL = "<script>alert(1)</script>\u202eturned\x9b"


class Cells(HTMLParser):
    """The rows of all tables, the texts beside them, and the kinds of elements."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.rows: list[list[str]] = []
        self.texts: list[str] = []
        self.tags: set[str] = set()
        self._cell = False
        self.feed(html)

    def handle_starttag(self, tag: str, _attributes: object) -> None:
        self.tags.add(tag)
        self._cell = tag in ("td", "th", "bdi")
        if tag == "tr":
            self.rows.append([])
        if tag in ("td", "th"):
            self.rows[-1].append("")

    def handle_data(self, data: str) -> None:
        if self._cell:
            self.rows[-1][-1] += data
        else:
            self.texts.append(data)


@pytest.fixture
def run(tmp_path: Path) -> Path:
    return put_run(tmp_path / "run")


def test_a_profile_shows_hosts_devices_times_steps_and_names() -> None:
    profile = fastprof.load(DEMO / "pod")
    shown = {row[0]: row[1] for row in Cells(profile._repr_html_()).rows}
    assert {name: shown[name] for name in ("Hosts", "Devices", "Events", "Time", "Steps")} == {
        "Hosts": "2: host0, host1",
        "Devices": "8 TPU",
        "Events": "576 on 24 lines of 8 planes",
        "Time": "13.58 ms, from 1.000 ms to 14.58 ms",
        "Steps": "8",
    }
    assert shown["Tables"].startswith("hosts, planes, ") and shown["Analyses"].startswith("overview(), ")
    narrower = {row[0]: row[1] for row in Cells(profile.select(hosts="host1", steps=1)._repr_html_()).rows}
    assert (narrower["Selected"], narrower["Steps"]) == ("hosts host1; steps 1", "1")
    text = repr(profile)
    assert "\n  devices  8 TPU\n  tables   hosts, planes, " in text and "\n  analyses overview, " in text
    assert max(map(len, text.splitlines())) <= 100


def test_several_runs_are_shown_one_after_the_other(tmp_path: Path) -> None:
    for name in ("run<1>", "run2"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "vm.xplane.pb").write_bytes(spaces(host(many_steps())))
    profile = fastprof.load([tmp_path / "run<1>", tmp_path / "run2"])
    for html in (profile._repr_html_(), profile.steps()._repr_html_()):
        assert html.index("<h3>Run run&lt;1&gt;</h3>") < html.index("<h3>Run run2</h3>")
    assert [row[1] for row in Cells(profile._repr_html_()).rows if row[0] == "Steps"] == ["40", "40"]


def test_a_large_session_is_not_read_to_be_shown(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(profile, "_READ_BYTES", 0)
    monkeypatch.setattr(Decoder, "decode", lambda *_: pytest.fail("events are decoded"))
    shown = {row[0]: row[1] for row in Cells(fastprof.load(run)._repr_html_()).rows}
    assert shown["Steps"] == "steps() reads them" and "Events" not in shown


def test_a_damaged_session_shows_its_fault() -> None:
    data = xspace(plane("p", [line("l", [b"\x0e\x01"])]))
    shown = {row[0]: row[1] for row in Cells(fastprof.load(data)._repr_html_()).rows}
    assert "reading XEvent" in shown["Fault"] and shown["Hosts"] == "1: unknown"


def test_names_of_a_trace_are_text() -> None:
    data = spaces(
        host(in_order([step(0, 0, 10, ILL), ran(ILL, 2, 5, tf_op=ILL)])),
        plane(ILL, [line(ILL, [event(ILL, 0, 5)])], id=9),
        hostnames=[ILL],
    )
    profile = fastprof.load(data)
    for html in (profile._repr_html_(), profile.steps()._repr_html_()):
        cells = Cells(html)
        assert "script" not in cells.tags and "\u202e" not in html and "\x9b" not in html
        assert any(r"</script>\u202eturned\x9b" in cell for row in cells.rows for cell in row), html


def many_steps() -> list[Event]:
    steps = [step(number, 100 * number, 90) for number in range(40)]
    return in_order([*steps, *(ran("op", 100 * number + 10, 50) for number in range(40))])


def test_a_report_is_shown_as_tables() -> None:
    report = fastprof.load(spaces(host(many_steps()))).steps()
    cells = Cells(report._repr_html_())
    assert ["step count", "40", ""] in cells.rows
    assert {"table", "thead", "th", "td", "h3"} <= cells.tags and cells.texts[0] == "Steps"
    text = report.to_text(wide=True)
    assert [line.split() for line in text.splitlines() if line.startswith("  step count")] == [["step", "count", "40"]]


def test_advice_names_parameters_of_python() -> None:
    report = fastprof.load(DEMO / "pod").overview()
    for shown in (report.to_text(), repr(report), report._repr_html_().replace("&quot;", '"')):
        own = re.sub(r"--(xla_|python-level|host-level)", "", shown)  # of XLA, and of the command fastprof capture
        assert 'limit="all" shows the others' in own and "--" not in own
    assert "wide=True" in report.to_text(width=40, verbose=True)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("choose another with --module NAME.", "choose another with module=NAME."),
        ("choose another with --host NAME", "choose another with select(hosts=NAME)"),
        ("choose with run=NAME, or --run NAME: a", "choose with run=NAME, or run=NAME: a"),
        ("--steps-from modules makes each", 'steps_from="modules" makes each'),
        ("--limit all shows the others; --wide shows all", 'limit="all" shows the others; wide=True shows all'),
        ("--request shows when", "request shows when"),
        ("select --steps A:B", "select select(steps=(a, b))"),
        (
            "fastprof capture --python-level 1 and --host-level 2",
            "fastprof capture --python-level 1 and --host-level 2",
        ),
        ("a -- b, all--reduce, --- ", "a -- b, all--reduce, --- "),
    ],
)
def test_flags_as_parameters(text: str, expected: str) -> None:
    assert translate_flags(text) == expected


def test_a_drawing_is_shown() -> None:
    profile = fastprof.load(DEMO / "tf-data")
    report = profile.tf_data()
    drawing = report.to_svg()
    assert drawing._repr_svg_() == drawing and drawing.startswith("<svg")
    assert 'src="data:image/svg+xml;base64,' in report._repr_html_()
