// Two runs: whether the mean step takes longer, by how much, and the ops and causes that changed. The run of the page is
// compared with the one that the address names as its base.

import { columns, firstFigures, notices, panel, section, sentence } from "../cards.js";
import { bars } from "../charts/bar_list.js";
import { scatter } from "../charts/series.js";
import { colour } from "../colours.js";
import { h } from "../dom.js";
import { skeleton } from "../opening.js";
import { addressed } from "../report_page.js";
import { written } from "../route.js";
import { table } from "../table.js";
import { number, scale, signed, text } from "../units.js";
import { changeFlames } from "./change_flames.js";
import { evidenceOf } from "./findings.js";

const LONGER = "#d9534f";
const SHORTER = "#3fa66b";
const MOST_BARS = 15;
const MOST_DOTS = 1_500;
const LANES = ["new", "base"];
const BINS = 60;
const UNEXPLAINED = "unexplained";
const OPS = "op_stats.device_ops";
const COUNTS = ["base_count", "new_count"];
const LOST_FIRST = { by: "change_ps", down: true };

export async function show(root, context) {
  const { run, source, signal } = context;
  const base = context.params.get("base");
  if (!base || base === run) {
    sentence(root, "A comparison needs two runs: choose the other one in the list “Compare with”.");
    return;
  }
  if (context.params.get("view") === "timelines") {
    const { show: showTimelines } = await import("./two_timelines.js");
    return showTimelines(root, context, base);
  }
  context.actions.append(
    h("a.button", { href: addressOf("compare", run, { base, view: "timelines" }),
      title: "Both timelines, aligned by step" }, "Timelines"),
    h("a.button", { href: addressOf("compare", base, { base: run }), title: "Compare the other way round" },
      "Swap runs"),
  );
  const waiting = skeleton(h("p.headline", "Reading both runs …"));
  root.append(waiting);
  const report = await source.comparison(base, signal).finally(() => waiting.remove());
  if (signal.aborted) return;
  const { headline, ...others } = report.scalars;
  const cards = cardsOf(report);
  root.append(h("p.headline", headline.value));
  firstFigures(root, Object.values({ ...others, ...cards }), Object.values(cards));
  const body = h("div.page-body");
  root.append(body);
  draw(body, report, context, base);
}

function draw(body, report, context, base) {
  const { changes, steps } = report.tables;
  notices(body, report, context);
  const show = (title, name, shown, options = {}) => {
    const data = report.tables[name];
    const usual = { sort: data.has("change_ps") ? LOST_FIRST : null, ...options };
    if (data.length)
      table(section(body, title), data, { columns: shown, rows: 10, ...usual, ...addressed(context, name, usual) });
  };
  show("Runs differ", "environment", ["what", "base", "new", { name: "forbids", title: "Prevents a verdict" }]);
  const [largest, times] = [
    panel("Largest changes of the mean step", "Right and +: longer. Left and −: shorter."),
    panel("Step times"),
  ];
  columns(body, largest, times);
  changeBars(largest.body, changes);
  stepDots(times, steps);
  const title = { name: "title", title: "What", grow: true, node: (words, row) => {
    const change = changes.row(row);
    const why = change.evidence && !isPlace(change.evidence) ? `${words}\n${change.evidence}` : words;
    return h("a", { href: evidenceAddress(change, context.run, base), title: why }, words);
  } };
  show("Changes of the mean step", "changes", [title, ...timesOf(changes), "share", "certainty", "where"], {
    rows: 15,
  });
  show("Time by cause", "categories", [{ name: "label", title: "Kind" }, ...timesOf(report.tables.categories)]);
  show("Ops", "ops", ["name", "status", ...timesOf(report.tables.ops), ...COUNTS, "scope"], { filters: ["status"] });
  show("Changes of compiled programs", "program_changes", [
    { name: "title", title: "What", grow: true },
    "program",
    "change_ps",
    ...sidesOf("flops"),
    ...sidesOf("accessed_bytes"),
    ...sidesOf("padding_bytes"),
  ]);
  show("Annotations", "annotations", ["name", ...sidesOf("time_ps"), "time_change_ps", ...sidesOf("count")]);
  show("Communication", "communication", [
    "kind",
    "scope",
    ...sidesOf("exposed_ps"),
    "exposed_change_ps",
    ...sidesOf("hidden_ps"),
  ]);
  show("Memory", "memory", ["kind", "allocator", "name", ...sidesOf("size_bytes"), "size_change_bytes"]);
  show("Input pipelines", "pipelines", ["kind", "name", ...sidesOf("time_ps"), "time_change_ps", ...sidesOf("count")]);
  changeFlames(body, context, base);
  const unit = (value, row) => text(value, report.tables.figures.value(row, "unit"));
  const quantity = (value, row) => text(value, report.tables.programs.value(row, "unit"));
  show("Compiled programs", "programs", [
    "program",
    "quantity",
    ...["base", "new", "change"].map((name) => ({ name, text: quantity })),
  ]);
  show("Figures", "figures", [
    "figure",
    ...["base", "new", "change"].map((name) => ({ name, text: unit })),
    "change_share",
  ]);
}

/** The columns of an amount in both runs. */
function sidesOf(amount) {
  return [`base_${amount}`, `new_${amount}`];
}

/** The columns of times, in the unit that suits the largest change. */
function timesOf(data) {
  const one = { ...scale(data.column("change_ps"), "ps"), digits: 3 };
  return ["base_ps", "new_ps", "change_ps"].map((name) => ({ name, scale: one }));
}

/** The figures of the page's cards, in words: the verdict, the change with its interval, both mean steps. */
export function cardsOf(report) {
  const { scalars } = report;
  const share = (name) => signed(report.value(name), "share");
  const known = report.value("step_change_share") !== null;
  const side = (name) => {
    const [count, median] = [report.value(`${name}_step_count`), report.value(`${name}_median_ps`)];
    const steps = count === 1 ? "1 step" : `${number(count)} steps`;
    return { ...scalars[`${name}_step_ps`], label: `Mean step, ${name}`,
      note: median === null ? steps : `${steps}, median ${text(median, "ps")}` };
  };
  return {
    verdict: { ...scalars.verdict, value: report.value("verdict").replace("_", " "), label: "Verdict" },
    step_change_share: { ...scalars.step_change_share, value: known ? share("step_change_share") : null,
      label: "Change of the mean step",
      note: report.value("step_change_low_share") === null
        ? null
        : `95 % interval ${share("step_change_low_share")} to ${share("step_change_high_share")}` },
    base_step_ps: side("base"),
    new_step_ps: side("new"),
    smallest_detectable_share: { ...scalars.smallest_detectable_share, label: "Smallest detectable change" },
  };
}

/** Bars of the largest changes, time lost first. */
function changeBars(element, changes) {
  const named = (row) => changes.value(row, "kind") !== UNEXPLAINED && changes.value(row, "change_ps") !== 0;
  const time = (row) => changes.value(row, "change_ps");
  const rows = changes.select(named).slice(0, MOST_BARS).sort((one, other) => time(other) - time(one));
  if (!rows.length) {
    sentence(element, changes.length ? "No op and no cause changed." : "A run has no recorded devices or steps.");
    return;
  }
  const titles = rows.map((row) => changes.value(row, "title"));
  bars(element, { names: titles, titles, values: rows.map(time), unit: "ps", write: signed,
    colours: rows.map((row) => (time(row) > 0 ? LONGER : SHORTER)), label: "Largest changes of the mean step" });
}

/** A dot for each step that counts, the runs below each other on one axis of time. */
function stepDots(box, steps) {
  const counted = steps.where((row) => !steps.value(row, "is_warm_up"));
  const times = counted.column("time_ps");
  if (!times.length) {
    sentence(box.body, "No run has complete steps.");
    return;
  }
  const [least, most] = times.reduce(([low, high], time) => [Math.min(low, time), Math.max(high, time)], [Infinity, 0]);
  const points = LANES.flatMap((run, lane) => {
    const rows = thinned(counted.select((row) => counted.value(row, "run") === run), times, MOST_DOTS);
    const offsets = spread(rows.map((row) => times[row]), (most - least) / BINS || 1);
    return rows.map((row, at) => ({ x: times[row], y: lane + offsets[at], group: run, colour: colour(1 - lane), size: 6,
      title: `${run}, step ${counted.value(row, "step")}\n${text(times[row], "ps")}` })
    );
  });
  const axis = scale(times, "ps");
  const left = [
    counted.length < steps.length ? `${number(steps.length - counted.length)} warm-up steps are left out.` : "",
    points.length < times.length ? `${number(points.length)} of ${number(times.length)} steps are drawn.` : "",
  ].filter(Boolean).join(" ");
  box.body.before(h("p.section-note", `Each dot is a step. ${left}`));
  scatter(box.body, { points, label: "Step times of both runs", height: 260,
    x: { title: `Step time, ${axis.unit}`, divide: axis.divide },
    y: { ticks: [0, 1], text: (lane) => LANES[lane], range: [-0.5, 1.5] } });
}

/** Rows in order of their values, evenly left out if there are more than `most`; the least and the largest stay. */
export function thinned(rows, values, most) {
  const sorted = rows.toSorted((one, other) => values[one] - values[other]);
  if (sorted.length <= most) return sorted;
  return Array.from({ length: most }, (_, at) => sorted[Math.round((at * (sorted.length - 1)) / (most - 1))]);
}

/** How far up or down dots of these values stand, so that values in one bin, `wide`, stand beside each other. */
export function spread(values, wide) {
  const counts = new Map();
  const places = values.map((value) => {
    const bin = Math.round(value / wide);
    counts.set(bin, (counts.get(bin) ?? 0) + 1);
    return counts.get(bin) - 1;
  });
  const each = Math.min(0.08, 0.8 / Math.max(1, ...counts.values()));
  return places.map((place) => (place % 2 ? 1 : -1) * Math.ceil(place / 2) * each);
}

/** True if evidence is a report table, not a program change in words. */
function isPlace(evidence) {
  return evidenceOf(evidence).page !== undefined;
}

/** The address of the rows that show a change: in the new run, or in the base run if only that has it. */
export function evidenceAddress({ evidence, kind, name, new_ps: time }, run, base) {
  if (!evidence) return addressOf("steps", run, {});
  const { page, table: rows, params } = evidenceOf(isPlace(evidence) ? evidence : OPS);
  const named = kind === "op" && name ? { [`find-${rows}`]: name } : {};
  return addressOf(page, time ? run : base, { ...params, ...named });
}

function addressOf(page, run, params) {
  return written({ page, run, host: null, params: new URLSearchParams(params) });
}
