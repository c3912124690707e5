/** Names of captures as something that can be shown: no control characters, no endless text, cut to a width. */

import { seen } from "../unseen.js";

const LONGEST = 300;
const ELLIPSIS = "…";

/** Text with every character that would not be seen shown as an escape, and no longer than `limit`. */
export function visible(text, limit = LONGEST) {
  let shown = String(text);
  if (shown.length > limit) {
    const end = (shown.charCodeAt(limit - 1) & 0xfc00) === 0xd800 ? limit - 1 : limit;
    shown = shown.slice(0, end) + ELLIPSIS;
  }
  if (shown.toWellFormed) shown = shown.toWellFormed();
  return seen(shown);
}

/** Like `visible`, but line ends stay. */
export function visibleLines(text, limit = LONGEST) {
  return String(text).slice(0, limit + 1).split("\n").map((line) => visible(line, limit)).join("\n");
}

/** An integer with commas between thousands. */
export function counted(number) {
  return Number(number).toLocaleString("en-US");
}

/** "1 event", "2,000 events". */
export function plural(number, noun) {
  return `${counted(number)} ${noun}${Number(number) === 1 ? "" : "s"}`;
}

/** Cuts text to a width in pixels by the widths of its characters, which are measured once for a font. */
export class Fitter {
  constructor(context, font) {
    Object.assign(this, { context, font });
    this.widths = new Map();
    this.ellipsis = this.width(ELLIPSIS);
  }

  width(character) {
    let width = this.widths.get(character);
    if (width === undefined) {
      this.context.font = this.font;
      width = this.context.measureText(character).width;
      this.widths.set(character, width);
    }
    return width;
  }

  /** The width of a text. */
  length(text) {
    let sum = 0;
    for (const character of text) sum += this.width(character);
    return sum;
  }

  /** The beginning of the text that fits in `room` pixels, "" if not even two characters do. */
  fit(text, room) {
    if (room < 2 * this.ellipsis) return "";
    let used = 0;
    let fits = 0; // code units that still leave room for the ellipsis
    let seen = 0;
    for (const character of text) {
      const width = this.width(character);
      if (used + width > room) return seen === 0 || fits === 0 ? "" : text.slice(0, fits) + ELLIPSIS;
      used += width;
      seen += character.length;
      if (used + this.ellipsis <= room) fits = seen;
    }
    return text;
  }
}
