/** Sums of events by name, as a table below the tracks. */

import { h } from "../dom.js";
import { shownName } from "../kernel_names.js";
import { list } from "../list.js";
import { tableOf } from "../report.js";
import { table } from "../table.js";
import { visible } from "./text.js";

const ABOUT = {
  clipped_ps: "Time within the range",
  share: "Time within the range / range length: above 100 % if events overlap",
  total_ps: "Full durations, also outside of the range",
};
const TITLES = Object.fromEntries(list(`name=Name, count=Events, clipped_ps=In range,
  share=Of the range summed over tracks, total_ps=Total, mean_ps=Mean, min_ps=Shortest, max_ps=Longest`));

/** `rows`: objects with the `names` of columns, in this order; `onname(name)`: a name was clicked. */
export function sumsTable(element, rows, names, onname = null) {
  const column = (name) => ({
    name,
    description: ABOUT[name] ?? null,
    unit: name.endsWith("_ps") ? "ps" : name === "share" ? "share" : null,
    type: name === "name" ? "string" : "double",
    values: rows.map((row) => (name === "name" ? visible(row.name) || "(no name)" : Number(row[name]))),
  });
  const node = (text, row) =>
    onname
      ? h("button.tl-link", { title: text, onclick: () => onname(rows[row].name) }, shownName(text))
      : h("span", { title: text }, shownName(text));
  return table(element, tableOf("sums", names.map(column)), {
    caption: "Sums by name",
    columns: names.map((name) => ({
      name,
      title: TITLES[name],
      ...(name === "name" ? { grow: true, node } : {}),
    })),
    sort: { by: names[2], down: true },
    rows: 8,
  });
}
