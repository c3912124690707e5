// The drawing of a roofline: lines of the peaks, and dots beneath them, both axes by decades.

import { sentence } from "../cards.js";
import { palette } from "../charts/palette.js";
import { Plot } from "../charts/plot.js";
import { number, text } from "../units.js";

const MOST_DOTS = 2_000;
const UNKNOWN = "not known";
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
    this.across = data.column(`flops_per_${memory}_byte`);
    this.up = data.column("flops_per_s");
    const rows = this.dots();
    if (!rows.all) {
      sentence(element, "No row has both its arithmetic and its bytes of this memory recorded, so there are no dots.");
      return;
    }
    this.plot = new Plot(element, {
      isDots: true,
      x: { log: true, title: `Operations a byte of ${RESOURCES[memory]}` },
      y: { log: true, title: "FLOP/s", text: (value) => text(value, "flop/s").replace("FLOP/s", "") },
      series: [...this.roofs(rows.shown), ...this.groups(rows.shown)],
      describe: (at, series) => this.describe(series.keys[at]),
    }, { label: "Roofline: operations a second over operations a byte", height: 460, onclick });
    if (rows.shown.length < rows.all) {
      sentence(element, `The ${number(rows.shown.length)} that take most time are drawn, of ${number(rows.all)}.`);
    }
    if (rows.unknown) {
      const some = rows.unknown === 1
        ? "1 has no dot: it starts or awaits"
        : `${number(rows.unknown)} have no dot: they start or await`;
      sentence(element,
        `${some} transfers and collectives, or do the work of ops within. Their own time is not that of the work.`);
    }
  }

  /** Rows with a place in the drawing, most time first, as many as can be drawn. */
  dots() {
    const reached = this.data.column("roofline_percent");
    const isKnown = reached.some((percent) => percent !== null);
    const placed = Array.from(this.across.keys()).filter((row) => this.across[row] > 0 && this.up[row] > 0);
    const rows = placed.filter((row) => !isKnown || reached[row] !== null);
    rows.sort((one, other) => this.weight[other] - this.weight[one]);
    return { shown: rows.slice(0, MOST_DOTS), all: rows.length, unknown: placed.length - rows.length };
  }

  peak(resource) {
    const row = this.device.column("resource").indexOf(resource);
    return row < 0 ? null : this.device.value(row, "peak");
  }

  /** The lines of the memories, each up to the peak of arithmetic, over the range of the dots and the ridges. */
  roofs(rows) {
    const top = this.peak("Compute");
    if (!top) return [];
    const peaks = Object.entries(RESOURCES).map(([memory, resource]) => [memory, resource, this.peak(resource)]).filter(
      ([, , peak]) => peak
    );
    if (!peaks.length) peaks.push([this.memory, "Arithmetic", Infinity]);
    const ridges = peaks.map(([, , peak]) => top / peak).filter((ridge) => ridge > 0);
    const reached = [...rows.map((row) => this.across[row]), ...ridges];
    const [from, to] = [Math.min(...reached) / 3, Math.max(...reached) * 5];
    return peaks.map(([memory, resource, peak]) => {
      const x = [from, Math.max(from, top / peak), to];
      const chosen = memory === this.memory;
      return { name: resource, kind: "line", x, values: x.map((at) => Math.min(top, at * peak)), width: chosen ? 2 : 1,
        colour: chosen ? "#d9534f" : "#98a0ab", dash: chosen ? null : "2 3" };
    });
  }

  groups(rows) {
    const most = Math.max(...rows.map((row) => this.weight[row]), 1);
    const of = (row) => this.group(row) ?? UNKNOWN;
    const shade = palette(rows.map(of), rows.map((row) => this.weight[row]));
    return [...Map.groupBy(rows, of)].map(([name, keys]) => ({
      name,
      kind: "dots",
      keys,
      colour: shade(name),
      x: keys.map((row) => this.across[row]),
      values: keys.map((row) => this.up[row]),
      sizes: keys.map((row) => 6 + 26 * Math.sqrt(this.weight[row] / most)),
    }));
  }

  describe(row) {
    const reached = this.data.value(row, "roofline_percent");
    return [
      this.name(row),
      this.group(row),
      text(this.weight[row], "ps"),
      `${text(this.up[row], "flop/s")}, ${number(this.across[row])} operations a byte`,
      reached === null
        ? null
        : `${text(reached, "%")} of the roofline, bound by ${this.data.value(row, "bound_by") ?? "?"}`,
    ];
  }

  leave() {
    this.plot?.leave();
  }
}
