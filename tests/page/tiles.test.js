// Tiles: their bytes, the cache, what is drawn while some are missing, what a saved report cuts out of one.

import assert from "node:assert/strict";
import { test } from "node:test";
import { setTimeout as wait } from "node:timers/promises";
import { cut } from "../../fastprof/viewer/static/tile_cut.js";
import { columnsOf, decode, rootLevel, rowOf, slicesOf, tileSpan } from "../../fastprof/viewer/static/timeline/tile.js";
import { TileCache } from "../../fastprof/viewer/static/timeline/tile_cache.js";
import { tileBytes } from "./build.js";

test("a tile is read by track and lane", () => {
  const one = [5, 3, 1, 1, 7, 40];
  const other = [2 ** 52, 2 ** 40, 0.5, 9, 8, 41];
  const tile = decode(tileBytes([[4, 0, [one]], [4, 2, [other, one]], [9, 0, []]]));
  const row = rowOf(tile, 4, 2);
  const [first, last] = slicesOf(tile, row);
  assert.deepEqual([tile.slices, row, first, last, tile.largestName], [3, 1, 1, 3, 8]);
  const names = ["start", "duration", "busy", "count", "name", "at"];
  assert.deepEqual(names.map((name) => tile[name][first]), [2 ** 52, 2 ** 40, 0.5, 9, 8, 41]);
  assert.deepEqual([rowOf(tile, 4, 1), rowOf(tile, 5, 0)], [-1, -1]);
  assert.deepEqual(slicesOf(tile, rowOf(tile, 9, 0)), [3, 3]);
});

test("bytes that are no tile are refused", () => {
  const bytes = tileBytes([[1, 0, [[0, 1, 1, 1, 0, 0], [0, 1, 1, 1, 0, 0]]]]);
  for (const length of [0, 31, 40, 70]) assert.throws(() => decode(bytes.slice(0, length)), /tile/);
  const other = bytes.slice(0);
  new Uint32Array(other, 0, 1)[0] += 1;
  assert.throws(() => decode(other), /cannot read/);
});

test("the root tile covers the whole session", () => {
  for (const span of [1, 1024, 1025, 1e12]) assert.ok(tileSpan(rootLevel(span)) >= span);
  assert.equal(rootLevel(1024), 0);
});

function cacheOf(source) {
  const cache = new TileCache(source, { learn: async () => {} }, () => {}, () => {});
  const group = { query: "1", host: "h", depth: 0 };
  cache.show({ key: "k", origin: 0n, span: 2 ** 20, groups: [group] });
  return { cache, group };
}

test("while a tile is awaited a coarser or finer one is drawn", async () => {
  const bytes = tileBytes([[1, 0, [[0, 9, 1, 1, 0, 0]]]]);
  const asked = [];
  const { cache, group } = cacheOf({ tile: async (_, level, index) => {
    asked.push([level, index]);
    return bytes.slice(0);
  } });
  const span = 2 ** 16;
  const drawn = () => cache.pieces(group, 6, 0, 2 * span - 1).map((piece) => [piece.from / span, piece.to / span]);
  const have = async (level, index) => {
    cache.begin();
    cache.want(group, level, index);
    cache.pump();
    await wait(5);
  };
  assert.deepEqual(drawn(), []);
  await have(10, 0);
  assert.deepEqual(drawn(), [[0, 1], [1, 2]]);
  await have(5, 0);
  await have(5, 1);
  assert.deepEqual(drawn(), [[0, 0.5], [0.5, 1], [1, 2]]);
  await have(6, 0);
  assert.deepEqual(drawn(), [[0, 1], [1, 2]]);
  assert.deepEqual(asked, [[10, 0], [5, 0], [5, 1], [6, 0]]);
});

test("a tile that failed is asked for again after a while, a key that is gone is reported", async () => {
  let asked = 0;
  const error = Object.assign(new Error("gone"), { status: 409 });
  const { cache, group } = cacheOf({ tile: async () => {
    asked += 1;
    throw error;
  } });
  let isGone = false;
  cache.gone = () => (isGone = true);
  for (let frame = 0; frame < 3; frame += 1) {
    cache.begin();
    assert.equal(cache.want(group, 3, 0), false);
    cache.pump();
    await wait(2);
  }
  assert.deepEqual([asked, isGone, cache.underWay > 0], [1, true, false]);
});

test("a saved report cuts a tile out of that of the whole session", () => {
  const span = tileSpan(0);
  const slice = (start, duration, name) => [start, duration, 1, 1, name, name];
  const whole = columnsOf(tileBytes([
    [1, 0, [slice(0, 10, 0), slice(span - 5, 10, 1), slice(span + 100, 0, 2), slice(3 * span, 5, 3)]],
    [2, 0, [slice(span, 1, 4)]],
  ]));
  const part = decode(cut(whole, 0, 1, null));
  assert.deepEqual([[...part.track], [...part.name]], [[1, 2], [1, 2, 4]]);
  assert.deepEqual([...decode(cut(whole, 0, 1, new Set([2]))).name], [4]);
  assert.equal(decode(cut(whole, 0, 7, null)).slices, 0);
});
