// Charts: scales, the values that axes mark, stacks.

import assert from "node:assert/strict";
import { test } from "node:test";
import { stackedBases } from "../../fastprof/viewer/static/charts/marks.js";
import { decadeTicks, extent, nearest, roundStep, roundTicks,
  scaleOf } from "../../fastprof/viewer/static/charts/scales.js";
import { colour, colourOf, coloursOf } from "../../fastprof/viewer/static/colours.js";
import { thinned } from "../../fastprof/viewer/static/pages/heap_chart.js";
import { axisOf, CounterGraphs, rangeText } from "../../fastprof/viewer/static/timeline/counter_graphs.js";
import { codeOfName } from "../../fastprof/viewer/static/timeline/slice_colours.js";
import { text } from "../../fastprof/viewer/static/units.js";

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

test("a name has one colour in all charts and in the timeline, its relatives a tone of it", () => {
  const hues = ["fusion.1", "fusion.2", "fusion.13"].map((name) => codeOfName(name) % 10);
  assert.equal(new Set(hues).size, 1);
  assert.notEqual(colourOf("fusion.1"), colourOf("fusion.2"));
  assert.deepEqual([colourOf("compute"), colour(2)], ["#3fa66b", "#3fa66b"]);
  const [first, second] = ["fusion.1", "fusion.3"];
  assert.equal(colourOf(first), colourOf(second));
  const [one, other] = coloursOf([first, second]); // side by side they differ, and stay so
  assert.notEqual(one, other);
  assert.deepEqual([codeOfName(first) === codeOfName(second), colourOf(second)], [false, other]);
});

test("the axis of a counter spans what is in the window, in one unit that suits", () => {
  const axis = (...values) => axisOf(values.map((value) => ({ min: value, max: value })));
  const GIB = 2 ** 30;
  assert.deepEqual([axis(0, 3), axis(1, 5), axis(-2, 1), axis(7)], [[0, 3], [0, 5], [-2, 1], [0, 7]]);
  assert.deepEqual(axis(10 * GIB, 10.25 * GIB), [10 * GIB, 10.25 * GIB]);
  assert.equal(rangeText(0, 3.2e9, "bytes/s"), "0 – 3.2 GB/s");
  assert.equal(rangeText(10 * GIB, 10.25 * GIB, "bytes"), "10 – 10.25 GiB");
  assert.equal(rangeText(0, 12_345_678, "counts"), "0 – 12.35 M");
  assert.deepEqual([rangeText(0, 50, "%"), rangeText(0, 0, "counts")], ["0 – 50 %", "0"]);
});

test("the values of a counter are in units that scale", async () => {
  const answers = { "MB/s": [1.5, 2000], "": [12_345_678, 5], B: [2 ** 20, 0], "°C": [41.5, 60] };
  const shown = Object.entries(answers).map(async ([unit, [first, last]]) => {
    const source = {
      counters: async () => ({ t: ["0", "10"], min: [first, last], max: [first, last], last: [first, last], unit }),
    };
    const graphs = new CounterGraphs(source, () => {});
    const model = { key: "k", span: 1000, id: [0], hostOf: () => "h" };
    const view = { start: 0, end: 1000, span: 1000, level: () => 0 };
    graphs.show(model);
    graphs.valueAt(model, 0, view, 5);
    await new Promise((resolve) => setTimeout(resolve));
    return [5, 15].map((time) => graphs.valueAt(model, 0, view, time)).map((at) => text(at.value, at.unit));
  });
  assert.deepEqual(await Promise.all(shown), [
    ["1.5 MB/s", "2 GB/s"],
    ["12.35 M", "5"],
    ["1 MiB", "0"],
    ["41.5 °C", "60 °C"],
  ]);
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
