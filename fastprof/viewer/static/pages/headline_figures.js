// The figures that the first page begins with: of steps, devices, input, communication, memory and arithmetic.

import { cardRow } from "../cards.js";
import { h } from "../dom.js";
import { number, text } from "../units.js";

/** Appends the figures of the reports that have them; those that are unknown say why. */
export function headlineFigures(element, report, { diagnosis, gaps, memory_profile: memory, roofline }) {
  const row = h("div.first-cards");
  cardRow(row, [
    take(report, isKnown(report, "step_time_mean_ps") ? "step_time_mean_ps" : "window_ps", "Step time", spread(report)),
    take(report, "duty_cycle_percent", "Device busy", phrase(report, "compute_share", "share", "$ computing")),
    input(report, diagnosis),
    exposed(gaps),
    take(memory, "peak_bytes", "Memory peak", capacity(memory)),
    take(report, "flops_utilization_percent", "FLOPs utilization",
      phrase(roofline, "peak_flops_per_s", "flop/s", "of $ per device")),
  ].filter(Boolean));
  if (row.children.length) element.append(row);
}

function isKnown(report, name) {
  return report.value(name) !== null;
}

/** A figure with a title and a note; null if the report lacks it. The run takes the place of steps that are unknown. */
function take(report, name, title, note) {
  const found = report?.scalars[name];
  return found ? { ...found, label: name === "window_ps" ? "Run" : title, note } : null;
}

/** A value in a sentence in place of "$"; null if it is unknown. */
function phrase(report, name, unit, words) {
  return report && isKnown(report, name) ? words.replace("$", text(report.value(name), unit)) : null;
}

/** The share of input; unknown if none was seen and the capture does not record what would show it. */
function input(report, diagnosis) {
  const found = take(report, "input_percent", "Input", "of step time");
  if (!found || found.value !== 0) return found;
  const examined = diagnosis?.tables.examined?.rows().find(({ cause }) => cause === "input");
  return examined?.reason ? { ...found, value: null, reason: examined.reason } : found;
}

/** The time in which devices communicate and do not compute; null if they do not communicate. */
function exposed(gaps) {
  if (!gaps?.value("communication_ps")) return null;
  const definition = "exposed communication time / device time, both summed over all devices";
  return { name: "exposed_communication", label: "Exposed communication", unit: "share", definition,
    value: gaps.value("communication_ps") / gaps.value("window_ps"), note: "of device time" };
}

function spread(report) {
  if (!isKnown(report, "step_time_mean_ps")) return null;
  const count = report.value("step_count");
  const steps = count === 1 ? "1 step" : `${number(count)} steps`;
  if (report.value("step_time_is_bound")) return `lower bound, ${steps}`;
  return [phrase(report, "step_time_stdev_ps", "ps", "± $"), steps].filter(Boolean).join(", ");
}

function capacity(memory) {
  if (!memory) return null;
  const share = phrase(memory, "peak_share", "share", "$ of ");
  return share ? share + text(memory.value("capacity_bytes"), "bytes") : "capacity not recorded";
}
