// Charts of step time, as several pages show them.

import { CATEGORY, coloursOf } from "../colours.js";
import { label } from "../units.js";
import { pie } from "./ring.js";
import { lines, stacked } from "./series.js";

const MOST_BARS = 300;

/** Step time by category, a bar a step: from the table step_breakdown of the input pipeline. */
export function stepTime(element, breakdown, { onclick } = {}) {
  const steps = breakdown.groupBy("step");
  const categories = [...breakdown.groupBy("category").keys()];
  const place = new Map([...steps.keys()].map((step, at) => [step, at]));
  const colours = coloursOf(categories);
  const series = categories.map((name, at) => ({ name: label(name), key: name, colour: colours[at],
    values: Array(steps.size).fill(null) })
  );
  const byName = new Map(series.map((one) => [one.key, one]));
  for (let row = 0; row < breakdown.length; row += 1) {
    byName.get(breakdown.value(row, "category")).values[place.get(breakdown.value(row, "step"))] = breakdown.value(row,
      "time_ps");
  }
  const shown = series.filter((one) => one.values.some((value) => value > 0)).sort(firstCompute);
  return stacked(element, { x: [...steps.keys()].map((step) => (step === null ? "–" : String(step))), xTitle: "Step",
    series: shown, unit: "ps", kind: steps.size > MOST_BARS ? "area" : "bars",
    label: "Step time by category, step by step", onclick: onclick && ((at) => onclick([...steps.keys()][at])) });
}

/** A ring of what the mean step is made of: from a table breakdown. */
export function stepShares(element, breakdown) {
  const colours = coloursOf(breakdown.column("category"));
  const slices = breakdown.rows().map(({ category, mean_ps }, at) => ({ name: label(category), value: mean_ps,
    colour: colours[at] })
  );
  return pie(element, slices, { unit: "ps", label: "Mean step time by category", height: 260 });
}

/** The part of each step in which cores wait for input: mean, and from the least to the most of all cores. */
export function inputWaits(element, steps) {
  const of = (name) => steps.column(name);
  const ranged = steps.has("least_input_share") && of("least_input_share").some((value) => value !== null);
  const series = [{ name: "Mean of cores", values: of("input_share"), colour: CATEGORY.input }];
  if (ranged) {
    series.push({ name: "Least of cores", values: of("least_input_share"), colour: "#9aa6b5", dash: "dot" }, {
      name: "Most of cores",
      values: of("most_input_share"),
      colour: "#9aa6b5",
      dash: "dash",
    });
  }
  return lines(element, { x: of("step"), series, unit: "share", xTitle: "Step",
    label: "Share of step time that waits for input" });
}

/** Compute at the bottom, then the rest, the largest first. */
function firstCompute(one, other) {
  const rank = (
    { key, values },
  ) => (/compute/.test(key) ? 2 ** 62 : values.reduce((sum, value) => sum + (value ?? 0), 0));
  return rank(other) - rank(one);
}
