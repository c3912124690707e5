// Charts: scales, the values that axes mark, stacks.

import assert from "node:assert/strict";
import { test } from "node:test";
import { stackedBases } from "../../fastprof/viewer/static/charts/marks.js";
import { decadeTicks, extent, nearest, roundStep, roundTicks,
  scaleOf } from "../../fastprof/viewer/static/charts/scales.js";
import { thinned } from "../../fastprof/viewer/static/pages/heap_chart.js";

test("a scale leads from values to pixels and back", () => {
  const linear = scaleOf([0, 10], [100, 0]);
  assert.deepEqual([linear.at(0), linear.at(2.5), linear.back(75)], [100, 75, 2.5]);
  const decades = scaleOf([1, 1000], [0, 300], true);
  assert.deepEqual([decades.at(10), Math.round(decades.back(200))], [100, 100]);
  assert.equal(scaleOf([5, 5], [0, 10]).at(5), 0);
});

test("marks are round values within the range", () => {
  assert.deepEqual([0.2, 1, 3, 11, 49, 51, 6e11].map(roundStep), [0.2, 1, 5, 20, 50, 100, 1e12]);
  assert.deepEqual(roundTicks([0, 1], 4), [0, 0.5, 1]);
  assert.deepEqual(roundTicks([0.3, 2.1], 4), [0.5, 1, 1.5, 2]);
  assert.deepEqual(roundTicks([0, 3], 10, true), [0, 1, 2, 3]);
  assert.deepEqual(roundTicks([-20, 20], 4), [-20, -10, 0, 10, 20]);
  assert.deepEqual(decadeTicks([0.05, 2000], 8), [0.1, 1, 10, 100, 1000]);
  assert.deepEqual(decadeTicks([1, 1e9], 4), [1, 1000, 1e6, 1e9]);
  assert.deepEqual(decadeTicks([2, 6], 4), [2, 3, 4, 5, 6]);
});

test("a range leaves out values that are not numbers, and on decades those not above zero", () => {
  assert.deepEqual(extent([null, 3, NaN, -1, Infinity]), [-1, 3]);
  assert.deepEqual(extent([0, -2, 5], true), [5, 5]);
  assert.deepEqual([extent([]), extent([null], true)], [[0, 1], [1, 10]]);
});

test("the nearest place of ascending values", () => {
  assert.deepEqual([-1, 0.4, 6, 9, 99].map((value) => nearest([0, 5, 8, 9], value)), [0, 0, 1, 3, 3]);
  assert.equal(nearest([7], 1), 0);
});

test("each series of a stack begins where those below it end, unknown values count as 0", () => {
  const [one, other, line] = [{ stack: true, values: [1, null, 3] }, { stack: true, values: [1, 1, 1] }, {
    values: [9, 9, 9],
  }];
  const bases = stackedBases([one, line, other]);
  assert.deepEqual([bases.get(one), bases.get(other), bases.has(line)], [[0, 0, 0], [1, 0, 3], false]);
});

test("long programs are drawn by few points, with every peak among them", () => {
  const values = Array.from({ length: 10_000 }, (_, at) => (at === 7_777 ? 1e9 : at % 13));
  const rows = thinned(values, 400);
  assert.ok(rows.length <= 400 && rows.includes(7_777) && rows[0] === 0 && rows.at(-1) === 9_999);
  assert.ok(rows.every((row, at) => at === 0 || row > rows[at - 1]));
});
