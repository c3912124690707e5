// Cuts tiles of the form "FPT1" (docs/viewer.md) out of one that covers the whole session.

import { firstThat } from "./bisect.js";
import { bodyAt, columnsOf, HEADER_BYTES, MAGIC, SLICE_BYTES, tileSpan, VERSION } from "./timeline/tile.js";

/** The tile of a level and index with these tracks, a Set of ids or null for all, out of one of the whole session. */
export function cut(whole, level, index, tracks) {
  const width = tileSpan(level);
  const [from, to] = [index * width, (index + 1) * width];
  const kept = [];
  for (let row = 0; row < whole.rows; row += 1) {
    if (tracks && !tracks.has(whole.track[row])) continue;
    const [first, last] = within(whole, row, from, to);
    if (last > first) kept.push([row, first, last]);
  }
  return written(whole, kept, level, index);
}

/** The slices of a row, [first, last), that lie between two times at least in part. */
function within(whole, row, from, to) {
  const [begin, end] = [row ? whole.end[row - 1] : 0, whole.end[row]];
  const ends = (at) => whole.start[at] + Math.max(whole.duration[at], 1) > from;
  return [firstThat(ends, begin, end), firstThat((at) => whole.start[at] >= to, begin, end)];
}

function written(whole, kept, level, index) {
  const slices = kept.reduce((sum, [, first, last]) => sum + last - first, 0);
  const buffer = new ArrayBuffer(bodyAt(kept.length) + SLICE_BYTES * slices);
  new Uint32Array(buffer, 0, HEADER_BYTES / 4).set([
    MAGIC,
    VERSION,
    kept.length,
    slices,
    level,
    0,
    index % 2 ** 32,
    Math.floor(index / 2 ** 32),
  ]);
  const to = columnsOf(buffer);
  let place = 0;
  for (const [number, [row, first, last]] of kept.entries()) {
    to.track[number] = whole.track[row];
    to.lane[number] = whole.lane[row];
    for (const name of ["start", "duration", "busy", "count", "name", "at"])
      to[name].set(whole[name].subarray(first, last), place);
    place += last - first;
    to.end[number] = place;
  }
  return buffer;
}
