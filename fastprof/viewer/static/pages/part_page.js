// Pages that ask for the tables and columns that they show, not for all of a report: programs may have a hundred
// thousand instructions, and captures millions of allocations.

import { notices } from "../cards.js";
import { h } from "../dom.js";
import { asked, parameters, reported } from "../report_page.js";

/**
 * The `show` of a page. `draw(body, report, context)` fills the body; `context.keep(handle)` leaves a chart or table with
 * the page, and so does leave() of what `draw` returns. `analysis`: which one the report is of; `params`: names of its
 * parameters that get controls; `tables`: those asked for, and `columns` by table, where not all are.
 */
export function partPage(draw, { analysis, params = [], tables = null, columns = {} }) {
  return async (root, context) => {
    const kept = [];
    const own = Object.assign(Object.create(context), { listed: context.analyses.find((one) => one.name === analysis),
      keep(handle) {
        Promise.resolve(handle).then((found) => (kept.left ? found?.leave?.() : kept.push(found)));
        return handle;
      } });
    const bar = params.length ? parameters(own.listed, own, params) : null;
    if (bar) root.append(bar);
    const report = await reported(root, own.listed, own, () => part(own, { tables, columns }));
    if (context.signal.aborted || !report) return { leave() {} };
    notices(root, report, own);
    const body = h("div.page-body");
    root.append(body);
    const drawn = await draw(body, report, own);
    return { leave() {
      kept.left = true;
      drawn?.leave?.();
      for (const handle of kept) handle?.leave?.();
    } };
  };
}

/** Tables of the report that the page shows; `first` and `rows`: some rows of them only. */
export function part(context, { tables = null, columns = {}, first = null, rows = null }, more = {}) {
  const named = Object.entries(columns).flatMap(([table, names]) => names.map((name) => `${table}.${name}`));
  const wanted = { tables: tables ? tables.join(",") : null, columns: named.length ? named.join(",") : null, first,
    rows };
  const options = { ...asked(context.listed, context), ...more };
  for (const [name, value] of Object.entries(wanted)) if (value !== null) options[name] = value;
  return context.source.report(context.listed.name, options, context.signal);
}

/** All columns of one row of a table, by its number; null where a saved report has been cut before it. */
export async function wholeRow(context, table, row) {
  const report = await part(context, { tables: [table], first: row, rows: 1 });
  const data = report.tables[table];
  if (data.length === 1) return data.row(0);
  return row < data.length ? data.row(row) : null;
}

/** Says once below a heading that something is not in a saved report. */
export function needsServer(context, element, what) {
  if (context.saved) element.append(h("p.sentence", `${what} a server: fastprof serve has it.`));
}
