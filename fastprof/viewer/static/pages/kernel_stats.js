// Kernels of GPUs: how long they take, what they need, which use Tensor Cores.

import { columns, figures, panel, section, sentence } from "../cards.js";
import { pie } from "../charts/ring.js";
import { h, shortened } from "../dom.js";
import { kernelName } from "../kernel_names.js";
import { list } from "../list.js";
import { reportPage } from "../report_page.js";
import { address, reportTable } from "../report_tables.js";
import { table } from "../table.js";

export const show = reportPage(draw);

const COLUMNS = list(`name, op_name, occurrences, total_ps, total_share, mean_ps, min_ps, max_ps, uses_tensor_cores,
  could_use_tensor_cores, occupancy_percent, registers_per_thread, shared_bytes, grid_dim, block_dim`);

function draw(body, report, context) {
  const { kernels, ops } = report.tables;
  figures(section(body, "Kernel time"), report);
  if (!kernels.length) {
    sentence(body, "No GPU kernel ran while this was captured.");
    return;
  }
  rings(body, kernels, ops, context);
  const note = "Kernels of one name, op and launch size are one row; times are summed over all devices and streams.";
  const part = section(body, "Kernels", { note });
  const csv = address(context, "kernels");
  context.keep(
    table(part, kernels, { columns: shown(kernels, context), bar: "total_share", filters: ["name", "op_name"], csv,
      rows: 20 }),
  );
  if (ops.length) {
    const below = section(body, "Ops by the time of their kernels");
    reportTable(context, below, "ops", ops, { bar: "total_share" });
  }
}

function rings(body, kernels, ops, context) {
  const choices = [["By kernel", sums(kernels, "name", kernelName)], ["By op", sums(ops, "op_name")], [
    "By use of Tensor Cores",
    cores(kernels),
  ]];
  const draws = choices.filter(([, slices], at) => at === 0 || slices.length > 1).map((
    [title, slices],
  ) => [panel(title), slices]);
  columns(body, ...draws.map(([box]) => box)).classList.add("columns-rings");
  for (const [box, slices] of draws)
    context.keep(
      pie(box.body, slices, { unit: "ps", most: 9, height: 240, label: box.querySelector("h3").textContent }),
    );
}

/** Time by what the values of a column are called; several that are called alike are one. */
function sums(data, by, short = (name) => shortened(name, 200)) {
  const found = new Map();
  for (const [name, rows] of data.groupBy(by)) {
    const called = short(name ?? "unknown");
    found.set(called, [...(found.get(called) ?? []), { name, value: data.sum("total_ps", rows) }]);
  }
  return [...found].map(([name, of]) => ({ name,
    title: of.length > 1
      ? `${of.length} of this name`
      : of[0].name && of[0].name !== name
      ? shortened(of[0].name, 300)
      : null, value: of.reduce((sum, { value }) => sum + value, 0) })
  );
}

/** Kernel time by whether it ran on Tensor Cores, or could have. */
function cores(kernels) {
  const totals = new Map();
  for (const { uses_tensor_cores: uses, could_use_tensor_cores: could, total_ps: time } of kernels.rows()) {
    const kind = uses
      ? "uses them"
      : uses === null && could === null
      ? "not known"
      : could
      ? "could, but does not"
      : "does not";
    totals.set(kind, (totals.get(kind) ?? 0) + time);
  }
  const shade = { "uses them": "#3fa66b", "could, but does not": "#f0882e", "does not": "#6d7a8d",
    "not known": "#a3adbb" };
  return [...totals].map(([name, value]) => ({ name, value, colour: shade[name] }));
}

function shown(kernels, context) {
  const several = context.host === null && kernels.groupBy("host").size > 1;
  const named = { name: "name", node: (name) => h("span", { title: name }, kernelName(name)) };
  const columns = COLUMNS.map((column) => (column === "name" ? named : column));
  return several ? ["host", ...columns] : columns;
}
