// What costs the time: a list of findings, the worst first, each with what it costs, where, what to do and its evidence.

import { section } from "../cards.js";
import { h } from "../dom.js";
import { asked, TABLE } from "../report_page.js";
import { label, text } from "../units.js";
import { spanOf, timelineButton } from "./details.js";

const PLACES = ["host", "device", "step", "op", "annotation", "source"];
const EVIDENCE = /^(\w+)\.(\w+)\??(.*)$/;
const NUMBER = /^-?\d+$/;
/** The table with the times of rows, and its column of durations, by evidence. */
const TIMES = { "gaps.by_cause": ["by_cause", "longest_ps"], "gaps.gaps": ["by_cause", "longest_ps"],
  "steps.slow_steps": ["steps", "duration_ps"] };

/** The headline of a diagnosis; why there is none, if it is not known. */
export function headline(report) {
  const { value, reason } = report.scalars.headline;
  return value ?? (reason ? `${reason[0].toUpperCase()}${reason.slice(1)}.` : "");
}

/** The findings of a report in a section; null if there are none. `actions`: nodes at its right. */
export function findings(report, context, actions = []) {
  const data = report.tables.findings;
  if (!data.length) return null;
  const root = h("div.findings-part");
  section(root, "What costs the time", { actions }).append(
    h("ol.findings", ...data.rows().map((row) => finding(row, context))),
  );
  return root;
}

function finding(row, context) {
  const { title, detail, advice, certainty, cost_ps: cost, is_bound: isBound, ranked_by: rankedBy } = row;
  const { share: ofRun, rest_share: ofRest } = row;
  const share = ofRest ?? ofRun;
  const amount = cost === null ? "time unknown" : `${isBound ? "up to " : ""}${text(cost, "ps")}`;
  const places = [...PLACES.filter((name) => row[name] !== null).map((name) => [label(name), String(row[name])]), [
    "Certainty",
    certainty,
  ], ...(rankedBy === null ? [] : [["Ranked by", rankedBy]])];
  return h("li.finding.panel", { dataset: { cause: row.cause } },
    h("div.finding-head", h("span.finding-title", title),
      h("span.finding-amounts", h("span.finding-cost", { title: isBound ? "At most this can be saved" : null }, amount),
        share === null
          ? null
          : h("span.finding-share", text(share, "share"), ofRest === null ? "" : " without start-up"))),
    share === null ? null : bar(share), detail === null ? null : h("p.finding-detail", detail),
    h("p.finding-advice", advice),
    h("div.finding-where", ...places.map(([name, value]) => h("span.finding-place", h("b", name), ` ${value}`)),
      ...links(row.evidence, context)));
}

function bar(share) {
  const part = h("div.finding-part");
  part.style.width = `${100 * Math.min(1, share)}%`;
  return h("div.finding-bar", { "aria-hidden": "true" }, part);
}

/** Links to the rows that show it, and to its time: "gaps.gaps?cause=input" is the table gaps of the page gaps, with that
 * cause only. */
function links(written, context) {
  const [, page, table, query] = EVIDENCE.exec(written) ?? [];
  const analysis = context.analyses.find(({ name }) => name === page);
  if (!analysis) return [];
  const equal = [...new URLSearchParams(query)];
  const only = equal.map(([column, value]) => [`only-${table}-${column}`, NUMBER.test(value) ? `= ${value}` : value]);
  const href = context.href(page, { [TABLE]: table, ...Object.fromEntries(only) });
  const row = analysis.tables[table];
  return [
    h("a.finding-evidence", { href, title: row ? `Rows of ${label(table)}, each ${row}` : null },
      `Evidence: ${analysis.title}`),
    TIMES[`${page}.${table}`] && equal.length ? inTime(analysis, TIMES[`${page}.${table}`], equal[0], context) : null,
  ];
}

/** A button that shows the longest time with a value in a column in the timeline. */
function inTime(analysis, [table, duration], [column, value], context) {
  const longest = async () => {
    const { tables } = await context.source.report(analysis.name, asked(analysis, context), context.signal);
    const data = tables[table];
    const rows = data.select((row) => String(data.value(row, column)) === value);
    const most = rows.reduce((one, other) => data.value(other, duration) > data.value(one, duration) ? other : one);
    return spanOf(data, most);
  };
  const node = timelineButton(context, longest);
  node.classList.add("small");
  return node;
}
