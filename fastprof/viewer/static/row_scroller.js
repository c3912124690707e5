// Lists of any length: only the rows in sight are elements, and are used again as the list scrolls.

import { onResize } from "./dom.js";

const AHEAD = 8;
/** Browsers draw no element higher than this, in pixels. In a longer list, scrolling a pixel moves by more than one. */
const TALLEST = 16_000_000;

export class RowScroller {
  /**
   * `box` scrolls; `space`, an element in it, is as high as all rows. `height`: pixels of a row, `head`: pixels of what
   * stays above the rows; `make()`: an element for a row; `fill(element, row)`: shows a row in it.
   */
  constructor(box, space, { height, head = 0, make, fill }) {
    Object.assign(this, { box, space, height, head, make, fill, count: 0, scale: 1, pool: [] });
    box.addEventListener("scroll", () => this.draw(), { passive: true });
    onResize(box, () => this.draw());
  }

  /** Takes the number of rows. `renew`: elements of rows are made again. */
  show(count, renew = false) {
    this.count = count;
    this.scale = Math.max(1, (count * this.height) / TALLEST);
    this.space.style.height = `${(count * this.height) / this.scale}px`;
    if (renew) {
      this.space.replaceChildren();
      this.pool = [];
    }
    this.draw();
  }

  /** The first row in sight, with the part of it that is above. */
  get first() {
    return (this.box.scrollTop * this.scale) / this.height;
  }

  draw() {
    const { box, height, pool } = this;
    const first = Math.max(0, Math.floor(this.first) - AHEAD);
    const inSight = Math.ceil((box.clientHeight || 600) / height) + 2 * AHEAD;
    const count = Math.max(0, Math.min(this.count - first, inSight));
    while (pool.length > count) pool.pop().remove();
    while (pool.length < count) this.space.append(pool[pool.push(this.make()) - 1]);
    const shift = box.scrollTop - this.first * height;
    for (let row = first; row < first + count; row += 1) {
      const element = pool[row % count];
      element.style.transform = `translateY(${row * height + shift}px)`;
      this.fill(element, row);
    }
  }

  /** Scrolls so that a row is the first one. */
  go(row) {
    this.box.scrollTop = (row * this.height) / this.scale;
    this.draw();
  }

  /** Brings a row into sight: at the edge if it is next to it, else in the middle. */
  reveal(row) {
    const room = (this.box.clientHeight - this.head) / this.height - 1;
    const beyond = row - this.first - room;
    if (row < this.first) this.go(row);
    else if (beyond > 0) this.go(row - (beyond > 1 ? room / 2 : room));
    else this.draw();
  }
}
