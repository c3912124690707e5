// Bars below each other, one a name, each with its value.

import { colour } from "../colours.js";
import { h, shortened } from "../dom.js";
import { elided } from "../elision.js";
import { text } from "../units.js";

const MOST_RATES = 20;

/**
 * `names` and `values` in order; `titles`: what is shown of each beside the pointer; `write(value, unit)`; `onclick(place)`.
 * Bars of values below 0 go to the left of the others' begin.
 */
export function bars(element, { names, values, unit, colours, titles, label, onclick, write = text }) {
  const least = Math.min(...values.map((value) => value ?? 0), 0);
  const whole = Math.max(...values.map((value) => value ?? 0), Number.MIN_VALUE) - least;
  const shown = elided(names, 44);
  const rows = names.map((name, at) =>
    h(onclick ? "button.bar-row" : "div.bar-row", {
      title: `${titles?.[at] ?? name}: ${write(values[at], unit)}`,
      onclick: onclick && (() => onclick(at)),
    }, h("span.bar-name", shown[at]), h("span.bar-track", h("span.bar-fill", { style: {
      "margin-left": `${(100 * (Math.min(values[at] ?? 0, 0) - least)) / whole}%`,
      width: `${(100 * Math.abs(values[at] ?? 0)) / whole}%`,
      background: colours?.[at] ?? colour(0),
    } })), h("span.bar-value", write(values[at], unit)))
  );
  element.append(h("div.chart.bar-list", { role: "group", "aria-label": label }, rows));
}

/** Bars of the FLOP/s of ops, those of the first rows that have any; false if none has. */
export function rateBars(element, ops, rows) {
  const computing = rows.filter((row) => ops.value(row, "flops_per_s") > 0).slice(0, MOST_RATES);
  if (!computing.length) return false;
  const of = (column) => computing.map((row) => ops.value(row, column));
  const times = of("self_ps");
  const titles = of("name").map((name, at) => `${shortened(name, 200)} (${text(times[at], "ps")})`);
  bars(element, { names: of("name"), values: of("flops_per_s"), unit: "flop/s", titles, label: "FLOP/s by op" });
  return true;
}
