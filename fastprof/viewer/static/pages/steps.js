// Every step on every host and core: how long it took, and what it spent it on.

import { columns, figures, panel, section, sentence } from "../cards.js";
import { lines, stacked } from "../charts/series.js";
import { coloursOf } from "../colours.js";
import { picker } from "../controls.js";
import { h } from "../dom.js";
import { reportPage } from "../report_page.js";
import { reportTable } from "../report_tables.js";
import { label } from "../units.js";
import { timelineButton } from "./timeline_link.js";

export const show = reportPage(draw);

const MOST_CORES = 24;

function draw(body, report, context) {
  const { steps, breakdown } = report.tables;
  figures(section(body, "Steps"), report);
  if (!steps.length) {
    sentence(body, "The capture has no steps.");
    return;
  }
  durations(body, steps, context);
  categories(body, steps, breakdown, context);
  for (const [name, title] of [["stragglers", "Stragglers"], ["hosts", "Hosts"], ["step_summary", "Percentiles"]]) {
    const data = report.tables[name];
    if (data?.length)
      reportTable(context, section(body, title), name, data, {
        bar: name === "stragglers" ? "excess_share" : undefined,
      });
  }
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

/** A line a core, or those of the cores whose steps take longest. */
function durations(body, steps, context) {
  const cores = coresOf(steps).sort((one, other) =>
    steps.sum("duration_ps", other.rows) - steps.sum("duration_ps", one.rows)
  );
  const shown = cores.slice(0, MOST_CORES);
  const numbers = [...new Set(steps.column("step"))].filter((step) => step !== null).sort((one, other) => one - other);
  const note = cores.length > shown.length
    ? `The ${shown.length} of ${cores.length} cores whose steps take longest.`
    : null;
  const box = panel("Step time by core", note);
  columns(body, box);
  const series = shown.map(({ name, rows }) => {
    const times = new Map(rows.map((row) => [steps.value(row, "step"), steps.value(row, "duration_ps")]));
    return { name, values: numbers.map((step) => times.get(step) ?? null) };
  });
  if (numbers.length)
    context.keep(lines(box.body, { x: numbers, series, unit: "ps", xTitle: "Step", label: "Step time by core" }));
  else sentence(box.body, "The steps have no numbers.");
}

/** Step by step what one core spent its time on. */
function categories(body, steps, breakdown, context) {
  const cores = coresOf(steps);
  const kinds = [...breakdown.groupBy("kind").keys()];
  const colours = coloursOf(kinds.map((kind) => kind.toLowerCase()));
  const box = h("div");
  let chart = null;
  const choose = (at) => {
    chart?.leave();
    const core = cores[Number(at)];
    const [first] = core.rows;
    const rows = [];
    for (let row = 0; row < breakdown.length; row += 1) {
      const same = breakdown.value(row, "host") === steps.value(first, "host")
        && breakdown.value(row, "core_id") === steps.value(first, "core_id");
      if (same) rows.push(row);
    }
    const order = [...new Set(rows.map((row) => breakdown.value(row, "step")))];
    const place = new Map(order.map((step, number) => [step, number]));
    const series = kinds.map((kind, at) => ({ name: label(kind.toLowerCase()), colour: colours[at],
      values: Array(order.length).fill(null) })
    );
    for (const row of rows)
      series[kinds.indexOf(breakdown.value(row, "kind"))].values[place.get(breakdown.value(row, "step"))] = breakdown
        .value(row, "time_ps");
    const shown = series.filter((one) => one.values.some((value) => value > 0));
    chart = stacked(box, { x: order.map((step) => (step === null ? "–" : String(step))), series: shown, unit: "ps",
      xTitle: "Step", kind: order.length > 300 ? "area" : "bars", label: "Step time by kind" });
    context.keep(chart);
  };
  if (!breakdown.length) return;
  const options = cores.map(({ name }, at) => ({ value: String(at), text: name }));
  const part = section(body, "Step time by kind", {
    actions: cores.length > 1 ? [picker({ label: "Core", options, value: "0", onchange: choose })] : [],
  });
  const holder = panel(cores.length > 1 ? "Of one core" : cores[0].name);
  holder.body.append(box);
  part.append(holder);
  choose("0");
}

function coresOf(steps) {
  const groups = Map.groupBy(steps.select(), (row) => {
    const [host, core] = [steps.value(row, "host"), steps.value(row, "core_name") ?? ""];
    return core.startsWith(host) ? core : `${host} ${core}`.trim();
  });
  return [...groups].map(([name, rows]) => ({ name, rows }));
}
