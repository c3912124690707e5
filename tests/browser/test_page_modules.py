"""Modules of the page that need a canvas; those that need no browser are tested in tests/page."""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any

import pytest
from gate import left_to_test_all

from tests.trace_builder import event, line, plane, xspace

Run = Callable[..., Any]


@pytest.fixture(scope="module")
def address(server: Callable[..., str], tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("modules") / "one.xplane.pb"
    path.write_bytes(xspace(plane("/host:CPU", [line("main", [event("step", 0, 10)])])))
    return server(path)


@pytest.fixture
def run(page: Any, address: str) -> Run:
    """``run(module, body, *given)``: what a function body makes of a module ``m`` and what is given."""
    page.goto(address)

    def ran(module: str, body: str, *given: Any) -> Any:
        code = f"async given => {{ const m = await import('/static/timeline/{module}.js'); {body} }}"
        return page.evaluate(code, list(given))

    return ran


def tile(rows: list[tuple[int, int, list[tuple[float, float, float, int, int, int]]]]) -> bytes:
    """The bytes of a tile: rows of (track, lane, slices of (start, duration, busy, count, name, at))."""
    slices = [one for _, _, of_row in rows for one in of_row]
    out = struct.pack("<8I", 0x31545046, 1, len(rows), len(slices), 0, 0, 0, 0)
    ends, end = [], 0
    for _, _, of_row in rows:
        end += len(of_row)
        ends.append(end)
    for column in ([row[0] for row in rows], [row[1] for row in rows], ends):
        out += struct.pack(f"<{len(column)}I", *column)
    out += bytes(-len(out) % 8)
    for place, letter in enumerate("ddfIII"):
        out += struct.pack(f"<{len(slices)}{letter}", *(one[place] for one in slices))
    return out


def test_slices_become_pixels_by_the_share_they_cover(run: Run) -> None:
    slices = [
        (0.0, 40.0, 1.0, 1, 0, 0),
        (40.0, 1.0, 1.0, 1, 1, 1),
        (60.0, 20.0, 0.25, 8, 0, 2),
        (90.0, 0.0, 1.0, 1, 1, 3),
    ]
    body = """
        const { decode } = await import('/static/timeline/tile.js');
        const tile = decode(Uint8Array.from(given[0]).buffer), wide = [], strip = new m.Strip();
        strip.begin(100, 1);
        strip.write(0, { tile, from: 0, to: 100 }, 1, 0, { start: 0, scale: 1, codes: Uint8Array.of(1, 9), label: 26,
            wide: slice => wide.push(slice) });
        return [[...strip.pixels.subarray(0, 100)].map(pixel => pixel >>> 24), wide];
    """
    alpha, wide = run("strip", body, list(tile([(1, 0, slices)])))
    assert alpha[0] == alpha[38] == 255 and 0 < alpha[39] < 255  # an edge, and a seam at its end
    assert alpha[40] == 255 and alpha[41:60] == [0] * 19
    assert 0 < alpha[65] < 255 and alpha[80:90] == [0] * 10  # a busy quarter is faint
    assert alpha[90] > 100  # an instant is seen
    assert wide == [0]


@left_to_test_all
def test_cells_of_a_narrow_table_show_what_distinguishes_names(run: Run) -> None:
    names = [f"jit(train_step)/jit(main)/transpose(jvp(Model))/layer_{layer}/mlp/dot_general" for layer in (3, 14)]
    body = """
        const { Table } = await import('/static/report.js');
        const box = document.createElement('div');
        box.style.width = '240px';
        document.body.append(box);
        m.table(box, new Table({ table: 't', length: 2, columns: [
            { name: 'name', type: 'string', unit: null, description: null, values: given[0] }] }));
        const cells = [...box.querySelectorAll('.cell')];
        for (const cell of cells) cell.dispatchEvent(new MouseEvent('mouseover', { bubbles: true }));
        return cells.map(cell => [cell.textContent, cell.title, cell.scrollWidth <= cell.clientWidth]);
    """
    first, second = run("../table", body, names)
    assert [first[0][0], second[0][0]] == ["…", "…"]
    assert "/layer_3/mlp" in first[0] and "/layer_14/mlp" in second[0]
    assert [first[1], second[1]] == names
    assert first[2] and second[2]


def test_text_is_cut_to_the_room_that_there_is(run: Run) -> None:
    fitted = run(
        "text",
        "return new m.Fitter(document.createElement('canvas').getContext('2d'), '12px sans-serif').fit(...given)",
        "w" * 100,
        60,
    )
    assert fitted.endswith("…") and 2 < len(fitted) < 12
