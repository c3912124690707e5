// What costs the time: a list of findings, the worst first, each with what it costs, where, what to do and its evidence.

import { h } from "../dom.js";
import { label, text } from "../units.js";

const PLACES = ["host", "device", "step", "op", "annotation", "source"];
const EVIDENCE = /^(\w+)\.(\w+)\??(.*)$/;

/** The headline of a diagnosis, as a node; null if it is not known. */
export function headline(report) {
  return report.value("headline") ?? "";
}

/** The findings of a report as a list; nothing if there are none. */
export function findings(report, context) {
  const data = report.tables.findings;
  if (!data.length) return null;
  return h("ol.findings", ...data.rows().map((row) => finding(row, context)));
}

function finding(row, context) {
  const { title, detail, advice, certainty, cost_ps: cost, share, is_bound: isBound } = row;
  const amount = cost === null ? "time unknown" : `${isBound ? "up to " : ""}${text(cost, "ps")}`;
  const places = PLACES.filter((name) => row[name] !== null);
  return h("li.finding.panel", { dataset: { cause: row.cause } },
    h("div.finding-head", h("span.finding-title", title), h("span.spring"), h("span.finding-cost", amount),
      share === null ? null : h("span.finding-share", text(share, "share"))), share === null ? null : bar(share),
    detail === null ? null : h("p.finding-detail", detail), h("p.finding-advice", advice),
    h("div.finding-where", ...places.map((name) => h("span", h("b", label(name)), ` ${row[name]}`)),
      h("span", h("b", "certainty"), ` ${certainty}`), evidence(row.evidence, context)));
}

function bar(share) {
  const part = h("div.finding-part");
  part.style.width = `${100 * Math.min(1, share)}%`;
  return h("div.finding-bar", { "aria-hidden": "true" }, part);
}

/** A link to the rows that show it: "gaps.gaps?cause=input" is the table gaps of the page gaps, with that cause only. */
function evidence(written, context) {
  const [, page, table, query] = EVIDENCE.exec(written) ?? [];
  if (!page || !context.analyses.some(({ name }) => name === page)) return null;
  const only = [...new URLSearchParams(query)].map(([column, value]) => [`only-${table}-${column}`, value]);
  return h("a.finding-evidence", { href: context.href(page, Object.fromEntries(only)) }, `Evidence: ${label(page)}`);
}
