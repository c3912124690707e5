// Cuts tiles of the form "FPT1" (docs/viewer.md) out of one that covers the session.

import { firstThat } from "./bisect.js";
import { bodyAt, columnsOf, HEADER_BYTES, MAGIC, SLICE_BYTES, tileSpan, VERSION } from "./timeline/tile.js";

const SLICE_COLUMNS = ["start", "duration", "busy", "count", "name", "at"];

/** The tile of a level and index with these tracks, a Set of ids or null for all, out of that of the session. */
export function cut(session, level, index, tracks) {
  const width = tileSpan(level);
  const [from, to] = [index * width, (index + 1) * width];
  const rows = [];
  for (let row = 0; row < session.rows; row += 1) {
    if (tracks && !tracks.has(session.track[row])) continue;
    const [first, last] = within(session, row, from, to);
    if (last > first) rows.push([row, first, last]);
  }
  return written(session, rows, level, index);
}

/** Joins tiles of different lanes into one. */
export function joined(buffers) {
  const parts = buffers.map(columnsOf);
  const [rows, slices] = ["rows", "slices"].map((name) => parts.reduce((sum, part) => sum + part[name], 0));
  const buffer = new ArrayBuffer(bodyAt(rows) + SLICE_BYTES * slices);
  const head = new Uint32Array(buffer, 0, HEADER_BYTES / 4);
  head.set(new Uint32Array(buffers[0], 0, head.length));
  head.set([rows, slices], 2);
  const to = columnsOf(buffer);
  let [row, slice] = [0, 0];
  for (const part of parts) {
    for (const name of ["track", "lane"]) to[name].set(part[name], row);
    to.end.set(part.end.map((end) => end + slice), row);
    for (const name of SLICE_COLUMNS) to[name].set(part[name], slice);
    row += part.rows;
    slice += part.slices;
  }
  return buffer;
}

/** The slices of a row, [first, last), that lie between two times at least in part. */
export function within(session, row, from, to) {
  const [begin, end] = [row ? session.end[row - 1] : 0, session.end[row]];
  const ends = (at) => session.start[at] + Math.max(session.duration[at], 1) > from;
  return [firstThat(ends, begin, end), firstThat((at) => session.start[at] >= to, begin, end)];
}

function written(session, rows, level, index) {
  const slices = rows.reduce((sum, [, first, last]) => sum + last - first, 0);
  const buffer = new ArrayBuffer(bodyAt(rows.length) + SLICE_BYTES * slices);
  new Uint32Array(buffer, 0, HEADER_BYTES / 4).set([
    MAGIC,
    VERSION,
    rows.length,
    slices,
    level,
    0,
    index % 2 ** 32,
    Math.floor(index / 2 ** 32),
  ]);
  const to = columnsOf(buffer);
  let place = 0;
  for (const [number, [row, first, last]] of rows.entries()) {
    to.track[number] = session.track[row];
    to.lane[number] = session.lane[row];
    for (const name of SLICE_COLUMNS)
      to[name].set(session[name].subarray(first, last), place);
    place += last - first;
    to.end[number] = place;
  }
  return buffer;
}
