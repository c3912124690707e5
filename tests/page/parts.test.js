// Reports and tiles that come in several answers, none of them large.

import assert from "node:assert/strict";
import { test } from "node:test";
import { Report } from "../../fastprof/viewer/static/report.js";
import { ServerSource } from "../../fastprof/viewer/static/source.js";

const NAMES = ["a", "b", null, "a", "c", "b", "a"];

/** A server of a table of names and numbers that answers with two rows at a time, and what is asked of it. */
function serving(asked) {
  return (address) => {
    const query = new URL(address, "http://localhost").searchParams;
    asked.push(`${query.get("tables")} ${query.get("first")} ${query.get("rows")}`);
    const first = Number(query.get("first") ?? 0);
    const names = NAMES.slice(first, first + Math.min(2, Number(query.get("rows") ?? 2)));
    const texts = [...new Set(names.filter((name) => name !== null))];
    const columns = [
      { name: "name", type: "string", texts, codes: names.map((name) => texts.indexOf(name)) },
      { name: "row", type: "int64", values: names.map((_, at) => first + at) },
    ];
    const tables = { ops: { table: "ops", length: names.length, first, of: NAMES.length, columns } };
    return Promise.resolve(new Response(JSON.stringify({ analysis: "x", scalars: {}, notices: [], tables })));
  };
}

test("a table goes on where an answer has ended", async () => {
  const asked = [];
  globalThis.fetch = serving(asked);
  const { ops } = new Report(await new ServerSource("r").columns("report/x", {})).tables;
  assert.deepEqual(asked, ["null null null", "ops 2 5", "ops 4 3", "ops 6 1"]);
  assert.deepEqual([ops.length, ops.of, ops.column("name"), ops.column("row")], [7, 7, NAMES, [0, 1, 2, 3, 4, 5, 6]]);
  assert.deepEqual(ops.coded("name").texts, ["a", "b", "c"]);
});

test("no more rows come than are asked for", async () => {
  const asked = [];
  globalThis.fetch = serving(asked);
  const { ops } = new Report(await new ServerSource("r").columns("report/x", { first: 1, rows: 3 })).tables;
  assert.deepEqual(asked, ["null 1 3", "ops 3 1"]);
  assert.deepEqual(ops.column("row"), [1, 2, 3]);
});
