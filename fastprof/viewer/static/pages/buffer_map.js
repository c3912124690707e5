// Where each buffer of a heap lies and how long it lives, on a canvas: as many of them as there are.

import { CanvasChart } from "../charts/canvas.js";
import { number, text } from "../units.js";

const HEIGHT = 320;
const LEFT = 74;
const BOTTOM = 26;
const TICKS = 4;

/** `data`: rows of the table lifetimes with start, end and timeline_bytes; `points`: of the program; `peak`: its point. */
export class BufferMap extends CanvasChart {
  constructor(element, data, { points, peak, colour, onselect }) {
    super(element, "buffer-map", "Where buffers lie, and how long they live");
    Object.assign(this, { data, peak, colour, onselect, marked: null, at: null });
    this.start = Float64Array.from(data.column("start"));
    this.end = Float64Array.from(data.column("end"));
    this.low = Float64Array.from(data.column("timeline_bytes"));
    this.size = Float64Array.from(data.column("bytes"));
    this.points = Math.max(points, this.end.reduce((most, value) => Math.max(most, value), 1));
    this.top = this.low.reduce((most, low, row) => Math.max(most, low + this.size[row]), 1);
    this.shades = data.column("buffer").map((name) => colour(name));
  }

  x(point) {
    return LEFT + (point / this.points) * (this.width - LEFT - 8);
  }

  y(bytes) {
    return 6 + (1 - bytes / this.top) * (HEIGHT - BOTTOM - 6);
  }

  draw() {
    const pen = this.pen(HEIGHT);
    if (!pen) return;
    this.axes(pen);
    for (let row = 0; row < this.start.length; row += 1) this.block(pen, row);
    this.marks(pen);
  }

  axes(pen) {
    pen.fillStyle = this.colourOf("--faint");
    pen.strokeStyle = this.colourOf("--line");
    pen.textAlign = "right";
    for (let tick = 0; tick <= TICKS; tick += 1) {
      const bytes = (this.top * tick) / TICKS;
      pen.fillText(text(bytes, "bytes"), LEFT - 8, this.y(bytes));
      pen.strokeRect(LEFT, this.y(bytes), this.width - LEFT - 8, 0);
    }
    pen.textAlign = "center";
    for (let tick = 0; tick <= 8; tick += 1) {
      const point = Math.round((this.points * tick) / 8);
      pen.fillText(number(point), Math.min(this.x(point), this.width - 24), HEIGHT - BOTTOM / 2);
    }
  }

  block(pen, row) {
    const [x, y] = [this.x(this.start[row]), this.y(this.low[row] + this.size[row])];
    const wide = Math.max(0.6, this.x(this.end[row]) - x);
    const tall = Math.max(0.6, this.y(this.low[row]) - y);
    pen.fillStyle = this.shades[row];
    pen.globalAlpha = 0.75;
    pen.fillRect(x, y, wide > 3 ? wide - 0.6 : wide, tall > 3 ? tall - 0.6 : tall);
    pen.globalAlpha = 1;
    const letters = Math.floor((wide - 8) / 6.2);
    if (tall < 13 || letters < 4) return;
    const name = this.data.value(row, "buffer") ?? "";
    pen.fillStyle = "#10151c";
    pen.textAlign = "left";
    pen.fillText(name.length > letters ? `${name.slice(0, letters - 1)}…` : name, x + 4, y + tall / 2);
  }

  marks(pen) {
    const strong = this.colourOf("--text");
    const outline = (row, width) => {
      const y = this.y(this.low[row] + this.size[row]);
      pen.lineWidth = width;
      pen.strokeStyle = strong;
      pen.strokeRect(this.x(this.start[row]), y, Math.max(1, this.x(this.end[row]) - this.x(this.start[row])),
        Math.max(1, this.y(this.low[row]) - y));
    };
    const alive = this.data.column("is_at_peak");
    if (this.start.length < 2_000) { for (let row = 0; row < alive.length; row += 1) if (alive[row]) outline(row,
            0.8); }
    if (this.marked !== null) outline(this.marked, 2.2);
    for (const [point, shade] of [[this.peak, "#d9534f"], [this.at, this.colourOf("--accent")]]) {
      if (point === null || point === undefined) continue;
      pen.fillStyle = shade;
      pen.fillRect(this.x(point), 4, 1.5, HEIGHT - BOTTOM - 2);
    }
  }

  /** A line at a point of the program. */
  point(at) {
    this.at = at;
    this.draw();
  }

  mark(id) {
    const row = id === null ? -1 : this.data.column("buffer_id").indexOf(id);
    this.marked = row < 0 ? null : row;
    this.draw();
  }

  find(event) {
    const point = ((event.offsetX - LEFT) / (this.width - LEFT - 8)) * this.points;
    const bytes = (1 - (event.offsetY - 6) / (HEIGHT - BOTTOM - 6)) * this.top;
    const wide = this.points / (this.width - LEFT - 8);
    for (let row = this.start.length - 1; row >= 0; row -= 1) {
      const inTime = point >= this.start[row] && point < Math.max(this.end[row], this.start[row] + wide);
      if (inTime && bytes >= this.low[row] && bytes < this.low[row] + this.size[row]) return row;
    }
    return null;
  }

  describe(row) {
    const { data } = this;
    return [
      data.value(row, "buffer") ?? "?",
      text(this.size[row], "bytes"),
      `points ${number(this.start[row])} to ${number(this.end[row])}`,
      data.value(row, "op_name"),
    ].filter(Boolean).join(" · ");
  }

  choose(row) {
    this.onselect(this.data.row(row));
  }
}
