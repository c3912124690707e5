// Every step on every host and core: how long it took, and what it spent it on.

import { columns, panel, section, sentence } from "../cards.js";
import { lines } from "../charts/series.js";
import { stepTime } from "../charts/step_charts.js";
import { picker } from "../controls.js";
import { list } from "../list.js";
import { reportPage, reportTable, tableSection } from "../report_page.js";
import { CoreMap } from "./core_map.js";
import { timelineButton } from "./details.js";

export const show = reportPage(draw);

const MOST_CORES = 24;
const MOST_CELLS = 400_000;
const OUT_OF_LINE = list("step, host, duration_ps, median_ps, kind, what, usual_ps, difference_ps");

function draw(body, report, context) {
  const { steps, breakdown } = report.tables;
  if (!steps.length) {
    sentence(body, "The capture has no steps.");
    return;
  }
  const cores = coresOf(steps);
  const numbers = [...new Set(steps.column("step"))].filter((step) => step !== null).sort((one, other) => one - other);
  durations(body, steps, cores, numbers);
  if (cores.length > 2 && numbers.length > 1 && steps.length <= MOST_CELLS)
    everyCore(body, steps, cores, numbers, context);
  if (breakdown.length) kinds(body, steps, breakdown, cores);
  tableSection(context, body, "slow_steps", report.tables.slow_steps, { columns: OUT_OF_LINE });
  for (const name of ["stragglers", "between_steps", "hosts", "step_summary"])
    tableSection(context, body, name, report.tables[name]);
  let chosen = 0;
  const place = () => {
    const { host, start_ps: start, duration_ps: duration } = steps.row(chosen);
    return { host, start, end: start + duration };
  };
  const part = section(body, "All steps", {
    actions: [timelineButton(context, place, "Show the step in the timeline")],
  });
  const onrow = (row) => {
    chosen = row;
  };
  reportTable(context, part, "steps", steps, { onrow, selected: 0, filters: ["host", "core_name"], rows: 20 });
}

/** A line per core, or only those of the cores whose steps take longest. */
function durations(body, steps, cores, numbers) {
  const time = (core) => steps.sum("period_ps", core.rows);
  const shown = [...cores].sort((one, other) => time(other) - time(one)).slice(0, MOST_CORES);
  const isCut = cores.length > shown.length;
  const box = panel("Step time by core",
    isCut ? `The ${shown.length} of ${cores.length} cores with the longest steps.` : null);
  columns(body, box);
  const series = shown.map(({ name, rows }) => {
    const times = new Map(rows.map((row) => [steps.value(row, "step"), steps.value(row, "period_ps")]));
    return { name, values: numbers.map((step) => times.get(step) ?? null) };
  });
  if (numbers.length) lines(box.body, { x: numbers, series, unit: "ps", xTitle: "Step", label: "Step time by core" });
  else sentence(box.body, "The steps have no numbers.");
}

/** How long each step took on each core, as colours: a slow host is a stripe. */
function everyCore(body, steps, cores, numbers, context) {
  const data = steps.where((row) => steps.value(row, "step") !== null);
  const part = section(body, "All steps on all cores", { note: "One row per core, one column per step." });
  const map = new CoreMap(part, data, {
    steps: numbers,
    metric: "period_ps",
    names: data.select().map((row) => coreName(data, row)),
    onselect: () => {},
  });
  context.on_theme(() => map.draw());
}

/** Step by step what one core spent its time on. */
function kinds(body, steps, breakdown, cores) {
  const choose = (at) => {
    const { host, core_id: core } = steps.row(cores[at].rows[0]);
    box.body.replaceChildren();
    stepTime(box.body,
      breakdown.where((row) => breakdown.value(row, "host") === host && breakdown.value(row, "core_id") === core),
      "kind");
  };
  const several = cores.length > 1;
  const options = cores.map(({ name }, at) => [String(at), name]);
  const box = panel(several ? "One core" : cores[0].name);
  section(body, "Step time by kind", {
    actions: several ? [picker({ label: "Core", options, onchange: choose })] : [],
  }).append(box);
  choose(0);
}

function coresOf(steps) {
  const groups = Map.groupBy(steps.select(), (row) => coreName(steps, row));
  return [...groups].map(([name, rows]) => ({ name, rows }));
}

function coreName(steps, row) {
  const [host, core] = [steps.value(row, "host"), steps.value(row, "core_name") ?? ""];
  return core.startsWith(host) ? core : `${host} ${core}`.trim();
}
