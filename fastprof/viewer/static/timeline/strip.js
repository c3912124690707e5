/**
 * Lanes as rows of pixels. A slice is written into a row one device pixel high, which the screen's own scaling makes as
 * high as the lane: the time a frame takes depends on the size of the screen, not on how many slices are on it.
 */

import { LEVEL_BITS, PIXELS, SOLID } from "./slice_colours.js";
import { firstEndingAfter, rowOf, slicesOf } from "./tile.js";

/** Narrower than this, in device pixels, a slice is seen as its share of the pixels it touches. */
const EDGED = 3;
const FAINTEST = 11;
const FAINTEST_ALONE = 19;
const SEAM = 9;

export class Strip {
  constructor() {
    this.canvas = document.createElement("canvas");
    this.context = this.canvas.getContext("2d", { willReadFrequently: true });
    this.width = 0;
    this.rows = 0;
  }

  /** Clears the rows, in device pixels. */
  begin(width, rows) {
    const capacity = this.image?.height ?? 0;
    if (width !== this.width || rows > capacity) {
      const made = Math.max(rows, capacity, 16);
      this.canvas.width = width;
      this.canvas.height = made;
      this.image = this.context.createImageData(width, made);
      this.pixels = new Uint32Array(this.image.data.buffer);
      this.width = width;
    }
    this.rows = rows;
    this.pixels.fill(0, 0, width * rows);
  }

  end() {
    if (this.rows) this.context.putImageData(this.image, 0, 0, 0, 0, this.width, this.rows);
  }

  /** Draws the rows on a surface, each at its place {y, height} in CSS pixels. */
  place({ context, ratio }, places) {
    context.imageSmoothingEnabled = false;
    context.setTransform(1, 0, 0, 1, 0, 0);
    places.forEach(({ y, height }, row) => {
      const top = Math.round(y * ratio);
      const tall = Math.max(1, Math.round((y + height) * ratio) - top);
      context.drawImage(this.canvas, 0, row, this.width, 1, 0, top, this.width, tall);
    });
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
  }

  /**
   * Writes what a piece ({tile, from, to}) has on a lane into a row. `start` and `scale` map times to device pixels.
   * `codes` are the colours by name; `wide(slice, x0, x1)` is called for each exact event that is at
   * least `label` device pixels wide on the screen. Slices of a lane come in order of time, so one pass is enough.
   */
  write(row, piece, track, lane, { start, scale, codes, label, wide }) {
    const { tile, from, to } = piece;
    const tileRow = rowOf(tile, track, lane);
    if (tileRow < 0) return;
    const low = Math.max(0, (from - start) * scale);
    const high = Math.min(this.width, (to - start) * scale);
    if (high <= low) return;
    const [first, last] = slicesOf(tile, tileRow);
    const left = start + low / scale;
    const right = start + high / scale;
    const base = row * this.width;
    const pixels = this.pixels;
    const [lowest, highest] = [Math.floor(low), Math.ceil(high)];
    let pixel = -1;
    let cover = 0;
    let most = 0;
    let code = 0;
    let least = FAINTEST;
    const flush = () => {
      if (pixel < lowest || pixel >= highest) return;
      const level = Math.min(SOLID, Math.max(least, (cover * SOLID) | 0));
      const colour = PIXELS[(code << LEVEL_BITS) | level];
      if (colour >>> 24 > pixels[base + pixel] >>> 24) pixels[base + pixel] = colour;
    };
    let slice = Math.max(first, firstEndingAfter(tile, first, last, left) - 1);
    for (; slice < last; slice++) {
      const begin = tile.start[slice];
      if (begin >= right) break;
      let x0 = (begin - start) * scale;
      let x1 = x0 + tile.duration[slice] * scale;
      if (x1 < low) continue;
      const alone = tile.count[slice] === 1;
      const share = alone ? 1 : tile.busy[slice];
      const colour = codes[tile.name[slice]];
      if (x1 - x0 >= EDGED) {
        if (pixel >= 0) flush();
        pixel = -1;
        this.writeEdged(base, x0, x1, lowest, highest, colour, share);
        if (alone && Math.min(x1, high) - Math.max(x0, low) >= label) wide(slice, x0, x1);
        continue;
      }
      x0 = Math.max(x0, 0);
      let at = Math.floor(x0);
      do {
        if (at !== pixel) {
          if (pixel >= 0) flush();
          [pixel, cover, most, code, least] = [at, 0, -1, colour, FAINTEST];
        }
        const part = Math.max(0, Math.min(x1, at + 1) - Math.max(x0, at)) * share;
        cover += part;
        if (part > most) [most, code] = [part, colour];
        if (alone) least = FAINTEST_ALONE;
        at++;
      } while (at < x1 && at < highest);
    }
    if (pixel >= 0) flush();
  }

  /** A slice with edges: on full pixels, its last one fainter as a seam to the next. */
  writeEdged(base, x0, x1, lowest, highest, code, share) {
    const from = Math.max(Math.round(x0), lowest);
    const end = Math.round(x1);
    const to = Math.min(end, highest);
    if (to <= from) return;
    const level = Math.min(SOLID, Math.max(FAINTEST, Math.round(share * SOLID)));
    this.pixels.fill(PIXELS[(code << LEVEL_BITS) | level], base + from, base + to);
    if (end <= highest && to === end)
      this.pixels[base + end - 1] = PIXELS[(code << LEVEL_BITS) | Math.min(SEAM, level)];
  }
}
