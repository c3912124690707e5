// Times as text, marks of the time axis, clocks of hosts.

import assert from "node:assert/strict";
import { test } from "node:test";
import { Clock } from "../../fastprof/viewer/static/timeline/clock.js";
import { fitting, ticksOf } from "../../fastprof/viewer/static/timeline/time_axis.js";
import { exact, short } from "../../fastprof/viewer/static/timeline/time_format.js";

test("times are written to the last digit, or in short", () => {
  const expected = [
    ["0", "0 ps", "0 ps"],
    ["999", "999 ps", "999 ps"],
    ["1000", "1 ns", "1 ns"],
    ["1234567", "1.234567 µs", "1.235 µs"],
    ["123456789012345678", "123456.789012345678 s", "123,457 s"],
    ["9223372036854775807", "9223372.036854775807 s", "9,223,372 s"],
    ["-9223372036854775808", "−9223372.036854775808 s", "−9,223,372 s"],
    ["-1500", "−1.5 ns", "−1.5 ns"],
    ["100000000", "100 µs", "100 µs"],
  ];
  for (const [ps, whole, brief] of expected) assert.deepEqual([exact(ps), short(ps)], [whole, brief]);
  assert.deepEqual([exact(null), short(undefined), short(NaN)], ["–", "–", "–"]);
});

test("marks are round times of the host, and short however far they are", () => {
  const expected = [
    [0, 1e9, "0", ["", [0, 2e8, 4e8], ["0", "0.2 ms", "0.4 ms"]]],
    [0, 1e9, "1", ["", [199_999_999, 399_999_999, 599_999_999], ["0.2 ms", "0.4 ms", "0.6 ms"]]],
    [3e12, 500, "0", ["3 s", [3e12, 3e12 + 100, 3e12 + 200], ["+0 ps", "+100 ps", "+200 ps"]]],
    [0, 5e6, "38359167250078", ["38.35916 s", [749_922, 1_749_922, 2_749_922], ["+8 µs", "+9 µs", "+10 µs"]]],
    [0, 5e6, "-38359167250078", ["−38.35917 s", [250_078, 1_250_078, 2_250_078], ["+3 µs", "+4 µs", "+5 µs"]]],
    [0, 5e15, "0", ["", [0, 1e15, 2e15], ["0", "1,000 s", "2,000 s"]]],
  ];
  for (const [start, span, origin, [lead, times, texts]] of expected) {
    const ticks = ticksOf({ start, span, width: 500 }, BigInt(origin), 100);
    const first = ticks.times.slice(0, 3);
    assert.deepEqual([ticks.lead, first, first.map(ticks.text)], [lead, times, texts]);
  }
});

test("texts of marks that the lead or the edge would cut are left out", () => {
  const context = { measureText: (text) => ({ width: 10 * text.length }) };
  const marks = [0, 40, 80, 120].map((x) => ({ x, words: "1 s" }));
  const left = (lead, width) => fitting(marks, context, lead, width).map(({ x }) => x);
  assert.deepEqual([left("", 150), left("1 s", 149)], [[0, 40, 80, 120], [80]]);
});

test("times count from the start of profiling, each host by its own clock", () => {
  const clock = new Clock(482851900123n, [{ host: "a", offset_ps: "0" }, { host: "b", offset_ps: "2000" }]);
  assert.equal(clock.exact("38359167250078"), "38.842019150201 s");
  assert.equal(clock.near(38359167250078, 3e6), "38.842019 s");
  assert.equal(clock.back(482851900125n), 2);
  assert.equal(clock.flag(0, 5, "a"), "--time=482.851900123ms:482.851900128ms");
  assert.equal(clock.flag(0, 0, "b"), "--time=482.851898123ms:482.851898124ms");
  assert.equal(new Clock(-7n).flag(0, 2e6, "a"), "--time=-7ps:1.999993us");
});
