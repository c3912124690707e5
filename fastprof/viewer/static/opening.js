// What the page of an analysis begins with: a sentence, and its most important figures.

import { firstFigures, MOST_FIRST } from "./cards.js";
import { h, shortened } from "./dom.js";
import { shownName } from "./kernel_names.js";
import { number, text } from "./units.js";

const NAME = /\{(\w+)\}/g;
const MOST_LETTERS = 60;
const LOOK_MS = 1000;

/**
 * Appends a headline and cards. `headline(report)`: the sentence, if the analysis does not declare it; `labels(report)`:
 * other words for figures, by name; `cards`: whether the page has no cards of its own; `lead`: a node for between the
 * headline and the cards. Returns the notice that became the headline, null if none did.
 */
export function opening(element, report, { headlines, figures }, { headline, labels, cards = true, lead = null } = {}) {
  const isEmpty = Object.values(report.tables).every((table) => !table.length);
  const words = isEmpty ? "" : headline?.(report) || filled(headlines, report);
  const notice = words ? null : (report.notices[0] ?? null);
  if (words || notice) element.append(h("p.headline", words || notice.text));
  if (lead) element.append(lead);
  const other = labels?.(report) ?? {};
  const all = new Map(
    Object.entries(report.scalars).map(([name, one]) => [name, other[name] ? { ...one, label: other[name] } : one]),
  );
  if (cards)
    firstFigures(element, [...all.values()], isEmpty ? [] : figures.map((name) => all.get(name)).filter(Boolean));
  return notice;
}

/** What stands in the place of the opening and of a first chart while the report is computed; `headline`: its words. */
export function skeleton(headline = h("p.headline", "Reading the capture …")) {
  const shade = (kind) => h("div", { class: `shade ${kind}` });
  return h("div.skeleton", { "aria-hidden": "true" }, headline,
    h("div.cards", Array.from({ length: MOST_FIRST }, () => shade("shade-card"))), shade("shade-chart"));
}

/** Says in a node how many hosts have been read, each second, until `signal` aborts. */
export async function followed(node, source, signal) {
  while (!signal.aborted) {
    await new Promise((resolve) => setTimeout(resolve, LOOK_MS));
    const { done, total } = signal.aborted ? {} : await source.analysed({}, signal).catch(() => ({}));
    if (total > 1 && !signal.aborted) node.textContent = `Reading host ${number(done)} of ${number(total)} …`;
  }
}

/** The first of these sentences whose figures are known, the first of them not 0; "" if there is none. */
function filled(sentences, report) {
  for (const sentence of sentences) {
    const values = [...sentence.matchAll(NAME)].map(([, name]) => report.value(name));
    if (values[0] && values.every((value) => value !== null && value !== undefined))
      return sentence.replace(NAME, (_, name) => shown(report.scalars[name]));
  }
  return "";
}

function shown({ value, unit }) {
  if (typeof value !== "string") return text(value, unit);
  return shortened(shownName(value), MOST_LETTERS);
}
