// How much of each step waits for input, and which input ops take the time.

import { columns, panel, section, sentence } from "../cards.js";
import { bars } from "../charts/bar_list.js";
import { inputWaits, stepShares, stepTime } from "../charts/step_charts.js";
import { h } from "../dom.js";
import { reportPage, tableSection } from "../report_page.js";
import { text } from "../units.js";

export const show = reportPage(draw);

const CAUSES = ["#4c78c8", "#d9534f", "#f0882e", "#8d6fc4", "#6d7a8d"];

function draw(body, report, context) {
  device(body, report, context);
  host(body, report, context);
}

function device(body, report, context) {
  const { steps, step_breakdown: breakdown, breakdown: means } = report.tables;
  const part = section(body, "Device side: step time");
  if (!steps.length) {
    sentence(part, "The capture has no steps, so step time is unknown.");
    return;
  }
  const [time, shares, waits] = [
    panel("Step time by category"),
    panel("Mean step time by category"),
    panel("Input wait, in percent of step time", "Over the cores of each step."),
  ];
  columns(part, time, shares).classList.add("columns-steps");
  stepTime(time.body, breakdown);
  stepShares(shares.body, means);
  if (steps.length > 1) {
    part.append(waits);
    inputWaits(waits.body, steps);
  }
  tableSection(context, body, "steps", steps);
}

function host(body, report, context) {
  const { input_time: causes, input_ops: ops } = report.tables;
  const part = section(body, "Host side: input time");
  if (!ops.length && !causes.sum("time_ps")) {
    sentence(part, "The capture has no host input ops.");
    return;
  }
  const [chart, advice] = [
    panel("Input time by kind of work"),
    panel("What to do about it"),
  ];
  columns(part, chart, advice);
  const values = causes.column("time_ps");
  bars(chart.body, { names: causes.column("kind"), values, unit: "ps", colours: CAUSES, height: 240,
    label: "Input time by kind" });
  const worst = causes.rows().filter((row) => row.time_ps > 0).sort((one, other) => other.time_ps - one.time_ps);
  advice.body.append(
    h("ul", ...worst.map((row) => h("li", h("b", row.kind), ` (${text(row.share, "share")}): ${row.advice}`))),
  );
  tableSection(context, body, "input_ops", ops, { filters: ["category"] });
}
