// Figures of iterators and calls for the page of tf.data: alike ones together, the slowest of many, a call as it ran.

import { h } from "../dom.js";
import { text } from "../units.js";
import { legend } from "./details.js";

const MOST_STRETCHES = 3_000;
const MOST_NAMED = 16;

/** The stretches of a call, one after the other, each as wide as it took. */
export function strip(data) {
  const stretches = data.rows().map(({ name, start_ps: at, duration_ps: time }) => ({ name, at, time }));
  const start = stretches[0].at;
  const total = stretches.at(-1).at + stretches.at(-1).time - start;
  const names = [...new Set(data.column("name"))];
  const hue = (name) => `hsl(${(names.indexOf(name) * 67) % 360} 50% 58%)`;
  const box = h("div.strip", { role: "img", "aria-label": "The slowest call" });
  for (const { name, at, time } of stretches.slice(0, MOST_STRETCHES).filter((one) => one.time > 0)) {
    const [left, width] = [(100 * (at - start)) / total, (100 * time) / total];
    const style = { left: `${left}%`, width: `${Math.max(0.05, width)}%`, background: hue(name) };
    const title = `${name}: ${text(time, "ps")} from ${text(at - start, "ps")} on`;
    box.append(h("div.strip-part", { style, title }, width > 6 ? name : ""));
  }
  return h("div", box, h("div.scale", h("span", `${text(total, "ps")} in all`)),
    legend(names.slice(0, MOST_NAMED), hue));
}

/** Iterators that are alike as one node each. */
export function together(nodes) {
  const groups = new Map();
  const above = new Map(nodes.map((node) => [node.iterator_id, alikeName(node.long_name)]));
  for (const node of nodes) {
    const key = alikeName(node.long_name);
    const found = groups.get(key);
    if (!found) {
      groups.set(key, {
        ...node,
        key,
        above: node.parent_id === null ? null : (above.get(node.parent_id) ?? null),
        count: 1,
        ids: [node.iterator_id],
      });
      continue;
    }
    for (const name of ["critical_ps", "self_ps", "total_ps", "call_count", "function_ps", "part"])
      found[name] += node[name];
    for (const name of ["is_blocking", "is_bottleneck", "took_part"]) found[name] ||= node[name];
    found.count += 1;
    found.ids.push(node.iterator_id);
  }
  return [...groups.values()];
}

export function alikeName(name) {
  return name.replace(/\[\d+\]/g, "[*]");
}

export function summed(parts) {
  const times = new Map();
  for (const { part: name, time_ps: time } of parts) times.set(name, (times.get(name) ?? 0) + time);
  const total = [...times.values()].reduce((sum, time) => sum + time, 0);
  return [...times].map(([name, time]) => [name, time, total ? time / total : 0]).sort((one, other) =>
    other[1] - one[1]
  );
}

/** The slowest call of each of `count` stretches of rows, in order of time. */
export function slowest(rows, data, count) {
  const duration = data.column("duration_ps");
  const edge = (at) => Math.floor((at * rows.length) / count);
  return Array.from({ length: count },
    (_, at) =>
      rows.slice(edge(at), edge(at + 1)).reduce((worst, row) => (duration[row] > duration[worst] ? row : worst)));
}
