// All steps on all cores as a map: a row a core, a column a step, coloured by time.

import { h } from "../dom.js";
import { text } from "../units.js";

const TALLEST = 420;
const LEFT = 110;
const BELOW = 20;

/** Of a metric, from little (0) to much (1): pale yellow to red of step time and waits, pale to dark green of compute. */
export function shade(metric, share) {
  const at = Math.max(0, Math.min(1, share));
  if (metric === "device_compute_ps") return `hsl(150 45% ${Math.round(88 - at * 50)}%)`;
  return `hsl(${Math.round(48 - at * 43)} 72% ${Math.round(86 - at * 36)}%)`;
}

/** The colours of a metric from little to much, as CSS has them. */
export function shades(metric) {
  return `linear-gradient(to right, ${[0, 0.25, 0.5, 0.75, 1].map((at) => shade(metric, at)).join(",")})`;
}

/** `data`: the table cores; `steps`: their numbers in order; `onselect(place of the step, name of the core)`. */
export class CoreMap {
  constructor(element, data, { steps, metric, onselect }) {
    Object.assign(this, { element, data, steps, metric, onselect });
    this.cores = [...new Set(data.column("core_name"))].sort(new Intl.Collator("en", { numeric: true }).compare);
    const coreAt = new Map(this.cores.map((core, at) => [core, at]));
    const stepAt = new Map(steps.map((step, at) => [step, at]));
    this.values = new Float64Array(this.cores.length * steps.length).fill(NaN);
    const [cores, of, value] = ["core_name", "step", metric].map((name) => data.column(name));
    for (let row = 0; row < data.length; row += 1) {
      this.values[coreAt.get(cores[row]) * steps.length + stepAt.get(of[row])] = value[row];
    }
    this.least = this.values.reduce((least, one) => (one < least ? one : least), Infinity);
    this.most = this.values.reduce((most, one) => (one > most ? one : most), 0);
    if (metric !== "duration_ps") this.least = 0;
    this.canvas = h("canvas.core-map", { role: "img", "aria-label": "Steps by core" });
    this.told = h("div.flame-head");
    this.scale = h("div.scale", h("span", text(this.least, "ps")),
      h("span.scale-bar", { style: { background: shades(metric) } }), h("span", text(this.most, "ps")));
    element.append(this.canvas, this.scale, this.told);
    this.canvas.addEventListener("mousemove", (event) => this.tell(this.find(event)));
    this.canvas.addEventListener("mouseleave", () => this.tell(null));
    this.canvas.addEventListener("click", (event) => {
      const found = this.find(event);
      if (found) onselect(found.step, this.cores[found.core]);
    });
    this.watch = new ResizeObserver(() => this.draw());
    this.watch.observe(element);
  }

  draw() {
    this.width = this.element.clientWidth;
    if (!this.width) return;
    this.tall = Math.max(2, Math.min(20, TALLEST / this.cores.length));
    this.wide = Math.min(60, (this.width - LEFT - 4) / this.steps.length);
    const height = Math.ceil(this.tall * this.cores.length) + BELOW;
    const ratio = window.devicePixelRatio || 1;
    Object.assign(this.canvas, { width: this.width * ratio, height: height * ratio });
    Object.assign(this.canvas.style, { width: `${this.width}px`, height: `${height}px` });
    const pen = this.canvas.getContext("2d");
    const style = getComputedStyle(this.element);
    pen.scale(ratio, ratio);
    pen.font = `11px ${style.fontFamily}`;
    pen.textAlign = "right";
    pen.textBaseline = "middle";
    const each = Math.ceil(13 / this.tall);
    this.cores.forEach((core, row) => {
      pen.fillStyle = style.getPropertyValue("--faint");
      if (row % each === 0)
        pen.fillText(core.length > 16 ? `…${core.slice(-15)}` : core, LEFT - 6, (row + 0.5) * this.tall);
      for (let step = 0; step < this.steps.length; step += 1) this.cell(pen, row, step);
    });
    this.numbers(pen, style.getPropertyValue("--faint"));
  }

  /** The numbers of the steps below their columns, as many as there is room for. */
  numbers(pen, colour) {
    const widest = pen.measureText(String(this.steps.at(-1))).width + 10;
    const each = Math.max(1, Math.ceil(widest / this.wide));
    const down = this.tall * this.cores.length + BELOW / 2 + 1;
    pen.fillStyle = colour;
    pen.fillText("Step", LEFT - 6, down);
    pen.textAlign = "center";
    for (let at = 0; at < this.steps.length; at += each)
      pen.fillText(String(this.steps[at]), LEFT + (at + 0.5) * this.wide, down);
  }

  cell(pen, core, step) {
    const value = this.values[core * this.steps.length + step];
    if (Number.isNaN(value)) return;
    const gap = this.wide > 4 && this.tall > 4 ? 1 : 0;
    pen.fillStyle = shade(this.metric, (value - this.least) / Math.max(1, this.most - this.least));
    pen.fillRect(LEFT + step * this.wide, core * this.tall, Math.max(0.5, this.wide - gap), this.tall - gap);
  }

  find(event) {
    const step = Math.floor((event.offsetX - LEFT) / this.wide);
    const core = Math.floor(event.offsetY / this.tall);
    return step >= 0 && step < this.steps.length && core >= 0 && core < this.cores.length ? { step, core } : null;
  }

  tell(found) {
    this.canvas.style.cursor = found ? "pointer" : "default";
    if (!found) {
      this.told.textContent = "";
      return;
    }
    const value = this.values[found.core * this.steps.length + found.step];
    this.told.textContent = `${this.cores[found.core]}, step ${this.steps[found.step]}: ${
      Number.isNaN(value) ? "took no part" : text(value, "ps")
    }`;
  }

  leave() {
    this.watch.disconnect();
    this.canvas.remove();
    this.told.remove();
    this.scale.remove();
  }
}
