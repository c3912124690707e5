// What series look like: lines and areas, bars, dots, as elements of SVG.

import { svg } from "../dom.js";

/** For each stacked series what lies below it, place by place. */
export function stackedBases(series) {
  const bases = new Map();
  let below = null;
  for (const one of series.filter(({ stack }) => stack)) {
    const base = below ?? Array(one.values.length).fill(0);
    bases.set(one, base);
    below = base.map((value, at) => value + (one.values[at] ?? 0));
  }
  return bases;
}

export function barsOf({ values, colour }, base, { x, y, places, band }) {
  const wide = band * (band > 6 ? 0.84 : 1);
  const bars = values.map((value, at) => {
    if (!(value > 0)) return null;
    const low = base?.[at] ?? 0;
    const top = y.at(low + value);
    return svg("rect", { x: x.at(places[at]) - wide / 2, y: top, width: Math.max(wide, 0.5),
      height: Math.max(y.at(low) - top, 0.5) });
  });
  return svg("g", { fill: colour }, bars);
}

export function dotsOf({ values, x: across, sizes, colour, symbol }, _, { x, y }) {
  const dots = values.map((value, at) => {
    const [cx, cy, r] = [x.at(across[at]), y.at(value), (sizes?.[at] ?? 8) / 2];
    if (symbol === "diamond") return svg("path", { d: `M${cx} ${cy - r}l${r} ${r}l${-r} ${r}l${-r} ${-r}z` });
    return svg("circle", { cx, cy, r });
  });
  return svg("g.chart-dots", { fill: colour }, dots);
}

/** A line, with an area down to what lies below it where its kind is "area". Unknown values leave a gap. */
export function linesOf({ kind, values, colour, step, dash, width, marked }, base, { x, y, bottom, places }) {
  const parts = [];
  for (const run of runsOf(values)) {
    const top = pathOf(run.map((at) => [x.at(places[at]), y.at(values[at] + (base?.[at] ?? 0))]), step);
    if (kind === "area") {
      const floor = run.map((at) => [x.at(places[at]), base ? y.at(base[at]) : bottom]).reverse();
      const under = pathOf(floor, step, true).replace("M", "L");
      parts.push(svg("path.chart-fill", { d: `${top}${under}Z`, fill: colour }));
    }
    parts.push(
      svg("path.chart-line", { d: top, stroke: colour, "stroke-width": width ?? 1.6,
        "stroke-dasharray": dash ?? null }),
    );
    const dots = run.length === 1 || marked ? run : [];
    for (const at of dots)
      parts.push(svg("circle", { cx: x.at(places[at]), cy: y.at(values[at]), r: 3, fill: colour }));
  }
  return parts;
}

/** Stretches of places whose values are known. */
function runsOf(values) {
  const runs = [];
  values.forEach((value, at) => {
    if (value === null || value === undefined || Number.isNaN(value)) return;
    if (at > 0 && runs.at(-1)?.at(-1) === at - 1) runs.at(-1).push(at);
    else runs.push([at]);
  });
  return runs;
}

/** A path through points; `step`: a value holds up to the next one, `back`: the points come from the right. */
function pathOf(points, step, back = false) {
  const round = (value) => Math.round(value * 100) / 100;
  return points.map(([x, y], at) => {
    if (at === 0) return `M${round(x)} ${round(y)}`;
    if (!step) return `L${round(x)} ${round(y)}`;
    return back ? `V${round(y)}H${round(x)}` : `H${round(x)}V${round(y)}`;
  }).join("");
}
