// What of a table is shown: one box for all columns, and boxes for single ones.

import { h } from "./dom.js";
import { holds, is, matches } from "./table_order.js";
import { label } from "./units.js";

const MOST_CHOICES = 24;
const PAUSE_MS = 60;

export class FilterBar {
  constructor(changed, options) {
    this.boxes = new Map();
    this.options = options;
    this.changed = paused(changed);
    this.all = h("input.filter.filter-all", { type: "search", placeholder: "Filter rows", value: options.filter ?? "",
      "aria-label": `Filter rows${options.caption ? ` of ${options.caption}` : ""}`,
      title: "Rows that hold all of these words, in any column shown", oninput: () => this.changed() });
    this.more = h("select.filter-more", { "aria-label": "Filter by a column", onchange: () => this.added() });
    this.own = h("span.filter-own");
    this.root = h("span.filters", this.all, this.own, this.more);
  }

  /** Whether anything is filtered by. */
  get active() {
    return Boolean(this.all.value) || [...this.boxes.values()].some((box) => box.value);
  }

  update(data, columns) {
    Object.assign(this, { data, columns });
    for (const name of this.options.filters ?? []) if (!this.boxes.has(name) && data.has(name)) this.add(name);
    for (const [name, box] of this.boxes) this.refresh(name, box);
    this.more.replaceChildren(h("option", { value: "" }, "+ filter"));
    for (const column of columns) {
      if (!this.boxes.has(column.name)) this.more.append(h("option", { value: column.name }, column.title));
    }
  }

  added() {
    const name = this.more.value;
    if (!name) return;
    this.add(name).focus();
    this.update(this.data, this.columns);
  }

  add(name) {
    const title = this.columns.find((column) => column.name === name)?.title ?? label(name);
    const choices = this.choices(name);
    const isNumber = this.data.isNumber(name);
    const box = choices
      ? h("select.filter", { "aria-label": `Filter by ${title}`, onchange: () => this.changed() })
      : h("input.filter", { type: "search", placeholder: isNumber ? `${title} > …` : title,
        "aria-label": `Filter by ${title}`, title: isNumber
          ? `${title}: a number, or one after <, <=, > or >=, with a unit where it has one`
          : `${title}: rows that hold this`, oninput: () => this.changed() });
    this.boxes.set(name, box);
    this.own.append(box);
    return box;
  }

  /** The values of a column that is chosen from; null where they are too many. */
  choices(name) {
    if (this.data.isNumber(name)) return null;
    const { texts } = this.data.coded(name);
    return texts.length <= MOST_CHOICES && texts.length > 0 ? texts : null;
  }

  refresh(name, box) {
    if (box.tagName !== "SELECT" || !this.data.has(name)) return;
    const chosen = box.value;
    const title = this.columns.find((column) => column.name === name)?.title ?? label(name);
    box.replaceChildren(h("option", { value: "" }, `${title}: all`));
    for (const text of [...this.data.coded(name).texts].sort())
      box.append(h("option", { value: text }, text.slice(0, 60)));
    box.value = chosen;
    if (box.selectedIndex < 0) box.value = "";
  }

  /** Numbers of the rows that all filters let through, in the order of the data. */
  rows(data, where) {
    const tests = [...this.ownTests(data), ...this.words(data)];
    if (where) tests.push(where);
    const kept = [];
    for (let row = 0; row < data.length; row += 1) if (tests.every((test) => test(row))) kept.push(row);
    return kept;
  }

  ownTests(data) {
    const tests = [];
    for (const [name, box] of this.boxes) {
      if (box.value && data.has(name))
        tests.push(box.tagName === "SELECT" ? is(data, name, box.value) : matches(data, name, box.value));
    }
    return tests;
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

/** Called once when calls have ceased for a moment. */
function paused(act) {
  let timer = null;
  return () => {
    clearTimeout(timer);
    timer = setTimeout(act, PAUSE_MS);
  };
}
