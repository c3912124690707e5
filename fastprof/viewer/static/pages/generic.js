// The page of any analysis, from its own description: figures and tables in its sections, then any table.

import { figures, section } from "../cards.js";
import { picker } from "../controls.js";
import { h } from "../dom.js";
import { reportPage, reportTable } from "../report_page.js";
import { label, number } from "../units.js";

export const show = reportPage(draw);

function draw(body, report, context) {
  for (const one of context.analysis.sections) drawSection(body, one, report, context);
  allTables(body, report, context);
}

/** A section of the analysis, if it has something to show. */
function drawSection(body, { title, table, columns, scalars, bar, rows }, report, context) {
  const data = report.tables[table];
  const isEmpty = data ? data.length === 0 : scalars.every((name) => report.value(name) === null);
  if (isEmpty) return;
  const part = section(body, title);
  if (scalars.length) figures(part, report, scalars);
  if (data)
    reportTable(context, part, table, data, { columns: columns.length ? columns : null, bar,
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
  const part = section(body, "All tables", { actions: [picker({ label: "Table", options, onchange: choose })] });
  choose(options[0][0]);
}
