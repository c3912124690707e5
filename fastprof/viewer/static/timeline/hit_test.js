/** Maps places of the screen to slices, and back. */

import { HEADER } from "./row_layout.js";
import { KINDS } from "./session_model.js";
import { firstEndingAfter, rowOf, slicesOf } from "./tile.js";

const REACH = 3; // pixels: what is narrower can still be pointed at
const SHARED = 4; // lanes lower than this many pixels are looked through together

/** The row, track, lane and place in its row under a place of the canvas; null below the last row. */
export function rowUnder({ layout }, y) {
  const sticky = layout.sticky();
  if (sticky && y >= layout.pinHeight && y < sticky.y + HEADER)
    return { row: sticky.row, track: -1, process: layout.process[sticky.row], lane: -1 };
  const row = layout.rowAt(y);
  if (row < 0) return null;
  const track = layout.track[row];
  const within = y - layout.y(row);
  return { row, track, process: layout.process[row], lane: track < 0 ? -1 : layout.laneAt(track, within) };
}

/** The slice under a place of the canvas as drawn now, or null: {track, lane, start, duration, count, busy, name, at, host}. */
export function sliceUnder({ model, layout, view, cache }, x, y) {
  const under = rowUnder({ layout }, y);
  if (!under || under.track < 0 || model.kind[under.track] === KINDS.counter) return null;
  const group = model.groups[model.groupOf[under.track]];
  const [low, high] = [view.time(x - REACH), view.time(x + REACH)];
  const pieces = cache.pieces(group, view.level(), low, high);
  const together = layout.isFolded(under.track) && layout.laneBox(under.track, 0).height < SHARED;
  const count = model.lanes[under.track];
  const lanes = together ? Array.from({ length: count }, (_, place) => count - 1 - place) : [under.lane];
  for (const lane of lanes) {
    const found = nearest(pieces, model.id[under.track], lane, view.time(x), low, high);
    if (found) return { ...found, track: under.track, lane, host: group.host };
  }
  return null;
}

/** The slice of a lane that holds a time, else the nearest one that touches [low, high]. */
function nearest(pieces, id, lane, time, low, high) {
  let best = null;
  let least = Infinity;
  for (const { tile, from, to } of pieces) {
    const row = rowOf(tile, id, lane);
    if (row < 0) continue;
    const [first, last] = slicesOf(tile, row);
    const begin = Math.max(first, firstEndingAfter(tile, first, last, Math.max(low, from)) - 1);
    for (let slice = begin; slice < last && tile.start[slice] <= Math.min(high, to); slice++) {
      const [start, end] = [tile.start[slice], tile.start[slice] + tile.duration[slice]];
      const away = time < start ? start - time : time > end ? time - end : 0;
      if (end < low || away > least || (away === least && best && best.duration > tile.duration[slice])) continue;
      least = away;
      best = described(tile, slice);
    }
  }
  return best;
}

export function described(tile, slice) {
  return { start: tile.start[slice], duration: tile.duration[slice], busy: tile.busy[slice], count: tile.count[slice],
    name: tile.name[slice], at: tile.at[slice] };
}

/** Where an interval of a lane is drawn, in pixels of the canvas, and the `zone` in which it is seen; null where its track is
 * not shown. */
export function boxOf({ model, layout, view }, track, lane, start, duration) {
  let row = layout.rowOfTrack[track];
  const x = view.x(start);
  const width = duration * view.scale;
  if (row >= 0) {
    const box = layout.laneBox(track, lane);
    return { x, y: layout.y(row) + box.y, width, height: box.height, zone: layout.zone(row) };
  }
  row = layout.rowOfProcess[model.process[track]];
  if (row < 0) return null;
  const height = layout.top[row + 1] - layout.top[row] - 8;
  return { x, y: layout.y(row) + 4, width, height, zone: layout.zone(row) };
}

/** The slices of a track in the window as drawn now, in order of lane and time. */
export function slicesDrawn({ model, view, cache }, track) {
  const group = model.groups[model.groupOf[track]];
  const found = [];
  const seen = new Set();
  if (!group) return found;
  for (const { tile, from, to } of cache.pieces(group, view.level(), view.start, view.end)) {
    const rows = tile.rowsOf.get(model.id[track]);
    for (let row = rows?.[0] ?? 0; row < (rows?.[1] ?? 0); row++) {
      const [first, last] = slicesOf(tile, row);
      const right = Math.min(to, view.end);
      const left = Math.max(from, view.start);
      for (let slice = Math.max(first, firstEndingAfter(tile, first, last, left) - 1); slice < last; slice++) {
        if (tile.start[slice] >= right) break;
        if (tile.start[slice] < left && tile.start[slice] + tile.duration[slice] <= left) continue;
        if (seen.has(tile.at[slice])) continue;
        seen.add(tile.at[slice]);
        found.push({ ...described(tile, slice), lane: tile.lane[row], track, host: group.host });
      }
    }
  }
  return found.sort((one, other) => one.lane - other.lane || one.start - other.start);
}
