// The page of any analysis, from its own description: figures and tables in its sections, then any table.

import { figures, section } from "../cards.js";
import { picker } from "../controls.js";
import { h } from "../dom.js";
import { reportPage, reportTable, TABLE } from "../report_page.js";
import { label, number } from "../units.js";
import { spanColumns, spanOf, timelineButton } from "./details.js";

export const show = reportPage(draw);

function draw(body, report, context) {
  for (const one of context.analysis.sections) drawSection(body, one, report, context);
  allTables(body, report, context);
}

/** A section of the analysis with a table, if it has rows; the page begins with all figures. */
function drawSection(body, { title, table, columns, scalars, bar, rows }, report, context) {
  const data = report.tables[table];
  if (!data?.length) return;
  let [shown, chosen] = [null, null];
  const place = () => spanOf(data, chosen ?? shown.rows.order[0] ?? 0);
  const part = section(body, title, {
    actions: spanColumns(data) ? [timelineButton(context, place, "Show the row in the timeline")] : [],
  });
  if (scalars.length) figures(part, report, scalars);
  const onrow = (row) => {
    chosen = row;
  };
  shown = reportTable(context, part, table, data, { columns: columns.length ? columns : null, bar, onrow,
    rows: Math.max(rows, 10) });
}

/** Any table of the report, chosen from a list, with all of its columns. */
function allTables(body, report, context) {
  const options = Object.entries(report.tables).map((
    [name, { length }],
  ) => [name, `${label(name)} (${number(length)} rows)`]);
  if (!options.length) return;
  const choose = (name) => {
    const row = context.analysis.tables[name];
    part.replaceChildren(h("p.sentence.table-row-note", row ? `A row is ${row}.` : ""));
    reportTable(context, part, name, report.tables[name], { columns: report.tables[name].columns, bar: null,
      rows: 12 });
  };
  const named = context.params.get(TABLE) ?? "";
  const isExtra = Object.hasOwn(report.tables, named)
    && !context.analysis.sections.some(({ table }) => table === named);
  const value = isExtra ? named : options[0][0];
  const part = section(body, "All tables", {
    actions: [picker({ label: "Table", options, value, onchange: choose })],
  });
  choose(value);
}
