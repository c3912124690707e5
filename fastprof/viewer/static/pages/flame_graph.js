// A tree as boxes, those of a node below it and as wide as their part of it. Drawn on a canvas, boxes under a pixel left out.

import { h } from "../dom.js";
import { text } from "../units.js";

const ROW = 20;
const LETTER = 6.4;
const MOST_ROWS = 60;

/**
 * A flame graph in an element. `parents`, `depths`, `values`: by node, in preorder; `names(node)`, `colour(node)`;
 * `marked(node)`: a share of its width to be drawn as a line, null for none; `onclick(node)`.
 */
export class FlameGraph {
  constructor(element, options) {
    Object.assign(this, options);
    this.element = element;
    this.root = 0;
    this.canvas = h("canvas.flame", { role: "img", tabindex: "0", "aria-label": "Flame graph of device time" });
    this.back = h("button.button.small", { hidden: true, onclick: () => this.zoom(0) }, "Whole");
    this.note = h("span.flame-note", { role: "status" });
    this.head = h("div.flame-head", this.back, this.note);
    element.append(this.head, this.canvas);
    this.canvas.addEventListener("mousemove", (event) => this.hover(event));
    this.canvas.addEventListener("mouseleave", () => this.point(null));
    this.canvas.addEventListener("click", (event) => this.click(event));
    this.canvas.addEventListener("keydown", (event) => event.key === "Escape" && this.zoom(0));
    this.watch = new ResizeObserver(() => this.draw());
    this.watch.observe(element);
    this.ends = ends(this.parents);
  }

  zoom(node) {
    this.root = node;
    this.back.hidden = node === 0;
    this.draw();
  }

  draw() {
    const width = this.element.clientWidth;
    if (!width) return;
    this.boxes = this.placed(width);
    const rows = Math.min(MOST_ROWS, 1 + this.boxes.reduce((most, box) => Math.max(most, box.row), 0));
    const ratio = window.devicePixelRatio || 1;
    Object.assign(this.canvas, { width: width * ratio, height: rows * ROW * ratio });
    Object.assign(this.canvas.style, { width: `${width}px`, height: `${rows * ROW}px` });
    const pen = this.canvas.getContext("2d");
    pen.scale(ratio, ratio);
    pen.font = "12px system-ui, sans-serif";
    pen.textBaseline = "middle";
    for (const box of this.boxes) if (box.row < rows) this.drawBox(pen, box);
  }

  drawBox(pen, { node, x, row, wide }) {
    const y = row * ROW;
    pen.fillStyle = this.colour(node);
    pen.globalAlpha = 0.78;
    pen.fillRect(x, y, Math.max(0.5, wide - 0.5), ROW - 1);
    pen.globalAlpha = 1;
    const share = wide > 4 ? this.marked?.(node) : null;
    if (share !== null && share !== undefined) {
      pen.fillStyle = "rgba(0,0,0,0.55)";
      pen.fillRect(x, y + ROW - 4, share * (wide - 0.5), 2);
    }
    const letters = Math.floor((wide - 8) / LETTER);
    if (letters < 3) return;
    const name = String(this.names(node));
    pen.fillStyle = "#10151c";
    pen.fillText(name.length > letters ? `${name.slice(0, letters - 1)}…` : name, x + 4, y + ROW / 2 - 1);
  }

  /** Where the boxes of half a pixel or more lie, the largest child of a node first. */
  placed(width) {
    const whole = this.values[this.root] ? this.values[this.root] : this.sum(this.root);
    if (!whole) return [];
    const boxes = [];
    const waiting = [[this.root, 0, width]];
    const base = this.depths[this.root];
    while (waiting.length) {
      const [node, x, wide] = waiting.pop();
      boxes.push({ node, x, wide, row: this.depths[node] - base });
      const below = this.children(node);
      const total = Math.max(this.values[node], below.reduce((sum, child) => sum + this.values[child], 0));
      let at = x;
      for (const child of below) {
        const part = total ? (this.values[child] / total) * wide : 0;
        if (part >= 0.5) waiting.push([child, at, part]);
        at += part;
      }
    }
    return boxes;
  }

  children(node) {
    const found = [];
    for (let child = node + 1; child < this.ends[node]; child = this.ends[child])
      if (this.values[child] > 0) found.push(child);
    return found.sort((one, other) => this.values[other] - this.values[one]);
  }

  sum(node) {
    return this.children(node).reduce((total, child) => total + this.values[child], 0);
  }

  at(event) {
    const row = Math.floor(event.offsetY / ROW);
    return this.boxes?.find((box) => box.row === row && event.offsetX >= box.x && event.offsetX < box.x + box.wide)
      ?.node ?? null;
  }

  hover(event) {
    const node = this.at(event);
    this.canvas.style.cursor = node === null ? "default" : "pointer";
    this.point(node);
  }

  point(node) {
    const whole = this.values[0] || this.sum(0);
    this.note.textContent = node === null
      ? ""
      : `${this.names(node)} · ${text(this.values[node], "ps")} · ${text(this.values[node] / whole, "share")}`;
  }

  click(event) {
    const node = this.at(event);
    if (node === null) return;
    this.zoom(node === this.root ? Math.max(0, this.parents[node] ?? 0) : node);
    this.onclick?.(node);
  }

  leave() {
    this.watch.disconnect();
    this.canvas.remove();
    this.head.remove();
  }
}

/** Of each node the number after the last one that is in it. */
function ends(parents) {
  const found = parents.map((_, node) => node + 1);
  for (let node = parents.length - 1; node > 0; node -= 1) {
    const up = parents[node];
    if (up !== null && up >= 0) found[up] = Math.max(found[up], found[node]);
  }
  return found;
}
