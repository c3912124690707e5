// One box that finds pages, findings, ops and kernels by words of their names.

import { h, on, paused, shortened } from "./dom.js";

const MOST_READ = 2000;
const MOST_SHOWN = 6;
const PAUSE_MS = 120;
/** Tables that are searched: the report, the table, the column of names, what rows are, and the address of one. */
const TABLES = [
  ["diagnosis", "findings", "title", "Finding", (name) => ["overview", { finding: name }]],
  ["op_stats", "ops", "name", "Op", (name) => ["op_stats", { search: name }]],
  ["op_stats", "device_ops", "name", "Device op", (name) => ["op_stats", { device_search: name }]],
  ["kernel_stats", "kernels", "name", "Kernel", (name) => ["kernel_stats", { "find-kernels": name }]],
];

export class SearchBox {
  /** `pages()`: [title, summary, address] of each page; `read(analysis, options)`: a report; `href(page, params)`. */
  constructor({ pages, read, href }) {
    Object.assign(this, { pages, read, href, entries: null, source: null });
    this.count = h("span.search-count", { role: "status" });
    this.list = h("ul.search-hits");
    this.box = h("input", { id: "search-everything", type: "search", spellcheck: "false", autocomplete: "off",
      "aria-describedby": "search-help", placeholder: "Pages, findings, ops …" });
    this.element = h("div.search-box", { role: "search" }, h("label", { for: "search-everything" }, "Search"), this.box,
      h("span.unseen", { id: "search-help" },
        "Find pages, findings, ops and kernels; arrow keys choose, Escape clears"), this.count, this.list);
    const draw = paused(() => this.draw(), PAUSE_MS);
    on(this.box, { input: draw, focus: () => this.gather() });
    on(this.element, { keydown: (event) => this.move(event) });
    on(this.list, { click: () => this.clear() });
  }

  /** Reads the names once per run, when the box is first used: reports may have to be computed for that. */
  async gather() {
    const source = this.read(null);
    if (this.source === source) return;
    Object.assign(this, { source, entries: [] });
    for (const [analysis, table, column, kind, place] of TABLES) {
      try {
        const { tables } = await this.read(analysis, { tables: table, columns: `${table}.${column}`, rows: MOST_READ });
        if (this.source !== source) return;
        const names = tables[table].coded(column).texts.slice(0, MOST_READ);
        this.entries.push(...names.map((name) => ({ name, kind, place: () => this.href(...place(name)) })));
        this.draw();
      } catch {
        continue; // a report that is missing or fails has nothing to find; its page says why
      }
    }
  }

  draw() {
    const words = this.box.value.toLowerCase().split(/\s+/).filter(Boolean);
    const focused = this.list.contains(document.activeElement) ? document.activeElement.href : null;
    this.list.replaceChildren();
    this.count.textContent = "";
    if (!words.length) return;
    const pages = this.pages().map(([name, about, href]) => ({ name, about, kind: "Page", place: () => href }));
    const hits = [...pages, ...(this.entries ?? [])].filter(({ name, about = "" }) => {
      const text = `${name} ${about}`.toLowerCase();
      return words.every((word) => text.includes(word));
    });
    for (const [kind, of] of Map.groupBy(hits, (hit) => hit.kind)) {
      this.list.append(
        ...of.slice(0, MOST_SHOWN).map(({ name, place }) =>
          h("li", h("a", { href: place(), title: name }, h("span.search-kind", kind), ` ${shortened(name, 60)}`))
        ),
      );
    }
    if (focused) ([...this.list.querySelectorAll("a")].find((link) => link.href === focused) ?? this.box).focus();
    const shown = this.list.children.length;
    this.count.textContent = shown < hits.length ? `${shown} of ${hits.length} found` : `${shown} found`;
  }

  move(event) {
    if (event.key === "Escape") {
      this.clear();
      this.box.focus();
    }
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (!step) return;
    const stops = [this.box, ...this.list.querySelectorAll("a")];
    stops[stops.indexOf(document.activeElement) + step]?.focus();
    event.preventDefault();
  }

  clear() {
    this.box.value = "";
    this.draw();
  }
}
