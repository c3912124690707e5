// Numbers with units, names and expressions as text, and what users write.

import assert from "node:assert/strict";
import { test } from "node:test";
import { advised } from "../../fastprof/viewer/static/cards.js";
import { shortened } from "../../fastprof/viewer/static/dom.js";
import { kernelName, shownName } from "../../fastprof/viewer/static/kernel_names.js";
import { fault } from "../../fastprof/viewer/static/parameter_faults.js";
import { faultOf } from "../../fastprof/viewer/static/timeline/expressions.js";
import { matcher } from "../../fastprof/viewer/static/timeline/search_bar.js";
import { Fitter, plural, visible } from "../../fastprof/viewer/static/timeline/text.js";
import { columnScale, exact, label, parsed, scale, text } from "../../fastprof/viewer/static/units.js";
import { seen, seenLines } from "../../fastprof/viewer/static/unseen.js";

test("characters that steer the text around them are escapes", () => {
  assert.equal(seen("a\u202eb\u2066c\u200bd\u2028e\x9bf\x1bg\nh"), "a\\u202eb\\u2066c\\u200bd\\u2028e\\x9bf\\x1bg\\nh");
  assert.equal(seenLines("a\u202e\n\tb"), "a\\u202e\n\tb");
  assert.equal(seen("été 中文 🙂 שלום"), "été 中文 🙂 שלום");
  assert.equal(shortened("x\u202ey"), "x\\u202ey");
});

test("numbers are written in a unit that suits", () => {
  const expected = [
    [null, "ps", "–"],
    [true, null, "yes"],
    [0, "ps", "0"],
    [1_234_567, "ps", "1.235 µs"],
    [2.5e13, "ps", "25 s"],
    [1536, "bytes", "1.5 KiB"],
    [0.1234, "share", "12.3 %"],
    [0.00012, "share", "0.012 %"],
    [55.5, "%", "55.5 %"],
    [2.5e12, "flop/s", "2.5 TFLOP/s"],
    [1234567, null, "1,234,567"],
    [NaN, null, "not a number"],
    [-Infinity, "ps", "−∞"],
    [{ a: 1 }, null, '{"a":1}'],
  ];
  for (const [value, unit, written] of expected) assert.equal(text(value, unit), written);
  assert.equal(exact(1_234_567, "ps"), "1,234,567 ps");
});

test("a column has one unit where its values are near enough", () => {
  assert.equal(columnScale([1.5e9, 2e9], "ps").unit, "ms");
  assert.equal(columnScale([1, 2e12], "ps"), null);
  assert.equal(scale([1, 2e12], "ps").text(1e12), "1 s");
});

test("what users write with a unit is read as it is stored", () => {
  assert.deepEqual([parsed("1.5ms", "ps"), parsed("2 GiB", "bytes"), parsed("5%", "share"), parsed("1,000", null)], [
    1.5e9,
    2 * 2 ** 30,
    0.05,
    1000,
  ]);
  for (const [words, unit] of [["x", "ps"], ["1 q", "ps"], ["3 s", "%"]]) assert.ok(Number.isNaN(parsed(words, unit)));
});

test("names of columns are words", () => {
  assert.deepEqual(["self_ps", "hbm_bytes_per_s", "p999_ps", "tf_data"].map(label), [
    "Self",
    "HBM bytes/s",
    "p99.9",
    "tf.data",
  ]);
});

test("long names are cut in their middle", () => {
  assert.equal(shortened("a".repeat(50) + "b".repeat(50), 11), "aaaaa…bbbbb");
});

test("a kernel is called by its function", () => {
  assert.equal(kernelName("void (anonymous namespace)::softmax<float>(float*)"), "softmax<float>");
  assert.equal(kernelName("fusion_3"), "fusion_3");
  const names = ["aten::mm", "void at::native::relu<float>(float*)", "<built-in function len>", "Foo::Bar (wait)"];
  assert.deepEqual(names.map(shownName), ["aten::mm", "relu<float>", "<built-in function len>", "Foo::Bar (wait)"]);
});

test("a wrong parameter is found before a server is asked", () => {
  const steps = { name: "steps", type: "steps" };
  for (const good of ["", "3", "3:5", ":5", "3:", "train=3:5", "train=12345678901:"])
    assert.equal(fault(steps, good), null);
  for (const bad of ["3-5", "5:3", "x", ":", "=3:5", "train=", "train=5:3"]) assert.match(fault(steps, bad), /step/);
  assert.match(fault({ name: "n", type: "int", min: 1 }, "0"), /from 1/);
  assert.equal(fault({ name: "t", type: "time" }, "1.5ms"), null);
});

test("half an expression is found before the server is asked", () => {
  const expected = [
    ["^Iter.*(\\d+", "Incomplete expression: unterminated group"],
    ["(", "Incomplete expression: unterminated group"],
    ["[a-", "Incomplete expression: unterminated character class"],
    ["a(?=b)", "Lookahead and lookbehind are not supported in expressions."],
    ["(a)\\1", "Backreferences are not supported in expressions."],
    ["(?i)Mat(?P<op>mul|Mul)(?-i:x)\\d+", ""],
    ["\\Qa(\\E|^\\$\\\\1\\z", ""],
    ["[[:alpha:]]+\\pL", ""],
  ];
  for (const [expression, words] of expected) assert.equal(faultOf(expression), words);
});

test("names that a search found are distinguished from others", () => {
  const answer = { names: 2, more: 0, rows: [{ name: "MatMul" }, { name: "a\u0000" }] };
  assert.ok(matcher(answer, { q: "matm", mode: "substring", case: 0 }).has("xMatMul"));
  assert.ok(!matcher(answer, { q: "matm", mode: "substring", case: 1 }).has("xMatMul"));
  const expression = { q: "M.*", mode: "regex", case: 0 };
  assert.ok(matcher(answer, expression).has("a\\x00") && !matcher(answer, expression).has("other"));
  assert.equal(matcher({ ...answer, more: 3 }, expression), null);
});

test("text of a capture is escaped and cut", () => {
  assert.equal(visible("a\0b\x1b[0m\u202ec\n😀"), "a\\x00b\\x1b[0m\\u202ec\\n😀");
  assert.equal(visible("x".repeat(1e6)).length, 301);
  const fitter = new Fitter({ measureText: (word) => ({ width: 8 * word.length }) }, "12px sans-serif");
  assert.equal(fitter.fit("w".repeat(100), 60), "wwwwww…");
  assert.deepEqual([plural(1, "hit"), plural(2000, "hit")], ["1 hit", "2,000 hits"]);
});

test("notices give no advice on controls that are not there", () => {
  const words = "No step markers; 3 module executions could serve as steps: --steps-from modules";
  assert.equal(advised(words, true), "No step markers; 3 module executions could serve as steps: “Steps from modules”");
  assert.equal(advised(words, false), "No step markers");
  assert.equal(advised("No steps; see the capture", false), "No steps; see the capture");
});
