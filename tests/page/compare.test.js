// The page of two runs: which run is the base, what its cards and bars say, where dots of steps stand.

import assert from "node:assert/strict";
import { test } from "node:test";
import { shareChanges } from "../../fastprof/viewer/static/pages/change_flames.js";
import { cardsOf, evidenceAddress, spread, thinned } from "../../fastprof/viewer/static/pages/compare.js";
import { evidenceOf } from "../../fastprof/viewer/static/pages/findings.js";
import { Report } from "../../fastprof/viewer/static/report.js";
import { usualBase } from "../../fastprof/viewer/static/route.js";
import { signed } from "../../fastprof/viewer/static/units.js";
import { tableOf } from "./build.js";

test("a run is compared with the one before it that can be opened", () => {
  const runs = [{ name: "c" }, { name: "b", problem: "empty" }, { name: "a" }];
  assert.deepEqual(["c", "b", "a", "not listed"].map((run) => usualBase(runs, run)), ["a", "a", "c", "c"]);
  assert.equal(usualBase([{ name: "a" }], "a"), null);
});

test("changes have a sign", () => {
  const written = [[1.5e9, "ps"], [-1.5e9, "ps"], [0, "ps"], [-0.0378, "share"], [null, "ps"]].map((one) =>
    signed(...one)
  );
  assert.deepEqual(written, ["+1.5 ms", "−1.5 ms", "0", "−3.78 %", "–"]);
});

test("a change leads to its rows in the new run, or in the base run if it is gone", () => {
  assert.deepEqual(evidenceOf("gaps.by_step?cause=input"), { page: "gaps", table: "by_step",
    equal: [["cause", "input"]], params: { table: "by_step", "only-by_step-cause": "input" } });
  const op = { evidence: "op_stats.device_ops", kind: "op", name: "a&b", new_ps: 5 };
  assert.equal(evidenceAddress(op, "new", "base"), "#/op_stats?run=new&table=device_ops&find-device_ops=a%26b");
  assert.equal(evidenceAddress({ ...op, new_ps: 0 }, "new", "base").split("&")[0], "#/op_stats?run=base");
  const split = { ...op, evidence: "fusion.12 split into 2 kernels: fusion.8, fusion.9; same flops" };
  assert.equal(evidenceAddress(split, "new", "base"), evidenceAddress(op, "new", "base"));
  assert.equal(evidenceAddress({ evidence: null }, "new", "base"), "#/steps?run=new");
});

test("cards say the interval and the steps, or why a verdict is missing", () => {
  const report = (values) =>
    new Report({ analysis: "compare",
      scalars: Object.fromEntries(
        Object.entries(values).map((
          [name, value],
        ) => [name, { value, unit: name.endsWith("_ps") ? "ps" : null,
          reason: value === null ? "too few steps" : null }]
        ),
      ) });
  const cards = cardsOf(
    report({ verdict: "slower", step_change_share: 0.1, step_change_low_share: -0.01, step_change_high_share: 0.2,
      base_step_ps: 1e9, base_step_count: 1, base_median_ps: 1e9, new_step_ps: 2e9, new_step_count: 2000,
      new_median_ps: 2e9, smallest_detectable_share: 0.03 }),
  );
  assert.deepEqual(Object.values(cards).map(({ value, note }) => [value, note]), [
    ["slower", undefined],
    ["+10 %", "95 % interval −1 % to +20 %"],
    [1e9, "1 step, median 1 ms"],
    [2e9, "2,000 steps, median 2 ms"],
    [0.03, undefined],
  ]);
  const unknown = cardsOf(
    report({ verdict: "not_comparable", step_change_share: null, base_step_ps: null, base_step_count: 0,
      new_step_ps: null, new_step_count: 0, smallest_detectable_share: null }),
  );
  assert.equal(unknown.verdict.value, "not comparable");
  assert.deepEqual([unknown.step_change_share.value, unknown.step_change_share.note], [null, null]);
  assert.deepEqual([unknown.base_step_ps.reason, unknown.base_step_ps.note], ["too few steps", "0 steps"]);
});

test("dots of one time stand beside each other, and those of many steps are thinned evenly", () => {
  assert.deepEqual(spread([10, 10, 10, 30], 5), [-0, 0.08, -0.08, -0]);
  assert.ok(Math.max(...spread(Array(1000).fill(3), 1)) <= 0.4);
  assert.deepEqual(thinned([0, 1, 2], [5, 1, 3], 3), [1, 2, 0]);
  const values = Array.from({ length: 101 }, (_, at) => 100 - at);
  assert.deepEqual(thinned([...values.keys()], values, 3).map((row) => values[row]), [0, 50, 100]);
});

test("a box of a flame graph is compared with the same path in the base run", () => {
  const tree = (names, parents, time) => tableOf({ name: names, parent: parents, time });
  const after = tree(["all", "a", "x", "b", "x"], [null, 0, 1, 0, 3], [100, 60, 40, 40, 40]);
  const before = tree(["all threads", "b", "x", "a", "gone"], [null, 0, 1, 0, 3], [50, 40, 40, 10, 10]);
  const changes = shareChanges(after, before, "time").map((change) => Number(change.toFixed(6)));
  assert.deepEqual(changes, [0, 0.4, 0.4, -0.4, -0.4]);
  const twice = tree(["all", "a", "a"], [null, 0, 0], [100, 30, 70]);
  assert.deepEqual(shareChanges(twice, tree(["all", "a"], [null, 0], [5, 5]), "time"), [0, 0, 0]);
});
