// The first page: what steps take and spend their time on, what costs most, what was examined and what the capture lacks.

import { figures, firstFigures, notices, panel, section, sentence } from "../cards.js";
import { stacked } from "../charts/series.js";
import { h } from "../dom.js";
import { asked, reportPage, tableSection } from "../report_page.js";
import { table } from "../table.js";
import { text } from "../units.js";
import { causeCharts } from "./cause_charts.js";
import { causeNames, examinedCauses, missingRecords } from "./examined.js";
import { findings, headline } from "./findings.js";
import { headlineFigures } from "./headline_figures.js";

export const show = reportPage(draw, { params: ["steps", "steps_from", "device", "peak"], headline, plain: true });

const GONE = 410;
/** Reports beside that of the page, and what is requested of them. */
const BESIDE = {
  diagnosis: {},
  gaps: { tables: "by_step,devices" },
  memory_profile: { rows: 0 },
  roofline: { rows: 0 },
};
const RUN_FIGURES = ["device_type", "device_count", "host_count", "task_count", "framework", "is_training"];
const SIDES = [
  ["Device", "Most expensive ops on devices", "Self time, summed over devices."],
  ["Host", "Most expensive ops on hosts", "Self time, summed over threads."],
];
const OF_RULES = "Fixed thresholds on step time. Where the verdicts differ from the findings, the findings use "
  + "more of the capture.";
const OP_COLUMNS = ["rank", "name", "type", "occurrences", "self_ps", "self_share", "cumulative_share", "flops_per_s"];

async function draw(body, report, context, said) {
  const beside = await reportsBeside(context);
  if (context.signal.aborted) return;
  headlineFigures(body, report, beside);
  if (beside.gaps) causeCharts(body, beside.gaps, causeNames(beside.diagnosis));
  findings(body, report, context);
  if (beside.diagnosis) {
    examinedCauses(body, beside.diagnosis, context);
    missingRecords(body, beside.diagnosis);
  }
  notices(body, report, context, said);
  firstFigures(body, Object.values(busy(report)), []);
  if (report.analysis !== "overview") return; // a saved report may have the diagnosis alone
  topOps(body, report, context);
  latency(body, report);
  tableSection(context, body, "stragglers", report.tables.stragglers, {
    note: "Steps in which one core took longer than the others.",
    sort: { by: "excess_ps", down: true },
  });
  environment(body, report);
  verdicts(body, report);
}

/** The reports beside that of the page by name; null for those that a saved report lacks or that failed. */
async function reportsBeside(context) {
  const { analyses, source, saved, signal } = context;
  const reports = Object.entries(BESIDE).map(async ([name, some]) => {
    const analysis = analyses.find((one) => one.name === name);
    if (!analysis) return [name, null];
    try {
      return [name, await source.report(name, { ...asked(analysis, context), ...(saved ? {} : some) }, signal)];
    } catch (error) {
      if (error.status === GONE || signal.aborted) throw error;
      return [name, null];
    }
  });
  return Object.fromEntries(await Promise.all(reports));
}

/** The figures. What input, output and idle time leave is compute only if no collectives are measured apart from it. */
function busy(report) {
  const apart = report.tables.breakdown?.rows().some(({ category, mean_ps: time }) =>
    /collectives|all_reduce|device_to_device/.test(category) && time > 0
  );
  const { compute_percent: compute } = report.scalars;
  return apart
    ? { ...report.scalars, compute_percent: { ...compute, label: "compute and collectives" } }
    : report.scalars;
}
/** What XProf's rules say, worst first, folded: they see the time of steps only, and the findings may know better. */
function verdicts(body, report) {
  const order = ["high", "moderate", "unknown", "none"];
  const rows = report.tables.verdicts.rows().sort((one, other) =>
    order.indexOf(one.verdict) - order.indexOf(other.verdict)
  );
  if (!rows.length || report.value("framework") === "PyTorch") return; // XProf has no rules for it
  body.append(
    h("details.section.all-figures", h("summary", "Verdicts by XProf's rules"), h("p.section-note", OF_RULES),
      h("ul.verdicts.panel", ...rows.map(verdict))),
  );
}

function verdict({ aspect, verdict: level, percent, statement, look_at: side }) {
  const share = percent === null ? "" : ` · ${text(percent, "%")}`;
  const where = side ? ` · examine the ${side === "both" ? "host and the device" : side}` : "";
  return h("li.verdict", h("span", { class: `verdict-level verdict-${level}` }, level),
    h("span", h("b", `${aspect[0].toUpperCase()}${aspect.slice(1)}`), `${share}${where}`,
      statement ? h("div.section-note", statement) : null));
}

function topOps(body, report, context) {
  const ops = report.tables.top_ops;
  for (const [side, title, note] of SIDES) {
    const columns = OP_COLUMNS.filter((name) => side === "Device" || name !== "flops_per_s");
    tableSection(context, body, "top_ops", ops.where((row) => ops.value(row, "host_or_device") === side), { title, note,
      columns, actions: [h("a.button", { href: context.href("op_stats") }, "All ops")] });
  }
}

function latency(body, report) {
  const data = report.tables.latency;
  if (!data.length) return;
  const box = panel("Request latency by percentile");
  section(body, "Inference").append(box);
  const parts = [
    ["Host", "host_ps", "#4c78c8"],
    ["Device", "device_ps", "#3fa66b"],
    ["Between host and device", "communication_ps", "#f0882e"],
  ];
  const series = parts.map(([name, column, colour]) => ({ name, colour, values: data.column(column) }));
  stacked(box.body, { x: data.column("percentile"), xTitle: "Percentile", series, unit: "ps",
    label: "Request latency by percentile" });
}

function environment(body, report) {
  const part = section(body, "Ran on");
  figures(part, report, RUN_FIGURES);
  if (report.tables.hosts.length) table(part, report.tables.hosts, { rows: 8 });
  else sentence(part, "The session has no hosts.");
}
