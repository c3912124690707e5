/** The scroll bar of the tracks: their height may be millions of pixels, more than an element can have. */

import { h, onDrag } from "../dom.js";

const LEAST = 28;

export class Scrollbar {
  constructor(timeline) {
    this.timeline = timeline;
    this.thumb = h("div.tl-thumb");
    this.root = h("div.tl-scrollbar", { "aria-hidden": "true" }, this.thumb);
    onDrag(this.root, (event) => this.press(event), (event, begun) => this.move(event, begun));
  }

  draw() {
    const { total, room: height, furthest, scroll, pinHeight } = this.timeline.layout;
    const stamp = `${total} ${height} ${scroll} ${pinHeight}`;
    if (stamp === this.stamp) return;
    this.stamp = stamp;
    this.root.hidden = total <= height;
    if (this.root.hidden) return;
    this.size = Math.max(LEAST, (height * height) / total);
    this.thumb.style.height = `${this.size}px`;
    this.root.style.top = `${pinHeight}px`;
    const share = Math.min(scroll / furthest, 1);
    this.thumb.style.transform = `translateY(${share * (height - this.size)}px)`;
  }

  press(event) {
    const { layout } = this.timeline;
    if (event.target === this.root) {
      const share = (event.offsetY - this.size / 2) / (layout.room - this.size);
      this.timeline.scrollBy(share * layout.furthest - layout.scroll);
    }
    return { y: event.clientY, scroll: layout.scroll };
  }

  move(event, begun) {
    const { layout } = this.timeline;
    const share = (event.clientY - begun.y) / Math.max(layout.room - this.size, 1);
    layout.scrollTo(begun.scroll + share * layout.furthest);
    this.timeline.invalidate();
  }
}
