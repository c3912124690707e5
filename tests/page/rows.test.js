// Rows of the timeline, and what is under a place of them.

import assert from "node:assert/strict";
import { test } from "node:test";
import { numbers, spelled } from "../../fastprof/viewer/static/number_ranges.js";
import { boxOf, rowUnder, sliceUnder } from "../../fastprof/viewer/static/timeline/hit_test.js";
import { HEADER, LANE, RowLayout } from "../../fastprof/viewer/static/timeline/row_layout.js";
import { Selection } from "../../fastprof/viewer/static/timeline/selection.js";
import { decode } from "../../fastprof/viewer/static/timeline/tile.js";
import { View } from "../../fastprof/viewer/static/timeline/view.js";
import { sessionOf, tileBytes } from "./build.js";

function layoutOf(model, height = 500) {
  const layout = new RowLayout();
  layout.height = height;
  layout.show(model);
  return layout;
}

test("rows are found among a hundred thousand tracks", () => {
  const model = sessionOf(Array.from({ length: 100_000 }, (_, one) => 1 + (one % 3)));
  const layout = layoutOf(model);
  layout.scrollTo(layout.total / 2);
  const [first, last] = layout.seen();
  assert.equal(layout.count, 100_001);
  assert.ok(last - first < 30);
  assert.equal(layout.rowOfTrack[layout.track[first]], first);
  layout.toggleProcess(0);
  assert.equal(layout.count, 1);
  layout.reveal(70_000, 0);
  const y = layout.top[layout.rowOfTrack[70_000]] - layout.scroll;
  assert.ok(y >= 0 && y < 500);
  assert.ok(model.groups.length < 15_000);
});

test("a filter keeps the tracks that match, or all of a process that matches", () => {
  const layout = layoutOf(sessionOf([1, 1, 1]));
  const names = () => Array.from(layout.track.slice(1, layout.count));
  layout.filter = "1";
  layout.make();
  assert.deepEqual(names(), [1]);
  layout.filter = "P";
  layout.make();
  assert.deepEqual(names(), [0, 1, 2]);
  layout.filter = "none";
  layout.make();
  assert.equal(layout.count, 0);
});

test("a folded track shares its row among its lanes, one of very many begins folded", () => {
  const layout = layoutOf(sessionOf([4, 60]));
  assert.deepEqual([layout.isFolded(0), layout.isFolded(1)], [false, true]);
  assert.equal(layout.laneAt(0, layout.laneBox(0, 2).y + 1), 2);
  const tall = layout.heightOf(0);
  layout.toggleTrack(0);
  assert.ok(layout.heightOf(0) < tall);
  assert.ok(layout.laneBox(0, 3).height < LANE);
});

test("counters, Python calls and derived tracks but steps begin folded; a selected event unfolds its track", () => {
  const kind = ["events", "counter", "frames", "samples", "events", "steps", "derived"];
  const [lanes, derived] = [[2, 1, 2, 2, 2, 1, 2], [0, 1, 0, 0, 1, 1, 0]];
  const model = sessionOf(lanes, {}, { kind, derived });
  const layout = layoutOf(model);
  const folded = () => kind.map((_, track) => layout.isFolded(track));
  assert.deepEqual(folded(), [false, true, true, true, true, false, true]);
  assert.deepEqual(kind.map((_, track) => model.canFold(track)), [true, true, true, true, true, false, true]);
  const low = layout.heightOf(1);
  layout.toggleTrack(1);
  assert.ok(layout.heightOf(1) > low);
  layout.toggleTrack(0);
  const selection = new Selection({ model, layout, names: { text: () => "event" }, invalidate() {},
    rearrange: (change) => change() });
  selection.select({ host: "h", track: 4, lane: 1, start: 0, duration: 1, name: 0 });
  layout.show(sessionOf(lanes, {}, { kind, derived })); // more of it was read
  assert.deepEqual(folded(), [true, false, true, true, false, false, true]);
});

test("the header of a process stays until the next one pushes it out", () => {
  const model = sessionOf([1, 1], {});
  const layout = layoutOf(model, 30);
  assert.equal(layout.sticky(), null);
  layout.scrollTo(HEADER + 4);
  assert.deepEqual(layout.sticky(), { row: 0, y: 0 });
});

test("the slice under a place is that of its lane and time, or a near one", () => {
  const model = sessionOf([2]);
  const layout = layoutOf(model);
  const view = new View();
  view.width = 1000;
  view.bound(0, 1000);
  view.set(0, 1000);
  const tile = decode(
    tileBytes([[0, 0, [[100, 50, 1, 1, 7, 0], [400, 0, 1, 1, 8, 1]]], [0, 1, [[300, 10, 1, 1, 9, 2]]]]),
  );
  const cache = { pieces: () => [{ tile, from: 0, to: 1024 }] };
  const shown = { model, layout, view, cache };
  const name = (x, y) => sliceUnder(shown, x, y)?.name ?? null;
  const [y0, y1] = [HEADER + 5, HEADER + 5 + LANE];
  assert.deepEqual([name(120, y0), name(402, y0), name(300, y0), name(305, y1)], [7, 8, null, 9]);
  assert.deepEqual([name(120, 5), name(120, 400)], [null, null]);
  assert.equal(rowUnder(shown, 5).track, -1);
  const box = boxOf(shown, 0, 0, 100, 50);
  assert.ok(Math.abs(box.x - view.x(100)) < 1 && box.y > HEADER);
});

test("numbers of tracks are written as ranges", () => {
  assert.equal(spelled([9, 1, 2, 5, 6, 7]), "1-2,5-7,9");
  assert.equal(spelled([]), "");
  assert.deepEqual([...numbers("1-2,5-7,9")], [1, 2, 5, 6, 7, 9]);
  assert.deepEqual([numbers(""), [...numbers("0-99999999999", 3)]], [null, [0, 1, 2]]);
});
