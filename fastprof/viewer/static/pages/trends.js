// The runs of the log directory side by side: charts over time, and a table of them. Rows come as they are computed.

import { columns, panel, section, sentence } from "../cards.js";
import { lines } from "../charts/series.js";
import { h } from "../dom.js";
import { Table } from "../report.js";
import { written } from "../route.js";
import { table } from "../table.js";
import { number } from "../units.js";

const SOON_MS = 500;
const LATER_MS = 10_000;
const CHARTS = [
  ["Step time", "ps", [["step_time_p50_ps", "Median"], ["step_time_max_ps", "Longest"]]],
  ["Input", "share", [["input_share", "Share of step time"]]],
  ["Non-compute device time", "share", [["not_computing_share", "Idle, or communication, or input"]]],
  ["First finding", "share", [["finding_share", "Its share of the run"]]],
  ["Memory", "bytes", [["memory_peak_bytes", "Peak"]]],
];
const COLUMNS = [
  "step_count",
  "step_time_p50_ps",
  "step_time_max_ps",
  "input_share",
  "not_computing_share",
  "finding_share",
  "finding",
  "memory_peak_bytes",
  "problem",
];

export async function show(root, context) {
  const status = h("p.sentence", { role: "status" });
  const body = h("div.page-body");
  root.append(status, body);
  let seen = "";
  let timer = null;
  const look = async () => {
    const { pending, trends } = await context.source.trends({}, context.signal);
    const now = JSON.stringify(trends);
    if (now !== seen) draw(body, new Table(trends));
    seen = now;
    status.textContent = pending ? `${number(pending)} more runs are being analysed …` : "";
    status.hidden = !pending;
    timer = setTimeout(() => look().catch(() => {}), pending ? SOON_MS : LATER_MS); // the page stays as it was
  };
  context.signal.addEventListener("abort", () => clearTimeout(timer));
  await look();
}

/** `data`: a row for each run, the newest first; charts go from left to right. */
function draw(body, data) {
  body.replaceChildren();
  if (!data.length) {
    sentence(body, "No run has been analysed yet.");
    return;
  }
  const runs = data.column("run").toReversed();
  const { names, day } = namesOf(runs);
  const open = (at) => {
    window.location.hash = addressOf(runs[at]);
  };
  const charts = CHARTS.filter(([, , parts]) => parts.some(([name]) => data.isRecorded(name)));
  const boxes = charts.map(([title, unit, parts]) => {
    const box = panel(title);
    const series = parts.map(([name, words]) => ({ name: words, values: data.column(name).toReversed() }));
    return { box,
      draw: () =>
        lines(box.body, { x: names, xTitle: day, series, unit, label: `${title} of each run`, onclick: open }) };
  });
  if (boxes.length) columns(body, ...boxes.map(({ box }) => box));
  for (const one of boxes) one.draw();
  const run = { name: "run", node: (name) => h("a", { href: addressOf(name), title: "Open the run" }, name) };
  table(section(body, "Runs"), data, { name: "trends", rows: 20,
    columns: [run, ...COLUMNS.filter((name) => data.isRecorded(name))] });
}

/** Runs as charts name them: by their time if they are named so, without the day if that is the same. */
function namesOf(runs) {
  const parts = runs.map((run) => /^(\d{4}_(\d\d_\d\d))_(\d\d_\d\d_\d\d)$/.exec(run));
  if (parts.includes(null)) return { names: runs, day: "" };
  const days = new Set(parts.map(([, day]) => day));
  const names = parts.map(([, , date, time]) =>
    (days.size > 1 ? `${date.replace("_", "-")} ` : "") + time.replaceAll("_", ":")
  );
  return { names, day: days.size > 1 ? "" : [...days][0].replaceAll("_", "-") };
}

function addressOf(run) {
  return written({ page: "overview", run, host: null, params: new URLSearchParams() });
}
