/**
 * Colours of slices. A name leads to a hue and a tone, so that an event has its colour on every track, host and day.
 * Numbers in a name decide the tone only: fusion.1 and fusion.2 are seen as relatives.
 */

import { hash } from "../colours.js";
import { list } from "../list.js";

const HUES = 20;
const TONES = 3;
const CODES = HUES * TONES;
/** Added to a code: a slice that a search did not find. */
export const DIMMED = 64;
export const LEVEL_BITS = 5;
export const SOLID = (1 << LEVEL_BITS) - 1;
const DIMMED_SHARE = 0.22;

/** Lightness of the tones and chroma of a theme: the texts on slices are dark in both, with a contrast above 7. */
const THEMES = {
  light: { tones: [0.8, 0.75, 0.85], chroma: 0.105 },
  dark: { tones: [0.72, 0.67, 0.77], chroma: 0.1 },
};

function mixed(number) {
  const value = Math.imul(number ^ (number >>> 16), 0x45d9f3b);
  return (value ^ (value >>> 13)) >>> 0;
}

/** The code of a name: 1..CODES. */
export function codeOfName(name) {
  const family = name.replace(/[\s._:#-]*\d+/g, "") || name;
  return 1 + (mixed(hash(family)) % HUES) * TONES + (mixed(hash(name)) % TONES);
}

/** The code of a name that is not known yet, by its number. */
export function codeOfNumber(number) {
  return 1 + (mixed(number + 0x9e3779b9) % CODES);
}

function gamma(linear) {
  const held = Math.min(Math.max(linear, 0), 1);
  return Math.round(255 * (held <= 0.0031308 ? 12.92 * held : 1.055 * held ** (1 / 2.4) - 0.055));
}

/** OKLCH to bytes of sRGB (the matrices of the OKLab definition): equal lightness looks equally light in every hue. */
function rgb(lightness, chroma, degrees) {
  const angle = (degrees * Math.PI) / 180;
  const [a, b] = [chroma * Math.cos(angle), chroma * Math.sin(angle)];
  const l = (lightness + 0.3963377774 * a + 0.2158037573 * b) ** 3;
  const m = (lightness - 0.1055613458 * a - 0.0638541728 * b) ** 3;
  const s = (lightness - 0.0894841775 * a - 1.291485548 * b) ** 3;
  return [
    gamma(4.0767416621 * l - 3.3077115913 * m + 0.2309699292 * s),
    gamma(-1.2684380046 * l + 2.6097574011 * m - 0.3413193965 * s),
    gamma(-0.0041960863 * l - 0.7034186147 * m + 1.707614701 * s),
  ];
}

/** The colours of a theme: `table[code << LEVEL_BITS | level]` is a pixel (RGBA, little-endian) of that cover. */
export class Palette {
  constructor(theme) {
    const { tones, chroma } = THEMES[theme] ?? THEMES.light;
    this.table = new Uint32Array(2 * DIMMED << LEVEL_BITS);
    for (let code = 1; code <= CODES; code++) {
      const hue = Math.floor((code - 1) / TONES);
      const colour = rgb(tones[(code - 1) % TONES], chroma, 15 + (hue * 360) / HUES);
      this.fill(code, colour, 1);
      this.fill(code + DIMMED, colour, DIMMED_SHARE);
    }
  }

  fill(code, [red, green, blue], share) {
    for (let level = 0; level <= SOLID; level++) {
      const alpha = Math.round((255 * share * level) / SOLID);
      this.table[(code << LEVEL_BITS) | level] = ((alpha << 24) | (blue << 16) | (green << 8) | red) >>> 0;
    }
  }
}

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
