// Figures, notices and sections: what pages are made of beside charts and tables.

import { h } from "./dom.js";
import { exact, label, text } from "./units.js";

const FLAG = /--steps-from modules/;
const ADVICE = /; [^;]*--steps-from modules/;
export const MOST_FIRST = 6;
const SEVERITY = {
  recommendation: "Do",
  info: "Note",
  warning: "Warning",
  error: "Error",
};

/** A card of one figure. Its definition, or why it is not known, is shown under the pointer. */
export function figure({ name, value, unit, words = text(value, unit), definition, reason, label: given, note }) {
  const known = value !== null && value !== undefined;
  const long = typeof value === "string" && value.length > 24;
  return h("div", { class: `card${known ? "" : " card-unknown"}${long ? " card-long" : ""}`, tabindex: "0",
    dataset: { figure: name } }, h("div.card-title", capital(given || label(name))), h("div.card-value", words),
    note ? h("div.card-note", note) : null, known ? null : h("div.card-reason", reason ?? "not known"),
    h("div.card-about", { role: "note" }, definition ? h("div", capital(definition)) : null,
      typeof value === "number" && unit ? h("div.card-exact", exact(value, unit)) : null));
}

/** Cards of some figures of a report. Those that are not known are listed with their reasons. */
export function figures(element, report, names) {
  cardRow(element, names.map((name) => report.scalars[name]).filter(Boolean));
}

/** Cards of figures. Those that are not known are listed with their reasons. */
export function cardRow(element, listed) {
  const [known, unknown] = parted(listed);
  if (known.length) element.append(h("div.cards", known.map(figure)));
  if (unknown.length) element.append(unknownFigures(unknown));
}

/** At most six cards, of those that are known, the first ones first; the other figures are folded. */
export function firstFigures(element, listed, first = listed) {
  const cards = parted(first)[0].slice(0, MOST_FIRST);
  const [known, unknown] = parted(listed.filter((one) => !cards.includes(one)));
  if (cards.length) element.append(h("div.cards.first-cards", cards.map(figure)));
  if (!known.length && !unknown.length) return;
  const box = h("details.all-figures", h("summary", cards.length ? "More figures" : "All figures"));
  if (known.length) box.append(h("div.cards", known.map(figure)));
  if (unknown.length) box.append(unknownList(unknown));
  element.append(box);
}

/** Figures with a value, and those without. */
function parted(listed) {
  const isKnown = ({ value }) => value !== null && value !== undefined;
  return [listed.filter(isKnown), listed.filter((one) => !isKnown(one))];
}

/** The notices of a report, recommendations first; `said` is one that the page has already. */
export function notices(element, report, context, said = null) {
  const order = Object.keys(SEVERITY);
  const sorted = report.notices.filter((one) => one !== said).sort((one, other) =>
    order.indexOf(one.severity) - order.indexOf(other.severity)
  );
  if (!sorted.length) return;
  element.append(h("ul.notices", ...sorted.map((one) => notice(one, context))));
}

/** A part of the page with a heading; returns the element for its content. `actions`: nodes at its right. */
export function section(root, title, { note = null, actions = [] } = {}) {
  const body = h("div.section-body");
  root.append(
    h("section.section", { "aria-label": title }, h("div.section-head", h("h2", title), h("span.spring"), ...actions),
      note ? h("p.section-note", note) : null, body),
  );
  return body;
}

/** Nodes side by side, below each other if there is no room. */
export function columns(root, ...nodes) {
  const box = h("div.columns", ...nodes);
  root.append(box);
  return box;
}

/** A box with a small heading in a section, for a chart. */
export function panel(title, note = null) {
  const body = h("div.panel-body");
  const node = h("div.panel", h("h3", title), note ? h("p.section-note", note) : null, body);
  node.body = body;
  return node;
}

/** A sentence where there is nothing to show. */
export function sentence(element, words) {
  element.append(h("p.sentence", words));
}

/** What went wrong, with a way out. */
export function failure(message, words, onclick) {
  return h("div.failed", { role: "alert" }, h("p", message), h("button.button", { onclick }, words));
}

export const NO_OPS = "No ops ran on devices during the capture.";

/** What a saved report lacks, and where it is. */
export function notSaved(what) {
  return `A saved report has no ${what}. Open the session with fastprof serve to see them.`;
}

/** A notice with the name of the page's control for a flag; without its advice if the page has no such control. */
export function advised(words, controlled) {
  return controlled ? words.replace(FLAG, "“Steps from modules”") : words.replace(ADVICE, "");
}

function notice({ severity, text: words }, context) {
  const button = FLAG.test(words) ? stepsFromModules(context) : null;
  return h("li", { class: `notice notice-${severity}` }, h("span.notice-kind", SEVERITY[severity] ?? severity),
    h("span", advised(words, button !== null), button));
}

/** What a flag of the command does, as a button; null if the page does not take it. */
function stepsFromModules({ analysis, saved, push }) {
  if (saved || !analysis.params.some(({ name }) => name === "steps_from")) return null;
  const onclick = () => push({ steps_from: "modules" });
  return h("button.button.small.notice-button", { onclick }, "Take steps from modules");
}

/** Unknown figures with their reasons, as a line that opens. */
function unknownFigures(unknown) {
  const count = unknown.length === 1 ? "1 unknown figure" : `${unknown.length} unknown figures`;
  return h("details.unknown-figures", h("summary", count), unknownList(unknown));
}

function unknownList(unknown) {
  return h("dl.unknown-list", ...unknown.map((one) => [
    h("dt", capital(one.label || label(one.name))),
    h("dd", one.reason ?? "not known"),
  ]));
}

function capital(words) {
  return words ? words[0].toUpperCase() + words.slice(1) : words;
}
