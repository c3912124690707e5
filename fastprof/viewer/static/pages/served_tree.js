// A tree of any size whose rows a server has: only those in sight are requested.

import { h } from "../dom.js";
import { Table } from "../report.js";
import { RowScroller } from "../row_scroller.js";
import { headCell, treeCell } from "./tree_view.js";

const ROW = 26;
const HEAD = 34;
const LEAST_NAME = 260;
const MOST_ROWS = 24;
const PART = 200;
const MOST_PARTS = 40;
const INDENT = 14;
const MOST_INDENT = 24;

export class ServedTree {
  /**
   * `ask(first, rows)`: a promise of {lines, first, at, table}; `columns(table)`: those of a table, as TreeView has them,
   * with `name`, by which they are sorted, and `cell(row, table)`. `onselect(id)`, `ontoggle(id)`, `onsort(name)`.
   */
  constructor(element, { ask, columns, onselect, ontoggle, onsort, label }) {
    Object.assign(this, { ask, columnsOf: columns, onselect, ontoggle, onsort });
    Object.assign(this, { lines: 0, chosen: null, chosenLine: -1, parts: new Map(), stamp: 0, columns: [],
      awaited: null });
    this.head = h("div.tree-head", { role: "row" });
    this.space = h("div.tree-space", { role: "presentation" });
    this.scroll = h("div.tree-scroll", { role: "treegrid", tabindex: "0", "aria-label": label,
      onkeydown: (event) => this.key(event) }, this.head, this.space);
    element.append(this.scroll);
    this.scroller = new RowScroller(this.scroll, this.space, { height: ROW, head: HEAD,
      make: () => h("div.tree-row", { role: "row", onclick: (event) => this.clicked(event) }),
      fill: (row, line) => this.fill(row, line) });
  }

  /** Takes the rows again, after a change of what is shown. `reveal`: the chosen row is brought into sight. */
  async load({ sort = "", chosen = null, reveal = false } = {}) {
    const stamp = (this.stamp += 1);
    const first = Math.max(0, Math.floor(this.scroller.first / PART) * PART);
    const answer = await this.ask(reveal ? 0 : first, PART);
    if (stamp !== this.stamp) return null;
    this.parts.clear();
    Object.assign(this, { lines: answer.lines, chosen, chosenLine: answer.at ?? -1 });
    this.take(answer);
    this.heading(new Table(answer.table), sort);
    this.scroll.style.height = `${Math.min(this.lines, MOST_ROWS) * ROW + HEAD}px`;
    this.scroll.setAttribute("aria-rowcount", this.lines + 1);
    this.scroller.show(this.lines);
    if (reveal && this.chosenLine >= 0) this.scroller.reveal(this.chosenLine);
    return answer;
  }

  take({ first, table }) {
    this.parts.set(first / PART, new Table(table));
    if (this.parts.size > MOST_PARTS) this.parts.delete(this.parts.keys().next().value);
  }

  heading(table, sort) {
    this.columns = this.columnsOf(table);
    const least = this.columns.reduce((sum, { width }) => sum + (width ?? LEAST_NAME), 0);
    for (const node of [this.head, this.space]) node.style.minWidth = `${least}px`;
    const by = sort.replace(/^-/, "");
    this.head.replaceChildren(...this.columns.map((column) => {
      if (!column.name) return headCell(column);
      const arrow = column.name === by ? (sort.startsWith("-") ? " ▼" : " ▲") : "";
      const head = headCell({ ...column,
        title: h("button.tree-sort", { onclick: () => this.onsort(column) }, `${column.title}${arrow}`) });
      head.setAttribute("aria-sort", arrow ? (sort.startsWith("-") ? "descending" : "ascending") : "none");
      return head;
    }));
  }

  /** A line as {table, row}; null, and it is requested, if it is not there. */
  line(line) {
    const part = Math.floor(line / PART);
    if (!this.parts.has(part)) {
      this.request(part);
      return null;
    }
    const table = this.parts.get(part);
    const row = line - part * PART;
    return table && row < table.length ? { table, row } : null;
  }

  async request(part) {
    const { stamp } = this;
    this.parts.set(part, null);
    const answer = await this.ask(part * PART, PART).catch(() => null); // what is wrong, the first part says
    if (stamp !== this.stamp) return;
    if (answer) this.take(answer);
    else this.parts.delete(part);
    if (answer) this.scroller.draw();
    if (answer && this.awaited !== null && Math.floor(this.awaited / PART) === part) this.choose(this.awaited);
  }

  fill(element, line) {
    const found = this.line(line);
    element.dataset.line = line;
    if (!found) {
      element.replaceChildren(h("div.tree-cell.faint", "…"));
      element.classList.remove("chosen");
      return;
    }
    const { table, row } = found;
    const [depth, state, isChosen] = [
      table.value(row, "depth"),
      table.value(row, "state"),
      table.value(row, "id") === this.chosen,
    ];
    if (isChosen) this.chosenLine = line;
    element.classList.toggle("chosen", isChosen);
    element.setAttribute("aria-level", depth + 1);
    element.setAttribute("aria-rowindex", line + 2);
    element.setAttribute("aria-selected", isChosen);
    if (state) element.setAttribute("aria-expanded", state === "open");
    else element.removeAttribute("aria-expanded");
    const mark = { open: "▾", closed: "▸" }[state] ?? "";
    const branch = h("span.tree-branch", { style: { "padding-left": `${Math.min(depth, MOST_INDENT) * INDENT}px` } },
      depth > MOST_INDENT ? h("span.tree-depth", `${depth}`) : null,
      h("span.tree-mark", { "aria-hidden": "true" }, mark));
    element.replaceChildren(
      ...this.columns.map((column, at) => treeCell(column, "gridcell", at ? null : branch, column.cell(row, table))),
    );
  }

  clicked(event) {
    const line = Number(event.currentTarget.dataset.line);
    const onMark = event.target.closest(".tree-branch");
    if (!onMark) this.choose(line);
    if (onMark || event.detail === 2) this.toggle(line);
  }

  /** Marks a line, as soon as it is there, and brings it into sight. */
  choose(line) {
    const found = this.line(line);
    this.awaited = found ? null : line;
    if (found) Object.assign(this, { chosen: found.table.value(found.row, "id"), chosenLine: line });
    this.scroller.reveal(line);
    if (!found) return;
    this.onselect(this.chosen, found.table.value(found.row, "name"));
  }

  toggle(line) {
    const found = this.line(line);
    if (found && found.table.value(found.row, "state") && found.table.value(found.row, "depth") > 0)
      this.ontoggle(found.table.value(found.row, "id"));
  }

  /** The nearest line above that is less deep, as far as lines are there. */
  above(line) {
    const depth = (at) => {
      const found = this.parts.get(Math.floor(at / PART));
      return found?.value(at % PART, "depth") ?? null;
    };
    const own = depth(line);
    if (own === null) return line;
    for (let at = line - 1; at >= 0 && depth(at) !== null; at -= 1) if (depth(at) < own) return at;
    return line;
  }

  key(event) {
    if (event.ctrlKey || event.metaKey || event.altKey || event.target !== this.scroll) return;
    const line = this.chosenLine;
    const last = this.lines - 1;
    const found = line >= 0 ? this.line(line) : null;
    const state = found?.table.value(found.row, "state");
    const folds = { ArrowRight: "closed", ArrowLeft: "open" }[event.key];
    const to =
      { ArrowDown: line + 1, ArrowUp: line - 1, ArrowRight: line + 1, ArrowLeft: this.above(line), Home: 0, End: last,
        PageDown: line + 15, PageUp: line - 15 }[event.key];
    if (to === undefined) return;
    event.preventDefault();
    if (folds && state === folds && found.table.value(found.row, "depth") > 0) this.toggle(line);
    else this.choose(Math.max(0, Math.min(last, to)));
  }
}
