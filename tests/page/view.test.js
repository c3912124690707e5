// The window of time on the screen, and the address that says what is shown.

import assert from "node:assert/strict";
import { test } from "node:test";
import { changed, read as readRoute, shared, written as writeRoute } from "../../fastprof/viewer/static/route.js";
import { Arrangement } from "../../fastprof/viewer/static/timeline/arrangement.js";
import { Clock } from "../../fastprof/viewer/static/timeline/clock.js";
import { View } from "../../fastprof/viewer/static/timeline/view.js";
import { read, written } from "../../fastprof/viewer/static/timeline/view_address.js";

function viewOf(width = 1000) {
  const view = new View();
  view.width = width;
  view.bound(0, 1e12);
  return view;
}

test("zooming keeps the time under the pointer", () => {
  const view = viewOf();
  view.set(2e11, 1e11);
  const before = view.time(300);
  view.zoom(0.25, 300);
  assert.ok(Math.abs(view.time(300) - before) <= before * 1e-12);
  assert.equal(view.span, 2.5e10);
});

test("a run that is a part of the session is shown first, and needs no window in the address", () => {
  const view = new View();
  view.width = 1000;
  view.bound(0, 1e12, [3e11, 4e11]);
  view.goHome();
  assert.deepEqual([view.start, view.end], [2.99e11, 4.01e11]);
  assert.ok(view.isHome);
  view.still = true;
  view.fit();
  assert.ok(!view.isHome);
  view.bound(0, 1e12, [2e10, 9.9e11]);
  view.goHome();
  assert.deepEqual([view.start, view.end], [-1e10, 1.01e12]);
});

test("the window stays within the session and above the picosecond", () => {
  const view = viewOf();
  view.set(-5e12, 9e13);
  assert.deepEqual([view.start, view.end], [-1e10, 1.01e12]);
  view.set(5e11, 1e-6);
  assert.equal(view.span, 10);
  view.pan(1e12);
  assert.ok(view.end <= view.high);
});

test("a bucket is about a pixel", () => {
  for (const [span, level] of [[1000, 0], [2000, 1], [1e9, 20], [1e12, 30], [10, 0]]) {
    const view = viewOf();
    view.span = span;
    assert.equal(view.level(), level);
  }
});

test("an address says what is shown, and ill ones are ignored", () => {
  const state = read(
    new URLSearchParams(
      "t=1.5~20&event=7@a@b&range=3~9&tracks=4,5&marks=1,2~3,x&q=f%2B&mode=regex&closed=3&steps=3@b&y=40",
    ),
  );
  assert.deepEqual(state, {
    window: [1.5, 20],
    event: { at: 7, host: "a@b" },
    range: [3, 9],
    tracks: [4, 5],
    marks: [{ start: 1, end: 1 }, { start: 2, end: 3 }],
    search: { q: "f+", mode: "regex", case: 0 },
    filter: "",
    closed: ["3"],
    steps: "3@b",
    scroll: 40,
    faults: ["The link's mark x is ignored: it is not a time, or a start and a later end"],
  });
  const ill = read(new URLSearchParams("t=1~&event=x@y&range=~&marks=~&y=e&tracks="));
  assert.deepEqual([ill.window, ill.event, ill.range, ill.marks, ill.scroll], [null, null, null, [], null]);
  assert.deepEqual(ill.faults, [
    "The link's event=x@y is ignored: it is not a number, @ and a host",
    "The link's mark ~ is ignored: it is not a time, or a start and a later end",
    "The link's t=1~ is ignored: it is not a start and a later end",
    "The link's range=~ is ignored: it is not a start and a later end",
  ]);
  assert.deepEqual(read(new URLSearchParams("t=5~4")).window, null);
});

test("a link to the page of another analysis keeps the parameters that both have", () => {
  const choice = { name: "steps_from", type: "str", choices: ["markers", "modules"] };
  const here = { params: [choice, { name: "least", type: "int", choices: null }] };
  const there = { params: [{ name: "least", type: "time", choices: null }, { ...choice }] };
  const params = new URLSearchParams("steps=2:4&steps_from=modules&least=3&sort=name");
  assert.equal(String(shared(params, here, there)), "steps=2%3A4&steps_from=modules");
});

test("what is written into the address is what is read from it", () => {
  const view = viewOf();
  view.set(100, 1000);
  const clock = new Clock(5000n);
  const timeline = { view, stepsWanted: null,
    layout: { closed: new Set([4]), filter: "mat", scroll: 12, arrangement: new Arrangement() },
    selection: { event: { at: 3, host: "h", count: 1 }, range: { start: 7, end: 9, ids: [1, 2] },
      marks: [{ start: 5, end: 5 }] }, model: { clock, processes: [{ id: 4 }, { id: 6 }] } };
  const params = changed(new URLSearchParams(), written(timeline, { q: "a", mode: "substring", case: 1 }, null));
  assert.equal(params.get("t"), "5100~6100");
  const state = read(params, clock);
  assert.deepEqual([state.window, state.event, state.range], [[100, 1100], { at: 3, host: "h" }, [7, 9]]);
  assert.deepEqual([state.tracks, state.marks, state.closed], [[1, 2], [{ start: 5, end: 5 }], ["4"]]);
  assert.deepEqual([state.search.case, state.filter, state.scroll], [1, "mat", 12]);
});

test("a route holds the page, the run, the host and what the page keeps", () => {
  const route = readRoute("#/op_stats?run=r%201&host=h&idle=1", "overview");
  assert.deepEqual([route.page, route.run, route.host, String(route.params)], ["op_stats", "r 1", "h", "idle=1"]);
  assert.equal(writeRoute(route), "#/op_stats?run=r+1&host=h&idle=1");
  assert.equal(readRoute("", "overview").page, "overview");
  assert.equal(readRoute("#/%E0%A4%A", "overview").page, "%E0%A4%A");
  assert.equal(String(changed(route.params, { idle: null, op: "a", none: "" })), "op=a");
});
