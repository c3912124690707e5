// Where the time of a run goes, by cause: step by step, and all of it.

import { columns, panel } from "../cards.js";
import { bars } from "../charts/bar_list.js";
import { stepTime } from "../charts/step_charts.js";
import { coloursOf } from "../colours.js";
import { tableOf } from "../report.js";
import { text } from "../units.js";

const LEAST_SHARE = 0.0005;

/** Charts of the time of the mean device by cause. `report`: gaps; `nameOf(cause)`: in words. */
export function causeCharts(body, report, nameOf) {
  const spent = timeByCause(report.tables.by_step, report.tables.devices.length);
  if (!spent.length) return;
  const [bySteps, all] = [
    panel("Step time by cause", "Device average."),
    panel("Run time by cause", "Device average, including time between steps."),
  ];
  columns(body, bySteps, all).classList.add("columns-steps");
  const inSteps = spent.where((row) => spent.value(row, "step") !== null);
  if (inSteps.length) stepTime(bySteps.body, inSteps, "cause", { height: 240, nameOf });
  else bySteps.remove();
  const parts = [...spent.groupBy("cause")]; // those of steps first, in the order of the other chart, for its colours
  const colours = coloursOf(parts.map(([cause]) => cause));
  const run = spent.sum("time_ps");
  const timed = parts.map(([cause, of], at) => ({ cause, time: spent.sum("time_ps", of), colour: colours[at] }));
  const rows = timed.filter((one) => one.time / run >= LEAST_SHARE).sort((one, other) => other.time - one.time);
  bars(all.body, { names: rows.map(({ cause }) => nameOf(cause)), values: rows.map(({ time }) => time / run),
    unit: "share", colours: rows.map((row) => row.colour), label: "Run time by cause",
    titles: rows.map(({ cause, time }) => `${nameOf(cause)}, ${text(time, "ps")}`) });
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
