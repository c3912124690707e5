// How much of a heap is in use at each point of a program. Long programs are drawn by the most of each column of pixels.

import { chart, plain } from "../chart.js";
import { number, scale, text } from "../units.js";

const MOST_POINTS = 2_500;

/** `data`: rows of the table heap, of one allocation; `onpoint(row)`: of one that is clicked. */
export class HeapChart {
  constructor(element, data, { onpoint }) {
    this.data = data;
    this.rows = thinned(data.column("total_bytes"), MOST_POINTS);
    this.size = scale(data.column("total_bytes"), "bytes");
    this.element = element;
    this.drawn = chart(element, this.traces(), this.layout(), { label: "Memory in use over the program", height: 300,
      onclick: (point) => Number.isInteger(point.customdata) && onpoint(data.row(point.customdata)) });
    if (data.length > MOST_POINTS)
      this.drawn.then((one) => element.on?.("plotly_relayout", (event) => this.zoomed(one, event)));
  }

  /** Closer up, more of what is in sight is drawn. */
  zoomed(one, event) {
    const points = this.data.column("point");
    const [low, high] = event["xaxis.autorange"]
      ? [-Infinity, Infinity]
      : [event["xaxis.range[0]"], event["xaxis.range[1]"]].map(Number);
    if (Number.isNaN(low) || Number.isNaN(high)) return;
    const from = Math.max(0, points.findIndex((point) => point >= low) - 1);
    const after = points.findIndex((point) => point > high);
    const values = this.data.column("total_bytes").slice(from, after < 0 ? undefined : after + 1);
    this.rows = thinned(values, MOST_POINTS).map((row) => row + from);
    const layout = this.layout();
    if (Number.isFinite(low)) layout.xaxis.range = [low, high];
    one.update(this.traces(), layout);
  }

  traces() {
    const { data, rows, size } = this;
    const of = (name, map = (value) => value) => rows.map((row) => map(data.value(row, name), row));
    const x = of("point");
    const base = (row) => data.value(row, "total_bytes") - data.value(row, "heap_bytes");
    const hover = rows.map((row) =>
      [
        `<b>${text(data.value(row, "total_bytes"), "bytes")}</b> at point ${number(data.value(row, "point"))}`,
        plain(`${data.value(row, "event")} at ${data.value(row, "instruction") ?? "?"}`, 100),
        `heap ${text(data.value(row, "heap_bytes"), "bytes")}, without padding ${
          text(data.value(row, "unpadded_heap_bytes"), "bytes")
        }`,
      ].join("<br>")
    );
    const line = (name, y, more) => ({ type: "scatter", mode: "lines", name, x, y, hoverinfo: "skip", ...more });
    const most = rows.reduce(
      (best, row) => (data.value(row, "total_bytes") > data.value(best, "total_bytes") ? row : best),
      rows[0],
    );
    return [
      line("Lives throughout", rows.map((row) => base(row) / size.divide), { fill: "tozeroy", fillcolor: "#98a0ab40",
        line: { color: "#98a0ab", width: 1 } }),
      line("Without padding", rows.map((row) => (base(row) + data.value(row, "unpadded_heap_bytes")) / size.divide), {
        line: { color: "#3fa66b", width: 1.2, shape: "hv", dash: "dot" },
      }),
      line("In use", of("total_bytes", (value) => value / size.divide), { customdata: rows, text: hover,
        hoverinfo: "text", hovertemplate: "%{text}<extra></extra>", fill: "tonexty", fillcolor: "#f0882e22",
        line: { color: "#f0882e", width: 1.6, shape: "hv" } }),
      { type: "scatter", mode: "markers", name: "Peak", x: [data.value(most, "point")],
        y: [data.value(most, "total_bytes") / size.divide], customdata: [most], text: [hover[rows.indexOf(most)]],
        hovertemplate: "%{text}<extra></extra>", marker: { symbol: "diamond", size: 10, color: "#d9534f" } },
    ];
  }

  layout() {
    return { hovermode: "closest", margin: { t: 20 }, xaxis: { title: { text: "Point of the program" } },
      yaxis: { title: { text: this.size.unit }, rangemode: "tozero" },
      legend: { orientation: "h", y: 1.02, yanchor: "bottom" } };
  }

  leave() {
    this.drawn.then((one) => one.leave());
  }
}

/** Rows to draw: of each part of them the first, the least, the most and the last, so that no peak is lost. */
export function thinned(values, most) {
  if (values.length <= most) return Array.from(values.keys());
  const parts = Math.floor(most / 4);
  const kept = [];
  for (let part = 0; part < parts; part += 1) {
    const from = Math.floor((part * values.length) / parts);
    const to = Math.floor(((part + 1) * values.length) / parts);
    let [least, largest] = [from, from];
    for (let row = from; row < to; row += 1) {
      if (values[row] < values[least]) least = row;
      if (values[row] > values[largest]) largest = row;
    }
    kept.push(...[...new Set([from, least, largest, to - 1])].sort((one, other) => one - other));
  }
  return kept;
}
