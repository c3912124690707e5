"""The saved report is one file that has everything: modules, styles, charts, reports, a timeline; and asks for nothing.

How browsers show it is seen in tests/browser.
"""

from __future__ import annotations

import base64
import gzip
import hashlib
import json
import re
import struct
import subprocess
import sys
import tracemalloc
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from demo_captures import DEMO
from trace_builder import event, line, plane, xspace

import fastprof
from fastprof.cli import main
from fastprof.render import report_json
from fastprof.viewer import html_report

pytest.importorskip("starlette")


ANALYSES = ("overview", "op_stats", "steps")
_BEYOND_A_FILE = re.compile(r"import\.meta|(await|return|=) fetch\(|XMLHttpRequest|innerHTML|\beval\(|new Function")
NASTY = "</script><img src=x onerror=alert(1)>"


class Document(HTMLParser):
    """Elements of a document: scripts by id or type with their text, and all attributes."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.scripts: list[tuple[dict[str, str | None], str]] = []
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self._script: dict[str, str | None] | None = None
        self._pieces: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        if tag == "script":
            self._script, self._pieces = dict(attrs), []

    def handle_data(self, data: str) -> None:
        if self._script is not None:
            self._pieces.append(data)

    def handle_endtag(self, tag: str) -> None:
        if tag == "script" and self._script is not None:
            self.scripts.append((self._script, "".join(self._pieces)))
            self._script = None

    def data(self, name: str) -> bytes:
        """The data of that name, uncompressed."""
        for attributes, text in self.scripts:
            if attributes.get("id") == f"data-{name}":
                packed = attributes["type"] == "application/gzip"
                return gzip.decompress(base64.b64decode(text)) if packed else text.encode()
        raise KeyError(name)

    def json(self, name: str) -> Any:
        return json.loads(self.data(name))

    def text_of(self, kind: str) -> str:
        return next(text for attributes, text in self.scripts if attributes.get("type") == kind)


def saved(path: Path, *names: str, title: str = "the session", **chosen: Any) -> tuple[str, fastprof.Profile]:
    profile = fastprof.load(path)
    reports = {name: one.answer for name, one in profile.reports(*(names or ANALYSES)).items()}
    return b"".join(html_report.write_html_report(profile, reports, title=title, **chosen)).decode("utf-8"), profile


@pytest.fixture(scope="module")
def pod() -> tuple[str, fastprof.Profile]:
    return saved(DEMO / "pod")


def test_reports_are_in_the_file_as_the_analyses_answered_them(pod: tuple[str, fastprof.Profile]) -> None:
    text, profile = pod
    document = Document(text)
    for name in ANALYSES:
        whole = json.loads(b"".join(report_json.write_columns(profile.report(name).answer)))
        assert document.json(f"report-{name}") == whole
    assert document.json("analyses")["pages"] == ["timeline", *ANALYSES]
    assert [one["name"] for one in document.json("analyses")["analyses"]] == list(ANALYSES)
    (run,) = document.json("session")["runs"]
    assert run["hosts"] == ["host0", "host1"]


def test_the_file_asks_for_nothing_and_forbids_to(pod: tuple[str, fastprof.Profile]) -> None:
    document = Document(pod[0])
    for tag, attributes in document.elements:
        assert tag != "link"
        assert "src" not in attributes and "href" not in attributes, (tag, attributes)
    styles = pod[0][pod[0].index("<style>") : pod[0].index("</style>")]
    assert "url(" not in styles and "@import" not in styles
    (policy,) = [a["content"] for t, a in document.elements if a.get("http-equiv") == "Content-Security-Policy"]
    assert policy is not None and policy.startswith("default-src 'none'; ")
    assert not re.search(r"https?:|unsafe-eval|connect-src", policy)


def test_only_the_two_scripts_of_the_page_may_run(pod: tuple[str, fastprof.Profile]) -> None:
    document = Document(pod[0])
    (policy,) = [a["content"] for t, a in document.elements if a.get("http-equiv") == "Content-Security-Policy"]
    running = [(a, text) for a, text in document.scripts if a["type"] not in ("application/json", "application/gzip")]
    assert [attributes["type"] for attributes, _ in running] == ["importmap", "module"]
    assert policy is not None
    for _, text in running:
        digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
        assert f"'sha256-{digest}'" in policy
    scripts = policy.split("script-src ")[1].split(";")[0]
    assert "'unsafe-inline'" not in scripts


def test_every_module_that_is_imported_is_in_the_file(pod: tuple[str, fastprof.Profile]) -> None:
    document = Document(pod[0])
    imports = json.loads(document.text_of("importmap"))["imports"]
    assert document.text_of("module") == 'import "fastprof/saved.js";'
    assert "fastprof/saved.js" in imports and "fastprof/timeline/page.js" in imports
    assert not any(name.startswith("fastprof/main.js") for name in imports)  # that of the server
    left_out = {html_report.get_module_name(path) for path in html_report.LEFT_OUT}
    for name, address in imports.items():
        kind, _, packed = address.partition(",")
        assert kind == "data:text/javascript;base64"
        module = base64.b64decode(packed).decode()
        reached = re.findall(r"""(?:from|import)\s*\(?\s*["']([^"']+\.js)["']""", module)
        assert set(reached) <= set(imports) | left_out, name
        assert not _BEYOND_A_FILE.search(module), name


def test_a_title_has_no_characters_that_steer(tmp_path: Path) -> None:
    path = tmp_path / "h.xplane.pb"
    path.write_bytes(xspace(plane("/host:CPU", [line("l", [event("e", 0, 1)])])))
    text, _ = saved(path, "op_stats", title="a\x1b]0;b\x07\n\u202ec\u200b\udc80 <d>")
    assert "<title>a\\x1b]0;b\\x07\\n\\u202ec\\u200b\\udc80 &lt;d&gt; · fastprof</title>" in text


def test_names_of_a_trace_are_never_markup(tmp_path: Path) -> None:
    capture = tmp_path / "nasty.xplane.pb"
    events = [event(NASTY, 0, 1_000, stats={"long_name": NASTY}), event("<!--<script>", 2_000, 500)]
    capture.write_bytes(xspace(plane("/host:CPU", [line(NASTY, events)])))
    text, _ = saved(capture, "op_stats", title=NASTY)
    assert NASTY not in text and "<!--<script" not in text
    assert "<title>&lt;/script&gt;&lt;img" in text
    document = Document(text)
    assert NASTY in document.json("names")["nasty"].values()
    (run,) = document.json("session")["runs"]
    assert run["name"] == NASTY
    kinds = {attributes["type"] for attributes, _ in document.scripts}
    assert kinds == {"importmap", "module", "application/json", "application/gzip"}
    assert not [tag for tag, _ in document.elements if tag == "img"]


def slices_of(tile: bytes) -> list[tuple[int, int, int, int, int]]:
    """Of each slice of a tile its track, lane, start, duration and how many events it is."""
    _, _, rows, slices, *_ = struct.unpack_from("<8I", tile)
    tracks = struct.unpack_from(f"<{rows}I", tile, 32)
    lanes = struct.unpack_from(f"<{rows}I", tile, 32 + 4 * rows)
    ends = struct.unpack_from(f"<{rows}I", tile, 32 + 8 * rows)
    body = -(-(32 + 12 * rows) // 8) * 8
    starts = struct.unpack_from(f"<{slices}d", tile, body)
    durations = struct.unpack_from(f"<{slices}d", tile, body + 8 * slices)
    counts = struct.unpack_from(f"<{slices}I", tile, body + 20 * slices)
    found, row = [], 0
    for place in range(slices):
        while ends[row] <= place:
            row += 1
        found.append((tracks[row], lanes[row], int(starts[place]), int(durations[place]), counts[place]))
    return found


def test_a_small_session_has_each_event_on_the_timeline(tmp_path: Path) -> None:
    capture = tmp_path / "small.xplane.pb"
    events = [
        event("outer", 1_000, 9_000),
        event("inner", 2_000, 10),
        event("inner", 2_010, 10),
        event("late", 10**9, 5),
    ]
    capture.write_bytes(xspace(plane("/host:CPU", [line("main", events)])))
    document = Document(saved(capture, "steps")[0])
    levels = document.json("levels")["levels"]
    finest = slices_of(document.data(f"tiles-{levels[0]}"))
    raw = document.json("timeline")["processes"][0]["tracks"]["id"][0]
    assert [(start, duration, count) for track, _, start, duration, count in finest if track == raw] == [
        (0, 9_000, 1),
        (10**9 - 1_000, 5, 1),
        (1_000, 10, 1),
        (1_010, 10, 1),
    ]
    assert document.json("session")["note"] == "A saved report."


def test_a_large_session_is_shown_as_finely_as_there_is_room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(html_report, "MOST_SLICES", 3_000)
    capture = tmp_path / "large.xplane.pb"
    events = [event(f"name {number % 50}", 1_000 * number, 700) for number in range(20_000)]
    capture.write_bytes(xspace(plane("/host:CPU", [line("main", events)])))
    document = Document(saved(capture, "steps")[0])
    tiles = [slices_of(document.data(f"tiles-{level}")) for level in document.json("levels")["levels"]]
    assert sum(map(len, tiles)) <= 3_000
    for tile in tiles:
        assert sum(count for *_, count in tile) == 20_000
    assert "still shows merged events" in document.json("session")["note"]


def test_long_tables_are_cut_and_say_so() -> None:
    document = Document(saved(DEMO / "xla", "op_stats", rows=5)[0])
    ops = document.json("report-op_stats")["tables"]["ops"]
    assert ops["length"] == 5 and ops["of"] > 5


def test_only_the_chosen_hosts_are_on_the_timeline() -> None:
    document = Document(saved(DEMO / "pod", "steps", hosts=["host1"])[0])
    timeline = document.json("timeline")
    assert [host["host"] for host in timeline["hosts"]] == ["host1"]
    assert {process["host"] for process in timeline["processes"]} == {"host1"}


# ---- the flag


def test_the_flag_writes_a_file_that_is_whole(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    target = tmp_path / "report.html"
    words = ["report", str(DEMO / "pod"), "--only", "overview", "--host", "host0", "--html", str(target)]
    assert main.main(words) == 0
    document = Document(target.read_text("utf-8"))
    assert document.json("analyses")["pages"] == ["timeline", "overview"]
    assert document.json("session")["title"].startswith("pod · ")
    assert [host["host"] for host in document.json("timeline")["hosts"]] == ["host0"]
    assert main.main(words) == 3
    assert "already exists" in capsys.readouterr().err
    assert main.main([*words, "--force", "--quiet"]) == 0


def test_a_file_that_is_named_as_a_page_is_one(tmp_path: Path) -> None:
    target = tmp_path / "report.htm"
    assert main.main(["report", str(DEMO / "pod"), "--only", "steps", "-o", str(target), "--quiet"]) == 0
    assert target.read_bytes().startswith(b"<!doctype html>")


@pytest.mark.parametrize("more", [["--format", "json"], ["-o", "other.json"], ["--table", "steps.steps"]])
def test_the_flag_goes_without_those_of_other_forms(more: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main.main(["report", str(DEMO / "pod"), "--html", "x.html", *more]) == 2
    assert "--html" in capsys.readouterr().err or more[0] == "--table"


def test_a_report_needs_no_server(tmp_path: Path) -> None:
    target = tmp_path / "x.html"
    code = "import sys; sys.modules['starlette'] = None; from fastprof.cli.main import entry; entry()"
    words = ["report", str(DEMO / "pod"), "--only", "steps", "--html", str(target), "--quiet"]
    assert subprocess.run([sys.executable, "-c", code, *words], check=False).returncode == 0
    assert target.read_bytes().startswith(b"<!doctype html>")


def test_a_report_has_a_size_that_can_be_mailed(tmp_path: Path) -> None:
    target = tmp_path / "x.html"
    assert main.main(["report", str(DEMO / "pod"), "--only", "steps", "--html", str(target), "--quiet"]) == 0
    assert target.stat().st_size < 1_200_000


def test_blocks_are_compressed_in_pieces() -> None:
    """A block of 40 MiB is written in less than a quarter of that, as one gzip file would be."""
    piece = b'{"a": %d}' % 7 * 1000

    def write() -> Iterator[bytes]:
        return html_report._write_json_block("all", (piece for _ in range(5000)))

    tracemalloc.start()
    try:
        kept = hashlib.sha256()
        for chunk in write():
            kept.update(chunk)
        assert tracemalloc.get_traced_memory()[1] < 10 << 20
    finally:
        tracemalloc.stop()
    packed = base64.b64encode(gzip.compress(piece * 5000, 6, mtime=0))
    whole = b'<script type="application/gzip" id="data-all">' + packed + b"</script>\n"
    assert b"".join(write()) == whole
    assert kept.digest() == hashlib.sha256(whole).digest()


def test_reports_are_dropped_before_the_timeline(monkeypatch: pytest.MonkeyPatch) -> None:
    profile = fastprof.load(DEMO / "pod")
    reports = {name: one.answer for name, one in profile.reports("overview", "diagnosis").items()}
    there: list[int] = []
    make = html_report._make_timeline
    monkeypatch.setattr(html_report, "_make_timeline", lambda *words: (there.append(len(reports)), make(*words))[1])
    assert b"".join(html_report.write_html_report(profile, reports, title="one"))
    assert there == [0]
