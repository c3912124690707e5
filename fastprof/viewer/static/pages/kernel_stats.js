// Kernels of GPUs: how long they take, what they need, which use Tensor Cores.

import { columns, section, sentence } from "../cards.js";
import { ringPanel } from "../charts/ring.js";
import { h, shortened } from "../dom.js";
import { kernelName } from "../kernel_names.js";
import { list } from "../list.js";
import { reportPage, reportTable, tableSection } from "../report_page.js";

export const show = reportPage(draw);

const COLUMNS = list(`name, op_name, occurrences, total_ps, total_share, mean_ps, min_ps, max_ps, uses_tensor_cores,
  could_use_tensor_cores, occupancy_percent, registers_per_thread, shared_bytes, grid_dim, block_dim`);

const TENSOR_CORES = {
  "uses them": "#3fa66b",
  "eligible, not used": "#f0882e",
  "does not": "#6d7a8d",
  "not known": "#a3adbb",
};

function draw(body, report, context) {
  const { kernels, ops } = report.tables;
  if (!kernels.length) {
    sentence(body, "No kernels ran on devices during the capture.");
    return;
  }
  rings(body, kernels, ops);
  const note = "One row per kernel name, op and launch size; times are summed over devices and streams.";
  const part = section(body, "Kernels", { note });
  reportTable(context, part, "kernels", kernels, { columns: shown(kernels, context), bar: "total_share",
    filters: ["name", "op_name"], rows: 20 });
  tableSection(context, body, "ops", report.tables.ops);
}

function rings(body, kernels, ops) {
  const rings = [
    ["By kernel", sums(kernels, "name", kernelName)],
    ["By op", sums(ops, "op_name")],
    ["By use of Tensor Cores", cores(kernels)],
  ].filter(([, slices], at) => at === 0 || slices.length > 1);
  const boxes = rings.map(([title, slices]) => ringPanel(title, slices, { most: 9, height: 240 }));
  columns(body, ...boxes).classList.add("columns-rings");
}

/** Time by what the values of a column are called; several that are called alike are one. */
function sums(data, by, short = (name) => shortened(name, 200)) {
  const groups = Map.groupBy(data.groupBy(by), ([name]) => short(name ?? "unknown"));
  return [...groups].map(([name, all]) => {
    const [full] = all[0];
    const other = full && full !== name ? shortened(full, 300) : null;
    const value = all.reduce((sum, [, rows]) => sum + data.sum("total_ps", rows), 0);
    return { name, value, title: all.length > 1 ? `${all.length} of this name` : other };
  });
}

/** Kernel time by whether it ran on Tensor Cores, or could have. */
function cores(kernels) {
  const kind = ({ uses_tensor_cores: uses, could_use_tensor_cores: could }) => {
    if (uses === null) return "not known";
    if (uses) return "uses them";
    return could ? "eligible, not used" : "does not";
  };
  return [...Map.groupBy(kernels.rows(), kind)].map(([name, rows]) => ({
    name,
    value: rows.reduce((sum, row) => sum + row.total_ps, 0),
    colour: TENSOR_CORES[name],
  }));
}

function shown(kernels, context) {
  const several = context.host === null && kernels.groupBy("host").size > 1;
  const named = { name: "name", node: (name) => h("span", { title: name }, kernelName(name)) };
  const columns = COLUMNS.map((column) => (column === "name" ? named : column));
  return several ? ["host", ...columns] : columns;
}
