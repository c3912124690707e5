/** Tiles: the slices of some tracks in 1,024 buckets of time, as the server sends them ("FPT1", docs/viewer.md). */

import { firstThat } from "../bisect.js";

export const MAGIC = 0x31545046;
export const VERSION = 1;
export const HEADER_BYTES = 32;
export const SLICE_BYTES = 32;
const BUCKET_BITS = 10;
/** Lanes of a tile in an answer: a lane has at most two slices per bucket, 64 KB. */
export const LANES_AT_ONCE = 15;

/** The time a tile of a level covers, ps. */
export function tileSpan(level) {
  return 2 ** (level + BUCKET_BITS);
}

/** The coarsest level that matters: one tile, or the two about the origin, cover the session. */
export function rootLevel(span) {
  return Math.max(0, Math.ceil(Math.log2(Math.max(span, 1))) - BUCKET_BITS);
}

/** Where the slices begin in a tile with this number of rows. */
export function bodyAt(rows) {
  return Math.ceil((HEADER_BYTES + 12 * rows) / 8) * 8;
}

/**
 * The columns of a tile, as views of its buffer: per row `track`, `lane`, `end` (slices up to the end of the row), per
 * slice `start` and `duration` (ps), `busy` (0..1), `count` (events), `name`, `at` (its first event).
 */
export function columnsOf(buffer) {
  const [, , rows, slices] = new Uint32Array(buffer, 0, 4);
  let place = bodyAt(rows);
  const column = (Kind) => {
    const values = new Kind(buffer, place, slices);
    place += slices * Kind.BYTES_PER_ELEMENT;
    return values;
  };
  return { rows, slices, track: new Uint32Array(buffer, HEADER_BYTES, rows),
    lane: new Uint32Array(buffer, HEADER_BYTES + 4 * rows, rows),
    end: new Uint32Array(buffer, HEADER_BYTES + 8 * rows, rows), start: column(Float64Array),
    duration: column(Float64Array), busy: column(Float32Array), count: column(Uint32Array), name: column(Uint32Array),
    at: column(Uint32Array) };
}

/**
 * Reads a tile: its columns, and `rowsOf`, which leads from a track to its [first, last) rows. Throws an Error where the
 * bytes are no tile.
 */
export function decode(buffer) {
  if (buffer.byteLength < HEADER_BYTES) throw new Error("The server sent a tile without a header.");
  const [magic, version, rows, slices] = new Uint32Array(buffer, 0, 4);
  if (magic !== MAGIC || version !== VERSION) throw new Error("The server sent a tile that this page cannot read.");
  if (bodyAt(rows) + SLICE_BYTES * slices > buffer.byteLength)
    throw new Error("The server sent a tile that is cut short.");
  const tile = columnsOf(buffer);
  tile.bytes = buffer.byteLength;
  tile.rowsOf = rowsByTrack(tile);
  tile.largestName = tile.name.reduce((most, name) => (name > most ? name : most), 0);
  return tile;
}

function rowsByTrack(tile) {
  const found = new Map();
  for (let row = 0; row < tile.rows; row++) {
    const known = found.get(tile.track[row]);
    if (known) known[1] = row + 1;
    else found.set(tile.track[row], [row, row + 1]);
  }
  return found;
}

/** The row of a lane of a track, or -1 where nothing is on it. */
export function rowOf(tile, track, lane) {
  const rows = tile.rowsOf.get(track);
  if (!rows) return -1;
  const low = firstThat((row) => tile.lane[row] >= lane, rows[0], rows[1]);
  return low < rows[1] && tile.lane[low] === lane ? low : -1;
}

/** The [first, last) slices of a row. */
export function slicesOf(tile, row) {
  return [row === 0 ? 0 : tile.end[row - 1], tile.end[row]];
}

/** The first slice of [first, last) that ends after a time: slices of a lane follow each other. */
export function firstEndingAfter(tile, first, last, time) {
  return firstThat((slice) => tile.start[slice] + tile.duration[slice] > time, first, last);
}
