"""The drawing of communication: whole whatever the capture, only shapes and texts, bars as long as time."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree

import pytest
from clock_pods import Pod, write_clocks
from flight_spaces import AR, CATEGORIES, FUSION, LOAD_DONE, LOAD_START, core
from random_spaces import random_space
from step_captures import host, ran, spaces
from test_svg import HOSTILE, NAMESPACE, assert_inside, parsed, texts
from trace_builder import xspace
from xla_spaces import gpu_capture, tpu_capture

import fastprof


def drawn(space: bytes) -> ElementTree.Element:
    return parsed(fastprof.load(space).report("communication").to_svg())


def written(root: ElementTree.Element) -> list[str]:
    return [text.text or "" for text in texts(root)]


def test_bars_are_as_long_as_time() -> None:
    ops = [(FUSION, 0, 40), (AR, 40, 20), (LOAD_START, 60, 5), (LOAD_DONE, 65, 15), (FUSION, 90, 10)]
    root = drawn(spaces(core(0, ops, steps=[(0, 100)])))
    assert_inside(root)
    said = written(root)
    assert "Devices, over the capture" in said and "Steps, each on its slowest device" in said
    assert said.count("100.0 µs, 40.0%") == 2
    group = next(one for one in root.iter(f"{NAMESPACE}g") if "vm: /device:TPU:0" in (one[0].text or ""))
    bars = [float(box.get("width", 0)) for box in group.iter(f"{NAMESPACE}rect")]
    assert bars == pytest.approx([265, 106, 106, 53], abs=0.2)  # compute, between devices, with the host, idle
    assert "exposed: with the host: 20.00 µs" in (group[0].text or "")


def test_hosts_that_delay_others_are_drawn(tmp_path: Path) -> None:
    write_clocks(tmp_path, Pod(seed=1, hosts=12, steps=4, straggler=10, factor=1.5))
    root = parsed(fastprof.load(tmp_path).report("communication").to_svg())
    assert_inside(root)
    said = written(root)
    heading = next(place for place, text in enumerate(said) if text.startswith("Hosts, longest"))
    assert said[heading + 1] == "host010" and said[-1] == "and 2 more"


def test_steps_are_not_drawn_where_there_are_none() -> None:
    assert not any(text.startswith("Steps") for text in written(drawn(spaces(core(0, [(AR, 0, 5)])))))


def test_without_notices_there_is_no_empty_text() -> None:
    root = drawn(spaces(*(core(n, [(FUSION, 0, 40), (AR, 40, 1)], steps=[(0, 100)]) for n in range(2))))
    assert all(written(root))


def test_without_devices_it_says_why() -> None:
    said = written(drawn(spaces(host([ran("op", 0, 5)]))))
    assert any("no devices" in text for text in said)


def test_names_are_text_and_cut() -> None:
    name = f"%{HOSTILE} = f32[8] all-reduce(f32[8] %x)"
    ops = [(FUSION, 0, 5), (name, 5, 5)]
    assert_inside(drawn(xspace(core(0, ops, categories={**CATEGORIES, name: "all-reduce"}), hostnames=[HOSTILE])))


def test_of_many_devices_and_ops_the_first_are_drawn() -> None:
    many = [f"%all-reduce.{n} = f32[8] all-reduce(f32[8] %x)" for n in range(40)]
    ops = [(text, 10.0 * n, 5.0) for n, text in enumerate(many)]
    categories = dict.fromkeys(many, "all-reduce")
    root = drawn(spaces(*(core(n, ops, categories=categories) for n in range(40))))
    assert_inside(root)
    said = written(root)
    assert "and 8 more" in said and "and 24 more" in said


@pytest.mark.parametrize("seed", range(6))
def test_random_captures_are_drawn_inside(seed: int) -> None:
    for space in (random_space(seed), tpu_capture(seed), gpu_capture(seed)):
        assert_inside(drawn(space))
