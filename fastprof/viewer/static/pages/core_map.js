// All steps on all cores or hosts as a map: a row a core, a column a step, coloured by time.

import { CanvasChart } from "../charts/canvas.js";
import { h } from "../dom.js";
import { text } from "../units.js";
import { seen } from "../unseen.js";

const TALLEST = 420;
const LEFT = 110;
const BELOW = 20;

/** The colour of a share of a metric: pale to dark green for compute, pale yellow to red for step time and waits. */
export function shade(metric, share) {
  const at = Math.max(0, Math.min(1, share));
  if (metric === "device_compute_ps") return `hsl(150 45% ${Math.round(88 - at * 50)}%)`;
  return `hsl(${Math.round(48 - at * 43)} 72% ${Math.round(86 - at * 36)}%)`;
}

/** The colours of a metric from its least to its most. */
export function scaleBar(metric, least, most) {
  const background = `linear-gradient(to right, ${[0, 0.25, 0.5, 0.75, 1].map((at) => shade(metric, at)).join(",")})`;
  return h("div.scale", h("span", text(least, "ps")), h("span.scale-bar", { style: { background } }),
    h("span", text(most, "ps")));
}

/** `data`: a table with a row a step and core, or host; `names`: of the core or host of each row; `steps`: numbers of
 * steps in order; `onselect(place of the step, name of the core)`. */
export class CoreMap extends CanvasChart {
  constructor(element, data, { steps, metric, onselect, names = data.column("core_name"), label = "Steps by core" }) {
    super(element, "core-map", label);
    Object.assign(this, { data, steps, metric, onselect });
    this.cores = [...new Set(names)].sort(new Intl.Collator("en", { numeric: true }).compare);
    const coreAt = new Map(this.cores.map((core, at) => [core, at]));
    const stepAt = new Map(steps.map((step, at) => [step, at]));
    this.values = new Float64Array(this.cores.length * steps.length).fill(NaN);
    const [numbers, value] = ["step", metric].map((name) => data.column(name));
    for (let row = 0; row < data.length; row += 1) {
      this.values[coreAt.get(names[row]) * steps.length + stepAt.get(numbers[row])] = value[row];
    }
    this.least = this.values.reduce((least, one) => (one < least ? one : least), Infinity);
    this.most = this.values.reduce((most, one) => (one > most ? one : most), 0);
    if (metric !== "period_ps") this.least = 0;
    this.canvas.after(scaleBar(metric, this.least, this.most));
  }

  draw() {
    if (!this.element.clientWidth) return;
    this.tall = Math.max(2, Math.min(20, TALLEST / this.cores.length));
    this.wide = Math.min(60, (this.element.clientWidth - LEFT - 4) / this.steps.length);
    const pen = this.pen(Math.ceil(this.tall * this.cores.length) + BELOW);
    pen.textAlign = "right";
    const each = Math.ceil(13 / this.tall);
    this.cores.forEach((core, row) => {
      pen.fillStyle = this.colourOf("--faint");
      if (row % each === 0)
        pen.fillText(seen(core.length > 16 ? `…${core.slice(-15)}` : core), LEFT - 6, (row + 0.5) * this.tall);
      for (let step = 0; step < this.steps.length; step += 1) this.cell(pen, row, step);
    });
    this.numbers(pen, this.colourOf("--faint"));
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

  describe({ core, step }) {
    const value = this.values[core * this.steps.length + step];
    return `${this.cores[core]}, step ${this.steps[step]}: ${Number.isNaN(value) ? "took no part" : text(value, "ps")}`;
  }

  choose({ core, step }) {
    this.onselect(step, this.cores[core]);
  }
}
