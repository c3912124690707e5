// Charts on a canvas, with any number of marks: its size, its axis, what is under the pointer and the line that describes it.

import { h, onResize } from "../dom.js";
import { text } from "../units.js";
import { seen } from "../unseen.js";

/** Where charts with an axis of bytes begin and, from the right, end. */
export const LEFT = 74;
export const RIGHT = 8;
const TICKS = 4;
const LETTER = 6.5;
const LEAST_LETTERS = 3;

/** Extended by charts with `draw()`, `find(event)`: what is under the pointer or null, `describe(found)`, `choose(found)`. */
export class CanvasChart {
  constructor(element, kind, label) {
    this.element = element;
    this.note = h("div.canvas-note", { role: "status" });
    this.canvas = h(`canvas.${kind}`, { role: "img", tabindex: "0", "aria-label": label,
      onmousemove: (event) => this.point(this.find(event)), onmouseleave: () => this.point(null), onclick: (event) => {
        const found = this.find(event);
        if (found !== null) this.choose(found);
      } });
    element.append(this.canvas, this.note);
    onResize(element, () => this.draw());
  }

  /** The pen of a canvas as wide as its element, one unit a CSS pixel; null if the element has no width. */
  pen(height, letters = 11) {
    this.width = this.element.clientWidth;
    if (!this.width) return null;
    const ratio = window.devicePixelRatio || 1;
    Object.assign(this.canvas, { width: this.width * ratio, height: height * ratio });
    Object.assign(this.canvas.style, { width: `${this.width}px`, height: `${height}px` });
    const pen = this.canvas.getContext("2d");
    this.style = getComputedStyle(this.element);
    pen.scale(ratio, ratio);
    pen.font = `${letters}px ${this.style.fontFamily}`;
    pen.textBaseline = "middle";
    return pen;
  }

  /** Lines across for an axis of bytes up to `most`; `y(bytes)`. */
  bytesAxis(pen, most, y) {
    pen.textAlign = "right";
    for (let tick = 0; tick <= TICKS; tick += 1) {
      const bytes = (most * tick) / TICKS;
      pen.fillStyle = this.colourOf("--line");
      pen.fillRect(LEFT, y(bytes), this.width - LEFT - RIGHT, 1);
      pen.fillStyle = this.colourOf("--faint");
      pen.fillText(text(bytes, "bytes"), LEFT - 8, y(bytes));
    }
  }

  /** A name at the left of a box that is `wide` pixels, cut to fit; nothing if only a few letters fit. */
  boxName(pen, name, x, y, wide) {
    const letters = Math.floor((wide - 8) / LETTER);
    if (letters < LEAST_LETTERS) return;
    pen.fillStyle = "#10151c";
    pen.textAlign = "left";
    pen.fillText(seen(name.length > letters ? `${name.slice(0, letters - 1)}…` : name), x + 4, y);
  }

  /** A colour of the page by the name of its property. */
  colourOf(property) {
    return this.style.getPropertyValue(property);
  }

  point(found) {
    this.canvas.style.cursor = found === null ? "default" : "pointer";
    this.note.textContent = found === null ? "" : seen(this.describe(found));
  }
}
