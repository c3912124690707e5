// The drawing of a roofline: lines of the peaks, and dots beneath them, both axes by decades.

import { chart, plain } from "../chart.js";
import { h } from "../dom.js";
import { number, text } from "../units.js";
import { palette } from "./palette.js";

const MOST_DOTS = 2_000;
const POINTS = 60;
const DECADES = Array.from({ length: 21 }, (_, power) => 10 ** power);
const RESOURCES = {
  hbm: "HBM",
  cmem_read: "CMEM Read",
  cmem_write: "CMEM Write",
  vmem_read: "VMEM Read",
  vmem_write: "VMEM Write",
};

/**
 * Dots of the rows of `data` over operations by byte of `memory`. `name(row)`, `group(row)`; `weight`: by row, what areas
 * are made of; `onclick(row)`.
 */
export class RooflineChart {
  constructor(element, data, { device, memory, name, group, weight, onclick }) {
    Object.assign(this, { data, device, memory, name, group, weight });
    const rows = this.dots();
    const box = h("div.roofline");
    element.append(box);
    if (!rows.all) {
      element.append(
        h("p.sentence",
          "Of none of them both arithmetic and bytes of this memory are known, so that there are no dots."),
      );
      return;
    }
    if (rows.kept.length < rows.all) {
      element.append(
        h("p.sentence", `Drawn are the ${number(rows.kept.length)} that take most time, of ${number(rows.all)}.`),
      );
    }
    if (rows.untold) {
      const some = rows.untold === 1
        ? "1 has no dot: it starts or awaits"
        : `${number(rows.untold)} have no dot: they start or await`;
      element.append(
        h("p.sentence",
          `${some} transfers and collectives, or do the work of ops within. Their own time is not that of the work.`),
      );
    }
    this.drawn = chart(box, [...this.roofs(rows.kept), ...this.traces(rows.kept)], this.layout(), {
      label: "Roofline: operations a second over operations a byte",
      height: 460,
      onclick: (point) => Number.isInteger(point.customdata) && onclick(point.customdata),
    });
  }

  /** Rows with a place in the drawing, most time first, as many as can be drawn. */
  dots() {
    const across = this.data.column(`flops_per_${this.memory}_byte`);
    const up = this.data.column("flops_per_s");
    const reached = this.data.column("roofline_percent");
    const isKnown = reached.some((percent) => percent !== null);
    const rows = [];
    let untold = 0;
    for (let row = 0; row < this.data.length; row += 1) {
      if (!(across[row] > 0 && up[row] > 0)) continue;
      if (isKnown && reached[row] === null) untold += 1;
      else rows.push(row);
    }
    rows.sort((one, other) => this.weight[other] - this.weight[one]);
    return { kept: rows.slice(0, MOST_DOTS), all: rows.length, untold };
  }

  peak(resource) {
    const row = this.device.column("resource").indexOf(resource);
    return row < 0 ? null : this.device.value(row, "peak");
  }

  /** The lines of the memories, each up to the peak of arithmetic, over the range of the dots and the ridges. */
  roofs(rows) {
    const top = this.peak("Compute");
    if (!top) return [];
    const across = rows.map((row) => this.data.value(row, `flops_per_${this.memory}_byte`));
    const lines = Object.entries(RESOURCES).map(([memory, resource]) => [
      memory,
      resource,
      this.peak(resource),
    ]).filter(([, , peak]) => peak);
    const ridges = lines.map(([, , peak]) => top / peak);
    const from = Math.log10(Math.min(...across, ...ridges)) - 0.5;
    const to = Math.log10(Math.max(...across, ...ridges)) + 0.7;
    const ordered = [...lines].sort(([one], [other]) => (one === this.memory) - (other === this.memory));
    const found = ordered.map(([memory, resource, peak]) =>
      roof({ resource, peak, top, from, to, chosen: memory === this.memory })
    );
    if (!lines.length) found.push(roof({ resource: "Arithmetic", peak: Infinity, top, from, to, chosen: true }));
    return found;
  }

  traces(rows) {
    const most = Math.max(...rows.map((row) => this.weight[row]), 1);
    const groups = new Map();
    const shade = palette(rows.map((row) => this.group(row) ?? "not known"), rows.map((row) => this.weight[row]));
    for (const row of rows) {
      const name = this.group(row) ?? "not known";
      if (groups.has(name)) groups.get(name).push(row);
      else groups.set(name, [row]);
    }
    return [...groups].map(([name, of]) => ({ type: "scatter", mode: "markers", name: plain(name, 32),
      x: of.map((row) => this.data.value(row, `flops_per_${this.memory}_byte`)),
      y: of.map((row) => this.data.value(row, "flops_per_s")), customdata: of, text: of.map((row) => this.told(row)),
      hovertemplate: "%{text}<extra></extra>",
      marker: { color: shade(name), opacity: 0.72, line: { width: 0.5, color: "rgba(0,0,0,.45)" },
        size: of.map((row) => 6 + 26 * Math.sqrt(this.weight[row] / most)) } })
    );
  }

  told(row) {
    const { data } = this;
    const value = (column) => data.value(row, column);
    return [
      `<b>${plain(this.name(row), 80)}</b>`,
      plain(this.group(row) ?? ""),
      text(this.weight[row], "ps"),
      `${text(value("flops_per_s"), "flop/s")}, ${number(value(`flops_per_${this.memory}_byte`))} operations a byte`,
      value("roofline_percent") === null
        ? ""
        : `${text(value("roofline_percent"), "%")} of the roofline, bound by ${plain(value("bound_by") ?? "?")}`,
    ].filter(Boolean).join("<br>");
  }

  layout() {
    const decades = { type: "log", dtick: 1, exponentformat: "power", showexponent: "all" };
    return { hovermode: "closest", margin: { t: 16, r: 12 },
      xaxis: { ...decades, title: { text: `Operations a byte of ${RESOURCES[this.memory]}` } },
      yaxis: { type: "log", title: { text: "FLOP/s" }, tickvals: DECADES,
        ticktext: DECADES.map((value) => text(value, "flop/s").replace("FLOP/s", "")) },
      legend: { orientation: "h", y: 1.02, yanchor: "bottom" } };
  }

  leave() {
    this.drawn?.then((one) => one.leave());
  }
}

function roof({ resource, peak, top, from, to, chosen }) {
  const ridge = Number.isFinite(peak) ? Math.log10(top / peak) : from;
  const places = Array.from({ length: POINTS }, (_, at) => from + ((to - from) * at) / (POINTS - 1));
  const x = [...places, ridge].sort((one, other) => one - other).map((at) => 10 ** at);
  const told = `${resource}: ${Number.isFinite(peak) ? `${text(peak, "bytes/s")}, ` : ""}${text(top, "flop/s")} from ${
    number(10 ** ridge)
  } operations a byte on`;
  return { type: "scatter", mode: "lines", name: plain(resource), x, y: x.map((at) => Math.min(top, at * peak)),
    text: x.map(() => plain(told, 200)), hovertemplate: "%{text}<extra></extra>",
    line: { color: chosen ? "#d9534f" : "#98a0ab", width: chosen ? 2 : 1, dash: chosen ? "solid" : "dot" } };
}
