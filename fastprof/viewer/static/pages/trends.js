// The runs of the log directory side by side: charts over time with change points, and a table of them. Rows come as
// they are computed.

import { columns, panel, section, sentence } from "../cards.js";
import { lines } from "../charts/series.js";
import { colour } from "../colours.js";
import { h } from "../dom.js";
import { Table } from "../report.js";
import { written } from "../route.js";
import { table } from "../table.js";
import { number, text } from "../units.js";

const SOON_MS = 500;
const TIMES_ANSWER = 10; // a request waits this many times as long as the last took: each looks at all runs
const LATER_MS = 10_000;
const RUN_WIDTH = 240;
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
    const asked = performance.now();
    const { pending, trends, changes } = await context.source.trends({}, context.signal);
    const soon = Math.max(SOON_MS, TIMES_ANSWER * (performance.now() - asked));
    const now = JSON.stringify(trends);
    if (now !== seen) draw(body, new Table(trends), changes.rows);
    seen = now;
    status.textContent = pending ? `${number(pending)} more runs are being analysed …` : "";
    status.hidden = !pending;
    timer = setTimeout(() => look().catch(() => {}), pending ? soon : LATER_MS); // the page stays as it was
  };
  context.signal.addEventListener("abort", () => clearTimeout(timer));
  await look();
}

/** `data`: a row for each run, the newest first; charts go from left to right. `changes`: the newest first, too. */
function draw(body, data, changes) {
  body.replaceChildren();
  if (!data.length) {
    sentence(body, "No run has been analysed yet.");
    return;
  }
  const runs = data.column("run").toReversed();
  const { names, day } = namesOf(runs);
  const opens = (page) => (at) => {
    window.location.hash = addressOf(runs[at], page);
  };
  const charts = CHARTS.filter(([, , parts]) => parts.some(([name]) => data.isRecorded(name)));
  const boxes = charts.map(([title, unit, parts]) => {
    const box = panel(title);
    const series = parts.flatMap(([name, words], at) => {
      const values = data.column(name).toReversed();
      const means = meansOf(runs, values, changes.filter((change) => change.column === name));
      const line = { name: words, values, colour: colour(at) };
      return means ? [line, { name: `${words}, mean`, values: means, colour: colour(at), dash: "dash" }] : [line];
    });
    const onclick = opens(unit === "ps" ? "timeline" : "overview");
    return { box, draw: () => {
      lines(box.body, { x: names, xTitle: day, series, unit, label: `${title} of each run`, onclick });
      for (const [name, words] of parts) sayChange(box.body, words, changes.find((one) => one.column === name), unit);
    } };
  });
  if (boxes.length) columns(body, ...boxes.map(({ box }) => box));
  for (const one of boxes) one.draw();
  const run = { name: "run", width: RUN_WIDTH,
    node: (name, row) =>
      h("span.trend-run", h("a", { href: addressOf(name), title: "Open the run" }, name),
        row + 1 < data.length ? comparison(name, data.value(row + 1, "run")) : null) };
  table(section(body, "Runs"), data, { name: "trends", rows: 20,
    columns: [run, ...COLUMNS.filter((name) => data.isRecorded(name))] });
}

/** The mean of the runs between change points, at each run; null without change points. */
function meansOf(runs, values, changes) {
  if (!changes.length) return null;
  const after = new Map(changes.map((change) => [change.run, change.after]));
  let mean = changes.at(-1).before;
  return runs.map((run, at) => {
    mean = after.get(run) ?? mean;
    return values[at] === null ? null : mean;
  });
}

function sayChange(element, words, change, unit) {
  if (!change) return;
  const { run, change_share: share, before, after } = change;
  const size = share === null ? "" : `${share > 0 ? "+" : "-"}${text(Math.abs(share), "share")} `;
  element.append(
    h("p.sentence", `${words}: mean ${text(after, unit)} since run `, h("a", { href: addressOf(run) }, run),
      `, ${size}from ${text(before, unit)}`),
  );
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

function comparison(run, base) {
  const href = written({ page: "compare", run, host: null, params: new URLSearchParams({ base }) });
  return h("a", { href, title: `Compare with ${base}` }, "compare");
}

function addressOf(run, page = "overview") {
  return written({ page, run, host: null, params: new URLSearchParams() });
}
