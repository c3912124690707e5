// Buffers at the peak as bars, one per buffer: by size, by padding, or in the order of the program.

import { CanvasChart, LEFT, RIGHT } from "../charts/canvas.js";
import { text } from "../units.js";

const HEIGHT = 150;
const WIDEST = 46;

/** `data`: buffers_at_peak; `by`: size, program or padding; `colour(row)`; `choose(row)`. */
export class BufferBars extends CanvasChart {
  constructor(element, data, { by, colour, choose }) {
    super(element, "buffer-bars", "Buffers at the peak");
    Object.assign(this, { data, colour, choose, marked: null });
    this.values = data.column(by === "padding" ? "padding_bytes" : "bytes").map((value) => value ?? 0);
    const position = data.column("position");
    const key = by === "program" ? (row) => -position[row] : (row) => this.values[row];
    this.rows = Array.from(this.values.keys()).filter((row) => by !== "padding" || this.values[row] > 0).sort((one,
      other) => key(other) - key(one) || one - other
    );
    this.most = this.rows.reduce((most, row) => Math.max(most, this.values[row]), 1);
    this.canvas.hidden = !this.rows.length;
    if (!this.rows.length) this.note.textContent = "No buffer is padded.";
    this.canvas.addEventListener("keydown", (event) => this.key(event));
  }

  get step() {
    return Math.min(WIDEST, (this.width - LEFT - RIGHT) / this.rows.length);
  }

  draw() {
    const pen = this.rows.length ? this.pen(HEIGHT) : null;
    if (!pen) return;
    const bottom = HEIGHT - 8;
    const y = (bytes) => bottom - (bytes / this.most) * (HEIGHT - 16);
    this.bytesAxis(pen, this.most, y);
    this.rows.forEach((row, place) => {
      const top = y(this.values[row]);
      pen.fillStyle = row === this.marked ? this.colourOf("--text") : this.colour(row);
      pen.fillRect(LEFT + place * this.step, top, Math.max(0.7, this.step - (this.step > 4 ? 1.5 : 0)), bottom - top);
    });
  }

  find(event) {
    const place = Math.floor((event.offsetX - LEFT) / this.step);
    return place >= 0 && place < this.rows.length ? this.rows[place] : null;
  }

  describe(row) {
    const { data } = this;
    return [
      data.value(row, "buffer") ?? data.value(row, "category"),
      text(this.values[row], "bytes"),
      text(data.value(row, "share"), "share"),
      data.value(row, "shape"),
      data.value(row, "op_name"),
    ].filter(Boolean).join(" · ");
  }

  key(event) {
    const by = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (!by) return;
    event.preventDefault();
    const place = this.rows.indexOf(this.marked);
    const row = this.rows[Math.max(0, Math.min(this.rows.length - 1, place + by))];
    this.point(row);
    this.choose(row);
  }

  mark(row) {
    this.marked = row;
    this.draw();
  }
}
