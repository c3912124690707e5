// Bars below each other, one a name, each with its value.

import { colour } from "../colours.js";
import { distinct, h } from "../dom.js";
import { text } from "../units.js";

/** `names` and `values` in order; `titles`: what is shown of each beside the pointer; `onclick(place)`. */
export function bars(element, { names, values, unit, colours, titles, label, onclick }) {
  const most = Math.max(...values.map((value) => value ?? 0), Number.MIN_VALUE);
  const shown = distinct(names, 44, 0.7);
  const rows = names.map((name, at) =>
    h(onclick ? "button.bar-row" : "div.bar-row", {
      title: `${titles?.[at] ?? name}: ${text(values[at], unit)}`,
      onclick: onclick && (() => onclick(at)),
    }, h("span.bar-name", shown[at]), h("span.bar-track", h("span.bar-fill", { style: {
      width: `${(100 * (values[at] ?? 0)) / most}%`,
      background: colours?.[at] ?? colour(0),
    } })), h("span.bar-value", text(values[at], unit)))
  );
  const box = h("div.chart.bar-list", { role: "group", "aria-label": label }, rows);
  element.append(box);
  return { leave: () => box.remove() };
}
