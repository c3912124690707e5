// Stacks of the lines of code that made the nodes: what pprof would draw of them.

import { section, sentence } from "../cards.js";
import { palette } from "../colours.js";
import { h } from "../dom.js";
import { tableOf } from "../report.js";
import { table } from "../table.js";
import { number, text } from "../units.js";
import { FlameGraph } from "./flame_graph.js";
import { words } from "./tfprof_options.js";

/** Draws the answer of the server; returns the flame graph, if there is one. */
export function drawStacks(body, { figure, unit, total, left_out: left, boxes, lines }) {
  const all = Number(total);
  if (!(all > 0)) {
    sentence(body, `No shown line of code has this: ${words(figure)}.`);
    return null;
  }
  const more = left ? ` ${number(left)} smaller rows are omitted.` : "";
  const part = section(body, `${words(figure)} by stacks`, {
    note: `The width of a box is its share of ${text(all, unit)}; click to zoom in.${more}`,
  });
  const holder = h("div");
  part.append(holder);
  drawLines(body, lines, all, unit);
  const shade = palette(boxes.name, boxes.own);
  return new FlameGraph(holder, { title: `Flame graph of ${words(figure)}`, unit, parents: boxes.parent,
    depths: boxes.depth, values: boxes.value.map(Number), names: (node) => boxes.name[node],
    colour: (node) => shade(boxes.name[node]), marked: () => null, onselect: () => {} });
}

/** The lines with the most of their own, as the command top of pprof lists them. */
function drawLines(body, { name, own, total }, all, unit) {
  const [flat, sums] = [own.map(Number), total.map(Number)];
  const data = tableOf("tfprof_lines", [
    { name: "line", values: name },
    { name: "own", unit, type: "int64", values: flat, description: "Nodes that the line created" },
    { name: "own_share", unit: "share", type: "double", values: flat.map((one) => one / all) },
    { name: "total", unit, type: "int64", values: sums, description: "Including called lines" },
    { name: "total_share", unit: "share", type: "double", values: sums.map((one) => one / all) },
  ]);
  table(section(body, "Lines of code", { note: "The 100 lines with the largest self values, over all callers." }), data,
    { columns: data.columns.map(({ name: column }) => column), bar: "own_share", rows: 20 });
}
