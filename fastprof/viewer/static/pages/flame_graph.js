// A tree as boxes: those of a node's children are below it, each as wide as its part. Boxes under half a pixel are left out.

import { CanvasChart } from "../charts/canvas.js";
import { h } from "../dom.js";
import { text } from "../units.js";

const ROW = 20;
const MOST_ROWS = 60;

/**
 * A flame graph in an element. `parents`, `depths`, `values`: by node, in preorder; `names(node)`, `colour(node)`;
 * `marked(node)`: a share of its width to be drawn as a line, null for none; `onselect(node)`; `unit`: of the values, "ps" at first; `title`: its label for readers of screens.
 */
export class FlameGraph extends CanvasChart {
  constructor(element, options) {
    super(element, "flame", options.title ?? "Flame graph of device time");
    Object.assign(this, { unit: "ps", marked: () => null, onselect: () => {}, ...options });
    this.root = 0;
    this.ends = ends(this.parents);
    this.back = h("button.button.small", { hidden: true, onclick: () => this.zoom(0) }, "All");
    this.canvas.before(h("div.flame-head", this.back, this.note));
    this.canvas.addEventListener("keydown", (event) => event.key === "Escape" && this.zoom(0));
  }

  zoom(node) {
    this.root = node;
    this.back.hidden = node === 0;
    this.draw();
  }

  draw() {
    this.boxes = this.placed(this.element.clientWidth);
    const rows = Math.min(MOST_ROWS, 1 + this.boxes.reduce((most, box) => Math.max(most, box.row), 0));
    const pen = this.pen(rows * ROW, 12);
    if (pen) { for (const box of this.boxes) if (box.row < rows) this.drawBox(pen, box); }
  }

  drawBox(pen, { node, x, row, wide }) {
    const y = row * ROW;
    pen.fillStyle = this.colour(node);
    pen.globalAlpha = 0.78;
    pen.fillRect(x, y, Math.max(0.5, wide - 0.5), ROW - 1);
    pen.globalAlpha = 1;
    const share = wide > 4 ? this.marked(node) : null;
    if (share !== null) {
      pen.fillStyle = "rgba(0,0,0,0.55)";
      pen.fillRect(x, y + ROW - 4, share * (wide - 0.5), 2);
    }
    this.boxName(pen, this.names(node), x, y + ROW / 2 - 1, wide);
  }

  /** Where the boxes of half a pixel or more lie, the largest child of a node first. */
  placed(width) {
    const boxes = [];
    const waiting = [{ node: this.root, x: 0, wide: width }];
    while (waiting.length) {
      const { node, x, wide } = waiting.pop();
      boxes.push({ node, x, wide, row: this.depths[node] - this.depths[this.root] });
      const below = this.children(node);
      const total = this.total(node, below);
      let at = x;
      for (const child of below) {
        const part = total ? (this.values[child] / total) * wide : 0;
        if (part >= 0.5) waiting.push({ node: child, x: at, wide: part });
        at += part;
      }
    }
    return boxes;
  }

  children(node) {
    const children = [];
    for (let child = node + 1; child < this.ends[node]; child = this.ends[child])
      if (this.values[child] > 0) children.push(child);
    return children.sort((one, other) => this.values[other] - this.values[one]);
  }

  /** The time of a node, or the sum of its children if that is more. */
  total(node, children = this.children(node)) {
    return Math.max(this.values[node], children.reduce((sum, child) => sum + this.values[child], 0));
  }

  find(event) {
    const row = Math.floor(event.offsetY / ROW);
    return this.boxes?.find((box) => box.row === row && event.offsetX >= box.x && event.offsetX < box.x + box.wide)
      ?.node ?? null;
  }

  describe(node) {
    const value = this.values[node];
    return `${this.names(node)} · ${text(value, this.unit)} · ${text(value / this.total(0), "share")}`;
  }

  choose(node) {
    this.zoom(node === this.root ? Math.max(0, this.parents[node] ?? 0) : node);
    this.onselect(node);
  }
}

/** For each node, the number after the last node in it. */
function ends(parents) {
  const after = parents.map((_, node) => node + 1);
  for (let node = parents.length - 1; node > 0; node -= 1) {
    const up = parents[node];
    if (up !== null && up >= 0) after[up] = Math.max(after[up], after[node]);
  }
  return after;
}
