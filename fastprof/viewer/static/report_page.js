// What pages of analyses share: the parameters as controls, the report, its notices; and what is left when a page is.

import { notices } from "./cards.js";
import { field, picker, toggle } from "./controls.js";
import { h } from "./dom.js";
import { fault } from "./parameter_faults.js";
import { label } from "./units.js";

const STEPS = {
  name: "steps",
  type: "steps",
  default: null,
  choices: null,
  help: "only what belongs to the steps from A up to B, B left out: 3:5, 3:, :5; 3 is one step",
};

/**
 * The `show` of a page of an analysis. `draw(body, report, context)` fills the body; `context.keep(handle)` there leaves a
 * chart or table with the page. `params`: names of the parameters that get controls, null for all; `tables`: those
 * requested, and `columns` by table, where not all are.
 */
export function reportPage(draw, { params = null, tables = null, columns = {} } = {}) {
  return async (root, context) => {
    const kept = [];
    const listed = context.analysis;
    const own = Object.assign(Object.create(context), { listed, keep(handle) {
      if (kept.left) handle.leave();
      else kept.push(handle);
      return handle;
    } });
    const bar = parameters(listed, own, params);
    if (bar) root.append(bar);
    const report = await reported(root, listed, own, () => part(own, { tables, columns }));
    if (report && !context.signal.aborted) {
      notices(root, report, own);
      const body = h("div.page-body");
      root.append(body);
      await draw(body, report, own);
    }
    return { leave() {
      kept.left = true;
      for (const handle of kept) handle.leave();
    } };
  };
}

/** Tables of the report that the page shows; `first` and `rows`: some rows of them only. */
export function part(context, { tables = null, columns = {}, first = null, rows = null }) {
  const named = Object.entries(columns).flatMap(([table, names]) => names.map((name) => `${table}.${name}`));
  const wanted = {
    tables: tables ? tables.join(",") : null,
    columns: named.length ? named.join(",") : null,
    first,
    rows,
  };
  const options = asked(context.listed, context);
  for (const [name, value] of Object.entries(wanted)) if (value !== null) options[name] = value;
  return context.source.report(context.listed.name, options, context.signal);
}

/** All columns of one row of a table, {row, data}, by its number; null where a saved report has been cut before it. */
export async function wholeRow(context, table, row) {
  const report = await part(context, { tables: [table], first: row, rows: 1 });
  const data = report.tables[table];
  const at = data.length === 1 ? 0 : row;
  return at < data.length ? { row: data.row(at), data } : null;
}

/** Says once below a heading that something is not in a saved report. */
export function needsServer(context, element, what) {
  if (context.saved) element.append(h("p.sentence", `${what} a server: fastprof serve has it.`));
}

/**
 * The report that `ask` gives. Where a parameter is wrong: null, and a sentence that says so below the controls. Most faults
 * are found without asking.
 */
async function reported(root, analysis, context, ask) {
  const given = context.saved ? [] : [...analysis.params, STEPS].filter(({ name }) => context.params.has(name));
  let problem = given.map((param) => fault(param, context.params.get(param.name))).find((one) => one !== null) ?? null;
  if (problem === null) {
    try {
      return await ask();
    } catch (error) {
      if (error.status !== 400 || !given.length || context.signal.aborted) throw error;
      problem = error.message;
    }
  }
  const without = () => context.push(Object.fromEntries(given.map(({ name }) => [name, null])));
  root.append(
    h("div.failed", { role: "alert" }, h("p", problem),
      h("button.button", { onclick: without }, "Show the page without it")),
  );
  return null;
}

/** What the URL asks of a report: the host, steps and parameters of the analysis. */
export function asked(analysis, context) {
  const found = {};
  if (context.host !== null) found.host = context.host;
  for (const { name } of [...analysis.params, STEPS]) {
    if (context.params.has(name)) found[name] = context.params.get(name);
  }
  return found;
}

/** A bar of controls, one a parameter, that write it into the URL; null where there is none. */
export function parameters(analysis, context, names = null) {
  if (context.saved) return null;
  const there = [...analysis.params, STEPS].filter(({ name }) => names === null || names.includes(name));
  if (!there.length) return null;
  return h("div.parameters", ...there.map((param) => control(param, context)));
}

function control(param, context) {
  const value = context.params.get(param.name) ?? (param.default === null ? "" : String(param.default));
  const usual = param.default === null ? "" : String(param.default);
  const onchange = (to) => context.push({ [param.name]: to === usual ? null : to });
  const shared = { label: label(param.name), title: param.help, onchange };
  if (param.choices) return picker({ ...shared, options: param.choices, value });
  if (param.type === "bool")
    return toggle({ ...shared, value: value === "true", onchange: (to) => onchange(String(to)) });
  const placeholder = { steps: "all", time: "1.5s", bytes: "2GiB" }[param.type] ?? "";
  return field({ ...shared, label: param.name.endsWith("_us") ? `${label(param.name)}, µs` : label(param.name), value,
    placeholder });
}
