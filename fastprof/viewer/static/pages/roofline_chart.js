// The drawing of a roofline: lines of the peaks, and dots beneath them, both axes by decades.

import { sentence } from "../cards.js";
import { plot } from "../charts/plot.js";
import { palette } from "../colours.js";
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
export function drawRoofline(element, data, { device, memory, name, group, weight, onclick }) {
  const across = data.column(`flops_per_${memory}_byte`);
  const up = data.column("flops_per_s");
  const reached = data.column("roofline_percent");
  const { shown, all, unknown } = dots(across, up, reached, weight);
  if (!all) {
    sentence(element, "No row has both recorded arithmetic and recorded bytes of this memory, so there are no dots.");
    return;
  }
  const places = shown.map((row) => ({ row, x: across[row], y: up[row], group: group(row) ?? UNKNOWN,
    weight: weight[row] })
  );
  const describe = ({ row, x, y, weight: time }) => [
    name(row),
    group(row),
    text(time, "ps"),
    `${text(y, "flop/s")}, ${number(x)} operations per byte`,
    reached[row] === null
      ? null
      : `${text(reached[row], "%")} of the roofline, bound by ${data.value(row, "bound_by") ?? "?"}`,
  ];
  plot(element, {
    isDots: true,
    x: { log: true, title: `Operations per byte of ${RESOURCES[memory]}` },
    y: { log: true, title: "FLOP/s", text: (value) => text(value, "flop/s").replace("FLOP/s", "") },
    series: [...roofs(places, device, memory), ...groups(places)],
    describe: (at, series) => describe(series.places[at]),
  }, { label: "Roofline: operations per second over operations per byte", height: 460, onclick });
  if (shown.length < all)
    sentence(element, `The ${number(shown.length)} longest are drawn, of ${number(all)}.`);
  if (unknown) {
    const some = unknown === 1
      ? "1 has no dot: it starts or awaits"
      : `${number(unknown)} have no dot: they start or await`;
    sentence(element,
      `${some} transfers and collectives, or contain the ops that do the work. Their own time is not the time of the `
        + `work.`);
  }
}

/** Rows with a place in the drawing, most time first, as many as can be drawn. */
function dots(across, up, reached, weight) {
  const isKnown = reached.some((percent) => percent !== null);
  const placed = Array.from(across.keys()).filter((row) => across[row] > 0 && up[row] > 0);
  const rows = placed.filter((row) => !isKnown || reached[row] !== null);
  rows.sort((one, other) => weight[other] - weight[one]);
  return { shown: rows.slice(0, MOST_DOTS), all: rows.length, unknown: placed.length - rows.length };
}

/** The lines of the memories, each up to the peak of arithmetic, over the range of the dots and the ridges. */
function roofs(places, device, memory) {
  const peakOf = new Map(device.rows().map(({ resource, peak }) => [resource, peak]));
  const top = peakOf.get("Compute");
  if (!top) return [];
  const peaks = Object.entries(RESOURCES).map(([name, resource]) => [name, resource, peakOf.get(resource)]).filter((
    [, , peak],
  ) => peak);
  if (!peaks.length) peaks.push([memory, "Arithmetic", Infinity]);
  const ridges = peaks.map(([, , peak]) => top / peak).filter((ridge) => ridge > 0);
  const reached = [...places.map(({ x }) => x), ...ridges];
  const [from, to] = [Math.min(...reached) / 3, Math.max(...reached) * 5];
  return peaks.map(([name, resource, peak]) => {
    const x = [from, Math.max(from, top / peak), to];
    const chosen = name === memory;
    return { name: resource, kind: "line", x, values: x.map((at) => Math.min(top, at * peak)), width: chosen ? 2 : 1,
      colour: chosen ? "#d9534f" : "#98a0ab", dash: chosen ? null : "2 3" };
  });
}

/** A series of dots for each group. */
function groups(places) {
  const most = Math.max(...places.map(({ weight }) => weight), 1);
  const shade = palette(places.map(({ group }) => group), places.map(({ weight }) => weight));
  return [...Map.groupBy(places, ({ group }) => group)].map(([name, own]) => ({
    name,
    kind: "dots",
    places: own,
    keys: own.map(({ row }) => row),
    colour: shade(name),
    x: own.map(({ x }) => x),
    values: own.map(({ y }) => y),
    sizes: own.map(({ weight }) => 6 + 26 * Math.sqrt(weight / most)),
  }));
}
