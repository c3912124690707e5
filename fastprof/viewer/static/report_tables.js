// Tables of reports on pages: with their file, without columns in which nothing is recorded, left with the page.

import { asked } from "./report_page.js";
import { table } from "./table.js";

/**
 * A table of the report of the page in an element; `name`: what the report calls it, `data`: its rows to show. Options: as
 * `table` has them. Columns in which nothing is recorded are hidden, filters of one value left out.
 */
export function reportTable(context, element, name, data, { columns, filters = [], ...options } = {}) {
  return context.keep(table(element, data, {
    rows: 10,
    ...options,
    columns: data.length ? columns?.filter((column) => isRecorded(data, column.name ?? column)) : columns,
    filters: filters.filter((column) => data.has(column) && data.coded(column).texts.length > 1),
    csv: address(context, name),
  }));
}

/** Whether a table has the column, and a value in it. */
export function isRecorded(data, name) {
  return data.has(name) && data.column(name).some((value) => value !== null && value !== "");
}

/** The address of a table of the report as a file; null in a saved report. */
export function address(context, name) {
  const { analysis } = context;
  return context.source.csv(analysis.name, name, asked(analysis, context));
}
