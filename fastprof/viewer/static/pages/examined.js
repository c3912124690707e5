// Causes that were examined and cost little, as a line that opens, and what the capture does not record, as a card.

import { section } from "../cards.js";
import { copyButton } from "../clipboard.js";
import { h } from "../dom.js";
import { reportTable } from "../report_page.js";
import { label, number } from "../units.js";

const COLUMNS = ["label", "meaning", "cost_ps", "share", "reason"];
/** The flag of fastprof run that records what a capture lacks. */
const FLAGS = { "host threads": "--host-level 2", allocations: "--host-level 2",
  "Python functions": "--python-level 1" };

/** A function from a cause to its name in words. `report`: of the diagnosis, null if there is none. */
export function causeNames(report) {
  const named = new Map(report?.tables.examined?.rows().map((row) => [row.cause, row.label]) ?? []);
  return (cause) => sentenceOf([named.get(cause) ?? label(cause)]);
}

/** A line that opens: all causes that were examined, and recompilations. `report`: of the diagnosis. */
export function examinedCauses(body, report, page) {
  const analysis = page.analyses.find(({ name }) => name === "diagnosis");
  const context = Object.create(page, { analysis: { value: analysis } }); // whose tables these are
  const { examined, findings, recompilations } = report.tables;
  if (!examined?.length) return;
  const found = new Set(findings.column("cause"));
  const rest = examined.where((row) => !found.has(examined.value(row, "cause")));
  const judged = rest.select((row) => rest.value(row, "cost_ps") !== null);
  const names = judged.map((row) => rest.value(row, "label"));
  const unjudged = rest.length - judged.length;
  const words = [
    `${number(judged.length)} other ${judged.length === 1 ? "cause" : "causes"} checked: little or no time lost`,
    unjudged ? `${number(unjudged)} cannot be judged from this capture` : "",
  ].filter(Boolean).join("; ");
  const box = h("details.examined", h("summary", { title: names.join(", ") }, words));
  reportTable(context, box, "examined", examined, { columns: COLUMNS, rows: 24 });
  body.append(box);
  if (recompilations?.length) {
    const again = h("details.examined", h("summary", `${number(recompilations.length)} recompilations`));
    reportTable(context, again, "recompilations", recompilations, { rows: 12 });
    body.append(again);
  }
}

/** A card: what the capture lacks, how to record each, and one command for all that a flag records. */
export function missingRecords(body, report) {
  const data = report.tables.unrecorded;
  if (!data?.length) return;
  const rows = data.rows();
  const flags = [...new Set(rows.map(({ what }) => FLAGS[what]).filter(Boolean))];
  const command = `fastprof run ${flags.join(" ")} YOUR_PROGRAM.py`;
  const causes = new Set(rows.flatMap((row) => row.causes.split(", ")));
  section(body, "Not recorded").append(
    h("div.missing.panel", h("p", h("b", `${
      sentenceOf(rows.map(({ what }) => what))
    }. `), h("span.section-note", `${causes.size === 1 ? "1 cause" : `${number(causes.size)} causes`} may be missed.`)),
      flags.length
        ? h("div.command", h("code", command), copyButton(command, { kind: "button small", title: "Copy the command" }))
        : null, h("details", h("summary", "How to record each"), h("ul", rows.map((row) =>
          item(row, causeNames(report))
        )))),
  );
}

function item({ what, causes, how }, nameOf) {
  const named = causes.split(", ").map((cause) => nameOf(cause).toLowerCase()).join(", ");
  return h("li", h("b", `${sentenceOf([what])}.`), ` ${how}`, h("div.section-note", `May be missed: ${named}.`));
}

function sentenceOf(names) {
  const words = names.join(", ");
  return words[0].toUpperCase() + words.slice(1);
}
