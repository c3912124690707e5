// How tracks are arranged: pinned, hidden, moved, without the lanes that are empty in the window.

import assert from "node:assert/strict";
import { test } from "node:test";
import { changed } from "../../fastprof/viewer/static/route.js";
import { Arrangement, Moves } from "../../fastprof/viewer/static/timeline/arrangement.js";
import { HEADER, LANE, RowLayout } from "../../fastprof/viewer/static/timeline/row_layout.js";
import { WindowLanes } from "../../fastprof/viewer/static/timeline/window_lanes.js";
import { sessionOf } from "./build.js";

const PADDING = 6; // of a row, above and below its lanes

function layoutOf(lanes, height = 500) {
  const layout = new RowLayout();
  layout.height = height;
  layout.show(sessionOf(lanes));
  return layout;
}

function shown(layout) {
  return Array.from(layout.track.slice(0, layout.count));
}

test("moves make the same order again, also beside ids that came later", () => {
  const moves = new Moves();
  const ids = [1, 2, 3, 4, 5];
  moves.move(ids, 4, 2);
  moves.move(moves.ordered(ids), 1, null);
  moves.move(moves.ordered(ids), 5, 4);
  assert.deepEqual(moves.ordered(ids), [5, 4, 2, 3, 1]);
  assert.deepEqual(new Moves([...moves.after]).ordered(ids), [5, 4, 2, 3, 1]);
  moves.move(moves.ordered(ids), 2, 5);
  assert.deepEqual(moves.ordered(ids), [2, 5, 4, 3, 1]);
  assert.deepEqual(moves.ordered([1, 2, 3, 4, 5, 6]), [2, 5, 4, 3, 1, 6]);
  assert.deepEqual(moves.ordered([3, 1]), [3, 1]);
});

test("an arrangement is written into the address and read from it", () => {
  const one = new Arrangement();
  one.pin(7);
  one.pin(3, 7);
  for (const id of [10, 11, 12, 20]) one.hide(id);
  one.hiddenSections.add(4);
  one.tracks.move([1, 2, 5], 5, 1);
  one.sections.move([0, 4], 0, null);
  one.hidesEmpty = true;
  const params = changed(new URLSearchParams(), one.written());
  assert.equal(decodeURIComponent(params), "pin=3,7&hide=10-12,20,s4&order=5~,s0~4&empty=hidden");
  const other = new Arrangement();
  other.read(params);
  assert.deepEqual(other, one);
  other.read(new URLSearchParams("pin=x,-1,4,4&hide=9-,s,8&order=3,~4,5~x,6~7&empty=1"));
  assert.deepEqual([other.pinned, [...other.hidden], [...other.tracks.after]], [[4], [8], [[6, 7]]]);
  assert.equal(other.hidesEmpty, false);
  assert.deepEqual(new Arrangement().written(), { pin: null, hide: null, order: null, empty: null });
});

test("pinned tracks stay on top while the others scroll below them", () => {
  const layout = layoutOf(Array(40).fill(1), 300);
  layout.arrangement.pin(30);
  layout.arrangement.pin(2);
  layout.make();
  assert.deepEqual([shown(layout).slice(0, 4), layout.pinned], [[30, 2, -1, 0], 2]);
  const tall = LANE + PADDING;
  layout.scrollTo(10 * tall);
  assert.deepEqual([layout.y(0), layout.y(1), layout.pinHeight], [0, tall, 2 * tall]);
  assert.equal(layout.track[layout.rowAt(tall + 1)], 2);
  assert.ok(layout.rowAt(2 * tall + 1) > 8);
  assert.equal(layout.y(layout.sticky().row) < 0 && layout.sticky().y, 2 * tall);
  assert.equal(shown(layout).filter((track) => track === 30).length, 1);
});

test("more pinned tracks than fit scroll by themselves", () => {
  const layout = layoutOf(Array(40).fill(1), 200);
  for (let id = 0; id < 30; id++) layout.arrangement.pin(id);
  layout.make();
  assert.equal(layout.pinHeight, 120);
  layout.scrollPins(1e9);
  assert.equal(layout.track[layout.rowAt(119)], 29);
  layout.reveal(3, 0);
  assert.ok(layout.y(layout.rowOfTrack[3]) >= 0);
});

test("hidden tracks and sections have no row until an event of theirs is shown", () => {
  const layout = layoutOf([1, 1, 1]);
  layout.arrangement.hide(1);
  layout.make();
  assert.deepEqual(shown(layout), [-1, 0, 2]);
  layout.arrangement.hiddenSections.add(0);
  layout.make();
  assert.equal(layout.count, 0);
  layout.reveal(1, 0);
  assert.deepEqual([shown(layout), layout.arrangement.hiddenCount], [[-1, 0, 1, 2], 0]);
});

test("lanes without events in the window take no room, and empty tracks can be hidden", () => {
  const layout = layoutOf([3, 6, 2]);
  layout.occupied = new WindowLanes({ all: "0", some: { 1: "1,4-5" } }, layout.model.placeOf);
  layout.make();
  assert.deepEqual([0, 1, 2].map((track) => layout.heightOf(track)), [3, 3, 1].map((lanes) => lanes * LANE + PADDING));
  assert.deepEqual([1, 4, 5].map((lane) => layout.laneBox(1, lane).y), [0, 1, 2].map((place) => 3 + place * LANE));
  assert.deepEqual([0, 1, 2].map((place) => layout.laneAt(1, 4 + place * LANE)), [1, 4, 5]);
  layout.arrangement.hidesEmpty = true;
  layout.make();
  assert.deepEqual(shown(layout), [-1, 0, 1]);
  layout.arrangement.pin(2);
  layout.make();
  assert.deepEqual(shown(layout), [2, -1, 0, 1]);
  layout.reveal(1, 3);
  assert.deepEqual([1, 3, 4, 5].map((lane) => layout.laneBox(1, lane).y), [0, 1, 2, 3].map((at) => 3 + at * LANE));
});

test("what is under the pointer stays there while lanes above it go and come", () => {
  const layout = layoutOf(Array(30).fill(6), 400);
  layout.scrollTo(900);
  const row = layout.rowAt(200);
  const track = layout.track[row];
  const lane = layout.laneAt(track, 200 - layout.y(row));
  const place = () => layout.y(layout.rowOfTrack[track]) + layout.laneBox(track, lane).y;
  const before = place();
  const some = Object.fromEntries(Array.from({ length: 30 }, (_, id) => [id, String(id === track ? lane : 0)]));
  const change = (lanes) =>
    layout.hold(200, () => {
      layout.occupied = lanes;
      layout.make();
    });
  change(new WindowLanes({ all: "", some }, layout.model.placeOf));
  assert.ok(layout.scroll > 0 && layout.total < 900);
  assert.equal(place(), before);
  change(null);
  assert.equal(place(), before);
  layout.scrollTo(0);
  change(new WindowLanes({ all: "", some }, layout.model.placeOf));
  assert.equal(layout.scroll, 0);
  assert.equal(layout.y(0), 0);
  assert.ok(layout.y(layout.rowOfTrack[0]) === HEADER);
});
