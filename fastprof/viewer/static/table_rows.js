// The rows of a table: their cells, the row that is active, and the keys that move it.

import { h, on, onResize } from "./dom.js";
import { RowScroller } from "./row_scroller.js";
import { elision } from "./table_columns.js";
import { seen, seenLines } from "./unseen.js";

const ROW = 26;
const HEAD = 30;
const BAR = 14;
const AROUND = 20;

export class Rows {
  constructor(box, head, id, onrow) {
    Object.assign(this, { box, head, id, onrow, order: [], active: -1, selected: null, columns: [] });
    this.body = h("div.table-body", { role: "rowgroup", onclick: (event) => this.click(event),
      ondblclick: (event) => this.copy(event) });
    this.none = h("div.table-none");
    box.append(head, this.body, this.none);
    on(box, { keydown: (event) => this.key(event), mouseover: (event) => this.explain(event) });
    onResize(box, () => this.refit());
    this.scroller = new RowScroller(box, this.body, { height: ROW, head: HEAD + BAR, make: () => this.element(),
      fill: (element, place) => this.fill(element, place) });
  }

  show(data, columns, order, options) {
    Object.assign(this, { data, columns, order, options });
    this.active = Math.min(this.active, order.length - 1);
    const rows = Math.max(1, Math.min(order.length, options.rows));
    this.box.style.height = `${HEAD + rows * ROW + BAR}px`;
    this.box.setAttribute("aria-rowcount", order.length + 1);
    const none = data.length ? "No row matches the filter." : (options.empty ?? "There is nothing to show.");
    this.none.textContent = order.length ? "" : none;
    this.refit();
    this.scroller.show(order.length, true);
  }

  /** Rows are as wide as the head. */
  refit() {
    const least = this.columns.reduce((sum, column) => sum + Number.parseFloat(column.flex.split(" ")[2]), 0);
    this.head.style.minWidth = `${least}px`;
    this.body.style.minWidth = `${least}px`;
    this.columns.forEach((column, at) => {
      column.room = this.head.children[at].offsetWidth - AROUND;
      column.elision = null;
      for (const row of this.body.children) row.children[at].style.flex = column.flex;
    });
  }

  select(row) {
    this.selected = row;
    const place = row === null ? -1 : this.order.indexOf(row);
    if (place >= 0) this.move(place);
    else this.scroller.draw();
  }

  element() {
    return h("div.row", { role: "row" },
      this.columns.map((column) =>
        h("div", { class: column.number ? "cell number" : "cell", role: "gridcell", style: { flex: column.flex } })
      ));
  }

  fill(element, place) {
    const row = this.order[place];
    element.id = `${this.id}-${place}`;
    element.setAttribute("aria-rowindex", place + 2);
    element.dataset.place = place;
    element.classList.toggle("active", place === this.active);
    element.classList.toggle("selected", row === this.selected);
    element.classList.toggle("odd", place % 2 === 1);
    element.setAttribute("aria-selected", row === this.selected);
    this.columns.forEach((column, at) => this.fillCell(element.children[at], column, row));
  }

  fillCell(cell, column, row) {
    const value = this.data.value(row, column.name);
    if (column.node) cell.replaceChildren(column.node(value, row));
    else if (column.cut && typeof value === "string" && !column.words?.[value])
      cell.textContent = (column.elision ??= elision(this.data, column, this.order)).cut(value);
    else cell.textContent = seen(column.text(value, row));
    cell.classList.toggle("unknown", value === null);
    if (column.share) {
      cell.classList.add("share");
      cell.style.setProperty("--share", `${100 * Math.min(1, Math.max(0, value ?? 0))}%`);
    }
    cell.removeAttribute("title");
  }

  /** The full value, when the pointer rests on a cell. */
  explain(event) {
    const cell = event.target.closest(".cell");
    const place = Number(cell?.parentElement.dataset.place);
    if (!cell || cell.title || Number.isNaN(place) || place >= this.order.length) return;
    const column = this.columns[Array.prototype.indexOf.call(cell.parentElement.children, cell)];
    cell.title = seenLines(column.full(this.data.value(this.order[place], column.name)));
  }

  click(event) {
    const place = Number(event.target.closest(".row")?.dataset.place);
    if (Number.isNaN(place) || event.target.closest("a, button")) return;
    this.move(place);
    this.onrow(this.order[place]);
  }

  /** A double click marks the text of the cell, to be copied. */
  copy(event) {
    const cell = event.target.closest(".cell");
    if (cell) window.getSelection().selectAllChildren(cell);
  }

  key(event) {
    if (event.target !== this.box || event.ctrlKey || event.metaKey || event.altKey) return;
    const page = Math.max(1, Math.floor((this.box.clientHeight - HEAD) / ROW) - 1);
    const last = this.order.length - 1;
    const to =
      { ArrowDown: this.active + 1, ArrowUp: this.active - 1, PageDown: this.active + page, PageUp: this.active - page,
        Home: 0, End: last }[event.key];
    if (to !== undefined && last >= 0) {
      event.preventDefault();
      this.move(Math.max(0, Math.min(last, to)));
    } else if ((event.key === "Enter" || event.key === " ") && this.active >= 0) {
      event.preventDefault();
      this.onrow(this.order[this.active]);
    }
  }

  move(place) {
    this.active = place;
    this.scroller.reveal(place);
    this.box.setAttribute("aria-activedescendant", `${this.id}-${place}`);
  }
}
