// Tables of reports: values, filters, order, CSV.

import assert from "node:assert/strict";
import { test } from "node:test";
import { list } from "../../fastprof/viewer/static/list.js";
import { readJson, Report } from "../../fastprof/viewer/static/report.js";
import { changed } from "../../fastprof/viewer/static/route.js";
import { read as readTable, written as writtenTable } from "../../fastprof/viewer/static/table_address.js";
import { written } from "../../fastprof/viewer/static/table_csv.js";
import { holds, is, matches, sortRows } from "../../fastprof/viewer/static/table_order.js";
import { tableOf } from "./build.js";

const DATA = tableOf({
  name: ["fusion.10", "fusion.9", null, "copy, a", "fusion.9"],
  time_ps: [3e9, 1.5e9, null, 0, 1e6],
}, { time_ps: "ps" });
const rows = (test) => [0, 1, 2, 3, 4].filter(test);

test("integers that a double cannot hold stay as their digits", () => {
  assert.deepEqual(readJson('{"a":1234567890123456789,"b":1.25,"c":"1234567890123456789","d":1234567890.5}'), {
    a: "1234567890123456789",
    b: 1.25,
    c: "1234567890123456789",
    d: 1234567890.5,
  });
  const report = new Report({ analysis: "x", scalars: { t: { value: "9007199254740993", unit: "ps" } },
    tables: { t: { columns: [{ name: "id", type: "uint64" }], rows: [{ id: "18446744073709551615" }] } } });
  assert.equal(report.value("t"), 9007199254740992);
  assert.equal(report.tables.t.value(0, "id"), "18446744073709551615");
});

test("figures have the display names of their values", () => {
  const scalars = { largest_cause: { value: "between_kernels" }, other: { value: "between_kernels" } };
  const report = new Report({ analysis: "gaps", scalars }, {
    sections: [{ words: {} }, { words: { largest_cause: { between_kernels: "between kernels" } } }],
  });
  assert.equal(report.scalars.largest_cause.words, "between kernels");
  assert.equal(report.scalars.other.words, undefined);
  assert.equal(report.value("largest_cause"), "between_kernels");
});

test("columns with texts kept once are as others", () => {
  const table =
    new Report({ analysis: "x",
      tables: { t: { length: 3, columns: [{ name: "n", type: "string", texts: ["a", "b"], codes: [1, -1, 0] }] } } })
      .tables.t;
  assert.deepEqual(table.column("n"), ["b", null, "a"]);
  assert.deepEqual(table.taken([2, 0]).column("n"), ["a", "b"]);
  assert.deepEqual([...table.groupBy("n").keys()], ["b", null, "a"]);
});

test("rows are filtered by words, values and limits with units", () => {
  assert.deepEqual(rows(holds(DATA, "name", "fusion")), [0, 1, 4]);
  assert.deepEqual(rows(is(DATA, "name", "fusion.9")), [1, 4]);
  assert.deepEqual(rows(matches(DATA, "name", " FUSION.1")), [0]);
  assert.deepEqual(rows(matches(DATA, "time_ps", ">= 1.5 ms")), [0, 1]);
  assert.deepEqual(rows(matches(DATA, "time_ps", "<2us")), [3, 4]);
  assert.deepEqual(rows(matches(DATA, "time_ps", "= 0")), [3]);
  assert.deepEqual(rows(matches(DATA, "time_ps", "1us")), [0, 1, 4]);
  assert.equal(rows(matches(DATA, "time_ps", ">")).length, 5);
});

test("unknown values come last in either order, numbers in names count as numbers", () => {
  const order = (sort) => {
    const all = [0, 1, 2, 3, 4];
    sortRows(all, DATA, sort);
    return all;
  };
  assert.deepEqual(order({ by: "name", down: false }), [3, 1, 4, 0, 2]);
  assert.deepEqual(order({ by: "time_ps", down: true }), [0, 1, 4, 3, 2]);
  assert.deepEqual(order({ by: "time_ps", down: false }), [3, 4, 1, 0, 2]);
  assert.deepEqual(order({ by: "absent", down: true }), [0, 1, 2, 3, 4]);
});

test("CSV quotes what needs it, and leaves unknown values out", () => {
  assert.equal(written(DATA, ["name", "time_ps"], [3, 2]), 'name,time_ps\n"copy, a",0\n,\n');
});

test("CSV marks texts that a spreadsheet would compute, and leaves numbers alone", () => {
  const names = [
    "=1",
    "+1",
    "-1",
    "@a",
    "\t=1",
    "'a",
    "a=1",
    "  =1",
    "\u00a0=1",
    "\u2003\uff0b",
    "\ufeff\t@",
    "\u2003",
  ];
  const data = tableOf({ name: names, n: names.map(() => -5) });
  const lines = written(data, ["name", "n"], names.map((_, row) => row)).split("\n");
  assert.deepEqual(lines, [
    "name,n",
    "'=1,-5",
    "'+1,-5",
    "'-1,-5",
    "'@a,-5",
    "'\t=1,-5",
    "''a,-5",
    "a=1,-5",
    "'  =1,-5",
    "'\u00a0=1,-5",
    "'\u2003\uff0b,-5",
    "'\ufeff\t@,-5",
    "\u2003,-5",
    "",
  ]);
});

test("lists of names are written as text", () => {
  assert.deepEqual(list("rank, name:220, op:grow, self_ps=Self time"), [
    "rank",
    { name: "name", width: 220 },
    { name: "op", grow: true },
    ["self_ps", "Self time"],
  ]);
});

test("an address says how a table is sorted and filtered", () => {
  const params = new URLSearchParams("idle=1");
  const state = { sort: { by: "self_ps", down: true }, filter: "mat mul", values: { category: "fusion" } };
  const usual = { by: "name", down: false };
  const noted = changed(params, writtenTable(params, "ops", state, usual));
  assert.equal(decodeURIComponent(noted), "idle=1&sort-ops=-self_ps&find-ops=mat+mul&only-ops-category=fusion");
  assert.deepEqual(readTable(noted, "ops"), state);
  assert.deepEqual(readTable(noted, "op"), { sort: undefined, filter: "", values: {} });
  const plain = { sort: usual, filter: "", values: {} };
  assert.equal(String(changed(noted, writtenTable(noted, "ops", plain, usual))), "idle=1");
  const unsorted = changed(params, writtenTable(params, "ops", { ...plain, sort: null }, usual));
  assert.equal(readTable(unsorted, "ops").sort, null);
});
