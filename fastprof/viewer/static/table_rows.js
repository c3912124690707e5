// The rows of a table that are in sight, as elements that are used again as it scrolls, and the keys that move in it.

import { clear, h } from "./dom.js";
import { fitting } from "./table_columns.js";

const ROW = 26;
const AHEAD = 6;
const HEAD = 30;
const AROUND = 20;

export class Rows {
  constructor(scroll, head, id, onrow) {
    Object.assign(this, { scroll, head, id, onrow, order: [], pool: [], active: -1, selected: null, columns: [] });
    this.body = h("div.table-body", { role: "rowgroup" });
    this.none = h("div.table-none");
    scroll.append(head, this.body, this.none);
    scroll.addEventListener("scroll", () => this.draw(), { passive: true });
    scroll.addEventListener("keydown", (event) => this.key(event));
    scroll.addEventListener("mouseover", (event) => this.explain(event));
    this.body.addEventListener("click", (event) => this.click(event));
    this.body.addEventListener("dblclick", (event) => this.copy(event));
    this.watch = new ResizeObserver(() => {
      this.refit();
      this.draw();
    });
    this.watch.observe(scroll);
  }

  show(data, columns, order, options) {
    Object.assign(this, { data, columns, order, options });
    this.active = Math.min(this.active, order.length - 1);
    this.body.style.height = `${order.length * ROW}px`;
    const rows = Math.max(1, Math.min(order.length, options.rows));
    this.scroll.style.height = `${HEAD + rows * ROW + 14}px`;
    this.scroll.setAttribute("aria-rowcount", order.length + 1);
    this.none.textContent = order.length
      ? ""
      : data.length
      ? "No row matches the filter."
      : (options.empty ?? "There is nothing to show.");
    clear(this.body);
    this.pool = [];
    this.refit();
    this.draw();
  }

  /** Rows are as wide as the head. */
  refit() {
    const least = this.columns.reduce((sum, column) => sum + Number.parseFloat(column.flex.split(" ")[2]), 0);
    this.head.style.minWidth = `${least}px`;
    this.body.style.minWidth = `${least}px`;
    this.columns.forEach((column, at) => {
      column.room = this.head.children[at].offsetWidth - AROUND;
    });
    for (const row of this.pool) {
      this.columns.forEach((column, at) => {
        row.children[at].style.flex = column.flex;
      });
    }
  }

  select(row) {
    this.selected = row;
    const place = row === null ? -1 : this.order.indexOf(row);
    if (place >= 0) this.move(place);
    else this.draw();
  }

  leave() {
    this.watch.disconnect();
  }

  draw() {
    if (!this.data) return;
    const first = Math.max(0, Math.floor(this.scroll.scrollTop / ROW) - AHEAD);
    const count = Math.min(this.order.length - first, Math.ceil(this.scroll.clientHeight / ROW) + 2 * AHEAD);
    while (this.pool.length < count) this.pool.push(this.element());
    while (this.pool.length > Math.max(count, 0)) this.pool.pop().remove();
    for (let at = 0; at < count; at += 1) this.fill(this.pool[(first + at) % count], first + at);
  }

  element() {
    const row = h("div.row", { role: "row" });
    for (const column of this.columns) {
      row.append(
        h("div", { class: column.number ? "cell number" : "cell", role: "gridcell", style: { flex: column.flex } }),
      );
    }
    this.body.append(row);
    return row;
  }

  fill(element, place) {
    const row = this.order[place];
    element.style.transform = `translateY(${place * ROW}px)`;
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
    else if (column.cut && typeof value === "string") cell.textContent = fitting(value, column.room);
    else cell.textContent = column.text(value, row);
    cell.classList.toggle("unknown", value === null);
    if (column.share) {
      cell.classList.add("share");
      cell.style.setProperty("--share", `${100 * Math.min(1, Math.max(0, value ?? 0))}%`);
    }
    cell.removeAttribute("title");
  }

  /** The whole value, when the pointer rests on a cell. */
  explain(event) {
    const cell = event.target.closest(".cell");
    const place = Number(cell?.parentElement.dataset.place);
    if (!cell || cell.title || Number.isNaN(place) || place >= this.order.length) return;
    const column = this.columns[Array.prototype.indexOf.call(cell.parentElement.children, cell)];
    cell.title = column.full(this.data.value(this.order[place], column.name));
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
    if (event.target !== this.scroll || event.ctrlKey || event.metaKey || event.altKey) return;
    const page = Math.max(1, Math.floor((this.scroll.clientHeight - HEAD) / ROW) - 1);
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
    const top = place * ROW;
    const sight = this.scroll.clientHeight - HEAD;
    if (top < this.scroll.scrollTop) this.scroll.scrollTop = top;
    else if (top + ROW > this.scroll.scrollTop + sight - 14) this.scroll.scrollTop = top + ROW - sight + 14;
    this.draw();
    this.scroll.setAttribute("aria-activedescendant", `${this.id}-${place}`);
  }
}
