// Op profile: device time as a tree of programs, categories or scopes, ops, and what fusions are made of.

import { NO_OPS, notSaved, section, sentence } from "../cards.js";
import { FAINT, palette } from "../colours.js";
import { button, field, tabs, toggle } from "../controls.js";
import { h } from "../dom.js";
import { list } from "../list.js";
import { choice, reportPage, tablePart } from "../report_page.js";
import { table } from "../table.js";
import { label, number, text } from "../units.js";
import { detailsPanel, heat, lossColour } from "./details.js";
import { FlameGraph } from "./flame_graph.js";
import { nodeDetails } from "./op_details.js";
import { TreeView } from "./tree_view.js";

const SHARED = list(`node, parent, depth, name, ops, occurrences, executions, self_ps, busy_share,
  compute_peak_percent, hbm_peak_percent, lost_ps, work_known_share, category`);
const PASSES = ["forward_ps", "backward_ps", "recompute_ps"];
const COLUMNS = {
  tree: [...SHARED, "kind", "share", "cost_share", "program", "program_id"],
  scopes: [...SHARED, "own_ps", ...PASSES, "other_ps"],
  layers: [...SHARED, "own_ps", ...PASSES, "other_ps", "instances"],
};
const GROUPS = [
  ["program", "Program"],
  ["category", "Category"],
  ["provenance", "Name scope"],
];
const ORDERS = [["time", "Time"], ["lost", "Lost time"]];
const TREES = [
  ["tree", "Programs and ops", "Ops by program, category or name scope"],
  ["scopes", "Model scopes", "By the model's scope names"],
  ["layers", "Layers", "Scopes that differ only in a number, merged"],
];

export const show = reportPage(draw, { params: ["steps"], tables: ["tree", "devices"],
  columns: { tree: COLUMNS.tree } });

async function draw(body, report, context) {
  if (report.tables.tree.length <= 1) return sentence(body, NO_OPS);
  const page = new OpProfile(body, report, context);
  await page.choose(page.view);
  const data = report.tables.devices;
  if (data.length > 1) table(section(body, "By device"), data, { bar: "busy_share", rows: 16 });
  return undefined;
}

class OpProfile {
  constructor(body, report, context) {
    Object.assign(this, { report, context });
    this.view = choice(context, "view", Object.keys(COLUMNS));
    this.group = context.params.get("group_by") ?? "program";
    this.idle = context.params.get("idle") !== "no";
    this.byLost = context.params.get("order") === "lost";
    this.details = detailsPanel("Choose a row to see its details.");
    this.holder = h("div.tree-holder");
    const part = section(body, "Device time by op", {
      note: "Self times of all devices together. Lost time is an op's time beyond its roofline. Choose a row to see "
        + "its memory traffic.",
    });
    part.append(this.controls());
    if (context.saved) sentence(part, notSaved("other groupings of the tree"));
    this.beside = h("div.with-details.tree-only", this.holder, this.details);
    part.append(this.beside);
    this.flameBody = section(body, "As a flame graph", {
      note: "The width of a box is its time; click to zoom in. The line in a box marks its time at the device peak.",
    });
  }

  controls() {
    const { context } = this;
    const by = context.saved
      ? null
      : tabs({ label: "Group by", options: GROUPS, value: this.group,
        onchange: (group) => context.push({ group_by: group === "program" ? null : group, node: null }) });
    const trees = tabs({ label: "Tree", options: TREES, value: this.view, onchange: (view) => this.choose(view) });
    const order = tabs({ label: "Order", options: ORDERS, value: this.byLost ? "lost" : "time",
      onchange: (value) => this.setOrder(value) });
    const idle = toggle({ label: "Idle time", value: this.idle, title: "Include idle time in shares",
      onchange: (to) => this.setIdle(to) });
    this.find = field({ label: "Find", value: context.params.get("find") ?? "", placeholder: "name",
      onchange: (words) => this.search(words) });
    this.found = h("span.faint", { role: "status" });
    return h("div.parameters", trees, by, h("div.named", h("span.faint", "Order by"), order), idle, this.find,
      button("Next", () => this.step(1)), this.found, h("span.spring"), button("Open all", () => this.tree.unfold(12)),
      button("Close all", () => this.tree.unfold(1)));
  }

  async choose(view) {
    this.view = view;
    this.context.replace({ view: view === "tree" ? null : view });
    const { tree } = this.report.tables;
    this.data = view === "tree" ? tree : await tablePart(this.context, view, { columns: COLUMNS[view] });
    this.shade = shades(this.data);
    this.drawTree();
    this.drawFlame();
    const node = Number(this.context.params.get("node") ?? NaN);
    if (Number.isInteger(node) && node > 0 && node < this.data.length) this.tree.select(node);
    if (this.find.value) this.search(this.find.value);
  }

  drawTree() {
    const { data } = this;
    this.holder.replaceChildren();
    const kinds = this.view === "tree" ? data.column("kind") : null;
    const weight = data.column(this.byLost ? "lost_ps" : "self_ps");
    const costs = this.view === "tree" ? data.column("cost_share") : null;
    this.tree = new TreeView(this.holder, {
      parents: data.column("parent"),
      columns: this.columns(),
      order: (node) => weight[node] ?? costs?.[node] ?? -1,
      shown: (node) => this.idle || kinds?.[node] !== "idle",
      onselect: (node) => this.describe(node),
      label: "Device time",
    });
    this.tree.unfold(data.length < 400 ? 3 : 2);
    this.details.empty();
    this.beside.classList.add("tree-only");
  }

  columns() {
    const { data } = this;
    const column = (title, name, width, cell) => {
      if (!data.isRecorded(name)) return null;
      const values = data.column(name);
      return { title, width, number: true, about: data.about(name).description,
        cell: (node) => (values[node] === null ? "" : cell(values[node], node)) };
    };
    const passes = PASSES.filter((name) => data.has(name) && data.column(name).some((one) => one > 0));
    const self = data.column("self_ps");
    return [
      { title: "Name", about: "Program, category, scope, op, or an instruction within a fusion",
        cell: (node) => this.nameCell(node) },
      column("Time", this.idle && this.view === "tree" ? "share" : "busy_share", 100, (share) => bar(share, FAINT)),
      column("Self", "self_ps", 80, (time) => text(time, "ps")),
      column("Lost", "lost_ps", 80, (lost, node) => lossCell(lost, self[node], self[0])),
      ...passes.map((name) => column(label(name), name, 84, (time) => text(time, "ps"))),
      column("FLOP/s", "compute_peak_percent", 76, peakCell),
      column("HBM", "hbm_peak_percent", 76, peakCell),
      column("Runs", "occurrences", 64, (runs) => (runs ? number(runs) : "")),
    ].filter(Boolean);
  }

  nameCell(node) {
    const { data } = this;
    const kind = this.view === "tree" ? data.value(node, "kind") : "scope";
    const category = data.value(node, "category");
    const instances = data.has("instances") ? data.value(node, "instances") : 1;
    const name = data.value(node, "name");
    return h("span.tree-name", h("span.dot", { style: { background: this.shade(category) }, title: category ?? kind }),
      h("span.tree-text", { title: name }, name), instances > 1 ? h("span.tag", `× ${number(instances)}`) : null,
      kind === "instruction"
        ? h("span.tag", {
          title: "Share of the fusion's work, by the compiler's cost model",
        }, costText(data.value(node, "cost_share")))
        : null, kind === "sparse core op" || kind === "duplicates" ? h("span.tag", kind) : null);
  }

  describe(node) {
    this.context.replace({ node: node || null });
    this.beside.classList.remove("tree-only");
    return this.details.load(this.data.value(node, "name"), nodeDetails(this.context, this.view, node));
  }

  setIdle(idle) {
    this.idle = idle;
    this.context.replace({ idle: idle ? null : "no" });
    this.drawTree();
  }

  setOrder(value) {
    this.byLost = value === "lost";
    this.context.replace({ order: this.byLost ? "lost" : null });
    this.drawTree();
  }

  /** Nodes whose names hold the text, most time first. */
  search(words) {
    this.context.replace({ find: words || null });
    const wanted = words.trim().toLowerCase();
    this.hits = [];
    this.hit = -1;
    if (!wanted) {
      this.found.textContent = "";
      return;
    }
    const { texts, codes } = this.data.coded("name");
    const is = texts.map((name) => name.toLowerCase().includes(wanted));
    for (let node = 0; node < codes.length; node += 1) if (is[codes[node]]) this.hits.push(node);
    const time = this.data.column("self_ps");
    this.hits.sort((one, other) => (time[other] ?? -1) - (time[one] ?? -1) || one - other);
    this.step(1);
  }

  step(by) {
    if (!this.hits?.length) {
      if (this.find.value) this.found.textContent = "none";
      return;
    }
    this.hit = (this.hit + by + this.hits.length) % this.hits.length;
    this.found.textContent = `${number(this.hit + 1)} of ${number(this.hits.length)}`;
    this.tree.select(this.hits[this.hit]);
  }

  drawFlame() {
    const { data } = this;
    const kinds = this.view === "tree" ? data.column("kind") : null;
    this.flameBody.replaceChildren();
    this.flame = new FlameGraph(this.flameBody, {
      parents: data.column("parent"),
      depths: data.column("depth"),
      values: data.column("self_ps").map((value, node) => (kinds?.[node] === "idle" ? 0 : (value ?? 0))),
      names: (node) => data.value(node, "name") ?? "",
      colour: (node) => this.shade(data.value(node, "category")),
      marked: (node) => atPeak(data.value(node, "lost_ps"), data.value(node, "self_ps")),
      onselect: (node) => this.tree.select(node),
    });
  }
}

/** The colour of a category, distinct for the ops that take longest. */
function shades(data) {
  const kinds = data.has("kind") ? data.column("kind") : null;
  const self = data.column("self_ps");
  return palette(data.column("category"),
    self.map((time, node) => (kinds === null || kinds[node] === "op" ? time : 0)));
}

function atPeak(lost, self) {
  return lost === null || !self ? null : Math.max(0, Math.min(1, 1 - lost / self));
}

function costText(share) {
  return share === null ? "part" : text(share, "share");
}

function bar(share, shade) {
  return h("span.share", h("span.share-bar", { style: { width: `${Math.min(100, share * 100)}%`, background: shade } }),
    h("span.share-text", text(share, "share")));
}

function lossCell(lost, self, total) {
  const background = lost > total * 0.005 ? lossColour(lost / (self || 1)) : "transparent";
  return h("span.peak", { title: `${text(self ? lost / self : 0, "share")} of its time` },
    h("span.peak-dot", { style: { background } }), text(lost, "ps"));
}

function peakCell(percent) {
  return h("span.peak", h("span.peak-dot", { style: { background: heat(percent / 100) } }), text(percent, "%"));
}
