// What costs the time: a list of findings, the worst first, each with what it costs, where, what to do and its evidence.

import { section } from "../cards.js";
import { h } from "../dom.js";
import { asked, TABLE } from "../report_page.js";
import { label, text } from "../units.js";
import { spanOf, timelineButton } from "./details.js";

const PLACES = ["host", "device", "step", "op", "annotation", "source"];
const EVIDENCE = /^(\w+)\.(\w+)(?:\?(.*))?$/;
const NUMBER = /^-?\d+$/;
/** The table with the times of rows, and its column of durations, by evidence. */
const TIMES = { "gaps.by_cause": ["by_cause", "longest_ps"], "gaps.gaps": ["by_cause", "longest_ps"],
  "steps.slow_steps": ["steps", "duration_ps"] };

/** The headline of a diagnosis; why there is none, if it is not known. */
export function headline(report) {
  const { value, reason } = report.scalars.headline;
  return value ?? (reason ? `${reason[0].toUpperCase()}${reason.slice(1)}.` : "");
}

/** Appends the findings of a report in a section, if there are any. */
export function findings(body, report, context) {
  const data = report.tables.findings;
  if (!data.length) return;
  section(body, "What costs the time").append(h("ol.findings", data.rows().map((row) => finding(row, context))));
  const named = data.column("title").indexOf(context.params.get("finding"));
  const node = body.querySelectorAll(".finding details")[named];
  if (!node) return;
  node.open = true;
  node.scrollIntoView({ block: "center" });
}

/** A finding that opens: closed, it shows title, cost, share and what to do first. */
function finding(row, context) {
  const { title, detail, advice, certainty, cost_ps: cost, is_bound: isBound, ranked_by: rankedBy } = row;
  const { share: ofRun, rest_share: ofRest } = row;
  const share = ofRest ?? ofRun;
  const amount = cost === null ? "time unknown" : `${isBound ? "up to " : ""}${text(cost, "ps")}`;
  const [action, rest] = parted(advice);
  const ofWhat = ofRest === null ? "the run" : "the run without start-up";
  const places = [
    ...(share === null ? [] : [["Share", `${text(share, "share")} of ${ofWhat}`]]),
    ...PLACES.filter((name) => row[name] !== null).map((name) => [label(name), String(row[name])]),
    [
      "Certainty",
      certainty,
    ],
    ...(rankedBy === null ? [] : [["Ranked by", rankedBy]]),
  ];
  return h("li.finding.panel", { dataset: { cause: row.cause } },
    h("details",
      h("summary",
        h("span.finding-head", h("span.finding-title", title),
          h("span.finding-amounts",
            h("span.finding-cost", { title: isBound ? "Upper bound of the saving" : null }, amount),
            share === null ? null : h("span.finding-share", { title: `of ${ofWhat}` }, text(share, "share")))),
        share === null ? null : bar(share), h("span.finding-action", action)),
      rest ? h("p.finding-advice", rest) : null, detail === null ? null : h("p.finding-detail", detail),
      h("div.finding-where", ...places.map(([name, value]) => h("span.finding-place", h("b", name), ` ${value}`)),
        ...links(row.evidence, context))));
}

/** The first sentence of an advice, and the others. */
function parted(advice) {
  const end = /[.!?](?=\s+[A-Z])|\n/.exec(advice);
  return end ? [advice.slice(0, end.index + 1).trim(), advice.slice(end.index + 1).trim()] : [advice, ""];
}

function bar(share) {
  const width = `${100 * Math.min(1, share)}%`;
  return h("span.finding-bar", { "aria-hidden": "true" }, h("span.finding-part", { style: { width } }));
}

/** Where evidence is, and the params of its address: "gaps.gaps?cause=input" is the table gaps of the page gaps, with that
 * cause only. */
export function evidenceOf(written) {
  const [, page, table, query] = EVIDENCE.exec(written) ?? [];
  const equal = [...new URLSearchParams(query)];
  const only = equal.map(([column, value]) => [`only-${table}-${column}`, NUMBER.test(value) ? `= ${value}` : value]);
  return { page, table, equal, params: { [TABLE]: table, ...Object.fromEntries(only) } };
}

/** Links to the rows that show it, and to its time. */
function links(written, context) {
  const { page, table, equal, params } = evidenceOf(written);
  const analysis = context.analyses.find(({ name }) => name === page);
  if (!analysis) return [];
  const href = context.href(page, params);
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
