// What costs the time: the findings, then every cause that was looked at, and what the capture does not record.

import { section } from "../cards.js";
import { h } from "../dom.js";
import { reportPage, tableSection } from "../report_page.js";
import { findings, headline } from "./findings.js";

const EXAMINED = ["cause", "meaning", "cost_ps", "share", "reason"];

export const show = reportPage(draw, { params: ["steps_from", "steps", "device", "peak"], headline,
  lead: (report, context) => findings(report, context) });

function draw(body, report, context) {
  tableSection(context, body, "examined", report.tables.examined, { columns: EXAMINED, rows: 24 });
  missing(body, report.tables.unrecorded);
}

/** What the capture lacks, how to record it, and what may be missed without it. */
function missing(body, data) {
  if (!data.length) return;
  const items = data.rows().map(({ what, causes, how }) =>
    h("li", h("b", `${what[0].toUpperCase()}${what.slice(1)}.`), ` ${how}`,
      h("div.section-note", `Without that, these causes may be missed: ${causes.replaceAll("_", " ")}.`))
  );
  section(body, "Not recorded").append(h("ul.verdicts.panel", ...items));
}
