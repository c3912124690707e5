// tfprof: a graph by name scope, by input, by op and by line of code. The successor of profiler-ui, with its addresses.

import { failure, section, sentence } from "../cards.js";
import { FAINT } from "../colours.js";
import { button, dropdown, field, tabs } from "../controls.js";
import { h, shortened } from "../dom.js";
import { numbers, spelled } from "../number_ranges.js";
import { choice } from "../report_page.js";
import { number, text } from "../units.js";
import { detailsPanel } from "./details.js";
import { ServedTree } from "./served_tree.js";
import { rowDetails } from "./tfprof_details.js";
import { allOptions, FIGURES, firstControls, named, Options } from "./tfprof_options.js";
import { drawStacks } from "./tfprof_stacks.js";

const ADVICE = "advise";
const STACKS = "pprof";
const VIEWS = [
  ["graph", "Graph", "Each node above its inputs"],
  ["scope", "Scope", "Nodes by name scope"],
  ["op", "Op", "Nodes by op"],
  ["code", "Code", "Python lines that created the nodes"],
  [STACKS, "Stacks", "Python lines as stacks, as in pprof"],
  [ADVICE, "Advice", "tfprof advisor report"],
];
const TEXTS = { devices: "Devices", types: "Types", input_shapes: "Input shapes", bound_by: "Bound by",
  source: "Source" };
/** What the address says of the rows of one view, and what goes with the view. */
const OF_ROWS = ["open", "flip", "row", "sort"];
const WITH_VIEW = Object.fromEntries(OF_ROWS.map((name) => [name, null]));
const ATTRIBUTES = ".menu[data-option=select]";
const TITLE = 300;
const UNFOLDED = 100_000;

export async function show(root, context) {
  const body = h("div.page-body.tfprof");
  root.append(body);
  const about = await context.source.tfprof("about", { host: context.host }, context.signal);
  const page = new TfprofPage(body, about, context);
  await page.follow();
  return { params: () => page.follow() };
}

class TfprofPage {
  constructor(body, about, context) {
    Object.assign(this, { body, about, context, optionsOpen: false, hits: 0, asked: 0 });
    this.bar = h("div.parameters");
    this.finding = h("div.parameters");
    this.found = h("span.faint", { role: "status" });
    this.count = h("span.faint", { role: "status" });
    this.content = h("div.tfprof-content");
    body.append(this.bar, this.finding, this.content);
  }

  /** Shows what the address says. */
  async follow() {
    const { params } = this.context;
    this.view = choice(this.context, "view", this.views.map(([view]) => view));
    this.options = new Options(this.about, params);
    this.flipped = numbers(params.get("flip")) ?? new Set();
    this.controls();
    this.asked += 1;
    if (this.view === ADVICE) await this.drawAdvice();
    else if (this.view === STACKS) await this.drawStacks();
    else await this.drawTree();
  }

  /** Captures are first shown by scope: few record a graph. The advisor is for profiles. A view that the session does
   * not record is left out, unless the address names it. */
  get views() {
    const [graph, scope, ...others] = VIEWS;
    const views = this.about.capture ? [scope, graph, ...others.filter(([view]) => view !== ADVICE)] : VIEWS;
    const named = this.context.params.get("view");
    return views.filter(([view]) => view === named || !this.about.absent.includes(view));
  }

  push(changes) {
    this.context.push(changes);
  }

  /** The request that the address makes. */
  query(more = {}) {
    const { params } = this.context;
    const own = ["preset", "filter", ...OF_ROWS].filter((name) => params.has(name)).map((
      name,
    ) => [name, params.get(name)]);
    return { host: this.about.host, view: this.view, ...this.options.given, ...Object.fromEntries(own), ...more };
  }

  ask(what, more) {
    return this.context.source.tfprof(what, this.query(more), this.context.signal);
  }

  // ---- controls

  controls() {
    const again = focusAgain(document.activeElement);
    const isListOpen = this.bar.querySelector(ATTRIBUTES)?.open;
    const { options, view } = this;
    const push = (changes) => this.push(changes);
    const views = tabs({ label: "View", options: this.views, value: view,
      onchange: (to) => push({ view: to, ...WITH_VIEW }) });
    const isTree = view !== ADVICE && view !== STACKS;
    this.bar.replaceChildren(named("view", views),
      ...(view === ADVICE ? [] : firstControls(options, push, view === STACKS)), h("span.spring"),
      ...(view === ADVICE ? [] : [this.saving()]));
    this.finding.replaceChildren(...(isTree ? this.rowControls() : []),
      ...(view === ADVICE ? [] : [allOptions(options, push, this.optionsOpen, (open) => {
        this.optionsOpen = open;
      })]));
    const list = this.bar.querySelector(ATTRIBUTES);
    if (list && isListOpen) list.open = true;
    again(this.body);
  }

  rowControls() {
    const { params } = this.context;
    const filter = field({ label: "Filter", value: params.get("filter") ?? "", placeholder: "part of a name", size: 16,
      title: "Only rows whose names contain this text, and their parents",
      onchange: (to) => this.push({ filter: to.trim(), open: null, flip: null, row: null }) });
    const find = field({ label: "Find", value: params.get("find") ?? "", placeholder: "part of a name", size: 16,
      title: "Jump between rows whose names contain this text, including folded rows",
      onchange: (to) => this.search(to.trim()) });
    const folds = this.view === "op" ? [] : [
      button("Open all", () => this.push({ open: UNFOLDED, flip: null })),
      button("Close all", () => this.push({ open: 1, flip: null })),
    ];
    return [
      filter,
      find,
      button("Previous", () => this.step(-1)),
      button("Next", () => this.step(1)),
      this.found,
      h("span.spring"),
      this.count,
      ...folds,
    ];
  }

  /** Files of the view: its table, tfprof's own report, a trace, stacks. */
  saving() {
    const { view, options } = this;
    const select = view === STACKS ? { select: options.list("select").find((name) => name in FIGURES) } : {};
    const file = (form, words, title) =>
      h("a.menu-item", { download: "", title,
        href: this.context.source.address(`tfprof/save/${form}`, this.query({ ...select, ...this.unsaved })) }, words);
    const isStacked = view === STACKS || view === "code";
    const isTimed = view === "scope" || view === "code"
      || (view === "graph" && options.value("step") !== "-1" && !this.about.capture);
    return dropdown("Save",
      h("div.menu-body.menu-small", file("csv", "Table as CSV", "All shown rows, with all columns"),
        file("json", "Tables as JSON", "Rows, nodes and options"), file("txt", "Report", "As tfprof prints it"),
        isTimed && file("trace.json", "Trace", "For Perfetto or chrome://tracing"),
        isStacked && file("pb.gz", "Stacks for pprof", "For one attribute")));
  }

  /** What files do not depend on. */
  get unsaved() {
    return Object.fromEntries([...OF_ROWS, "filter"].map((name) => [name, null]));
  }

  // ---- the tree

  async drawTree() {
    const { params } = this.context;
    const kind = `${this.view} ${params.get("filter") ?? ""}`;
    if (this.drawn !== kind || !this.tree) this.newTree(kind);
    const { asked } = this;
    const row = params.get("row");
    const reveal = row !== null && String(this.tree.chosen) !== row;
    try {
      const answer = await this.tree.load({ sort: params.get("sort") ?? "", chosen: row === null ? null : Number(row),
        reveal });
      if (!answer || asked !== this.asked) return;
      this.depth = answer.open;
      this.holder.hidden = false;
      this.said.replaceChildren();
      this.say(answer);
      if (reveal && answer.at !== null) this.describe(Number(row), "");
      if (params.get("find") && !this.hits) await this.hitOf(params.get("find"), 0).then(() => (this.hit = -1));
    } catch (error) {
      this.refused(error);
    }
  }

  newTree(kind) {
    this.drawn = kind;
    this.hits = 0;
    this.found.textContent = "";
    this.details = detailsPanel("Choose a row to see its details.");
    this.holder = h("div.tree-holder");
    this.said = h("div");
    this.beside = h("div.with-details.tree-only", this.holder, this.details);
    this.content.replaceChildren(this.said, this.beside);
    this.tree = new ServedTree(this.holder, { label: "Rows of the view", columns: (data) => this.columns(data),
      ask: async (first, rows) => {
        const answer = await this.ask("rows", { first, rows });
        this.root = answer.root;
        return answer;
      }, onselect: (id, name) => this.describe(id, name), ontoggle: (id) => this.flip(id),
      onsort: (column) => this.sort(column) });
  }

  say({ lines, rows, matches }) {
    const all = `${number(rows - 1)} rows`;
    const hits = matches === null ? "" : `${number(matches)} match, `;
    this.count.textContent = `${hits}${number(lines - 1)} shown of ${all}`;
    if (rows < 2) sentence(this.said, "The options hide all rows.");
    else if (matches === 0) sentence(this.said, "No name contains the filter text.");
  }

  /** The sum of each figure with a bar, then the row's own. The sum of a row of ops is that of all rows after it. */
  columns(data) {
    const select = this.options.list("select");
    const ofOps = this.view === "op";
    const found = [{ title: "Name", name: "name", about: "Click the arrow to open the rows below", cell: (row, table) =>
      this.nameCell(row, table) }];
    for (const [figure, words] of Object.entries(FIGURES)) {
      const sum = data.has(`total_${figure}`) ? `total_${figure}` : null;
      const isPart = !select.includes(figure) && figure.endsWith("_micros"); // of the time, which is selected
      if (isPart && this.root[figure] === "0") continue;
      if (sum && !ofOps) found.push(this.figureColumn(data, sum, figure, words, true));
      const own = data.has(figure) && (ofOps || !sum || !isPart);
      if (own) found.push(this.figureColumn(data, figure, figure, ofOps || !sum ? words : "Itself", ofOps));
      if (sum && ofOps && !isPart) found.push(this.figureColumn(data, sum, figure, "With the next", false));
    }
    for (const [name, words] of Object.entries(TEXTS)) {
      if (data.has(name))
        found.push({ title: words, width: 220, cell: (row, table) => shortCell(table.value(row, name)) });
    }
    return found;
  }

  figureColumn(data, name, figure, title, hasBar) {
    const { description } = data.about(name);
    const unit = figure === "float_ops" ? "flop" : data.about(name).unit;
    const all = Number(this.root[figure]);
    return { title, name, about: description, number: true, width: hasBar ? 118 : 100, cell: (row, table) => {
      const value = hasBar && table.value(row, "depth") === 0 ? all : table.value(row, name);
      return hasBar && value ? bar(value, all, unit) : text(value, value === 0 ? null : unit);
    } };
  }

  nameCell(row, table) {
    const name = table.value(row, "name");
    const faint = table.value(row, "is_accounted") || table.value(row, "depth") === 0 ? "" : ".faint";
    return h("span.tree-name", h(`span.tree-text${faint}`, { title: name }, table.value(row, "label") || "(no name)"));
  }

  async describe(id, name) {
    this.context.replace({ row: id });
    if (id < 0 || (id === 0 && this.view !== "op")) { // the root
      this.details.empty();
      this.beside.classList.add("tree-only");
      return;
    }
    this.beside.classList.remove("tree-only");
    const query = this.query({ row: id });
    const { source, signal } = this.context;
    const found = this.ask("row", { row: id });
    const nodes = found.then((one) =>
      rowDetails(one, this.context, { view: this.view, name: one.name, whole: () => source.tfprofName(query, signal) })
    );
    const title = name || shortened((await found).name, TITLE);
    if (this.context.params.get("row") === String(id)) await this.details.load(title, nodes);
  }

  flip(id) {
    const { flipped } = this;
    if (!flipped.delete(id)) flipped.add(id);
    this.fold({ flip: spelled(flipped), open: this.depth });
  }

  /** Opening and closing is in the address, but no step to go back. */
  fold(changes) {
    this.context.replace(changes);
    return this.drawTree();
  }

  /** The largest first, then the other way round, then the order of the view. */
  sort({ name, number: isNumber }) {
    const usual = isNumber ? `-${name}` : name;
    const other = isNumber ? name : `-${name}`;
    const now = this.context.params.get("sort");
    this.push({ sort: now === usual ? other : now === other ? null : usual });
  }

  // ---- finding

  async search(words) {
    this.context.replace({ find: words || null });
    Object.assign(this, { hits: 0, hit: -1 });
    this.found.textContent = "";
    if (words) await this.step(1);
  }

  async step(by) {
    const words = this.context.params.get("find");
    if (!words) return;
    this.hit = (this.hit ?? -1) + by;
    try {
      const found = await this.hitOf(words, this.hit);
      if (found.row === null) return;
      for (const id of numbers(found.flip) ?? []) if (!this.flipped.delete(id)) this.flipped.add(id);
      this.context.replace({ row: found.row, flip: spelled(this.flipped), open: this.depth });
      this.tree.chosen = null; // so that it is brought into sight
      await this.drawTree();
    } catch (error) {
      this.refused(error);
    }
  }

  async hitOf(words, hit) {
    const found = await this.ask("find", { find: words, hit });
    Object.assign(this, { hits: found.count, hit: found.hit });
    this.found.textContent = found.count ? `${number(found.hit + 1)} of ${number(found.count)}` : "none";
    return found;
  }

  // ---- stacks and advice

  async drawStacks() {
    const { asked } = this;
    this.leaveTree();
    try {
      const answer = await this.ask("stacks");
      if (asked !== this.asked) return;
      this.content.replaceChildren();
      drawStacks(this.content, answer);
    } catch (error) {
      this.refused(error);
    }
  }

  async drawAdvice() {
    const { asked } = this;
    this.leaveTree();
    try {
      const { reports } = await this.context.source.tfprof("advice", { host: this.about.host }, this.context.signal);
      if (asked !== this.asked) return;
      this.content.replaceChildren();
      for (const [checker, said] of Object.entries(reports)) {
        const part = section(this.content, checker.replace(/(?<=[a-z])(?=[A-Z])/g, " "));
        if (said.length) part.append(...said.map((one) => h("pre.tfprof-report", one || "(an empty report)")));
        else sentence(part, "Nothing to report.");
      }
    } catch (error) {
      this.refused(error);
    }
  }

  leaveTree() {
    this.tree = null;
  }

  /** Says what is wrong with the request; other errors are the app's. */
  refused(error) {
    if (this.context.signal.aborted) return;
    if (error.status !== 400 && error.status !== 404) throw error;
    const again = failure(error.message, "Reset the options", () => this.push({ ...this.options.none, ...WITH_VIEW }));
    if (this.tree) {
      this.holder.hidden = true;
      this.said.replaceChildren(again);
    } else this.content.replaceChildren(again);
  }
}

/** A function that gives the focus to the control, drawn again in an element, that is in place of the one that has it. */
function focusAgain(focused) {
  const option = focused?.closest("[data-option]")?.dataset.option;
  const { value } = focused ?? {};
  return (element) => {
    if (!option) return;
    const same = [...element.querySelectorAll(`[data-option="${option}"] :is(input, select)`)];
    (same.find((one) => one.value === value) ?? same[0])?.focus();
  };
}

function bar(value, all, unit) {
  const share = all > 0 && value > 0 ? value / all : 0;
  return h("span.share", { title: `${text(share, "share")} of all` },
    h("span.share-bar", { style: { width: `${Math.min(100, share * 100)}%`, background: FAINT } }),
    h("span.share-text", text(value, unit)));
}

function shortCell(value) {
  return h("span.tree-text", { title: value ?? "" }, value ?? "");
}
