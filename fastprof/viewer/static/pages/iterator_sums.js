// Figures of iterators and calls for the page of tf.data: alike ones together, the slowest of many, a call as it ran.

import { h } from "../dom.js";
import { text } from "../units.js";

/** The stretches of a call, one after the other, each as wide as it took. */
export function strip(data) {
  const start = data.value(0, "start_ps");
  const whole = data.value(data.length - 1, "start_ps") + data.value(data.length - 1, "duration_ps") - start;
  const names = [...new Set(data.column("name"))];
  const hue = (name) => `hsl(${(names.indexOf(name) * 67) % 360} 50% 58%)`;
  const box = h("div.strip", { role: "img", "aria-label": "The slowest call" });
  for (let row = 0; row < Math.min(data.length, 3_000); row += 1) {
    const [name, at, time] = ["name", "start_ps", "duration_ps"].map((column) => data.value(row, column));
    if (time <= 0) continue;
    box.append(h("div.strip-part", {
      style: {
        left: `${(100 * (at - start)) / whole}%`,
        width: `${Math.max(0.05, (100 * time) / whole)}%`,
        background: hue(name),
      },
      title: `${name}: ${text(time, "ps")} from ${text(at - start, "ps")} on`,
    }, time / whole > 0.06 ? name : ""));
  }
  const legend = h("div.legend",
    names.slice(0, 16).map((name) =>
      h("span.legend-entry", h("span.dot", { style: { background: hue(name) } }), name)
    ));
  return h("div", box, h("div.scale", h("span", `${text(whole, "ps")} in all`), legend));
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
  const whole = [...times.values()].reduce((sum, time) => sum + time, 0);
  return [...times].map(([name, time]) => [name, time, whole ? time / whole : 0]).sort((one, other) =>
    other[1] - one[1]
  );
}

/** Of each of so many stretches the slowest call, in order of time. */
export function slowest(rows, data, most) {
  const kept = [];
  for (let at = 0; at < most; at += 1) {
    const some = rows.slice(Math.floor((at * rows.length) / most), Math.floor(((at + 1) * rows.length) / most));
    kept.push(
      some.reduce((worst, row) => (data.value(row, "duration_ps") > data.value(worst, "duration_ps") ? row : worst),
        some[0]),
    );
  }
  return kept;
}
