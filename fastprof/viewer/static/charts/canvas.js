// Charts on a canvas, as many marks as there are: its size, what is under the pointer, what is shown of that.

import { h } from "../dom.js";

/** Extended by charts with `draw()`, `find(event)`: what is under the pointer or null, `describe(found)`, `choose(found)`. */
export class CanvasChart {
  constructor(element, kind, label) {
    this.element = element;
    this.canvas = h(`canvas.${kind}`, { role: "img", tabindex: "0", "aria-label": label });
    this.note = h("div.canvas-note", { role: "status" });
    element.append(this.canvas, this.note);
    this.canvas.addEventListener("mousemove", (event) => this.point(this.find(event)));
    this.canvas.addEventListener("mouseleave", () => this.point(null));
    this.canvas.addEventListener("click", (event) => {
      const found = this.find(event);
      if (found !== null) this.choose(found);
    });
    this.watch = new ResizeObserver(() => this.draw());
    this.watch.observe(element);
  }

  /** The pen of a canvas as wide as its element, one unit a CSS pixel; null where the element has no width. */
  pen(height) {
    this.width = this.element.clientWidth;
    if (!this.width) return null;
    const ratio = window.devicePixelRatio || 1;
    Object.assign(this.canvas, { width: this.width * ratio, height: height * ratio });
    Object.assign(this.canvas.style, { width: `${this.width}px`, height: `${height}px` });
    const pen = this.canvas.getContext("2d");
    this.style = getComputedStyle(this.element);
    pen.scale(ratio, ratio);
    pen.font = `11px ${this.style.fontFamily}`;
    pen.textBaseline = "middle";
    return pen;
  }

  /** A colour of the page by the name of its property. */
  colourOf(property) {
    return this.style.getPropertyValue(property);
  }

  point(found) {
    this.canvas.style.cursor = found === null ? "default" : "pointer";
    this.note.textContent = found === null ? "" : this.describe(found);
  }

  leave() {
    this.watch.disconnect();
    this.canvas.remove();
    this.note.remove();
  }
}
