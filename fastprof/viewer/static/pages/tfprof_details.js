// What is known of a row of a view of tfprof.

import { copyButton } from "../clipboard.js";
import { h, shortened } from "../dom.js";
import { Table } from "../report.js";
import { exact, number, text } from "../units.js";
import { code, link, linkRow, pairList } from "./details.js";
import { FIGURES } from "./tfprof_options.js";

const LONG = 200;
const LISTS = [["types", "Types"], ["devices", "Devices"], ["shape", "Shape"], ["input_shapes", "Inputs"], [
  "bound_by",
  "Bound by",
], ["source", "Source"]];

/** Nodes for a panel of details. `found`: the answer of the server; `whole()`: a promise of the entire name. */
export function rowDetails(found, context, { view, name, whole }) {
  const data = new Table(found.table);
  const own = Object.keys(FIGURES).map((figure) => pair(data, figure, view === "op")).filter(Boolean);
  const lists = LISTS.filter(([column]) => data.has(column)).map(([column, words]) => [words, data.value(0, column)]);
  const accounted = data.value(0, "is_accounted") ? null : ["Accounted", "only the rows below it"];
  return [
    found.is_node && links(context, view, name),
    longName(found, whole),
    pairList([...own, ...lists, accounted]),
    members(found.nodes, context),
  ];
}

/** A figure with the rows below, and of the row itself where that is another one. Ops have no rows below. */
function pair(data, figure, ofOps) {
  const sum = `total_${figure}`;
  const shown = data.has(sum) && !(ofOps && data.has(figure)) ? sum : figure;
  if (!data.isRecorded(shown)) return null;
  const [value, self] = [shown, figure].map((name) => (data.has(name) ? data.value(0, name) : null));
  const { unit, description } = data.about(shown);
  const more = self !== null && self !== value ? `, itself ${text(self, unit)}` : "";
  return [FIGURES[figure], `${text(value, unit)}${more}`, `${exact(value, unit)} · ${description}`];
}

function links(context, view, name) {
  const others = ["scope", "graph"].filter((one) => one !== view);
  return linkRow(link("Timeline", context.href("timeline", { q: name }), "Its executions"),
    ...others.map((one) => link(`In ${one}`, context.href("tfprof", { view: one, find: name }))));
}

function longName({ name, letters }, whole) {
  if (letters <= LONG) return null;
  const rest = letters - name.length;
  return h("div", code("Name", name),
    rest > 0 ? copyButton(whole, { label: `Copy all ${number(letters)} characters`, kind: "button small" }) : null);
}

/** The nodes of a row that has several. */
function members(nodes, context) {
  const data = new Table(nodes);
  if (data.of < 2) return null;
  const note = data.of > data.length ? `, and the ${number(data.length)} with the most time` : "";
  return h("div", h("h4.tfprof-nodes", `${number(data.of)} nodes${note}`),
    h("ul.tfprof-nodes",
      data.rows().map(({ name, micros }) =>
        h("li",
          h("a", { href: context.href("tfprof", { view: "scope", find: name }), title: name }, shortened(name, 40)),
          h("span", text(micros, data.about("micros").unit)))
      )));
}
