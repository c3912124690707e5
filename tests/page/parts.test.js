// Reports and tiles that come in several answers, none of them large.

import assert from "node:assert/strict";
import { test } from "node:test";
import { Report } from "../../fastprof/viewer/static/report.js";
import { ServerSource } from "../../fastprof/viewer/static/source.js";
import { decode, LANES_AT_ONCE, slicesOf } from "../../fastprof/viewer/static/timeline/tile.js";
import { sessionOf, tileBytes } from "./build.js";

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

test("a tile of many lanes comes in several answers and is one", async () => {
  const asked = [];
  globalThis.fetch = (address) => {
    const lanes = new URL(address, "http://localhost").searchParams.get("lanes");
    asked.push(lanes);
    const [first, last] = lanes.split("-").map(Number);
    const rows = Array.from({ length: last - first + 1 }, (_, at) => first + at);
    const slice = (lane) => [8 * lane, 4, 1, 1, lane, lane];
    return Promise.resolve(new Response(tileBytes(rows.map((lane) => [7, lane, Array(lane % 3).fill(slice(lane))]))));
  };
  const tile = decode(await new ServerSource("r").tile("k", 3, 1, "7", undefined, 40));
  assert.deepEqual(asked, ["0-14", "15-29", "30-39"]);
  assert.deepEqual([...tile.lane], Array.from({ length: 40 }, (_, lane) => lane));
  for (let lane = 0; lane < 40; lane += 1) {
    const [first, last] = slicesOf(tile, lane);
    assert.deepEqual(Array.from(tile.name.subarray(first, last)), Array(lane % 3).fill(lane));
  }
  assert.deepEqual([tile.rowsOf.get(7), tile.slices], [[0, 40], tile.at.length]);
});

test("tracks whose tiles come together have few lanes, and one of many is alone", () => {
  const { groups } = sessionOf([4, 9, 3, 50, 1, 200, 15, 1]);
  assert.deepEqual(groups.map(({ query, lanes }) => [query, lanes]), [
    ["0-1", 13],
    ["2", 3],
    ["3", 50],
    ["4", 1],
    ["5", 200],
    ["6", 15],
    ["7", 1],
  ]);
  assert.ok(groups.every(({ tracks, lanes }) => tracks.length === 1 || lanes <= LANES_AT_ONCE));
});

test("tracks and steps come in several answers", async () => {
  const asked = [];
  const served = (path, query) => {
    const first = Number(query.get("first") ?? 0);
    if (path.endsWith("steps")) {
      const bands = Array.from({ length: Math.min(4000, 9000 - first) }, (_, at) => first + at);
      return { bands, more: 9000 - first - bands.length };
    }
    const ids = Array.from({ length: 5000 }, (_, at) => first + at).filter((id) => id < 12_000);
    const parts = [[0, 7000], [7000, 12_000]].map(([from, to]) => ids.filter((id) => id >= from && id < to));
    const processes = parts.map((id, at) => ({ id: at, host: "h", tracks: { id } })).filter((one) =>
      one.tracks.id.length
    );
    return { key: "k", processes, more_tracks: Math.max(0, 12_000 - first - 5000) };
  };
  globalThis.fetch = (address) => {
    const { pathname, searchParams } = new URL(address, "http://localhost");
    asked.push(`${searchParams.get("after")} ${searchParams.get("first")}`);
    return Promise.resolve(new Response(JSON.stringify(served(pathname, searchParams))));
  };
  const { processes } = await new ServerSource("r").timeline({ after: "j" });
  assert.deepEqual(processes.map(({ id, tracks }) => [id, tracks.id.length, tracks.id[0]]), [[0, 7000, 0], [
    1,
    5000,
    7000,
  ]]);
  assert.deepEqual(asked.splice(0), ["j null", "null 5000", "null 10000"]);
  const { bands, more } = await new ServerSource("r").steps();
  assert.deepEqual([bands, more], [Array.from({ length: 9000 }, (_, at) => at), 0]);
  assert.deepEqual(asked, ["null null", "null 4000", "null 8000"]);
});
