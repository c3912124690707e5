// Where the time of a run goes, by cause: step by step, and all of it.

import { columns, panel } from "../cards.js";
import { pie } from "../charts/ring.js";
import { stepTime } from "../charts/step_charts.js";
import { coloursOf } from "../colours.js";
import { tableOf } from "../report.js";
import { asked } from "../report_page.js";
import { label } from "../units.js";

/** Charts of the time of the mean device by cause, from the report gaps; none if a saved report lacks that. */
export async function causeCharts(body, context) {
  const analysis = context.analyses.find(({ name }) => name === "gaps");
  if (!analysis) return;
  const [bySteps, all] = [
    panel("Step time by cause", "Of the mean device."),
    panel("Where the run goes", "Of the mean device, between steps too."),
  ];
  const box = columns(body, bySteps, all);
  box.classList.add("columns-steps");
  bySteps.body.classList.add("shade", "shade-steps");
  const report = await context.source.report("gaps", asked(analysis, context), context.signal);
  bySteps.body.classList.remove("shade", "shade-steps");
  if (context.signal.aborted) return;
  const spent = timeByCause(report.tables.by_step, report.tables.devices.length);
  if (!spent.length) {
    box.remove();
    return;
  }
  const inSteps = spent.where((row) => spent.value(row, "step") !== null);
  if (inSteps.length) stepTime(bySteps.body, inSteps, "cause");
  else bySteps.remove();
  const parts = [...spent.groupBy("cause")]; // those of steps first, in the order of the other chart, for its colours
  const colours = coloursOf(parts.map(([cause]) => cause));
  const slices = parts.map(([cause, rows], at) => ({ name: label(cause), value: spent.sum("time_ps", rows),
    colour: colours[at] })
  );
  pie(all.body, slices.sort((one, other) => other.value - one.value), { unit: "ps", label: "Time of the run by cause",
    height: 260 });
}

/** Rows with step, cause and time_ps: sums over devices, divided by their number. Compute is a cause like others. */
function timeByCause(data, devices) {
  const sums = new Map();
  for (let row = 0; row < data.length; row += 1) {
    const [step, cause] = [data.value(row, "step"), data.value(row, "cause") ?? data.value(row, "kind")];
    const key = `${step} ${cause}`;
    const one = sums.get(key) ?? { step, cause, time: 0 };
    one.time += data.value(row, "time_ps") / devices;
    sums.set(key, one);
  }
  const rows = [...sums.values()].sort((one, other) => (one.step ?? Infinity) - (other.step ?? Infinity));
  return tableOf("time_by_cause", [
    { name: "step", type: "int64", values: rows.map(({ step }) => step) },
    { name: "cause", values: rows.map(({ cause }) => cause) },
    { name: "time_ps", unit: "ps", values: rows.map(({ time }) => time) },
  ]);
}
