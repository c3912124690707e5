import assert from "node:assert/strict";
import { test } from "node:test";
import { pairsOf } from "../../fastprof/viewer/static/pages/two_timelines.js";

const bands = (...names) => names.map((name, at) => ({ name, start: at * 10, duration: 9 }));
const names = (pairs) => pairs.map((pair) => [pair.name, pair.base.name]);

test("steps of the same number are paired, and steps that only one run has are left out", () => {
  const pairs = pairsOf(bands("train 4", "train 5", "train 6"), bands("step 5", "step 6", "step 7"));
  assert.deepEqual(names(pairs), [["train 5", "step 5"], ["train 6", "step 6"]]);
  assert.deepEqual([pairs[0].new.start, pairs[0].base.start], [10, 0]);
});

test("steps are paired in order where their numbers do not meet, or there are none", () => {
  assert.deepEqual(names(pairsOf(bands("10", "11", "12"), bands("900", "901"))), [["10", "900"], ["11", "901"]]);
  assert.deepEqual(names(pairsOf(bands("train", "train"), bands("train"))), [["train", "train"]]);
});

test("a run without steps gives no pairs", () => {
  assert.deepEqual(pairsOf([], bands("1")), []);
  assert.deepEqual(pairsOf(bands("1"), []), []);
});
