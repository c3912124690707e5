"""Modules of the timeline by themselves: times as text, the window, tiles, rows. They run where they are served."""

from __future__ import annotations

import json
import struct
from collections.abc import Callable
from typing import Any

import pytest

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


def of_tile(body: str) -> str:
    return f"const t = m.decode(Uint8Array.from(given[0]).buffer); {body}"


@pytest.mark.parametrize(
    ("ps", "exact", "short"),
    [
        ("0", "0 ps", "0 ps"),
        ("999", "999 ps", "999 ps"),
        ("1000", "1 ns", "1 ns"),
        ("1234567", "1.234567 µs", "1.235 µs"),
        ("123456789012345678", "123456.789012345678 s", "123,457 s"),
        ("9223372036854775807", "9223372.036854775807 s", "9,223,372 s"),
        ("-9223372036854775808", "−9223372.036854775808 s", "−9,223,372 s"),
        ("-1500", "−1.5 ns", "−1.5 ns"),
        ("100000000", "100 µs", "100 µs"),
    ],
)
def test_times_are_told_to_the_last_digit_or_in_short(run: Run, ps: str, exact: str, short: str) -> None:
    assert run("time_format", "return [m.exact(given[0]), m.short(given[0])]", ps) == [exact, short]


def test_marks_of_the_axis_are_apart_as_round_times(run: Run) -> None:
    steps = run("time_axis", "return given.map(m.tickStep)", 0.2, 1, 3, 11, 49, 51, 6e11)
    assert steps == [1, 1, 5, 20, 50, 100, 1e12]


AXIS = """const [start, span, origin] = given, t = m.ticksOf({ start, span, width: 500 }, BigInt(origin), 100);
          return [t.lead, t.times.slice(0, 3), t.times.slice(0, 3).map(t.text)]"""


@pytest.mark.parametrize(
    ("start", "span", "origin", "expected"),
    [
        (0, 1e9, "0", ["", [0, 2e8, 4e8], ["0", "0.2 ms", "0.4 ms"]]),
        (0, 1e9, "1", ["", [199_999_999, 399_999_999, 599_999_999], ["0.2 ms", "0.4 ms", "0.6 ms"]]),
        (3e12, 500, "0", ["3 s", [3e12, 3e12 + 100, 3e12 + 200], ["+0 ps", "+100 ps", "+200 ps"]]),
        (0, 5e6, "38359167250078", ["38.35916 s", [749_922, 1_749_922, 2_749_922], ["+8 µs", "+9 µs", "+10 µs"]]),
        (0, 5e6, "-38359167250078", ["−38.35917 s", [250_078, 1_250_078, 2_250_078], ["+3 µs", "+4 µs", "+5 µs"]]),
        (0, 5e15, "0", ["", [0, 1e15, 2e15], ["0", "1,000 s", "2,000 s"]]),
    ],
)
def test_marks_are_round_times_of_the_host_and_short_however_far_they_are(
    run: Run, start: float, span: float, origin: str, expected: list[Any]
) -> None:
    assert run("time_axis", AXIS, start, span, origin) == expected


def test_times_are_told_from_the_start_of_profiling_to_the_last_digit(run: Run) -> None:
    body = """const c = new m.Clock(482851900123n, [{ host: "a", offset_ps: "0" }, { host: "b", offset_ps: "2000" }]);
              return [c.exact("38359167250078"), c.near(38359167250078, 3e6), c.back(482851900125n),
                      c.flag(0, 5, "a"), c.flag(0, 0, "b"), new m.Clock(-7n).flag(0, 2e6, "a")]"""
    assert run("clock", body) == [
        "38.842019150201 s",
        "38.842019 s",
        2,
        "--time=482.851900123ms:482.851900128ms",
        "--time=482.851898123ms:482.851898124ms",
        "--time=-7ps:1.999993us",
    ]


@pytest.mark.parametrize(
    ("expression", "fault"),
    [
        ("^Iter.*(\\d+", "Not a whole expression: unterminated group"),
        ("(", "Not a whole expression: unterminated group"),
        ("[a-", "Not a whole expression: unterminated character class"),
        ("a(?=b)", "Expressions cannot look ahead or behind."),
        ("(a)\\1", "Expressions cannot refer back to groups."),
        ("(?i)Mat(?P<op>mul|Mul)(?-i:x)\\d+", ""),
        ("\\Qa(\\E|^\\$\\\\1\\z", ""),
        ("[[:alpha:]]+\\pL", ""),
    ],
)
def test_half_an_expression_is_told_before_the_server_is_asked(run: Run, expression: str, fault: str) -> None:
    assert run("expressions", "return m.faultOf(given[0])", expression) == fault


def test_zooming_keeps_the_time_under_the_pointer(run: Run) -> None:
    body = """const v = new m.View(); v.width = 1000; v.bound(0, 1e12); v.set(2e11, 1e11);
              const before = v.time(300); v.zoom(0.25, 300); return [before, v.time(300), v.span]"""
    before, after, span = run("view", body)
    assert before == pytest.approx(after, rel=1e-12) and span == 2.5e10


def test_the_window_stays_within_the_session_and_above_the_picosecond(run: Run) -> None:
    body = """const v = new m.View(); v.width = 1000; v.bound(0, 1e12); v.set(-5e12, 9e13);
              const whole = [v.start, v.end]; v.set(5e11, 1e-6); const least = v.span; v.pan(1e12);
              return [whole, least, v.end <= v.high]"""
    assert run("view", body) == [[-1e10, 1.01e12], 10, True]


@pytest.mark.parametrize(("span", "level"), [(1000, 0), (2000, 1), (1e9, 20), (1e12, 30), (10, 0)])
def test_a_bucket_is_about_a_pixel(run: Run, span: float, level: int) -> None:
    assert run("view", "const v = new m.View(); v.width = 1000; v.span = given[0]; return v.level()", span) == level


def test_a_tile_is_read_by_track_and_lane(run: Run) -> None:
    one = (5.0, 3.0, 1.0, 1, 7, 40)
    other = (2.0**52, 2.0**40, 0.5, 9, 8, 41)
    data = list(tile([(4, 0, [one]), (4, 2, [other, one]), (9, 0, [])]))
    body = of_tile(
        """const row = m.rowOf(t, 4, 2), [a, b] = m.slicesOf(t, row);
           return [t.slices, row, [a, b], t.start[a], t.duration[a], t.busy[a], t.count[a], t.name[a], t.at[a],
                   m.rowOf(t, 4, 1), m.rowOf(t, 5, 0), m.slicesOf(t, m.rowOf(t, 9, 0))]"""
    )
    assert run("tile", body, data) == [3, 1, [1, 3], 2.0**52, 2.0**40, 0.5, 9, 8, 41, -1, -1, [3, 3]]


@pytest.mark.parametrize("cut", [0, 31, 40, 70])
def test_bytes_that_are_no_tile_are_refused(run: Run, cut: int) -> None:
    data = list(tile([(1, 0, [(0.0, 1.0, 1.0, 1, 0, 0)] * 2)])[:cut])
    body = "try { m.decode(Uint8Array.from(given[0]).buffer); return null } catch (error) { return error.message }"
    assert "tile" in run("tile", body, data)


def test_while_a_tile_is_awaited_a_coarser_or_finer_one_is_drawn(run: Run) -> None:
    body = """
        const bytes = Uint8Array.from(given[0]).buffer, asked = [];
        const source = { tile: async (key, level, index) => { asked.push([level, index]); return bytes.slice(0) } };
        const cache = new m.TileCache(source, { learn: async () => {} }, () => {}, () => {});
        const group = { query: "1", host: "h", depth: 0 };
        cache.show({ key: "k", origin: 0n, span: 2 ** 20, groups: [group] });
        const span = 2 ** 16, pieces = () => cache.pieces(group, 6, 0, 2 * span - 1);
        const drawn = () => pieces().map(piece => [piece.from / span, piece.to / span]);
        const have = async (level, index) => {
            cache.begin(); cache.want(group, level, index); cache.pump();
            await new Promise(done => setTimeout(done, 20));
        };
        const steps = [drawn()];
        await have(10, 0); steps.push(drawn());
        await have(5, 0); await have(5, 1); steps.push(drawn());
        await have(6, 0); steps.push(drawn());
        return [steps, asked];
    """
    steps, asked = run("tile_cache", body, list(tile([(1, 0, [(0.0, 9.0, 1.0, 1, 0, 0)])])))
    assert steps == [[], [[0, 1], [1, 2]], [[0, 0.5], [0.5, 1], [1, 2]], [[0, 1], [1, 2]]]
    assert asked == [[10, 0], [5, 0], [5, 1], [6, 0]]


def test_slices_become_pixels_by_the_share_they_cover(run: Run) -> None:
    slices = [
        (0.0, 40.0, 1.0, 1, 0, 0),
        (40.0, 1.0, 1.0, 1, 1, 1),
        (60.0, 20.0, 0.25, 8, 0, 2),
        (90.0, 0.0, 1.0, 1, 1, 3),
    ]
    body = """
        const { decode } = await import('/static/timeline/tile.js');
        const { Palette } = await import('/static/timeline/slice_colours.js');
        const tile = decode(Uint8Array.from(given[0]).buffer), wide = [], strip = new m.Strip();
        strip.begin(100, 1);
        strip.write(0, { tile, from: 0, to: 100 }, 1, 0, { start: 0, scale: 1, table: new Palette("light").table,
            codes: Uint8Array.of(1, 9), label: 26, wide: slice => wide.push(slice) });
        return [[...strip.pixels.subarray(0, 100)].map(pixel => pixel >>> 24), wide];
    """
    alpha, wide = run("strip", body, list(tile([(1, 0, slices)])))
    assert alpha[0] == alpha[38] == 255 and 0 < alpha[39] < 255  # an edge, and a seam at its end
    assert alpha[40] == 255 and alpha[41:60] == [0] * 19
    assert 0 < alpha[65] < 255 and alpha[80:90] == [0] * 10  # a busy quarter is faint
    assert alpha[90] > 100  # an instant is seen
    assert wide == [0]


def test_text_of_a_capture_is_escaped_and_cut(run: Run) -> None:
    assert run("text", "return m.visible(given[0])", "a\0b\x1b[0m\u202ec\n\ud83d\ude00") == (
        "a\\x00b\\x1b[0m\\u202ec\\n\U0001f600"
    )
    assert len(run("text", "return m.visible(given[0])", "x" * 10**6)) == 301
    fitted = run(
        "text",
        "return new m.Fitter(document.createElement('canvas').getContext('2d'), '12px sans-serif').fit(...given)",
        "w" * 100,
        60,
    )
    assert fitted.endswith("…") and 2 < len(fitted) < 12


def test_rows_are_found_among_a_hundred_thousand_tracks(run: Run) -> None:
    body = """
        const { SessionModel } = await import('/static/timeline/session_model.js');
        const id = [...Array(100000).keys()], ones = id.map(() => 1);
        const tracks = { id, name: id.map(String), sort: id, lanes: id.map(one => 1 + one % 3), events: ones,
            derived: id.map(() => 0), kind: [] };
        const model = new SessionModel({ key: "k", state: "ready", span_ps: "10", hosts: [{ host: "h" }],
            processes: [{ id: 0, host: "h", name: "p", sort: 0, tracks }] });
        const layout = new m.RowLayout(); layout.height = 500; layout.show(model);
        layout.scrollTo(layout.total / 2);
        const [first, last] = layout.seen(), track = layout.track[first];
        const seen = [layout.count, last - first < 30, layout.rowOfTrack[track] === first];
        layout.toggleProcess(0);
        const closed = layout.count;
        layout.reveal(70000, 0);
        const y = layout.top[layout.rowOfTrack[70000]] - layout.scroll;
        return [seen, closed, y >= 0 && y < 500, model.groups.length < 10000];
    """
    assert run("row_layout", body) == [[100001, True, True], 1, True, True]


def test_an_address_says_what_is_shown_and_ill_ones_are_ignored(run: Run) -> None:
    address = "t=1.5~20&event=7@a@b&range=3~9&tracks=4,5&marks=1,2~3,x&q=f%2B&mode=regex&closed=3&steps=3@b&y=40"
    told = run("view_address", "return m.read(new URLSearchParams(given[0]))", address)
    assert told["window"] == [1.5, 20] and told["event"] == {"at": 7, "host": "a@b"}
    assert told["range"] == [3, 9] and told["tracks"] == [4, 5] and told["scroll"] == 40
    assert told["marks"] == [{"start": 1, "end": 1}, {"start": 2, "end": 3}]
    assert told["steps"] == "3@b"
    assert told["search"] == {"q": "f+", "mode": "regex", "case": 0} and told["closed"] == ["3"]
    ill = run(
        "view_address", "return m.read(new URLSearchParams(given[0]))", "t=1~&event=x@y&range=~&marks=~&y=e&tracks="
    )
    assert (
        json.dumps([ill["window"], ill["event"], ill["range"], ill["marks"], ill["scroll"]])
        == "[null, null, null, [], null]"
    )
