// Charts of step time, as several pages show them.

import { CATEGORY, coloursOf } from "../colours.js";
import { label } from "../units.js";
import { pie } from "./ring.js";
import { lines, stacked } from "./series.js";

const MOST_BARS = 300;

/** The parts of each step, a bar per step. `data`: rows with step, time_ps and, in the column `by`, the part. */
export function stepTime(element, data, by = "category", { height, nameOf = label } = {}) {
  const steps = [...data.groupBy("step").keys()];
  const place = new Map(steps.map((step, at) => [step, at]));
  const parts = [...data.groupBy(by)];
  const colours = coloursOf(parts.map(([name]) => name.toLowerCase()));
  const series = parts.map(([name, rows], at) => {
    const values = Array(steps.length).fill(null);
    for (const row of rows) values[place.get(data.value(row, "step"))] = data.value(row, "time_ps");
    return { name: nameOf(name.toLowerCase()), colour: colours[at], values };
  });
  stacked(element, { x: steps.map((step) => (step === null ? "–" : String(step))), xTitle: "Step",
    series: series.filter((one) => one.values.some((value) => value > 0)).sort(computeFirst), unit: "ps",
    kind: steps.length > MOST_BARS ? "area" : "bars", height, label: `Step time by ${by}, step by step` });
}

/** A ring of the parts of the mean step: from a table breakdown. */
export function stepShares(element, breakdown) {
  const colours = coloursOf(breakdown.column("category"));
  const slices = breakdown.rows().map(({ category, mean_ps }, at) => ({ name: label(category), value: mean_ps,
    colour: colours[at] })
  );
  pie(element, slices, { unit: "ps", label: "Mean step time by category", height: 260 });
}

/** The share of each step in which cores wait for input: the mean, the least and the most of all cores. */
export function inputWaits(element, steps) {
  const ranges = [
    { name: "Least of cores", values: steps.column("least_input_share"), colour: "#9aa6b5", dash: "dot" },
    { name: "Most of cores", values: steps.column("most_input_share"), colour: "#9aa6b5", dash: "dash" },
  ];
  const mean = { name: "Mean of cores", values: steps.column("input_share"), colour: CATEGORY.input };
  lines(element, { x: steps.column("step"), series: [mean, ...(steps.isRecorded("least_input_share") ? ranges : [])],
    unit: "share", xTitle: "Step", label: "Share of step time waiting for input" });
}

/** Compute at the bottom, then the rest, the largest first. */
function computeFirst(one, other) {
  const rank = ({ name, values }) =>
    /^(device )?compute/i.test(name) ? 2 ** 62 : values.reduce((sum, value) => sum + (value ?? 0), 0);
  return rank(other) - rank(one);
}
