// Python: a flame graph of calls, the functions that take the time, and what calls what.

import { section, sentence } from "../cards.js";
import { palette } from "../colours.js";
import { tabs } from "../controls.js";
import { h } from "../dom.js";
import { list } from "../list.js";
import { choice, reportPage } from "../report_page.js";
import { table } from "../table.js";
import { FlameGraph } from "./flame_graph.js";

const TIMES = [["thread", "Threads", "Time on threads"], [
  "device",
  "Devices",
  "Time of kernels, and of ops on other threads, that calls launched",
]];
const FUNCTIONS = list(`function, file, line, calls, self_ps, self_share, total_ps, native_ps, waited_ps, device_ps,
  idle_ps`);
const COLUMNS = { thread: "total_ps", device: "device_ps" };

export const show = reportPage(draw, { params: ["steps"], tables: ["functions", "stacks", "threads", "calls"] });

function draw(body, report, context) {
  const { functions, stacks, threads, calls } = report.tables;
  if (!functions.length) return sentence(body, "The capture has no frames of the Python tracer.");
  flames(body, stacks, context);
  table(section(body, "Functions"), functions, { columns: FUNCTIONS, bar: "self_share", rows: 25 });
  table(section(body, "Calls between functions"), calls, { rows: 15 });
  if (threads.length > 1) table(section(body, "Threads"), threads, { rows: 16 });
  return undefined;
}

function flames(body, stacks, context) {
  const part = section(body, "As a flame graph", {
    note: "The width of a box is its time; click to zoom in. Equal stacks are merged over steps. Threads that only "
      + "wait and run no steps have no width.",
  });
  const holder = h("div");
  const drawn = (time) => {
    holder.replaceChildren();
    context.replace({ time: time === "thread" ? null : time });
    return flame(holder, stacks, COLUMNS[time]);
  };
  const time = choice(context, "time", Object.keys(COLUMNS));
  if (stacks.value(0, "device_ps") > 0)
    part.append(tabs({ label: "Time of", options: TIMES, value: time, onchange: drawn }));
  part.append(holder);
  drawn(time);
}

function flame(holder, stacks, column) {
  const shade = palette(stacks.column("kind"), stacks.column("self_ps"));
  return new FlameGraph(holder, {
    title: "Flame graph of Python",
    parents: stacks.column("parent"),
    depths: stacks.column("depth"),
    values: stacks.column(column),
    names: (node) => stacks.value(node, "name") ?? "",
    colour: (node) => shade(stacks.value(node, "kind")),
  });
}
