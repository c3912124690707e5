"""The drawing of input pipelines: whole whatever the capture, only shapes and texts, and all of it in its frame."""

from __future__ import annotations

import re
import subprocess
import sys
from typing import Any
from xml.etree import ElementTree

import pytest
from gate import few
from pipeline_captures import MS, US, Batch, Interleave, Map, ParallelMap, Prefetch, Root, Source, Stage, train
from random_spaces import random_space
from reports import session_of
from step_captures import host, ran, spaces
from trace_builder import Event, Value

import fastprof
from fastprof.render.svg.drawing import CELL, fit_label
from fastprof.wording.screen import measure_width

NAMESPACE = "{http://www.w3.org/2000/svg}"
HOSTILE = '</text><script>alert("1")</script>&amp;\x00\x1b[2J\u202e é 漢字' + "W" * 500


def drawn(*captures: bytes, **params: Any) -> str:
    return session_of(*captures).tf_data(**params).to_svg()


def parsed(svg: str) -> ElementTree.Element:
    """The document, which is XML, has no more than shapes and texts, and refers to nothing."""
    root = ElementTree.fromstring(svg)
    kinds = {element.tag.removeprefix(NAMESPACE) for element in root.iter()}
    assert kinds <= {"svg", "title", "style", "rect", "path", "text", "g"}
    allowed = {"x", "y", "width", "height", "rx", "class", "fill", "d", "text-anchor"}
    for element in root.iter():
        assert element is root or set(element.keys()) <= allowed
    assert "href" not in svg and "url(" not in svg and "@import" not in svg
    return root


def texts(root: ElementTree.Element) -> list[ElementTree.Element]:
    return root.findall(f".//{NAMESPACE}text")


def assert_inside(root: ElementTree.Element) -> None:
    """Nothing is drawn beyond the frame, and no name of a box reaches beyond it."""
    _, _, wide, tall = map(float, root.get("viewBox", "").split())
    for box in root.iter(f"{NAMESPACE}rect"):
        x, y = float(box.get("x", 0)), float(box.get("y", 0))
        assert x >= 0 and y >= 0 and x + float(box.get("width", 0)) <= wide and y + float(box.get("height", 0)) <= tall
    for text in texts(root):
        size = {"small": 11, "title": 17, "head": 14}.get((text.get("class") or "").split(" ")[-1].split(" ")[0], 12)
        cell = CELL * size if "name" in (text.get("class") or "") else 0.5 * size
        taken, x = cell * measure_width(text.text or ""), float(text.get("x", 0))
        left = {"end": x - taken, "middle": x - taken / 2}.get(text.get("text-anchor", ""), x)
        assert left >= 0 and left + taken <= wide, text.text
        assert 0 < float(text.get("y", 0)) < tall


def usual() -> Stage:
    files = Interleave([Source(30 * US) for _ in range(3)])
    return Root(Prefetch(Batch(ParallelMap(Map(files, 100 * US), 50 * US, 2), 8), buffer=2))


def iterator(path: str, at: float, length: float, id: Value, parent: Value = None) -> Event:
    stats: dict[str, Value] = {"id": id} | ({} if parent is None else {"parent_id": parent})
    return ran(f"Iterator::{path}", at, length, **stats)


def test_a_pipeline_is_drawn_with_its_shares_its_slowest_call_and_what_helps() -> None:
    capture = train(usual(), compute=MS, steps=10).capture()
    report = fastprof.load(capture).tf_data()
    root = parsed(report.to_svg())
    shown = [text.text for text in texts(root)]
    for row in report.tables["iterators"].to_pylist():
        assert row["name"] in shown
        assert f"{100 * row['critical_share']:.1f} %" in shown
    assert "bottleneck" in shown and "Batch time now, and after a change with a core for each thread" in shown
    assert any(text is not None and text.startswith("The slowest call, ") for text in shown)
    assert_inside(root)


def test_changes_are_drawn_for_the_cores_that_there_are() -> None:
    serial = Root(Prefetch(Batch(Map(Source(30 * US), 300 * US), 8), buffer=2))
    shown = [text.text for text in texts(parsed(drawn(train(serial, compute=MS, cores=2).capture())))]
    assert "Batch time now, and after a change on 2 cores" in shown
    at = shown.index("Map parallel by 4")
    assert shown[at : at + 4] == [
        "Map parallel by 4",
        "1.899 ms",
        "1.40 ×",
        "if CPU-bound; 1.000 ms if I/O-bound",
    ]


def test_of_two_pipelines_each_is_drawn_with_its_own_changes() -> None:
    """What saves most of one stands, in the table, between what saves of the other."""
    slow = Root(Batch(Map(Source(50 * US), 500 * US), 8))
    run = train(slow, Root(Batch(Source(300 * US, "Range"), 8)), compute=3 * MS, steps=8)
    report = fastprof.load(run.capture()).tf_data()
    order = [row["pipeline"] for row in report.tables["what_if"].to_pylist()]
    assert order != sorted(order)
    shown = [text.text or "" for text in texts(parsed(report.to_svg()))]
    second = shown[shown.index("Host:1") :]
    assert any(text.startswith("Range ") for text in second) and not any(text.startswith("Map ") for text in second)
    assert not any(text.startswith("Range ") for text in shown[: shown.index("Host:1")])


def test_light_and_dark_have_colours_of_their_own() -> None:
    style = parsed(drawn(train(usual(), compute=MS).capture())).findtext(f"{NAMESPACE}style") or ""
    light, _, dark = style.partition("@media (prefers-color-scheme: dark)")
    for rule in (".ground", ".box", "text", ".quiet"):
        assert re.search(rf"^{re.escape(rule)} {{", light, re.MULTILINE) and f"{rule} {{" in dark


def test_names_are_text_and_cut() -> None:
    events = [iterator(f"Root{HOSTILE}", 0, 100, 1), iterator(f"Root::{HOSTILE}", 10, 80, 2, 1)]
    svg = drawn(spaces(host(events), hostnames=(HOSTILE,)))
    root = parsed(svg)
    assert "script" not in {element.tag.removeprefix(NAMESPACE) for element in root.iter()}
    assert all(len(text.text or "") < 120 for text in texts(root))
    assert_inside(root)


@pytest.mark.parametrize("wide", [0, 5, 8, 30, 300])
def test_a_name_takes_no_more_than_its_room(wide: int) -> None:
    for name in ("a" * 100, "漢" * 100, "", "ab", "\n" * 50):
        assert measure_width(fit_label(name, wide)) * CELL * 12 <= wide + 1e-9
    assert fit_label("short", 300) == "short"


def test_without_pipelines_it_says_why() -> None:
    root = parsed(drawn(spaces(host([ran("work", 0, 5)]))))
    assert any("host_tracer_level=2" in (text.text or "") for text in texts(root))
    assert_inside(root)


def test_of_many_iterators_the_ones_waited_for_are_drawn() -> None:
    """A hundred inputs, the last one slow; each lies under the nearest one that is drawn."""
    events = [iterator("Root", 0, 2000, 1), iterator("Root::Zip", 1, 1998, 2, 1)]
    for number in range(100):
        length = 400 if number == 99 else 10
        events.append(iterator(f"Root::Zip[{number}]::Map", 5 + 12 * number, length + 1, 100 + number, 2))
        events.append(
            iterator(f"Root::Zip[{number}]::Map::Range{number}", 5 + 12 * number, length, 500 + number, 100 + number)
        )
    root = parsed(drawn(spaces(host(events))))
    shown = [text.text or "" for text in texts(root)]
    assert {"Root", "Zip", "Range99"} <= set(shown)
    assert "and 162 more iterators, less waited for" in shown
    assert_inside(root)


def test_of_many_pipelines_those_waited_for_are_drawn() -> None:
    events = [iterator("Root", 100 * number, number + 1, number + 1) for number in range(20)]
    shown = [text.text for text in texts(parsed(drawn(spaces(host(events)))))]
    assert [text for text in shown if text and text.startswith("Host:")] == [f"Host:{19 - n}" for n in range(6)]
    assert "and 14 more pipelines, less waited for" in shown


def test_a_deep_tree_stays_in_its_frame() -> None:
    """Each iterator has two inputs, so each level would be moved further to the right."""
    events, path = [iterator("Root", 0, 1000, 1)], "Root"
    for depth in range(60):
        events.append(iterator(f"{path}[1]::Side{depth}", 600 + 5 * depth, 3, 1000 + depth, depth + 1))
        path += "[0]::Zip"
        events.append(iterator(path, depth + 1, 500 - 2 * depth, depth + 2, depth + 1))
    assert_inside(parsed(drawn(spaces(host(events)))))


def test_calls_of_no_time_are_drawn() -> None:
    assert_inside(parsed(drawn(spaces(host([iterator("Root", 0, 0, 1), iterator("Root", 5, 0, 1)])))))


def test_a_path_of_many_stretches_is_drawn_in_few_shapes() -> None:
    events = [iterator("Root", 0, 20_000, 1)]
    events += [iterator(f"Root::Map{number % 7}", 2 * number, 1, 2 + number % 7, 1) for number in range(9_000)]
    svg = drawn(spaces(host(events)))
    assert len(svg) < 400_000
    assert_inside(parsed(svg))


def test_hosts_are_named_where_there_are_several() -> None:
    captures = [spaces(host([iterator("Root", 0, 100, 1)]), hostnames=(name,)) for name in ("a", "b")]
    shown = {text.text for text in texts(parsed(drawn(*captures)))}
    assert {"Host:0 of a", "Host:0 of b"} <= shown


@pytest.mark.parametrize("seed", few(range(20), 8))
def test_random_captures_are_drawn(seed: int) -> None:
    assert_inside(parsed(drawn(random_space(seed))))


def test_the_command_line_draws(tmp_path: Any) -> None:
    (tmp_path / "a.xplane.pb").write_bytes(train(usual(), compute=MS).capture())
    command = [sys.executable, "-m", "fastprof", "tf-data", str(tmp_path / "a.xplane.pb"), "--format", "svg"]
    done = subprocess.run(command, capture_output=True, check=True, timeout=60)
    assert_inside(parsed(done.stdout.decode()))
