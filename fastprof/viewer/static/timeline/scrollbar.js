/** The scroll bar of the tracks: their height may be millions of pixels, more than an element can have. */

import { h } from "../dom.js";

const LEAST = 28;

export class Scrollbar {
  constructor(timeline) {
    this.timeline = timeline;
    this.thumb = h("div.tl-thumb");
    this.root = h("div.tl-scrollbar", { "aria-hidden": "true" }, this.thumb);
    this.from = null;
    this.root.addEventListener("pointerdown", (event) => this.press(event));
    this.root.addEventListener("pointermove", (event) => this.from && this.move(event));
    for (const kind of ["pointerup", "pointercancel"]) this.root.addEventListener(kind, () => (this.from = null));
  }

  draw() {
    const { total, height, scroll } = this.timeline.layout;
    const stamp = `${total} ${height} ${scroll}`;
    if (stamp === this.stamp) return;
    this.stamp = stamp;
    this.root.hidden = total <= height;
    if (this.root.hidden) return;
    this.size = Math.max(LEAST, (height * height) / total);
    this.thumb.style.height = `${this.size}px`;
    this.thumb.style.transform = `translateY(${(scroll / (total - height)) * (height - this.size)}px)`;
  }

  press(event) {
    event.preventDefault();
    this.root.setPointerCapture(event.pointerId);
    const { layout } = this.timeline;
    if (event.target === this.root) {
      const share = (event.offsetY - this.size / 2) / (layout.height - this.size);
      this.timeline.scrollBy(share * (layout.total - layout.height) - layout.scroll);
    }
    this.from = { y: event.clientY, scroll: layout.scroll };
  }

  move(event) {
    const { layout } = this.timeline;
    const share = (event.clientY - this.from.y) / Math.max(layout.height - this.size, 1);
    layout.scrollTo(this.from.scroll + share * (layout.total - layout.height));
    this.timeline.invalidate();
  }
}
