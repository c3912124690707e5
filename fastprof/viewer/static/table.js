// Tables: sorted, filtered and read by key, and as quick with a hundred thousand rows as with ten. Only the rows in
// sight are elements; texts that repeat are compared once.

import { copyButton } from "./clipboard.js";
import { dropdown } from "./controls.js";
import { clear, h, onDrag } from "./dom.js";
import { shownColumns } from "./table_columns.js";
import { save, written } from "./table_csv.js";
import { FilterBar } from "./table_filter.js";
import { sortRows } from "./table_order.js";
import { Rows } from "./table_rows.js";
import { number } from "./units.js";

const FILTERED_ROWS = 6;
const LEAST_WIDTH = 40;

let tables = 0;

/**
 * A table in an element. Options: `columns`: those to show at first, each a name or {name, title, text(value, row),
 * node(value, row), scale, width, grow, hidden}; the others can be chosen. `sort`: {by, down}; `filters`: names of columns with
 * a box of their own; `filter`: what the box for all columns holds at first; `caption`; `csv`: address of the table
 * as a file; `command`: one that makes it; `rows`: how many are in sight, at most; `onrow(row)`; `selected`: a row; `bar`: a column of shares that is
 * drawn as bars; `where(row)`: which rows there are at all; `empty`: what is said where there is none; `values`: texts of
 * boxes of columns; `name`: by which it can be found; `changed({sort, filter, values})`: the user sorted or filtered.
 */
export function table(element, data, options = {}) {
  return new TableView(element, data, options);
}

class TableView {
  constructor(element, data, options) {
    this.options = { rows: 15, ...options };
    this.id = `table-${(tables += 1)}`;
    this.sort = options.sort ?? null;
    this.data = data;
    this.columns = shownColumns(data, this.options);
    this.bar = new FilterBar(data, this.columns, () => this.rearrange(), this.options);
    this.count = h("span.table-count", { role: "status" });
    this.menu = h("div.menu-body");
    this.head = h("div.table-head", { role: "row" });
    this.scroll = h("div.table-scroll", { role: "grid", tabindex: "0", "aria-label": options.caption ?? "Table" });
    this.rows = new Rows(this.scroll, this.head, this.id, (row) => this.chosen(row));
    element.append(
      h("div.table", { dataset: options.name ? { table: options.name } : {} }, this.toolbar(), this.scroll),
    );
    this.drawMenu();
    this.arrange();
    if (options.selected !== undefined) this.select(options.selected);
  }

  /** Marks a row, by its number in the data, and brings it into sight; null marks none. */
  select(row) {
    this.rows.select(row);
  }

  toolbar() {
    const menu = dropdown("Columns", this.menu);
    return h("div.table-bar", this.bar.root, h("span.spring"), this.count, menu, this.saving());
  }

  /** Saves the table as a file: what is shown or, if the server has an address for it, all. */
  saving() {
    const shown = { title: "The rows and columns shown, as filtered and sorted", onclick: () => this.save() };
    const { csv, command } = this.options;
    if (!csv && !command) return h("button.button", shown, "CSV");
    const all = { href: csv, download: "", title: "All rows and columns, as stored" };
    return dropdown("CSV",
      h("div.menu-body.menu-small", h("button.menu-item", shown, "Shown rows"),
        csv ? h("a.menu-item", all, "All rows and columns") : null,
        command ? copyButton(command, { label: "Copy the command", title: command, kind: "menu-item" }) : null));
  }

  save() {
    const columns = this.columns.filter((column) => !column.hidden).map((column) => column.name);
    save(`${this.data.name || "table"}.csv`, written(this.data, columns, this.rows.order));
  }

  chosen(row) {
    this.select(row);
    this.options.onrow?.(row);
  }

  /** Filters and sorts, then draws. */
  arrange() {
    const order = this.bar.rows(this.options.where);
    if (this.sort) sortRows(order, this.data, this.sort);
    const [all, some] = [number(this.data.length), number(order.length)];
    const cut = this.data.of > this.data.length ? ` (the first of ${number(this.data.of)})` : "";
    this.bar.root.hidden = this.data.length < FILTERED_ROWS && !this.bar.active;
    this.count.textContent = order.length === this.data.length
      ? `${all} ${this.data.length === 1 ? "row" : "rows"}${cut}`
      : `${some} of ${all} rows${cut}`;
    this.drawHead();
    this.rows.show(this.data, this.columns.filter((column) => !column.hidden), order, this.options);
  }

  /** Arranges from the first row on: what was in sight is elsewhere now. */
  rearrange() {
    this.scroll.scrollTop = 0;
    this.arrange();
    this.options.changed?.({ sort: this.sort, ...this.bar.state });
  }

  drawHead() {
    clear(this.head);
    const shown = this.columns.filter((column) => !column.hidden);
    this.scroll.setAttribute("aria-colcount", shown.length);
    for (const column of shown) this.head.append(this.headCell(column));
  }

  headCell(column) {
    const by = this.sort?.by === column.name ? this.sort : null;
    const title = [column.title, column.unit && `in ${column.unit}`, column.description].filter(Boolean).join(" · ");
    const button = h("button", { title, onclick: () => this.sortBy(column) }, h("span.head-title", column.title),
      column.unit && h("span.head-unit", column.unit),
      h("span.head-arrow", { "aria-hidden": "true" }, by ? (by.down ? "▼" : "▲") : ""));
    const grip = h("span.head-grip", { "aria-hidden": "true" });
    onDrag(grip, (event) => ({ beside: grip.parentElement.offsetWidth - event.clientX }), (event, { beside }) => {
      column.flex = `0 0 ${Math.max(LEAST_WIDTH, beside + event.clientX)}px`;
      grip.parentElement.style.flex = column.flex;
      this.rows.refit();
    });
    return h("div", { class: `head${column.number ? " number" : ""}`, role: "columnheader",
      style: { flex: column.flex }, "aria-sort": by ? (by.down ? "descending" : "ascending") : "none" }, button, grip);
  }

  /** Numbers begin with the largest; the third time the order is that of the data again. */
  sortBy(column) {
    const down = Boolean(column.number);
    if (this.sort?.by !== column.name) this.sort = { by: column.name, down };
    else if (this.sort.down === down) this.sort = { by: column.name, down: !down };
    else this.sort = null;
    this.rearrange();
    const heads = this.columns.filter((one) => !one.hidden);
    this.head.children[heads.indexOf(column)]?.querySelector("button").focus();
  }

  drawMenu() {
    clear(this.menu);
    for (const column of this.columns) {
      const box = h("input", { type: "checkbox", checked: !column.hidden, onchange: (event) => {
        column.hidden = !event.target.checked;
        this.arrange();
      } });
      this.menu.append(h("label.menu-item", { title: column.description ?? "" }, box, column.title));
    }
  }
}
