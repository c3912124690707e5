// Buffers at the peak as bars, one a buffer: by size, by padding, or in the order of the program. On a canvas, so that
// ten thousand of them are as quick as ten.

import { h } from "../dom.js";
import { text } from "../units.js";

const HEIGHT = 150;
const LEFT = 74;
const WIDEST = 46;

/** `data`: buffers_at_peak; `by`: size, program or padding; `colour(row)`; `onselect(row)`. */
export class BufferBars {
  constructor(element, data, { by, colour, onselect }) {
    Object.assign(this, { element, data, by, colour, onselect, marked: null });
    this.values = data.column(by === "padding" ? "padding_bytes" : "bytes").map((value) => value ?? 0);
    const position = data.column("position");
    const key = by === "program" ? (row) => -position[row] : (row) => this.values[row];
    this.rows = Array.from(this.values.keys()).filter((row) => by !== "padding" || this.values[row] > 0).sort((one,
      other) => key(other) - key(one) || one - other
    );
    this.most = this.rows.reduce((most, row) => Math.max(most, this.values[row]), 1);
    this.told = h("div.flame-head", this.rows.length ? "" : "No buffer is padded.");
    this.canvas = h("canvas.buffer-bars", { role: "img", tabindex: "0", "aria-label": "Buffers at the peak" });
    if (this.rows.length) element.append(this.canvas);
    element.append(this.told);
    this.canvas.addEventListener("mousemove", (event) => this.tell(this.find(event)));
    this.canvas.addEventListener("mouseleave", () => this.tell(-1));
    this.canvas.addEventListener("click", (event) => this.pick(this.find(event)));
    this.canvas.addEventListener("keydown", (event) => this.key(event));
    this.watch = new ResizeObserver(() => this.draw());
    this.watch.observe(element);
  }

  get step() {
    return Math.min(WIDEST, (this.width - LEFT - 8) / this.rows.length);
  }

  draw() {
    this.width = this.element.clientWidth;
    if (!this.width || !this.rows.length) return;
    const ratio = window.devicePixelRatio || 1;
    Object.assign(this.canvas, { width: this.width * ratio, height: HEIGHT * ratio });
    Object.assign(this.canvas.style, { width: `${this.width}px`, height: `${HEIGHT}px` });
    const pen = this.canvas.getContext("2d");
    const style = getComputedStyle(this.element);
    pen.scale(ratio, ratio);
    this.axis(pen, style);
    this.rows.forEach((row, place) => {
      const x = LEFT + place * this.step;
      const tall = (this.values[row] / this.most) * (HEIGHT - 16);
      pen.fillStyle = row === this.marked ? style.getPropertyValue("--text") : this.colour(row);
      pen.fillRect(x, HEIGHT - 8 - tall, Math.max(0.7, this.step - (this.step > 4 ? 1.5 : 0)), tall);
    });
  }

  axis(pen, style) {
    pen.font = `11px ${style.fontFamily}`;
    pen.textAlign = "right";
    pen.textBaseline = "middle";
    for (let tick = 0; tick <= 4; tick += 1) {
      const y = HEIGHT - 8 - (tick / 4) * (HEIGHT - 16);
      pen.fillStyle = style.getPropertyValue("--line");
      pen.fillRect(LEFT, y, this.width - LEFT - 8, 1);
      pen.fillStyle = style.getPropertyValue("--faint");
      pen.fillText(text((this.most * tick) / 4, "bytes"), LEFT - 8, y);
    }
  }

  find(event) {
    const place = Math.floor((event.offsetX - LEFT) / this.step);
    return place >= 0 && place < this.rows.length ? this.rows[place] : -1;
  }

  tell(row) {
    this.canvas.style.cursor = row < 0 ? "default" : "pointer";
    const { data } = this;
    this.told.textContent = row < 0 ? "" : [
      data.value(row, "buffer") ?? data.value(row, "category"),
      text(this.values[row], "bytes"),
      text(data.value(row, "share"), "share"),
      data.value(row, "shape"),
      data.value(row, "op_name"),
    ].filter(Boolean).join(" · ");
  }

  pick(row) {
    if (row >= 0) this.onselect(row);
  }

  key(event) {
    const by = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (!by) return;
    event.preventDefault();
    const place = this.rows.indexOf(this.marked);
    const row = this.rows[Math.max(0, Math.min(this.rows.length - 1, place + by))];
    this.tell(row);
    this.pick(row);
  }

  mark(row) {
    this.marked = row;
    this.draw();
  }

  leave() {
    this.watch.disconnect();
  }
}
