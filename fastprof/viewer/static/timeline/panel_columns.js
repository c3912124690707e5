/** Sections side by side. The lines between them can be dragged, and moved by keys; the widths stay for the next ones. */

import { h, onDrag } from "../dom.js";

const LEAST = 0.15; // of the width that a section has at first
const KEY_STEP = 24;

export class PanelColumns {
  constructor() {
    this.shares = []; // of the width, by the number of the section
  }

  /** An element with these sections. */
  of(sections) {
    const root = h("div.tl-columns");
    while (this.shares.length < sections.length) this.shares.push(1);
    sections.forEach((section, place) => root.append(...(place ? [this.grip(root, place - 1)] : []), section));
    this.size(root);
    return root;
  }

  size(root) {
    const shares = this.shares.slice(0, root.querySelectorAll(":scope > section").length);
    root.style.setProperty("--tl-shares", shares.map((share) => `minmax(0, ${share}fr)`).join(" 17px "));
  }

  grip(root, place) {
    const grip = h("div.tl-column-grip", { role: "separator", "aria-orientation": "vertical", tabindex: "0",
      "aria-label": "Column widths", title: "Drag to change the widths; double click: equal widths",
      ondblclick: () => this.reset(root) });
    onDrag(grip, ({ clientX }) => ({ x: clientX, shares: [...this.shares], pixels: this.pixels(root) }),
      ({ clientX }, begun) => this.move(root, place, begun.shares, (clientX - begun.x) / begun.pixels));
    grip.addEventListener("keydown", (event) => {
      const step = { ArrowLeft: -KEY_STEP, ArrowRight: KEY_STEP }[event.key];
      if (!step) return;
      event.preventDefault();
      event.stopPropagation();
      this.move(root, place, [...this.shares], step / this.pixels(root));
    });
    return grip;
  }

  /** The pixels of a share of 1. */
  pixels(root) {
    const widths = [...root.querySelectorAll(":scope > section")].map((section) => section.offsetWidth);
    const shares = this.shares.slice(0, widths.length);
    return widths.reduce((sum, width) => sum + width, 0) / shares.reduce((sum, share) => sum + share, 0) || 1;
  }

  move(root, place, shares, by) {
    const most = shares[place] + shares[place + 1] - LEAST;
    const share = Math.min(Math.max(shares[place] + by, LEAST), Math.max(most, LEAST));
    this.shares[place + 1] = shares[place] + shares[place + 1] - share;
    this.shares[place] = share;
    this.size(root);
  }

  reset(root) {
    this.shares = this.shares.map(() => 1);
    this.size(root);
  }
}
