// What is known of a node of the op profile: times, rates against the peaks, memory by space, its HLO.

import { notSaved } from "../cards.js";
import { h } from "../dom.js";
import { rowsOf, wholeRow } from "../report_page.js";
import { text } from "../units.js";
import { code, meter, opFacts, opLinks, pairList } from "./details.js";

/** Nodes of the page about a row of one of the trees. */
export async function nodeDetails(context, view, node) {
  const [full, spaces] = await Promise.all([
    wholeRow(context, view, node),
    view === "tree" ? memoryOf(context, node) : [],
  ]);
  if (full === null) return [h("p.sentence", notSaved("more rows"))];
  const { row, data } = full;
  const op = row.kind === "op" || row.kind === "instruction";
  return [
    meter("Arithmetic of the peak", row.compute_peak_percent,
      rate(row.compute_peak_percent, row.flops_per_s, "flop/s")),
    meter("HBM bandwidth of the peak", row.hbm_peak_percent,
      rate(row.hbm_peak_percent, row.hbm_bytes_per_s, "bytes/s")),
    ...spaces,
    row.lost_ps !== null && row.self_ps
      ? meter("Time at the peak", 100 * (1 - row.lost_ps / row.self_ps), `${text(row.lost_ps, "ps")} lost`)
      : null,
    op ? opLinks(context, row) : null,
    code("HLO", row.expression),
    code("Scope", row.path),
    code("Framework op", row.framework_op),
    code("Source", row.source),
    ...opFacts(data, row),
  ];
}

/** Meters of the memories that the ops below a node use, beside HBM. */
async function memoryOf(context, node) {
  const rows = await rowsOf(context, "memory", "node", node);
  return rows.filter((row) => row.memory !== "HBM").map((row) =>
    meter(row.memory, row.peak_percent, rate(row.peak_percent, row.bytes_per_s, "bytes/s"))
      ?? pairList([[row.memory, text(row.accessed_bytes, "bytes"), "The bandwidth of this memory is unknown"]])
  );
}

function rate(percent, value, unit) {
  return value === null ? text(percent, "%") : `${text(percent, "%")}, ${text(value, unit)}`;
}
