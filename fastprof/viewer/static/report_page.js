// What pages of analyses share: the parameters as controls, the report, its notices and tables.

import { failure, notices, section } from "./cards.js";
import { field, picker, toggle } from "./controls.js";
import { h } from "./dom.js";
import { followed, opening, skeleton } from "./opening.js";
import { fault } from "./parameter_faults.js";
import { table } from "./table.js";
import { read, written } from "./table_address.js";
import { label } from "./units.js";

/** The parameter of the address that names a table to bring into sight. */
export const TABLE = "table";

const STEPS = {
  name: "steps",
  type: "steps",
  default: null,
  choices: null,
  help: "only the steps from A to B (exclusive): 3:5, 3:, :5; 3 is one step; train=3:5: called train",
};

/**
 * The `show` of a page of an analysis. `draw(body, report, context)` fills the body. `params`: names of the parameters that
 * get controls, null for all; `tables`: the requested tables, and `columns` by table, if not all. Others: as `opening` has
 * them, but that `lead(report, context)` makes the node. `plain`: only the headline comes before the body; `draw` shows notices,
 * but the one that became the headline, which it receives. The table that the address names is brought into sight.
 */
export function reportPage(draw,
  { params = null, tables = null, columns = {}, lead = () => null, plain = false, ...options } = {})
{
  return async (root, context) => {
    const bar = parameters(context, params);
    if (bar) root.append(bar);
    const headline = h("p.headline", "Reading the capture …");
    const waiting = skeleton(headline);
    const ended = new AbortController();
    root.append(waiting);
    if (!context.saved) followed(headline, context.source, AbortSignal.any([ended.signal, context.signal]));
    const report = await reported(root, context, () => part(context, { tables, columns })).finally(() => {
      ended.abort();
      waiting.remove();
    });
    if (!report || context.signal.aborted) return;
    const said = opening(root, report, context.analysis.opening, { cards: !plain, ...options,
      lead: lead(report, context) });
    if (!plain) notices(root, report, context, said);
    const body = h("div.page-body");
    root.append(body);
    await draw(body, report, context, said);
    if (context.params.has(TABLE)) reveal(body, context.params.get(TABLE));
  };
}

/** Scrolls to the first table of that name, with the heading above it. */
function reveal(body, name) {
  const found = [...body.querySelectorAll("[data-table]")].find((one) => one.dataset.table === name);
  for (let node = found; node; node = node.parentElement) if (node.localName === "details") node.open = true;
  found?.scrollIntoView({ block: "center" });
  found?.querySelector("[role=grid]").focus({ preventScroll: true });
}

/**
 * A table of the report of the page in an element; `name`: what the report calls it, `data`: its rows to show. Options: as
 * `table` has them. It first shows the columns that the analysis shows in text, all if there are none, and the host if
 * there are several. Columns in which nothing is recorded are hidden, filters of one value left out. The address says how
 * it is sorted and filtered.
 */
export function reportTable(context, element, name, data, { columns, filters = [], ...options } = {}) {
  const inText = sectionsOf(context, name);
  const hosts = data.has("host") && data.coded("host").texts.length > 1 ? ["host"] : [];
  const shown = inText.flatMap((one) => one.columns);
  const first = columns ?? (shown.length ? [...new Set([...hosts, ...shown])] : []);
  const recorded = first.filter((column) => data.isRecorded(column.name ?? column)).map((column) =>
    named(column, inText)
  );
  return table(element, data, {
    rows: 10,
    bar: inText[0]?.bar,
    ...options,
    ...addressed(context, name, options),
    columns: recorded.length ? recorded : null,
    filters: filters.filter((column) => data.has(column) && data.coded(column).texts.length > 1),
    csv: csvAddress(context, name),
    command: commandOf(context, name),
  });
}

/** A column with the display names of its values, if there are any. */
function named(column, sections) {
  const words = sections.find((one) => one.words[column])?.words[column];
  return words ? { name: column, words } : column;
}

/** The options of a table whose sorting and filters are in the address; `sort`, `filter`: those at first. */
export function addressed(context, name, { sort = null, filter = "", changed = null }) {
  const given = read(context.params, name);
  return { name, sort: given.sort === undefined ? sort : given.sort, filter: given.filter || filter,
    values: given.values,
    changed: changed ?? ((state) => context.replace(written(context.params, name, state, sort))) };
}

/** A table of the report in a section of its own, if it has rows. Options: as `section` and `reportTable` have them. */
export function tableSection(context, body, name, data, { title, note, actions, ...options } = {}) {
  if (!data.length) return null;
  const part = section(body, title ?? sectionsOf(context, name)[0].title, { note, actions });
  return reportTable(context, part, name, data, options);
}

/** The sections of the analysis that have a table. */
function sectionsOf(context, name) {
  return context.analysis.sections.filter((one) => one.table === name);
}

/** The address of a table of the report as a file; null in a saved report. */
export function csvAddress(context, name) {
  const { analysis } = context;
  return context.source.csv(analysis.name, name, asked(analysis, context));
}

/** The command that makes a table of the report. */
function commandOf(context, name) {
  const { analysis, run } = context;
  const given = Object.entries({ ...(run && { run }), ...asked(analysis, context) });
  const flags = given.map(([flag, value]) => [flag.replaceAll("_", "-"), String(value)]).map(([flag, value]) =>
    value === "true" ? `--${flag}` : value === "false" ? `--no-${flag}` : `--${flag} ${quoted(value)}`
  );
  return ["fastprof", analysis.verb, quoted(context.title ?? "SESSION"), ...flags, `--table ${name} --format csv`].join(
    " ",
  );
}

/** A word of a shell. */
function quoted(word) {
  return /^[\w./:=,@%+-]+$/.test(word) ? word : `'${word.replaceAll("'", "'\\''")}'`;
}

/** Tables of the report that the page shows; `first` and `rows`: some rows of them only. */
function part(context, { tables = null, columns = {}, first = null, rows = null }) {
  const named = Object.entries(columns).flatMap(([table, names]) => names.map((name) => `${table}.${name}`));
  const wanted = {
    tables: tables ? tables.join(",") : null,
    columns: named.length ? named.join(",") : null,
    first,
    rows,
  };
  const options = asked(context.analysis, context);
  for (const [name, value] of Object.entries(wanted)) if (value !== null) options[name] = value;
  return context.source.report(context.analysis.name, options, context.signal);
}

/** A table of the report that is not requested with the page: these columns, `rows` rows from the row `first` on. */
export async function tablePart(context, name, { columns = null, ...options } = {}) {
  const { tables } = await part(context, { tables: [name], columns: columns ? { [name]: columns } : {}, ...options });
  return tables[name];
}

/** All columns of one row of a table, {row, data}, by its number; null if a saved report lacks the row. */
export async function wholeRow(context, table, row) {
  const data = await tablePart(context, table, { first: row, rows: 1 });
  return data.length ? { row: data.row(0), data } : null;
}

/** The rows of a table that have a value in a column; they follow each other in the table. */
export async function rowsOf(context, table, column, value) {
  const index = await tablePart(context, table, { columns: [column] });
  const rows = index.groupBy(column).get(value);
  if (!rows) return [];
  const data = await tablePart(context, table, { first: rows[0], rows: rows.at(-1) - rows[0] + 1 });
  return data.rows().filter((row) => row[column] === value);
}

/** A parameter of the address that is one of some values; the first one if it is another. */
export function choice(context, name, values) {
  const value = context.params.get(name);
  return values.includes(value) ? value : values[0];
}

/**
 * The report that `ask` returns. If a parameter is wrong: null, and a sentence below the controls. Most faults are found
 * without asking.
 */
async function reported(root, context, ask) {
  const given = context.saved ? [] : paramsOf(context.analysis).filter(({ name }) => context.params.has(name));
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
  root.append(failure(problem, "Show the page without it", without));
  return null;
}

function paramsOf(analysis) {
  return [...analysis.params, STEPS];
}

/** What the URL says of a report: the host, and the parameters of the analysis. */
export function asked(analysis, context) {
  const { params, host } = context;
  const given = paramsOf(analysis).filter(({ name }) => params.has(name)).map(({ name }) => [name, params.get(name)]);
  return { ...(host !== null && { host }), ...Object.fromEntries(given) };
}

/** A bar of controls, one per parameter, that write it into the URL; null if there is none. */
function parameters(context, names) {
  const shown = paramsOf(context.analysis).filter(({ name }) => names === null || names.includes(name));
  if (context.saved || !shown.length) return null;
  return h("div.parameters", ...shown.map((param) => control(param, context)));
}

function control(param, context) {
  const usual = param.default === null ? "" : String(param.default);
  const value = context.params.get(param.name) ?? usual;
  const onchange = (to) => context.push({ [param.name]: to === usual ? null : to });
  const shared = { label: label(param.name), title: param.help, onchange };
  if (param.choices) return picker({ ...shared, options: param.choices, value });
  if (param.type === "bool")
    return toggle({ ...shared, value: value === "true", onchange: (to) => onchange(String(to)) });
  const placeholder = { steps: "all", time: "1.5s", bytes: "2GiB" }[param.type] ?? "";
  return field({ ...shared, label: param.name.endsWith("_us") ? `${label(param.name)}, µs` : label(param.name), value,
    placeholder });
}
