// Where each buffer of a heap lies and how long it lives, on a canvas: as many of them as there are.

import { CanvasChart, LEFT, RIGHT } from "../charts/canvas.js";
import { number, text } from "../units.js";

const HEIGHT = 320;
const BOTTOM = 26;
const TICKS = 8;
const MOST_OUTLINED = 2_000;

/** `data`: rows of the table lifetimes with start, end and timeline_bytes; `points`: of the program; `peak`: its point. */
export class BufferMap extends CanvasChart {
  constructor(element, data, { points, peak, colour, onselect }) {
    super(element, "buffer-map", "Placement and lifetimes of buffers");
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
    return LEFT + (point / this.points) * (this.width - LEFT - RIGHT);
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
    this.bytesAxis(pen, this.top, (bytes) => this.y(bytes));
    pen.textAlign = "center";
    for (let tick = 0; tick <= TICKS; tick += 1) {
      const point = Math.round((this.points * tick) / TICKS);
      pen.fillText(number(point), Math.min(this.x(point), this.width - 24), HEIGHT - BOTTOM / 2);
    }
  }

  /** Where the block of a buffer lies, at least `least` pixels wide and high. */
  box(row, least) {
    const [x, y] = [this.x(this.start[row]), this.y(this.low[row] + this.size[row])];
    return [x, y, Math.max(least, this.x(this.end[row]) - x), Math.max(least, this.y(this.low[row]) - y)];
  }

  block(pen, row) {
    const [x, y, wide, tall] = this.box(row, 0.6);
    pen.fillStyle = this.shades[row];
    pen.globalAlpha = 0.75;
    pen.fillRect(x, y, wide > 3 ? wide - 0.6 : wide, tall > 3 ? tall - 0.6 : tall);
    pen.globalAlpha = 1;
    if (tall >= 13) this.boxName(pen, this.data.value(row, "buffer") ?? "", x, y + tall / 2, wide);
  }

  marks(pen) {
    const outline = (row, width) => {
      pen.lineWidth = width;
      pen.strokeStyle = this.colourOf("--text");
      pen.strokeRect(...this.box(row, 1));
    };
    const alive = this.data.column("is_at_peak");
    if (alive.length < MOST_OUTLINED) alive.forEach((is, row) => is && outline(row, 0.8));
    if (this.marked !== null) outline(this.marked, 2.2);
    for (const [point, shade] of [[this.peak, "#d9534f"], [this.at, this.colourOf("--accent")]]) {
      if (point === null || point === undefined) continue;
      pen.fillStyle = shade;
      pen.fillRect(this.x(point), 4, 1.5, HEIGHT - BOTTOM - 2);
    }
  }

  /** Draws a line at a point of the program. */
  markPoint(at) {
    this.at = at;
    this.draw();
  }

  mark(id) {
    const row = id === null ? -1 : this.data.column("buffer_id").indexOf(id);
    this.marked = row < 0 ? null : row;
    this.draw();
  }

  find(event) {
    const wide = this.points / (this.width - LEFT - RIGHT);
    const point = (event.offsetX - LEFT) * wide;
    const bytes = (1 - (event.offsetY - 6) / (HEIGHT - BOTTOM - 6)) * this.top;
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
