// An allocator's memory over time: stack and heap, the span between least and most of each stretch, fragmentation,
// steps, and where a request would not have fitted. Each snapshot of its own where the view has few enough.

import { chart, plain } from "../chart.js";
import { h } from "../dom.js";
import { number, scale, text } from "../units.js";
import { part } from "./part_page.js";

const CLOSE = 6_000;
const HEAP = "#4c78c8";
const STACK = "#8d6fc4";
const FITS = {
  no: "rgba(217,83,79,.16)",
  "not known": "rgba(152,160,171,.16)",
  "if the device has it": "rgba(227,179,65,.14)",
};
const COLUMNS = ["start_ps", "stack_bytes", "heap_bytes", "in_use_bytes", "free_bytes", "fragmentation"];

/** `timeline`, `steps`, `request`: rows of one allocator; `peak`: its row of allocators; `describe(row)`: of a snapshot. */
export class MemoryTimeline {
  constructor(element, options) {
    Object.assign(this, options);
    this.whole = fromStretches(this.timeline);
    this.time = scale(this.whole.time, "ps");
    this.size = scale([...this.whole.most, this.peak.peak_bytes], "bytes");
    this.seen = this.whole;
    this.box = h("div");
    this.told = h("p.sentence", { role: "status" }, this.stretched() ? this.stretchNote() : "");
    element.append(this.box, this.told);
    this.drawn = chart(this.box, this.traces(this.whole), this.layout(), { label: "Memory over time", height: 340,
      onclick: (point) => this.choose(point.customdata) }).then((one) => {
        this.chart = one;
        this.box.on?.("plotly_relayout", (event) => this.zoomed(event));
        return one;
      });
  }

  stretched() {
    return this.whole.count.some((one) => one > 1);
  }

  stretchNote() {
    const all = this.whole.count.reduce((sum, one) => sum + one, 0);
    return `${number(this.whole.time.length)} stretches of ${
      number(all)
    } allocations and frees, each with the most in use in it; closer up each one is drawn.`;
  }

  traces(view) {
    const x = view.time.map((value) => value / this.time.divide);
    const y = (values) => values.map((value) => (value === null ? null : value / this.size.divide));
    const rows = Array.from(view.time.keys());
    const hover = rows.map((row) => this.hovered(view, row));
    const area = (name, values, colour, stack) => ({ type: "scatter", mode: "lines", name, x, y: y(values),
      customdata: view.place, stackgroup: stack, line: { color: colour, width: 0.8, shape: "hv" },
      fillcolor: `${colour}66`, hoverinfo: "skip" });
    const found = [];
    if (view.stack.some((value) => value > 0)) found.push(area("Stack", view.stack, STACK, "use"));
    found.push(area("Heap", view.heap, HEAP, "use"));
    if (view.least) {
      found.push({ type: "scatter", mode: "lines", name: "Least of the stretch", x, y: y(view.least),
        line: { color: "#1a232e55", width: 0.8, shape: "hv" }, hoverinfo: "skip" });
    }
    found.push({ type: "scatter", mode: view.time.length < 200 ? "lines+markers" : "lines", name: "In use", x,
      y: y(view.most), customdata: view.place, text: hover, hovertemplate: "%{text}<extra></extra>",
      line: { color: HEAP, width: 1.4, shape: "hv" }, marker: { size: 4 } });
    if (this.peak.peak_ps !== null) found.push(this.peakMark());
    if (view.fragmentation.some((value) => value !== null)) {
      found.push({ type: "scatter", mode: "lines", name: "Fragmentation", yaxis: "y2", x,
        y: view.fragmentation.map((value) => (value === null ? null : value * 100)),
        line: { color: "#d9534f", width: 1, dash: "dot" }, hoverinfo: "skip" });
    }
    return found;
  }

  peakMark() {
    return { type: "scatter", mode: "markers", name: "Peak", x: [this.peak.peak_ps / this.time.divide], y: [
      this.peak.peak_bytes / this.size.divide,
    ], marker: { symbol: "diamond", size: 10, color: "#f0882e", line: { width: 1, color: "#fff" } }, text: [
      `Peak: ${text(this.peak.peak_bytes, "bytes")} at ${text(this.peak.peak_ps, "ps")}`,
    ], hovertemplate: "%{text}<extra></extra>" };
  }

  hovered(view, row) {
    const count = view.count[row];
    return [
      `<b>${text(view.most[row], "bytes")}</b> in use at ${text(view.time[row], "ps")}`,
      view.stack[row] ? `stack ${text(view.stack[row], "bytes")}, heap ${text(view.heap[row], "bytes")}` : "",
      view.free[row] === null
        ? ""
        : `free ${text(view.free[row], "bytes")}${
          view.fragmentation[row] === null ? "" : `, fragmentation ${text(view.fragmentation[row], "share")}`
        }`,
      count > 1
        ? plain(`${number(count)} allocations and frees, at least ${text(view.least[row], "bytes")} in use`)
        : "",
    ].filter(Boolean).join("<br>");
  }

  layout() {
    const capacity = this.peak.capacity_bytes;
    const shapes = [...this.stepShapes(), ...this.fitShapes()];
    const near = capacity !== null && this.peak.peak_bytes > 0.6 * capacity;
    if (near) {
      shapes.push({ type: "line", xref: "paper", x0: 0, x1: 1, y0: capacity / this.size.divide,
        y1: capacity / this.size.divide, line: { color: "#d9534f", width: 1 } });
    }
    return { hovermode: "closest", dragmode: "zoom", margin: { r: 52, t: 20 },
      xaxis: { title: { text: `Time from the start of the host's capture, ${this.time.unit}` } },
      yaxis: { title: { text: this.size.unit }, rangemode: "tozero", fixedrange: true },
      yaxis2: { overlaying: "y", side: "right", range: [0, 100], tickmode: "array", tickvals: [0, 25, 50, 75, 100],
        title: { text: "Fragmentation, %" }, showgrid: false, fixedrange: true },
      legend: { orientation: "h", y: 1.02, yanchor: "bottom" }, shapes };
  }

  /** Every other step as a band, where there are not too many of them. */
  stepShapes() {
    if (this.steps.length > 200) return [];
    return Array.from({ length: this.steps.length }, (_, row) => row).filter((row) => row % 2 === 0).map((row) =>
      band(this.steps.value(row, "start_ps"), this.steps.value(row, "duration_ps"), this.time, "rgba(127,140,160,.10)")
    );
  }

  fitShapes() {
    const rows = Array.from({ length: Math.min(this.request.length, 500) }, (_, row) => row);
    return rows.filter((row) => FITS[this.request.value(row, "fits")]).map((row) =>
      band(this.request.value(row, "start_ps"), this.request.value(row, "duration_ps"), this.time,
        FITS[this.request.value(row, "fits")])
    );
  }

  /** The snapshot of a place, which is a row of the table snapshots. */
  async choose(place) {
    if (!Number.isInteger(place)) return;
    const { snapshots } = (await part(this.context, { tables: ["snapshots"], first: place, rows: 1 })).tables;
    const row = snapshots.length === 1 ? snapshots.row(0) : place < snapshots.length ? snapshots.row(place) : null;
    this.describe(row);
  }

  /** Where the view has few snapshots, each of them. */
  async zoomed(event) {
    if (event["xaxis.autorange"]) return this.back();
    const [from, to] = [event["xaxis.range[0]"], event["xaxis.range[1]"]].map((value) =>
      Number(value) * this.time.divide
    );
    if (!Number.isFinite(from) || !this.stretched() || this.context.saved) return undefined;
    const ends = this.whole.time.map((start, row) => start + this.timeline.value(row, "duration_ps"));
    const rows = Array.from(ends.keys()).filter((row) => ends[row] >= from && this.whole.time[row] <= to);
    if (!rows.length) return undefined;
    const first = this.timeline.value(rows[0], "first_snapshot");
    const count = rows.reduce((sum, row) => sum + this.whole.count[row], 0);
    if (count > CLOSE) return this.back();
    const { snapshots } =
      (await part(this.context, { tables: ["snapshots"], columns: { snapshots: COLUMNS }, first, rows: count })).tables;
    this.told.textContent = `${number(count)} allocations and frees.`;
    return this.chart.update(this.traces(fromSnapshots(snapshots, first)), this.kept());
  }

  back() {
    if (this.told.textContent === (this.stretched() ? this.stretchNote() : "")) return undefined;
    this.told.textContent = this.stretched() ? this.stretchNote() : "";
    return this.chart.update(this.traces(this.whole), this.kept());
  }

  /** The layout with the axis as it is now. */
  kept() {
    const axis = this.box.layout?.xaxis;
    const layout = this.layout();
    if (axis && axis.autorange !== true) layout.xaxis.range = [...axis.range];
    return layout;
  }

  leave() {
    this.drawn.then((one) => one.leave());
  }
}

function band(start, duration, time, colour) {
  return { type: "rect", xref: "x", yref: "paper", x0: start / time.divide, x1: (start + duration) / time.divide, y0: 0,
    y1: 1, fillcolor: colour, line: { width: 0 }, layer: "below" };
}

function fromStretches(data) {
  const column = (name) => data.column(name);
  const count = column("snapshot_count");
  return { time: column("most_ps").some((value) => value === null) ? column("start_ps") : column("most_ps"),
    stack: column("stack_bytes"), heap: column("heap_bytes"), free: column("free_bytes"),
    fragmentation: column("fragmentation"), most: column("most_in_use_bytes"),
    least: count.some((one) => one > 1) ? column("least_in_use_bytes") : null, count, place: column("first_snapshot") };
}

function fromSnapshots(data, first) {
  const column = (name) => data.column(name);
  return { time: column("start_ps"), stack: column("stack_bytes"), heap: column("heap_bytes"),
    free: column("free_bytes"), fragmentation: column("fragmentation"), most: column("in_use_bytes"), least: null,
    count: column("start_ps").map(() => 1), place: column("start_ps").map((_, row) => first + row) };
}
