// A tree as rows that open and close, of any size: only the rows in sight are elements.

import { h } from "../dom.js";

const ROW = 26;
const AHEAD = 8;
const LEAST_NAME = 260;
const TALLEST = 16_000_000;

/**
 * A tree in an element. `parents`: of each node the one that it is in, null or -1 for a root, in preorder. `order(node)`:
 * children with more of it come first; `shown(node)`: whether it is there at all. `columns`: {title, about, width, cell(node) -> Node or
 * text, number}; the first one has the branches. `onselect(node)`; `rows`: at most so many in sight.
 */
export class TreeView {
  constructor(element, { parents, columns, order, shown = () => true, onselect, rows = 24, label = "Tree" }) {
    Object.assign(this, { parents, columns, order, shown, onselect, most: rows });
    this.open = new Set();
    this.chosen = null;
    this.children = childrenOf(parents);
    const wide = columns.reduce((sum, { width }) => sum + (width ?? LEAST_NAME), 0);
    this.head = h("div.tree-head", { role: "row", style: { "min-width": `${wide}px` } }, columns.map(heading));
    this.space = h("div.tree-space", { role: "presentation", style: { "min-width": `${wide}px` } });
    this.scroll = h("div.tree-scroll", { role: "treegrid", tabindex: "0", "aria-label": label }, this.head, this.space);
    this.scroll.addEventListener("scroll", () => this.draw());
    this.scroll.addEventListener("keydown", (event) => this.key(event));
    element.append(this.scroll);
    this.watch = new ResizeObserver(() => this.draw());
    this.watch.observe(this.scroll);
    this.roots = this.sorted(this.children.get(-1) ?? []);
    for (const root of this.roots) this.open.add(root);
    this.arrange();
  }

  /** Anew, where what is shown or how it is ordered has changed. */
  arrange() {
    this.roots = this.sorted(this.children.get(-1) ?? []);
    const lines = [];
    const depths = [];
    const waiting = this.roots.map((node) => [node, 0]).reverse();
    while (waiting.length) {
      const [node, depth] = waiting.pop();
      lines.push(node);
      depths.push(depth);
      if (!this.open.has(node)) continue;
      const below = this.sorted(this.children.get(node) ?? []);
      for (let at = below.length - 1; at >= 0; at -= 1) waiting.push([below[at], depth + 1]);
    }
    Object.assign(this, { lines, depths });
    this.space.style.height = `${Math.min(lines.length * ROW, TALLEST)}px`;
    this.scroll.style.height = `${Math.min(lines.length, this.most) * ROW + 34}px`;
    this.draw();
  }

  sorted(nodes) {
    const there = nodes.filter((node) => this.shown(node));
    return this.order ? there.sort((one, other) => this.order(other) - this.order(one) || one - other) : there;
  }

  /** Opens all nodes down to a depth, at most some thousands. */
  unfold(depth) {
    this.open.clear();
    let level = this.roots;
    for (let at = 0; at < depth && this.open.size < 5_000; at += 1) {
      for (const node of level) this.open.add(node);
      level = level.flatMap((node) => this.sorted(this.children.get(node) ?? []));
    }
    this.arrange();
  }

  /** Marks a node, opens what it is in, and brings it into sight. */
  select(node, { notify = true } = {}) {
    this.chosen = node;
    if (node !== null) {
      for (let up = this.parent(node); up >= 0; up = this.parent(up)) this.open.add(up);
      this.arrange();
      this.reveal(this.lines.indexOf(node));
    } else this.draw();
    if (notify) this.onselect?.(node);
  }

  parent(node) {
    return this.parents[node] ?? -1;
  }

  reveal(line) {
    if (line < 0) return;
    const top = line * ROW;
    const room = this.scroll.clientHeight - this.head.offsetHeight - ROW;
    if (top < this.scroll.scrollTop) this.scroll.scrollTop = top;
    else if (top > this.scroll.scrollTop + room) this.scroll.scrollTop = top - room / 2;
    this.draw();
  }

  draw() {
    const first = Math.max(0, Math.floor(this.scroll.scrollTop / ROW) - AHEAD);
    const last = Math.min(this.lines.length, first + Math.ceil((this.scroll.clientHeight || 600) / ROW) + 2 * AHEAD);
    const drawn = [];
    for (let line = first; line < last; line += 1) drawn.push(this.row(line));
    this.space.replaceChildren(...drawn);
  }

  row(line) {
    const node = this.lines[line];
    const inner = (this.children.get(node) ?? []).some((one) => this.shown(one));
    const isOpen = this.open.has(node);
    const cells = this.columns.map((column, at) =>
      h("div", { class: `tree-cell${column.number ? " number" : ""}`, role: "gridcell", style: { flex: flex(column) } },
        at === 0 ? this.branch(node, this.depths[line], inner, isOpen) : null, column.cell(node))
    );
    return h("div", {
      class: `tree-row${node === this.chosen ? " chosen" : ""}`,
      role: "row",
      "aria-level": this.depths[line] + 1,
      "aria-expanded": inner ? String(isOpen) : null,
      "aria-selected": String(node === this.chosen),
      dataset: { node: String(node) },
      style: { transform: `translateY(${line * ROW}px)` },
      onclick: (event) => this.clicked(event, node, inner),
    }, ...cells);
  }

  branch(node, depth, inner, isOpen) {
    const mark = inner ? (isOpen ? "▾" : "▸") : "";
    return h("span.tree-branch", { style: { "padding-left": `${Math.min(depth, 40) * 14}px` } },
      h("span.tree-mark", { "aria-hidden": "true" }, mark));
  }

  clicked(event, node, inner) {
    const onMark = event.target.closest(".tree-branch");
    if (inner && (onMark || event.detail === 2)) this.toggle(node);
    if (!onMark) {
      this.chosen = node;
      this.draw();
      this.onselect?.(node);
    }
  }

  toggle(node) {
    if (!this.open.delete(node)) this.open.add(node);
    this.arrange();
  }

  key(event) {
    const line = this.lines.indexOf(this.chosen);
    const node = this.chosen;
    const has = node !== null && (this.children.get(node) ?? []).length > 0;
    const to = (next) => this.select(this.lines[Math.max(0, Math.min(this.lines.length - 1, next))] ?? null);
    const actions = {
      ArrowDown: () => to(line + 1),
      ArrowUp: () => to(line < 0 ? 0 : line - 1),
      ArrowRight: () => (has && !this.open.has(node) ? this.toggle(node) : to(line + 1)),
      ArrowLeft:
        () => (has && this.open.has(node)
          ? this.toggle(node)
          : this.parent(node) >= 0 && this.select(this.parent(node))),
      Home: () => to(0),
      End: () => to(this.lines.length - 1),
      PageDown: () => to(line + 15),
      PageUp: () => to(line - 15),
    };
    if (!actions[event.key] || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    event.stopPropagation();
    actions[event.key]();
  }

  leave() {
    this.watch.disconnect();
    this.scroll.remove();
  }
}

function childrenOf(parents) {
  return Map.groupBy(parents.keys(), (node) => parents[node] ?? -1);
}

function heading(column) {
  return h("div", {
    class: `tree-cell${column.number ? " number" : ""}`,
    role: "columnheader",
    title: column.about,
    style: { flex: flex(column) },
  }, column.title);
}

function flex(column) {
  return column.width ? `0 0 ${column.width}px` : `1 0 ${LEAST_NAME}px`;
}
