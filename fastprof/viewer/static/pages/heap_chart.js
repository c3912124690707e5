// How much of a heap is in use at each point of a program. Long programs are drawn by the most of each column of pixels.

import { plot } from "../charts/plot.js";
import { number, scale, text } from "../units.js";

const MOST_POINTS = 2_500;

/** `data`: rows of the table heap, of one allocation; `onpoint(row)`: of one that is clicked. */
export class HeapChart {
  constructor(element, data, { onpoint }) {
    this.data = data;
    this.size = scale(data.column("total_bytes"), "bytes");
    this.rows = thinned(data.column("total_bytes"), MOST_POINTS);
    this.plot = plot(element, this.spec(), {
      label: "Memory in use over the program",
      height: 300,
      onclick: (at) => onpoint(data.row(this.rows[at] ?? this.peak)),
      onzoom: (range) => data.length > MOST_POINTS && this.look(range),
    });
  }

  /** Closer up, more of what is in sight is drawn. */
  look(range) {
    const [low, high] = range ?? [-Infinity, Infinity];
    const points = this.data.column("point");
    const from = Math.max(0, points.findIndex((point) => point >= low) - 1);
    const after = points.findIndex((point) => point > high);
    const values = this.data.column("total_bytes").slice(from, after < 0 ? undefined : after + 1);
    this.rows = thinned(values, MOST_POINTS).map((row) => row + from);
    this.plot.update(this.spec());
  }

  spec() {
    const { data, rows, size } = this;
    const value = (row, name) => data.value(row, name);
    const base = (row) => value(row, "total_bytes") - value(row, "heap_bytes");
    const total = data.column("total_bytes");
    this.peak = total.reduce((best, bytes, row) => (bytes > total[best] ? row : best), 0);
    const line = (name, of, more) => ({ name, kind: "line", values: rows.map(of), ...more });
    return {
      x: { title: "Point of the program", values: rows.map((row) => value(row, "point")), integers: true },
      y: { title: size.unit, divide: size.divide },
      series: [
        line("Lives throughout", base, { kind: "area", stack: true, colour: "#98a0ab", width: 1 }),
        line("In use", (row) => value(row, "heap_bytes"), { kind: "area", stack: true, colour: "#f0882e", step: true }),
        line("Without padding", (row) => base(row) + value(row, "unpadded_heap_bytes"), { colour: "#3fa66b", width: 1.2,
          dash: "2 3", step: true }),
        { name: "Peak", kind: "dots", symbol: "diamond", colour: "#d9534f", x: [value(this.peak, "point")],
          values: [total[this.peak]], sizes: [11] },
      ],
      describe: (at) => [
        `${text(total[rows[at]], "bytes")} at point ${number(value(rows[at], "point"))}`,
        `${value(rows[at], "event")} at ${value(rows[at], "instruction") ?? "?"}`,
        `heap ${text(value(rows[at], "heap_bytes"), "bytes")}, without padding ${
          text(value(rows[at], "unpadded_heap_bytes"), "bytes")
        }`,
      ],
    };
  }
}

/** Rows to draw: of each part of them the first, the least, the most and the last, so that no peak is lost. */
export function thinned(values, most) {
  if (values.length <= most) return Array.from(values.keys());
  const parts = Math.floor(most / 4);
  const rows = [];
  for (let part = 0; part < parts; part += 1) {
    const from = Math.floor((part * values.length) / parts);
    const to = Math.floor(((part + 1) * values.length) / parts);
    let [least, largest] = [from, from];
    for (let row = from; row < to; row += 1) {
      if (values[row] < values[least]) least = row;
      if (values[row] > values[largest]) largest = row;
    }
    rows.push(...[...new Set([from, least, largest, to - 1])].sort((one, other) => one - other));
  }
  return rows;
}
