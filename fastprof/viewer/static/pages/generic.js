// The page of any analysis, from what it says of itself: figures, and tables with their columns, in its sections.

import { figures, section, sentence } from "../cards.js";
import { picker } from "../controls.js";
import { reportPage } from "../report_page.js";
import { reportTable } from "../report_tables.js";
import { label } from "../units.js";

export const show = reportPage(draw);

function draw(body, report, context) {
  sections(body, report, context);
  allTables(body, report, context);
}

/** The sections of the analysis that have something to show; `titles`: only these. */
export function sections(body, report, context, titles = null) {
  for (const one of context.analysis.sections) {
    if (titles && !titles.includes(one.title)) continue;
    const data = one.table ? report.tables[one.table] : null;
    const known = one.scalars.filter((name) => report.scalars[name] && report.scalars[name].value !== null);
    if (data ? data.length === 0 : known.length === 0) continue;
    const part = section(body, one.title);
    if (one.scalars.length) figures(part, report, one.scalars);
    if (!data) continue;
    const columns = one.columns.length ? one.columns : undefined;
    reportTable(context, part, one.table, data, { columns, bar: one.bar, rows: Math.max(one.rows, 10) });
  }
}

/** Any table of the report, chosen from a list, with all of its columns. */
export function allTables(body, report, context, title = "All tables") {
  const names = Object.keys(report.tables);
  if (!names.length) return;
  const choices = names.map((name) => ({ value: name,
    text: `${label(name)} (${report.tables[name].length.toLocaleString("en-US")} rows)` })
  );
  let shown = null;
  const choose = (name) => {
    shown?.leave();
    const note = context.analysis.tables[name];
    part.querySelector(".table-row-note").textContent = note ? `A row is ${note}.` : "";
    shown = reportTable(context, part, name, report.tables[name], { rows: 12 });
  };
  const part = section(body, title, { actions: [picker({ label: "Table", options: choices, onchange: choose })] });
  sentence(part, "");
  part.lastElementChild.classList.add("table-row-note");
  choose(names[0]);
}
