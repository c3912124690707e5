// A tree of any size as rows that open and close.

import { h } from "../dom.js";
import { RowScroller } from "../row_scroller.js";

const ROW = 26;
const HEAD = 34;
const LEAST_NAME = 260;
const MOST_OPENED = 5_000;
const MOST_ROWS = 24;

/**
 * A tree in an element. `parents`: the parent of each node, null or -1 for a root, in preorder. `order(node)`: children
 * with more of it come first; `shown(node)`: whether the node is shown. `columns`: {title, about, width, number, cell(node)
 * -> Node or text}; the first one has the branches. `onselect(node)`.
 */
export class TreeView {
  constructor(element, { parents, columns, order, shown, onselect, label }) {
    Object.assign(this, { parents, columns, order, shown, onselect });
    this.open = new Set();
    this.chosen = null;
    this.children = Map.groupBy(parents.keys(), (node) => this.parent(node));
    const style = { "min-width": `${columns.reduce((sum, { width }) => sum + (width ?? LEAST_NAME), 0)}px` };
    const space = h("div.tree-space", { role: "presentation", style });
    this.scroll = h("div.tree-scroll", { role: "treegrid", tabindex: "0", "aria-label": label,
      onkeydown: (event) => this.key(event) }, h("div.tree-head", { role: "row", style }, columns.map(headCell)),
      space);
    element.append(this.scroll);
    this.scroller = new RowScroller(this.scroll, space, { height: ROW, head: HEAD,
      make: () => h("div.tree-row", { role: "row", onclick: (event) => this.clicked(event) }),
      fill: (row, line) => this.fill(row, line) });
    this.roots = this.below(-1);
  }

  /** Lists the rows again after a change of what is open. */
  arrange() {
    this.lines = [];
    this.depths = [];
    const waiting = this.roots.map((node) => [node, 0]).reverse();
    while (waiting.length) {
      const [node, depth] = waiting.pop();
      this.lines.push(node);
      this.depths.push(depth);
      if (this.open.has(node)) waiting.push(...this.below(node).map((child) => [child, depth + 1]).reverse());
    }
    this.scroll.style.height = `${Math.min(this.lines.length, MOST_ROWS) * ROW + HEAD}px`;
    this.scroller.show(this.lines.length);
  }

  /** The children of a node that are shown, in their order. */
  below(node) {
    const nodes = (this.children.get(node) ?? []).filter(this.shown);
    return nodes.sort((one, other) => this.order(other) - this.order(one) || one - other);
  }

  isInner(node) {
    return (this.children.get(node) ?? []).some(this.shown);
  }

  /** Opens all nodes down to a depth, some thousands at most. */
  unfold(depth) {
    this.open.clear();
    let level = this.roots;
    for (let at = 0; at < depth && this.open.size < MOST_OPENED; at += 1) {
      for (const node of level) this.open.add(node);
      level = level.flatMap((node) => this.below(node));
    }
    this.arrange();
  }

  /** Marks a node, opens what it is in, and brings it into sight. */
  select(node) {
    for (let up = this.parent(node); up >= 0; up = this.parent(up)) this.open.add(up);
    this.arrange();
    const line = this.lines.indexOf(node);
    if (line >= 0) this.scroller.reveal(line);
    this.choose(node);
  }

  choose(node) {
    this.chosen = node;
    this.scroller.draw();
    this.onselect(node);
  }

  parent(node) {
    return this.parents[node] ?? -1;
  }

  fill(row, line) {
    const node = this.lines[line];
    const depth = this.depths[line];
    const isOpen = this.open.has(node);
    const mark = this.isInner(node) ? (isOpen ? "▾" : "▸") : "";
    row.classList.toggle("chosen", node === this.chosen);
    row.setAttribute("aria-level", depth + 1);
    row.setAttribute("aria-selected", node === this.chosen);
    if (mark) row.setAttribute("aria-expanded", isOpen);
    else row.removeAttribute("aria-expanded");
    row.dataset.node = node;
    const branch = h("span.tree-branch", { style: { "padding-left": `${Math.min(depth, 40) * 14}px` } },
      h("span.tree-mark", { "aria-hidden": "true" }, mark));
    row.replaceChildren(
      ...this.columns.map((column, at) => treeCell(column, "gridcell", at ? null : branch, column.cell(node))),
    );
  }

  clicked(event) {
    const node = Number(event.currentTarget.dataset.node);
    const onMark = event.target.closest(".tree-branch");
    if (!onMark) this.choose(node);
    if (onMark || event.detail === 2) this.toggle(node);
  }

  toggle(node) {
    if (!this.isInner(node)) return;
    if (!this.open.delete(node)) this.open.add(node);
    this.arrange();
  }

  key(event) {
    const node = this.chosen;
    const line = this.lines.indexOf(node);
    const last = this.lines.length - 1;
    const to =
      { ArrowDown: line + 1, ArrowUp: line - 1, ArrowRight: line + 1, ArrowLeft: this.lines.indexOf(this.parent(node)),
        Home: 0, End: last, PageDown: line + 15, PageUp: line - 15 }[event.key];
    if (to === undefined || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    event.stopPropagation();
    if (event.key === (this.open.has(node) ? "ArrowLeft" : "ArrowRight") && this.isInner(node)) this.toggle(node);
    else if (event.key !== "ArrowLeft" || to >= 0) this.select(this.lines[Math.max(0, Math.min(last, to))]);
  }
}

/** A cell of a column of a tree. */
export function treeCell(column, role, ...content) {
  const flex = column.width ? `0 0 ${column.width}px` : `1 0 ${LEAST_NAME}px`;
  return h("div", { class: `tree-cell${column.number ? " number" : ""}`, role, style: { flex } }, ...content);
}

export function headCell(column) {
  const head = treeCell(column, "columnheader", column.title);
  head.title = column.about ?? "";
  return head;
}
