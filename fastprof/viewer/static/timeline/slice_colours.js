/** Colours of slices, the same as in charts, as pixels; and those of the page's own parts. */

import { colourOf, COLOURS } from "../colours.js";
import { list } from "../list.js";

/** Added to a code: a slice that a search did not find. */
export const DIMMED = 64;
export const LEVEL_BITS = 5;
export const SOLID = (1 << LEVEL_BITS) - 1;
const DIMMED_SHARE = 0.22;

/** The code of a name: 1 + the place of its colour. */
export function codeOfName(name) {
  return 1 + COLOURS.indexOf(colourOf(name));
}

/** The code of a name that is not known yet, by its number. */
export function codeOfNumber(number) {
  return 1 + ((Math.imul(number, 0x9e3779b9) >>> 0) % COLOURS.length);
}

/** Pixels (RGBA, little-endian): `PIXELS[code << LEVEL_BITS | level]` is that of a code and cover. */
export const PIXELS = new Uint32Array((2 * DIMMED) << LEVEL_BITS);
COLOURS.forEach((colour, place) => {
  const [red, green, blue] = [1, 3, 5].map((at) => parseInt(colour.slice(at, at + 2), 16));
  for (const [code, share] of [[1 + place, 1], [1 + place + DIMMED, DIMMED_SHARE]])
    for (let level = 0; level <= SOLID; level++) {
      const alpha = Math.round((255 * share * level) / SOLID);
      PIXELS[(code << LEVEL_BITS) | level] = ((alpha << 24) | (blue << 16) | (green << 8) | red) >>> 0;
    }
});

/** The colours of the page's own parts, from its style sheet, as canvases need them. */
export function pageColours(node) {
  const style = getComputedStyle(node);
  const colours = {};
  for (const name of list(`background, band, stripe, line, grid, text, faint, accent, select, slice-text, mark,
    step, step-other, counter, flow, shade`))
    colours[name] = style.getPropertyValue(`--tl-${name}`).trim();
  colours.font = style.getPropertyValue("--tl-font").trim() || "sans-serif";
  return colours;
}
