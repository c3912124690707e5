// An allocator's memory over time: stack and heap, the span between least and most of each interval, fragmentation,
// steps, and where a request would not have fitted. Each snapshot of its own where the view has few enough.

import { plot } from "../charts/plot.js";
import { h } from "../dom.js";
import { tablePart, wholeRow } from "../report_page.js";
import { number, scale, text } from "../units.js";

const CLOSE = 6_000;
const MOST_BANDS = 500;
const HEAP = "#4c78c8";
const STACK = "#8d6fc4";
const BAD = "#d9534f";
const FITS = {
  no: "rgb(217 83 79 / 16%)",
  "not known": "rgb(152 160 171 / 16%)",
  "if the device has it": "rgb(227 179 65 / 14%)",
};
const COLUMNS = ["start_ps", "stack_bytes", "heap_bytes", "in_use_bytes", "free_bytes", "fragmentation"];

/** `timeline`, `steps`, `request`: rows of one allocator; `peak`: its row of allocators; `describe(snapshot)`: {row, data} or null. */
export class MemoryTimeline {
  constructor(element, options) {
    Object.assign(this, options);
    this.intervals = fromIntervals(this.timeline);
    this.view = this.intervals;
    this.time = scale(this.intervals.time, "ps");
    this.size = scale([...this.intervals.most, this.peak.peak_bytes], "bytes");
    this.box = h("div");
    this.note = h("p.sentence", { role: "status" }, this.stretchNote());
    element.append(this.box, this.note);
    this.plot = plot(this.box, this.spec(), {
      label: "Memory over time",
      height: 340,
      onclick: (at) => this.choose(this.view.place[at]),
      onzoom: (range) => this.look(range),
    });
  }

  get isStretched() {
    return this.intervals.count.some((one) => one > 1);
  }

  stretchNote() {
    if (!this.isStretched) return "";
    const all = this.intervals.count.reduce((sum, one) => sum + one, 0);
    return `${number(this.intervals.time.length)} intervals of ${
      number(all)
    } allocations and frees, each drawn at its maximum; zoom in for all.`;
  }

  spec() {
    const { view, time, size } = this;
    const isKnown = view.fragmentation.some((value) => value !== null);
    return {
      x: { title: `Time from the start of the host's capture, ${time.unit}`, values: view.time, divide: time.divide },
      y: { title: size.unit, divide: size.divide },
      y2: isKnown
        ? { title: "Fragmentation, %", divide: 0.01, range: [0, 1], ticks: [0, 0.25, 0.5, 0.75, 1], text: (share) =>
          String(100 * share) }
        : null,
      bands: [...this.stepBands(), ...this.fitBands()],
      series: this.series(view, isKnown),
      describe: (at) => this.describeAt(at),
    };
  }

  series(view, isKnown) {
    const { peak_bytes: most, capacity_bytes: capacity } = this.peak;
    const stacked = { kind: "area", stack: true, step: true, width: 0.8 };
    const line = { kind: "line", step: true };
    return [
      view.stack.some((value) => value > 0) && { ...stacked, name: "Stack", values: view.stack, colour: STACK },
      { ...stacked, name: "Heap", values: view.heap, colour: HEAP },
      view.least
      && { ...line, name: "Minimum of the interval", values: view.least, colour: "var(--line-strong)", width: 0.8 },
      { ...line, name: "In use", values: view.most, colour: HEAP, width: 1.4 },
      this.peak.peak_ps !== null
      && { kind: "dots", name: "Peak", symbol: "diamond", colour: "#f0882e", x: [this.peak.peak_ps],
        values: [this.peak.peak_bytes], sizes: [12] },
      capacity !== null && most > 0.6 * capacity
      && { kind: "line", name: `Capacity, ${text(capacity, "bytes")}`, values: view.time.map(() => capacity),
        colour: "var(--text)", width: 1, dash: "8 4" },
      isKnown
      && { kind: "line", name: "Fragmentation", axis: "y2", values: view.fragmentation, colour: BAD, width: 1,
        dash: "2 3" },
    ].filter(Boolean);
  }

  describeAt(at) {
    const { most, time, stack, heap, free, fragmentation, count, least } = this.view;
    const share = fragmentation[at] === null ? "" : `, fragmentation ${text(fragmentation[at], "share")}`;
    return [
      `${text(most[at], "bytes")} in use at ${text(time[at], "ps")}`,
      stack[at] ? `stack ${text(stack[at], "bytes")}, heap ${text(heap[at], "bytes")}` : null,
      free[at] === null ? null : `free ${text(free[at], "bytes")}${share}`,
      count[at] > 1 ? `${number(count[at])} allocations and frees, at least ${text(least[at], "bytes")} in use` : null,
    ];
  }

  /** Every other step as a band, where there are not too many of them. */
  stepBands() {
    if (this.steps.length > 200) return [];
    return bandsOf(this.steps, (row) => (row % 2 ? null : "rgb(127 140 160 / 10%)"));
  }

  fitBands() {
    return bandsOf(this.request, (row) => FITS[this.request.value(row, "fits")]);
  }

  /** The snapshot of a place, which is a row of the table snapshots. */
  async choose(place) {
    this.describe(await wholeRow(this.context, "snapshots", place));
  }

  /** Where the view has few snapshots, each of them. */
  async look(range) {
    if (!this.isStretched || this.context.saved) return;
    const [from, to] = range ?? [-Infinity, Infinity];
    const duration = this.timeline.column("duration_ps");
    const rows = this.intervals.time.map((_, row) => row).filter((row) =>
      this.intervals.time[row] + duration[row] >= from && this.intervals.time[row] <= to
    );
    const count = rows.reduce((sum, row) => sum + this.intervals.count[row], 0);
    if (!rows.length) return;
    if (count > CLOSE) {
      this.showView(this.intervals, this.stretchNote());
      return;
    }
    const first = this.timeline.value(rows[0], "first_snapshot");
    const snapshots = await tablePart(this.context, "snapshots", { columns: COLUMNS, first, rows: count });
    this.showView(fromSnapshots(snapshots, first), `${number(count)} allocations and frees.`);
  }

  showView(view, note) {
    if (this.view === view) return;
    this.view = view;
    this.note.textContent = note;
    this.plot.update(this.spec());
  }
}

function bandsOf(data, colour) {
  const rows = Array.from({ length: Math.min(data.length, MOST_BANDS) }, (_, row) => row).filter(colour);
  return rows.map((row) => {
    const from = data.value(row, "start_ps");
    return { from, to: from + data.value(row, "duration_ps"), colour: colour(row) };
  });
}

function fromIntervals(data) {
  const count = data.column("snapshot_count");
  const time = data.column("most_ps");
  return { ...shared(data), time: time.includes(null) ? data.column("start_ps") : time,
    most: data.column("most_in_use_bytes"),
    least: count.some((one) => one > 1) ? data.column("least_in_use_bytes") : null, count,
    place: data.column("first_snapshot") };
}

function fromSnapshots(data, first) {
  const time = data.column("start_ps");
  return { ...shared(data), time, most: data.column("in_use_bytes"), least: null, count: time.map(() => 1),
    place: time.map((_, row) => first + row) };
}

function shared(data) {
  return { stack: data.column("stack_bytes"), heap: data.column("heap_bytes"), free: data.column("free_bytes"),
    fragmentation: data.column("fragmentation") };
}
