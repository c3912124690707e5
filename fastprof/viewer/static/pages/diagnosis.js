// What costs the time: the findings, then every cause that was looked at, and what the capture does not record.

import { section, sentence } from "../cards.js";
import { reportPage, tableSection } from "../report_page.js";
import { findings, headline } from "./findings.js";

export const show = reportPage(draw, { headline });

function draw(body, report, context) {
  const list = findings(report, context);
  const part = section(body, "What costs the time");
  if (list) part.append(list);
  else sentence(part, "No cause takes 1 % of the run or more.");
  tableSection(context, body, "examined", report.tables.examined);
  tableSection(context, body, "unrecorded", report.tables.unrecorded);
}
