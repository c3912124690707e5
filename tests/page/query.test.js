// What the box of the query page offers at the caret.

import assert from "node:assert/strict";
import { test } from "node:test";
import { completions, namedTables, wordAt } from "../../fastprof/viewer/static/pages/query_completion.js";
import { EXAMPLES } from "../../fastprof/viewer/static/pages/query_examples.js";

const TABLES = [
  { table: "events", row: "an event", columns: ["event_id", "name", "duration_ps"] },
  { table: "event_stats", row: "a stat of an event", columns: ["event_id", "stat"] },
  { table: "op_stats.ops", row: "an op", columns: ["name", "self_ps"] },
  { table: "op_stats.hosts", row: "a host", columns: ["host"] },
];

/** The texts that are offered at "|". */
function offered(query) {
  const caret = query.indexOf("|");
  return completions(query.replace("|", ""), caret, TABLES).map(({ text }) => text);
}

test("the word at the caret reaches to its end", () => {
  assert.deepEqual(wordAt("select dura from events", 9), { start: 7, end: 11, text: "du" });
  assert.deepEqual(wordAt("select ", 7), { start: 7, end: 7, text: "" });
  assert.deepEqual(wordAt("from op_stats.op", 16), { start: 5, end: 16, text: "op_stats.op" });
});

test("tables follow from, join and describe", () => {
  assert.deepEqual(offered("select * from ev|"), ["events", "event_stats"]);
  assert.deepEqual(offered("select * from |"), ["events", "event_stats", "op_stats.ops", "op_stats.hosts"]);
  assert.deepEqual(offered("select * from events join op_stats.|"), ["op_stats.ops", "op_stats.hosts"]);
  assert.deepEqual(offered("DESCRIBE Op_St|"), ["op_stats.ops", "op_stats.hosts"]);
});

test("columns are those of the tables that the query names", () => {
  assert.deepEqual(offered("select dur| from events"), ["duration_ps"]);
  assert.deepEqual(offered("select self| from op_stats.ops"), ["self_ps"]);
  assert.deepEqual(offered("select self| from events"), []);
  assert.equal(offered("select na| from events")[0], "name");
});

test("columns of an alias and of a table follow its dot", () => {
  assert.deepEqual(offered("select e.| from events e"), ["e.event_id", "e.name", "e.duration_ps"]);
  assert.deepEqual(offered("select s.st| from events as e join event_stats s using (event_id)"), ["s.stat"]);
  assert.deepEqual(offered("select ops.se| from op_stats.ops where true"), ["ops.self_ps"]);
});

test("keywords come after columns, and a complete word offers nothing", () => {
  assert.deepEqual(offered("sel|"), ["select"]);
  assert.deepEqual(offered("select|"), []);
  assert.deepEqual(offered("select x from events ord|"), ["order by"]);
});

test("aliases are no keywords", () => {
  assert.deepEqual([...namedTables("from events where true", TABLES).keys()], ["events"]);
  assert.deepEqual([...namedTables("from events e, lines", TABLES).keys()], ["events", "e"]);
});

test("each example is one query with a title", () => {
  assert.ok(EXAMPLES.length > 21);
  assert.equal(new Set(EXAMPLES.map(([title]) => title)).size, EXAMPLES.length);
  for (const [, query] of EXAMPLES) assert.match(query, /^select [^;]+$/);
});
