// HLO stats: compiled instructions, their time by category, what is spent on saving memory, padding, and all of them.

import { columns, NO_OPS, panel, section, sentence } from "../cards.js";
import { rateBars } from "../charts/bar_list.js";
import { pie, ringPanel } from "../charts/ring.js";
import { FAINT } from "../colours.js";
import { picker, toggle } from "../controls.js";
import { h } from "../dom.js";
import { list } from "../list.js";
import { reportPage, reportTable, rowsOf, tableSection, wholeRow } from "../report_page.js";
import { text } from "../units.js";
import { besideDetails, code, detailsPanel, heat, meter, opFacts, opLinks } from "./details.js";

/** Columns of ops but for texts that are read when an op is chosen. */
const COLUMNS = list(`rank, program_id, program, category, name, core_type, occurrences, executions, total_ps,
  mean_ps, min_ps, self_ps, self_share, cumulative_self_share, busy_share, dma_stall_share, flops, model_flops,
  accessed_bytes, flops_per_s, bytes_per_s, flops_per_byte, hbm_bytes, hbm_bytes_per_s, bound_by, framework_op,
  source, is_rematerialized, is_outside_compilation, array_bytes, padded_bytes, padding_share, cores, unattributed`);
const SHOWN = list(`rank, name:220, category, occurrences, self_ps, self_share, total_ps, mean_ps, bound_by,
  flops_per_s, hbm_bytes_per_s, padding_share, framework_op, source, program, core_type`);

export const show = reportPage(draw, { params: ["steps"], tables: list(`ops, categories, programs,
  rematerialization, outside_compilation, replica_groups, attribution, padding, sparse_core_ops`),
  columns: { ops: COLUMNS } });

async function draw(body, report, context) {
  if (!report.tables.ops.length) return sentence(body, NO_OPS);
  charts(body, report, context);
  ops(body, report, context);
  others(body, report, context);
}

// ---- charts

function charts(body, report, context) {
  const { categories, ops: data } = report.tables;
  const [byCategory, byOp] = [panel("By category"), panel("By instruction")];
  const draw = (withIdle) => {
    const value = report.value("device_idle_ps") ?? 0;
    const idle = withIdle && value > 0 ? [{ name: "Idle", value, colour: FAINT }] : [];
    byCategory.body.replaceChildren();
    pie(byCategory.body, [...slices(categories, "category"), ...idle], { label: "Time by category",
      onclick: (slice) => slice.others || slice.name === "Idle" || context.push({ category: slice.name }) });
    byOp.body.replaceChildren();
    pie(byOp.body, [...slices(data, "name"), ...idle], { label: "Time by instruction" });
  };
  const choose = (withIdle) => {
    context.replace({ idle: withIdle ? "yes" : null });
    draw(withIdle);
  };
  const value = context.params.get("idle") === "yes";
  const part = section(body, "Time by op", {
    actions: [toggle({ label: "Idle time", value, onchange: choose })],
  });
  columns(part, byCategory, byOp, ...remade(report), ...groupPanel(report));
  draw(value);
  const rate = panel("FLOP/s of the longest instructions", "Only instructions with recorded operations.");
  part.append(rate);
  if (!rateBars(rate.body, data, data.select())) sentence(rate.body, "No instruction has recorded operations.");
}

/** Panels of the time of what is computed again or outside of compilation, if there is any. */
function remade(report) {
  const { categories, rematerialization, outside_compilation: outside } = report.tables;
  const boxes = [];
  if (report.value("rematerialized_share") > 0) {
    const again = categories.rows().map((row) => ({ name: row.category, value: row.rematerialized_ps }));
    boxes.push(
      ringPanel("Recomputed to save memory (rematerialization)",
        truths(rematerialization, "is_rematerialized", "Computed again", "All else")),
      ringPanel("Recomputation by category", again),
    );
  }
  if (report.value("outside_compilation_share") > 0) {
    const parts = truths(outside, "is_outside_compilation", "Outside compilation", "Compiled");
    boxes.push(ringPanel("Outside compilation", parts, {
      note: "Ops for outside compilation: code that XLA did not compile and that runs on the host.",
    }));
  }
  return boxes;
}

/** A panel of collectives by replica groups, if a category has several. */
function groupPanel({ tables: { replica_groups: data } }) {
  const categories = data.groupBy("category");
  if (data.length <= categories.size) return [];
  const box = panel("Collectives by replica groups");
  const choose = (category) => {
    const groups = categories.get(category).map((row) => ({ name: data.value(row, "replica_groups") || "all devices",
      value: data.value(row, "self_ps"), title: `${text(data.value(row, "group_size"))} devices a group` })
    );
    box.body.replaceChildren();
    pie(box.body, groups, { label: `${category} time by replica groups` });
  };
  const options = [...categories.keys()];
  if (options.length > 1) box.body.before(picker({ label: "Category", options, onchange: choose }));
  choose(options[0]);
  return [box];
}

function slices(data, by) {
  const self = data.column("self_ps");
  return data.column(by).map((name, row) => ({ name: name ?? "not known", value: self[row] }));
}

function truths(data, column, yes, no) {
  return data.column(column).map((is, row) => ({ name: is ? yes : no, value: data.value(row, "self_ps"),
    colour: is ? "#d9534f" : FAINT })
  );
}

// ---- the table of instructions

function ops(body, report, context) {
  const data = report.tables.ops;
  const category = context.params.get("category");
  const name = context.params.get("op");
  const details = detailsPanel(
    "Choose an instruction to see its HLO, its origin, and the memory layout of its arrays.",
  );
  const part = section(body, category ? `Instructions: ${category}` : "Instructions", {
    actions: category
      ? [h("button.button", { onclick: () => context.push({ category: null }) }, "All categories")]
      : [],
  });
  const left = besideDetails(part, details);
  const there = category && data.column("category").includes(category)
    ? data.where((row) => data.value(row, "category") === category)
    : data;
  const shown = reportTable(context, left, "ops", there, { columns: SHOWN, filters: ["category", "program"],
    bar: "self_share", rows: 20, onrow: (row) => describe(details, there, row, context) });
  const first = name ? there.column("name").indexOf(name) : -1;
  if (first >= 0) {
    shown.select(first);
    describe(details, there, first, context);
  }
}

function describe(details, data, row, context) {
  const name = data.value(row, "name");
  context.replace({ op: name });
  return details.load(name, opNodes(data, row, context));
}

async function opNodes(data, row, context) {
  const rank = data.value(row, "rank");
  const [full, arrays] = await Promise.all([wholeRow(context, "ops", rank - 1), layoutsOf(context, rank)]);
  const { row: known, data: about } = full ?? { row: data.row(row), data };
  const { dma_stall_share: stalled = null } = known;
  return [
    meter("Time waiting for memory transfers", stalled === null ? null : stalled * 100, null, heat(1 - stalled)),
    opLinks(context, known, "hlo_stats"),
    code("HLO", known.expression),
    code("Framework op", known.framework_op),
    code("Source", known.source_stack ?? known.source),
    ...opFacts(about, known),
    arrays,
  ];
}

/** The arrays that an op reads and writes, as they lie in memory. */
async function layoutsOf(context, rank) {
  const arrays = await rowsOf(context, "layouts", "rank", rank);
  if (!arrays.length) return null;
  return h("table.plain-table",
    h("thead", h("tr", ["Array", "Shape", "Bytes", "Padding"].map((name) => h("th", name)))),
    h("tbody",
      arrays.map((one) =>
        h("tr", { title: `${one.layout}${one.tile ? `, tiles ${one.tile}` : ""}` }, h("td", one.operand),
          h("td", one.shape), h("td", text(one.padded_bytes, "bytes")), h("td", text(one.padding_share, "share")))
      )));
}

// ---- the other tables

function others(body, report, context) {
  const { programs, attribution } = report.tables;
  tableSection(context, body, "padding", report.tables.padding);
  tableSection(context, body, "replica_groups", report.tables.replica_groups);
  tableSection(context, body, "sparse_core_ops", report.tables.sparse_core_ops, {
    title: "SparseCore work for ops",
  });
  if (programs.length > 1) tableSection(context, body, "programs", report.tables.programs);
  if (attribution.length > 1) tableSection(context, body, "attribution", report.tables.attribution);
}
