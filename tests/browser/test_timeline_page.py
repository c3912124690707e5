"""The timeline as a user drives it, with mouse and keys; what it shows is read through ``window.fastprofTimeline``."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from gate import few, left_to_test_all

from tests.trace_builder import Value, event, line, plane, u64, xspace

US = 1_000_000
LINK: dict[int | str, Value] = {"_pt": 1, "_p": 77}
LINKED: dict[int | str, Value] = {"_ct": 1, "_c": 77}


def small() -> bytes:
    """Three threads: events inside others, two that overlap, one that causes another on the next thread."""
    return xspace(
        plane(
            "/host:CPU",
            [
                line("main", [event("outer", 0, 10 * US), event("inner", 2 * US, 3 * US), event("inner", 6 * US, US)]),
                line("queue", [event("enqueue", 1 * US, 1 * US, LINK), event("crossing", 4 * US, 4 * US)]),
                line("pool", [event("run", 5 * US, 2 * US, LINKED), event("late", 6 * US, 3 * US, {"note": "x" * 40})]),
            ],
        ),
        plane("/device:GPU:0", [line("Stream #1(Compute)", [event("kernel", 3 * US, 4 * US)])], id=1),
    )


@pytest.fixture(scope="module")
def small_capture(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("small") / "small.xplane.pb"
    path.write_bytes(small())
    return path


@pytest.fixture
def timeline(page: Any, server: Callable[..., str], small_capture: Path) -> Timeline:
    return Timeline(page, server(small_capture))


class Timeline:
    """The page, open at the whole session and drawn."""

    def __init__(self, page: Any, url: str, view: str = "") -> None:
        self.page = page
        page.goto(f"{url}#/timeline{view}")
        self.settle()

    def settle(self) -> None:
        self.page.wait_for_function("() => window.fastprofTimeline?.idle()", timeout=60_000)

    def ask(self, what: str, *given: Any) -> Any:
        return self.page.evaluate(f"given => window.fastprofTimeline.{what}(...given)", list(given))

    def track(self, name: str) -> dict[str, Any]:
        return next(one for one in self.ask("tracks") if one["name"] == name)

    def slices(self, track: str) -> list[dict[str, Any]]:
        return list(self.ask("slices", self.track(track)["id"]))

    def slice(self, track: str, name: str) -> dict[str, Any]:
        return next(one for one in self.slices(track) if one["name"] == name)

    def click(self, track: str, name: str) -> None:
        box = self.slice(track, name)
        self.page.mouse.click(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)

    def until(self, condition: str) -> None:
        self.page.wait_for_function(
            f"() => {{ const t = window.fastprofTimeline; return {condition}; }}", timeout=10_000
        )


def test_tracks_are_named_and_ordered_as_xprof_does(timeline: Timeline) -> None:
    assert [one["name"] for one in timeline.ask("processes")] == ["small /device:GPU:0", "small /host:CPU"]
    assert [one["name"] for one in timeline.ask("tracks") if not one["derived"]] == [
        "Stream #1(Compute)", "main", "queue", "pool",
    ]  # fmt: skip


def test_events_that_nest_or_overlap_have_lanes_of_their_own(timeline: Timeline) -> None:
    assert [(one["name"], one["lane"], one["start_ps"], one["duration_ps"]) for one in timeline.slices("main")] == [
        ("outer", 0, 0, 10 * US), ("inner", 1, 2 * US, 3 * US), ("inner", 1, 6 * US, US),
    ]  # fmt: skip
    assert [(one["name"], one["lane"]) for one in timeline.slices("pool")] == [("run", 0), ("late", 1)]


def test_the_wheel_and_keys_zoom_to_one_event(timeline: Timeline) -> None:
    box = timeline.slice("main", "outer")
    timeline.page.mouse.move(box["x"] + box["width"] * 0.65, box["y"] + 5)
    for _ in range(60):
        view = timeline.ask("view")
        if view["end_ps"] - view["start_ps"] < US:
            break
        timeline.page.keyboard.press("w")
        timeline.settle()
    assert view["end_ps"] - view["start_ps"] < US
    assert view["start_ps"] <= 6.5 * US <= view["end_ps"]
    assert [one["name"] for one in timeline.slices("main")] == ["outer", "inner"]


def test_a_click_shows_all_that_is_known_of_an_event(timeline: Timeline) -> None:
    timeline.click("pool", "late")
    timeline.until("t.selection().details")
    details = timeline.ask("selection")["details"]
    assert (details["name"], details["start_ps"], details["duration_ps"]) == ("late", "6000000", "3000000")
    assert {"name": "note", "value": "x" * 40} in [{k: s[k] for k in ("name", "value")} for s in details["stats"]]
    assert "x" * 40 in timeline.page.inner_text(".tl-panel >> visible=true")


def test_parent_and_children_are_a_click_away(timeline: Timeline) -> None:
    timeline.click("main", "outer")
    timeline.until("t.selection().details?.name === 'outer'")
    assert timeline.ask("selection")["details"]["children"]["count"] == 2
    timeline.page.locator(".tl-refs button", has_text="inner").first.click()
    timeline.until("t.selection().details?.name === 'inner'")
    timeline.page.locator(".tl-refs button", has_text="outer").first.click()
    timeline.until("t.selection().details?.name === 'outer'")


def test_a_flow_is_followed_to_its_other_end(timeline: Timeline) -> None:
    timeline.click("queue", "enqueue")
    timeline.until("t.selection().details?.flows?.length === 1")
    flow = timeline.ask("selection")["details"]["flows"][0]
    assert (flow["direction"], flow["other"]["name"]) == ("out", "run")
    timeline.page.locator(".tl-refs button", has_text="run").first.click()
    timeline.until("t.selection().details?.name === 'run'")
    assert timeline.ask("selection")["details"]["flows"][0]["other"]["name"] == "enqueue"


def test_a_range_is_summed_up_by_name(timeline: Timeline) -> None:
    box = timeline.slice("main", "outer")
    x = [box["x"] + box["width"] * part for part in (0.3, 0.7)]
    tracks = [timeline.track(name) for name in ("main", "pool")]
    timeline.page.mouse.move(x[0], tracks[0]["top"] + 5)
    timeline.page.mouse.down()
    timeline.page.mouse.move(x[1], tracks[1]["top"] + 20, steps=8)
    timeline.page.mouse.up()
    timeline.until("t.selection().range?.rows")
    found = timeline.ask("selection")["range"]
    low, high = round(found["start_ps"]), round(found["end_ps"])
    assert abs(low - 3 * US) < 0.05 * US and abs(high - 7 * US) < 0.05 * US
    expected = {
        "outer": (1, high - low, 10 * US),
        "inner": (2, 5 * US - low + US if high >= 7 * US else 5 * US - low + high - 6 * US, 4 * US),
        "crossing": (1, high - 4 * US, 4 * US),
        "run": (1, 2 * US if high >= 7 * US else high - 5 * US, 2 * US),
        "late": (1, high - 6 * US, 3 * US),
    }
    rows = {row["name"]: (row["count"], int(row["clipped_ps"]), int(row["total_ps"])) for row in found["rows"]}
    assert rows == expected
    assert timeline.page.locator("[role=grid][aria-label='Sums by name'] .row").count() == 5


@left_to_test_all
def test_a_name_is_found_wherever_it_is(timeline: Timeline) -> None:
    timeline.ask("show", 8 * US, 9 * US)
    timeline.page.keyboard.press("/")
    timeline.page.keyboard.type("inn")
    timeline.page.keyboard.press("Enter")
    timeline.until("t.selection().search?.hit")
    found = timeline.ask("selection")["search"]
    assert (found["events"], found["names"], found["hit"]["name"]) == (2, 1, "inner")
    first = found["hit"]["start_ps"]
    timeline.page.locator("button[aria-label='Next hit']").click()
    timeline.until(f"t.selection().search.hit.start_ps !== '{first}'")
    assert {first, timeline.ask("selection")["search"]["hit"]["start_ps"]} == {"2000000", "6000000"}
    timeline.page.locator("button[aria-label='Previous hit']").click()
    timeline.until(f"t.selection().search.hit.start_ps === '{first}'")


@left_to_test_all
def test_a_regular_expression_that_is_none_is_reported_without_asking(timeline: Timeline, faults: list[str]) -> None:
    asked: list[str] = []
    timeline.page.on("request", lambda request: asked.append(request.url) if "/api/search" in request.url else None)
    timeline.page.keyboard.press("/")
    timeline.page.locator("button[aria-pressed]", has_text=".*").first.click()
    find = timeline.page.locator("input[aria-label='Find events by name']")
    find.fill("(")
    timeline.page.keyboard.press("Enter")
    timeline.page.wait_for_selector(".tl-find-status.tl-failed")
    assert timeline.page.inner_text(".tl-find-status") == "Incomplete expression: unterminated group"
    find.fill("(inn|out)er")
    timeline.until("t.selection().search?.events === 3")
    assert len(asked) == 1 and faults == []


def test_a_section_closes_and_opens(timeline: Timeline) -> None:
    before = [one["name"] for one in timeline.ask("tracks")]
    header = timeline.page.locator(".tl-label-process:visible", has_text="/host:CPU").first
    header.click()
    timeline.until("t.processes().some(one => one.collapsed)")
    timeline.settle()  # rows are drawn in the next frame
    assert not {"main", "queue", "pool"} & {one["name"] for one in timeline.ask("tracks")}
    timeline.page.locator(".tl-label-process:visible", has_text="/host:CPU").first.click()
    timeline.until("t.processes().every(one => !one.collapsed)")
    assert [one["name"] for one in timeline.ask("tracks")] == before


def test_the_view_is_in_the_address(timeline: Timeline, page: Any) -> None:
    timeline.ask("show", 2 * US, 4 * US)
    page.wait_for_function("() => location.hash.includes('?')")
    page.wait_for_timeout(500)
    address = page.url
    page.goto("about:blank")
    page.goto(address)
    again = Timeline.__new__(Timeline)
    again.page = page
    again.settle()
    view = again.ask("view")
    assert (view["start_ps"], view["end_ps"]) == (2 * US, 4 * US)


def test_the_timeline_opens_on_the_steps_unless_a_link_has_a_window(
    page: Any, server: Callable[..., str], tmp_path: Path
) -> None:
    steps = [event("train", (500 + 100 * step) * US, 90 * US, {"_r": 1, "step_num": step + 7}) for step in range(3)]
    path = tmp_path / "steps.xplane.pb"
    path.write_bytes(xspace(plane("/host:CPU", [
        line("main", [event("start-up", 0, 400 * US), *steps, event("end", 1999 * US, US)]),
    ])))  # fmt: skip
    url = server(path)
    assert Timeline(page, url).ask("view") == {"start_ps": 497.1 * US, "end_ps": 792.9 * US}
    page.wait_for_timeout(400)  # the address follows after a pause
    assert "t=" not in page.url
    page.goto("about:blank")
    linked = Timeline(page, url, f"?t={100 * US}~{200 * US}")
    assert linked.ask("view") == {"start_ps": 100 * US, "end_ps": 200 * US}
    page.keyboard.press("0")
    linked.until("t.view().start_ps < 0 && t.view().end_ps > 2e9")


def test_a_folded_track_unfolds_by_its_label_and_for_a_hit_of_a_search(
    page: Any, server: Callable[..., str], tmp_path: Path
) -> None:
    frames = [event("$loader.py:3 run", 0, 100 * US), event("$loader.py:9 next", 5 * US, 20 * US)]
    lines = [line("main", [event("step", 0, 100 * US)]), line("loader", frames, id=2), line("other", frames, id=3)]
    path = tmp_path / "frames.xplane.pb"
    path.write_bytes(xspace(plane("/host:CPU", lines)))
    timeline = Timeline(page, server(path))
    folded = "t.tracks().map(one => one.collapsed).join()"
    timeline.until(f"{folded} === 'false,true,true'")
    label = page.locator(".tl-label:visible .tl-label-main", has_text="other")
    assert label.get_attribute("aria-expanded") == "false"
    label.focus()
    page.keyboard.press("Enter")
    timeline.until(f"{folded} === 'false,true,false'")
    page.keyboard.press("Escape")
    page.keyboard.press("/")
    page.keyboard.type("loader.py:9")
    page.keyboard.press("Enter")
    timeline.until(f"{folded} === 'false,false,false'")


@left_to_test_all
def test_a_link_in_the_open_tab_shows_all_that_it_says(timeline: Timeline, page: Any) -> None:
    main, pool = timeline.track("main")["id"], timeline.track("pool")["id"]
    late, inner = timeline.slice("pool", "late")["at"], timeline.slice("main", "inner")["at"]
    page.evaluate("hash => { location.hash = hash }", f"#/timeline?event={late}@small")
    timeline.until("t.selection().details?.name === 'late'")
    link = f"t=2000000~5000000&event={inner}@small&range=3000000~4000000&tracks={main},{pool}&marks=1000000&q=run"
    page.evaluate("hash => { location.hash = hash }", f"#/timeline?{link}")
    timeline.until("t.selection().details?.name === 'inner' && t.selection().search && t.selection().range.rows")
    timeline.settle()
    assert timeline.ask("view") == {"start_ps": 2 * US, "end_ps": 5 * US}
    answer = timeline.ask("selection")
    assert (answer["marks"], answer["range"]["tracks"]) == ([{"start": US, "end": US}], [main, pool])
    page.wait_for_timeout(400)
    assert f"event={inner}%40small" in page.url and "q=run" in page.url

    page.go_back()
    timeline.until("t.selection().details?.name === 'late' && !t.selection().range && !t.selection().search")
    assert timeline.ask("selection")["marks"] == []
    page.go_forward()
    timeline.until("t.selection().details?.name === 'inner' && t.selection().range && t.selection().search")


@left_to_test_all
def test_a_link_that_is_pasted_while_the_view_is_written_into_the_address_wins(
    page: Any, server: Callable[..., str], small_capture: Path
) -> None:
    """The view is written after a pause; here that ends between the change of the address and its event."""
    page.add_init_script("""
        window.late = [];
        const real = window.setTimeout;
        window.setTimeout = (act, ms, ...rest) => ms === 250 ? window.late.push(act) && 0 : real(act, ms, ...rest);
    """)
    timeline = Timeline(page, server(small_capture))
    timeline.ask("show", 2 * US, 4 * US)
    timeline.settle()
    page.evaluate("() => { location.hash = '#/timeline?t=6000000~8000000'; window.late.forEach((act) => act()); }")
    timeline.until("t.view().start_ps === 6000000")
    assert timeline.ask("view") == {"start_ps": 6 * US, "end_ps": 8 * US}


@pytest.mark.parametrize(
    ("link", "sentence"),
    few(
        [
            ("event=99999@small", "The link's event 99999@small is not selected: "),
            ("event=late", "The link's event=late is ignored: it is not a number, @ and a host"),
            ("t=5~4", "The link's t=5~4 is ignored: it is not a start and a later end"),
            (
                "t=50000000000~60000000000",
                "The link's t=50000000000~60000000000 is outside the session: the nearest is shown",
            ),
            ("marks=1~2,x", "The link's mark x is ignored: it is not a time, or a start and a later end"),
        ],
        1,
    ),
)
def test_what_a_link_says_and_the_session_does_not_have_is_reported(
    page: Any, server: Callable[..., str], small_capture: Path, faults: list[str], link: str, sentence: str
) -> None:
    timeline = Timeline(page, server(small_capture), f"?{link}")
    status = page.locator(".tl-status-text", has_text=sentence)
    status.wait_for(timeout=5_000)
    assert timeline.ask("view") == pytest.approx({"start_ps": -100_000, "end_ps": 10_100_000})
    timeline.click("main", "outer")
    timeline.until("t.selection().details?.name === 'outer'")
    assert status.count() == 0
    faults[:] = [fault for fault in faults if "status of 40" not in fault]


@left_to_test_all
def test_a_window_of_a_link_may_lie_in_a_host_that_is_read_later(
    page: Any, server: Callable[..., str], small_capture: Path
) -> None:
    answered: list[Any] = []

    def shorter(route: Any) -> None:
        """The first answer is that of a session that is not read to its end."""
        answer = route.fetch()
        timeline = answer.json()
        if not answered:
            timeline |= {"state": "building", "span_ps": str(1 * US)}
        answered.append(timeline["state"])
        route.fulfill(response=answer, json=timeline)

    url = server(small_capture)
    Timeline(page, url)
    page.goto("about:blank")
    page.route("**/api/timeline*", shorter)
    timeline = Timeline(page, url, f"?t={6 * US}~{8 * US}")
    timeline.until("t.view().start_ps === 6000000")
    assert (answered, timeline.ask("view")) == (["building", "ready"], {"start_ps": 6 * US, "end_ps": 8 * US})
    assert "outside" not in page.inner_text(".tl-status")


@left_to_test_all
def test_escape_lets_go_of_the_event_and_then_closes_the_panel(timeline: Timeline, page: Any) -> None:
    page.keyboard.press("/")
    page.keyboard.type("inner")
    page.keyboard.press("Enter")
    timeline.until("t.selection().details?.name === 'inner'")
    page.keyboard.press("Escape")  # out of the field
    page.keyboard.press("Escape")
    timeline.until("!t.selection().event")
    page.keyboard.press("Escape")
    assert page.locator(".tl-drawer").is_hidden()
    assert timeline.ask("selection")["search"]["q"] == "inner"
    page.keyboard.press("Escape")
    timeline.until("!t.selection().search")


@left_to_test_all
def test_the_status_of_a_search_has_the_room_beside_it(timeline: Timeline, page: Any) -> None:
    page.locator("input[aria-label='Find events by name']").fill("inner")
    timeline.until("t.selection().search?.events === 2")
    page.evaluate("document.querySelector('.tl-find-status').textContent = '58 of 380 events, 1 name, and more'")
    room = "[...document.querySelectorAll('.tl-find-status, .tl-status')].map(one => one.getBoundingClientRect())"
    status, beside = page.evaluate(f"() => {room}.map(({{ left, right }}) => [left, right])")
    cut = page.evaluate("() => { const { scrollWidth, clientWidth } = document.querySelector('.tl-find-status'); "
                        "return scrollWidth > clientWidth; }")  # fmt: skip
    assert not cut or beside[0] - status[1] < 8


@left_to_test_all
def test_arrows_of_flows_stay_below_the_header_of_the_section(
    page: Any, server: Callable[..., str], tmp_path: Path
) -> None:
    lines = [line(f"thread {place}", [event("call", 0, 10 * US)]) for place in range(40)]
    lines[0] = line("thread 0", [event("enqueue", US, US, LINK)])
    lines[12] = line("thread 12", [event("run", 5 * US, US, LINKED)])
    path = tmp_path / "flows.xplane.pb"
    path.write_bytes(xspace(plane("/host:CPU", lines)))
    timeline = Timeline(page, server(path))
    timeline.click("thread 12", "run")
    timeline.until("t.selection().arrows.length === 1")
    timeline.ask("scrollTo", 120)
    timeline.settle()
    painted = """() => {
        const { width } = document.querySelector(".tl-over");
        const { data } = document.querySelector(".tl-over").getContext("2d").getImageData(0, 0, width, 60);
        const isPainted = (row) => data.slice(4 * width * row, 4 * width * (row + 1)).some((value) => value > 0);
        return Array.from({ length: 60 }, (_, row) => row).filter(isPainted);
    }"""
    assert page.locator(".tl-label-sticky").is_visible()
    assert page.evaluate(painted) == list(range(28, 60)), "the arrow goes up, but not over the header"


LATE_PS = 38_359_167_250_078
HOST = "host-of-a-name-that-leaves-no-room"


@pytest.fixture(scope="module")
def far_capture(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The first event begins 38 s after profiling did; the host and two cores have steps."""
    roots: list[dict[int | str, Value]] = [{"_r": 1, "_pt": 5, "_p": u64(step), "step_num": step} for step in (41, 42)]
    train = [event("train", LATE_PS + place * US, US, stats) for place, stats in enumerate(roots)]
    host = plane("/host:CPU", [line("main", [event("first", LATE_PS, 0)]), line("python", train)], id=1)
    cores = []
    for core in range(2):
        starts = [(step, LATE_PS + (place + core) * US) for place, step in enumerate((41, 42))]
        steps = [event(str(step), start, US, {"_ct": 5, "_c": u64(step)}) for step, start in starts]
        cores.append(plane(f"/device:TPU:{core}", [line("Steps", steps)], id=core + 2))
    path = tmp_path_factory.mktemp("far") / "host-of-a-name-that-leaves-no-room.xplane.pb"
    path.write_bytes(xspace(host, *cores))
    return path


def test_marks_and_help(timeline: Timeline) -> None:
    box = timeline.slice("main", "outer")
    timeline.page.mouse.move(box["x"] + box["width"] / 2, box["y"] + 5)
    timeline.page.keyboard.press("m")
    timeline.until("t.selection().marks.length === 1")
    timeline.page.keyboard.press("?")
    assert timeline.page.locator("[role=dialog], dialog[open]").first.is_visible()


@left_to_test_all
def test_dark_and_light(timeline: Timeline, page: Any) -> None:
    before = page.evaluate("() => document.documentElement.dataset.theme")
    page.locator(
        "button[title*='heme'], button[aria-label*='heme'], button[title*='ark'], button[title*='ight']"
    ).first.click()
    page.wait_for_function(f"() => document.documentElement.dataset.theme !== '{before}'")
    timeline.settle()


@left_to_test_all
def test_times_are_distinguished_from_the_start_of_profiling(
    page: Any, server: Callable[..., str], far_capture: Path
) -> None:
    clipboard = "{ value: { writeText: async text => { window.copied = text } } }"
    page.add_init_script(f"Object.defineProperty(navigator, 'clipboard', {clipboard})")
    timeline = Timeline(page, server(far_capture))
    first = timeline.slices("main")[0]
    page.evaluate("hash => { location.hash = hash }", f"#/timeline?event={first['at']}@{HOST}")
    timeline.until("t.selection().details?.name === 'first'")
    start = int(timeline.ask("absolute", timeline.ask("selection")["details"]["start_ps"]))
    assert start == LATE_PS
    assert "38.359167250078 s" in page.inner_text(".tl-facts >> nth=0")
    page.get_by_text("Copy as --time").click()
    page.wait_for_function("() => window.copied")
    copied = page.evaluate("() => window.copied")
    assert copied == "--time=38.359167250078s:38.359167250079s"
    command = [sys.executable, "-m", "fastprof", "events", str(far_capture), copied, "--format", "csv"]
    assert "first" in subprocess.run(command, capture_output=True, text=True, check=True).stdout


@left_to_test_all
def test_the_steps_of_another_core_can_be_picked(page: Any, server: Callable[..., str], far_capture: Path) -> None:
    timeline = Timeline(page, server(far_capture))
    pick = page.locator("select[aria-label='Steps of']")
    assert pick.locator("option").all_inner_texts() == [
        "What is selected", HOST, f"{HOST} /device:TPU:0", f"{HOST} /device:TPU:1",
    ]  # fmt: skip
    pick.select_option(index=3)
    page.wait_for_function("() => document.querySelector('.tl-steps-name').textContent === '/device:TPU:1'")
    widths = page.evaluate(
        "() => { const n = document.querySelector('.tl-steps-name'); return [n.scrollWidth, n.clientWidth] }"
    )
    assert widths[0] == widths[1]  # the host's name is cut, the core's is not
    page.wait_for_function("() => location.hash.includes('steps=')")
    page.reload()
    timeline.settle()
    page.wait_for_function("() => document.querySelector('.tl-steps-name').textContent === '/device:TPU:1'")
