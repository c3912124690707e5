// What of a table is shown: one box for all columns, and boxes for single ones.

import { h, paused } from "./dom.js";
import { holds, is, matches } from "./table_order.js";

const MOST_CHOICES = 24;
const PAUSE_MS = 60;

export class FilterBar {
  constructor(data, columns, changed, { filters = [], filter = "", values = {}, caption = null }) {
    Object.assign(this, { data, columns, changed: paused(changed, PAUSE_MS), boxes: new Map() });
    this.all = h("input.filter.filter-all", { type: "search", placeholder: "Filter rows", value: filter,
      "aria-label": `Filter rows${caption ? ` of ${caption}` : ""}`,
      title: "Rows that contain all of these words, in any shown column", oninput: () => this.changed() });
    this.more = h("select.filter-more", { "aria-label": "Filter by a column", onchange: () => this.choose() });
    this.own = h("span.filter-own");
    this.root = h("span.filters", this.all, this.own, this.more);
    for (const name of filters) this.add(name);
    for (const [name, value] of Object.entries(values)) this.set(name, value);
    this.offer();
  }

  /** Whether anything is filtered by. */
  get active() {
    return Boolean(this.all.value) || [...this.boxes.values()].some((box) => box.value);
  }

  /** What is filtered by: the text of the box for all columns, and those of the others by column. */
  get state() {
    const values = [...this.boxes].filter(([, box]) => box.value).map(([name, box]) => [name, box.value]);
    return { filter: this.all.value, values: Object.fromEntries(values) };
  }

  /** Writes into the box of a column, if there is such a column. */
  set(name, value) {
    if (this.columns.some((column) => column.name === name)) (this.boxes.get(name) ?? this.add(name)).value = value;
  }

  /** Lists the columns without a box. */
  offer() {
    const rest = this.columns.filter(({ name }) => !this.boxes.has(name));
    this.more.replaceChildren(h("option", { value: "" }, "+ filter"),
      ...rest.map(({ name, title }) => h("option", { value: name }, title)));
  }

  choose() {
    if (!this.more.value) return;
    this.add(this.more.value).focus();
    this.offer();
  }

  /** Adds a box for a column: to choose from its texts, if they are few, else to write in. */
  add(name) {
    const { title, number } = this.columns.find((column) => column.name === name);
    const texts = number ? [] : this.data.coded(name).texts;
    const shared = { "aria-label": `Filter by ${title}`, onchange: () => this.changed() };
    const option = (text) => h("option", { value: text }, text.slice(0, 60));
    const box = texts.length > 0 && texts.length <= MOST_CHOICES
      ? h("select.filter", shared, h("option", { value: "" }, `${title}: all`), [...texts].sort().map(option))
      : h("input.filter", { ...shared, type: "search", placeholder: number ? `${title} > …` : title,
        title: number
          ? `${title}: a number, with its unit if it has one, optionally after <, <=, > or >=`
          : `${title}: rows that contain this`, oninput: () => this.changed() });
    this.boxes.set(name, box);
    this.own.append(box);
    return box;
  }

  /** Numbers of the rows that all filters let through, in the order of the data. */
  rows(where = null) {
    const { data } = this;
    const own = [...this.boxes].filter(([, box]) => box.value).map(([name, box]) =>
      (box.tagName === "SELECT" ? is : matches)(data, name, box.value)
    );
    const tests = [...own, ...this.words(data), ...(where ? [where] : [])];
    return data.select((row) => tests.every((test) => test(row)));
  }

  /** For each word a test whether a column shown holds it. */
  words(data) {
    const words = this.all.value.toLowerCase().split(/\s+/).filter(Boolean);
    const columns = this.columns.filter((column) =>
      !column.hidden && (!column.number || !data.about(column.name).unit)
    );
    return words.map((word) => {
      const tests = columns.map(({ name }) => holds(data, name, word));
      return (row) => tests.some((test) => test(row));
    });
  }
}
