// Flame graphs of a run whose colours say how the share of each box changed since a base run: layers, and Python.

import { h } from "../dom.js";
import { signed } from "../units.js";
import { FlameGraph } from "./flame_graph.js";

const GRAPHS = [["Layers", "op_profile", "layers", "self_ps"], ["Python", "python_time", "stacks", "total_ps"]];
const LEAST = 0.0005;
const NOTE =
  "The width of a box is its time in the new run; red has a larger share of it than in the base run, green a "
  + "smaller one, in percentage points (pp). Parts that only the base run has are not drawn: swap the runs to see them.";
const [SAME, LARGER, SMALLER] = [[201, 206, 214], [217, 83, 79], [63, 166, 107]];

/** Lines that open to a flame graph each, for which both runs are analysed then. */
export function changeFlames(body, context, base) {
  for (const [title, ...graph] of GRAPHS) {
    if (!context.lists(graph[0])) continue;
    const status = h("p.section-note", { role: "status" }, "Reading both runs …");
    const box = h("details.examined", h("summary", `${title}: changes as a flame graph`), status);
    const opened = () =>
      fill(box, status, title, graph, context, base).catch((error) => {
        if (!context.signal.aborted) status.textContent = error.message;
      });
    box.addEventListener("toggle", opened, { once: true });
    body.append(box);
  }
}

async function fill(box, status, title, [analysis, table, column], { source, signal }, base) {
  const runs = [{}, { run: base, version: null }].map((run) =>
    source.report(analysis, { ...run, tables: table }, signal)
  );
  const [data, before] = (await Promise.all(runs)).map(({ tables }) => tables[table]);
  if (signal.aborted) return null;
  status.textContent = data.length && before.length ? NOTE : "One of the runs has no such record.";
  if (!data.length || !before.length) return null;
  const changes = shareChanges(data, before, column);
  const most = changes.reduce((found, change) => Math.max(found, Math.abs(change)), LEAST);
  const words = (node) =>
    Math.abs(changes[node]) < LEAST ? "" : ` ${signed(Number((100 * changes[node]).toFixed(1)))} pp`;
  return new FlameGraph(box, {
    title: `Changes of ${title}`,
    parents: data.column("parent"),
    depths: data.column("depth"),
    values: data.column(column).map((value) => value ?? 0),
    names: (node) => `${data.value(node, "name") ?? ""}${words(node)}`,
    colour: (node) => shadeOf(changes[node] / most),
  });
}

/** Return for each node of a preorder tree the change of its path's share of the root time. */
export function shareChanges(data, before, column) {
  const numbers = new Map();
  const [after, base] = [data, before].map((tree) => {
    const [parents, names, times] = ["parent", "name", column].map((name) => tree.column(name));
    const paths = [];
    const sums = new Map();
    parents.forEach((parent, node) => {
      const path = parent === null ? "" : `${paths[parent]} ${names[node]}`;
      if (!numbers.has(path)) numbers.set(path, numbers.size);
      paths.push(numbers.get(path));
      sums.set(paths[node], (sums.get(paths[node]) ?? 0) + (times[node] ?? 0));
    });
    return { paths, share: (path) => (sums.get(path) ?? 0) / (sums.get(paths[0]) || 1) };
  });
  return after.paths.map((path) => after.share(path) - base.share(path));
}

/** Return a colour between grey (0), red (1) and green (-1). */
function shadeOf(part) {
  const full = part > 0 ? LARGER : SMALLER;
  return `rgb(${SAME.map((from, at) => Math.round(from + (full[at] - from) * Math.abs(part))).join(", ")})`;
}
