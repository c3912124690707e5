/** All hits of a search as a list, in order of time, duration or track. Only the parts in sight are requested. */

import { clear, h, on, onDrag } from "../dom.js";
import { shownName } from "../kernel_names.js";
import { RowScroller } from "../row_scroller.js";
import { failure, hint, panelHead } from "./panel_parts.js";
import { counted, plural, visible } from "./text.js";
import { short } from "./time_format.js";

const PART = 200; // rows of a request
const MOST_PARTS = 100;
const ROW = 24;
const HEAD = 28;
const LEAST_WIDTH = 50;
const COLUMNS = [
  { name: "name", title: "Name", width: 320 },
  { name: "start", title: "Start", width: 170, order: true, number: true },
  { name: "duration", title: "Duration", width: 110, order: true, number: true },
  { name: "track", title: "Track", width: 200, order: true },
  { name: "process", title: "Process", width: 220 },
];

export class HitsPanel {
  /** `search`: the SearchBar. */
  constructor(timeline, search) {
    Object.assign(this, { timeline, search, order: "start", down: false, parts: new Map(), active: -1, shown: 0 });
    this.columns = COLUMNS.map((column) => ({ ...column }));
    this.node = h("div.tl-panel.tl-hits");
    this.head = h("div");
    this.titles = h("div.tl-hits-titles", { role: "row" });
    this.space = h("div.tl-hits-space", { role: "rowgroup" });
    this.box = h("div.tl-hits-box", { role: "grid", tabindex: "0", "aria-label": "All search hits" }, this.titles,
      this.space);
    this.node.append(this.head, this.box);
    this.scroller = new RowScroller(this.box, this.space, { height: ROW, head: HEAD, make: () => this.make(),
      fill: (element, row) => this.fill(element, row) });
    on(this.box, { keydown: (event) => this.key(event), click: (event) => this.click(event) });
    this.drawTitles();
    this.follow();
  }

  /** Takes the present search; the list is requested when it is looked at. */
  follow() {
    this.stamp = {}; // of the present list
    this.parts.clear();
    this.active = -1;
    const { answer, query } = this.search;
    this.shown = Number(answer?.events ?? 0);
    this.drawHead(answer ? `${plural(this.shown, "hit")} of “${visible(query.q, 80)}”` : "");
    this.box.hidden = !this.shown;
    if (!this.shown) {
      this.head.append(hint(answer ? "No event name matches." : "Find events by name ( / ) to list the hits here."));
      return;
    }
    if (this.node.offsetParent) this.opened();
  }

  /** The panel is in sight: now its rows are requested. */
  opened() {
    if (this.listed === this.stamp) return;
    this.listed = this.stamp;
    this.box.scrollTop = 0;
    this.scroller.show(this.shown, true);
  }

  drawHead(title, facts = "") {
    clear(this.head);
    if (title) this.head.append(panelHead(title, facts));
  }

  drawTitles() {
    clear(this.titles).append(...this.columns.map((column) => this.title(column)));
    this.size();
  }

  title(column) {
    const by = this.order === column.name;
    const text = h(column.order ? "button.tl-hits-title" : "span.tl-hits-title",
      column.order ? { title: `Sort by ${column.title.toLowerCase()}`, onclick: () => this.sort(column) } : {},
      column.title, h("span.head-arrow", { "aria-hidden": "true" }, by ? (this.down ? "▼" : "▲") : ""));
    const grip = h("span.tl-hits-grip", { role: "separator", "aria-orientation": "vertical", "aria-hidden": "true" });
    onDrag(grip, ({ clientX }) => ({ beside: column.width - clientX }), ({ clientX }, { beside }) => {
      column.width = Math.max(LEAST_WIDTH, beside + clientX);
      this.size();
    });
    return h("div.tl-hits-cell", { role: "columnheader", class: column.number ? "number" : null,
      "aria-sort": by ? (this.down ? "descending" : "ascending") : "none" }, text, grip);
  }

  size() {
    const widths = this.columns.map(({ width }) => `${Math.round(width)}px`).join(" ");
    this.box.style.setProperty("--tl-hit-columns", widths);
  }

  sort(column) {
    this.down = this.order === column.name ? !this.down : column.name === "duration";
    this.order = column.name;
    this.drawTitles();
    this.follow();
  }

  // ---- rows

  make() {
    return h("div.tl-hits-row", { role: "row" },
      this.columns.map(({ number }) => h("div.tl-hits-cell", { role: "gridcell", class: number ? "number" : null })));
  }

  fill(element, row) {
    element.dataset.row = row;
    element.classList.toggle("odd", row % 2 === 1);
    element.classList.toggle("active", row === this.active);
    const hit = this.hit(row);
    const texts = hit ? this.texts(hit) : ["…", "", "", "", ""];
    texts.forEach((text, place) => {
      const cell = element.children[place];
      if (cell.textContent === text) return;
      cell.textContent = text;
      cell.title = place ? text : visible(hit?.name ?? "");
    });
    const { hit: found } = this.search;
    element.classList.toggle("selected", Boolean(hit && found && hit.at === found.at && hit.host === found.host));
  }

  texts(hit) {
    const { model } = this.timeline;
    const track = model.placeOf.get(hit.track);
    const process = track === undefined ? null : model.processes[model.process[track]];
    return [
      shownName(visible(hit.name)) || "(no name)",
      model.clock.exact(hit.start_ps),
      short(hit.duration_ps),
      track === undefined ? "" : model.name[track],
      process?.name ?? hit.host,
    ];
  }

  /** The hit of a row; null while it is on its way. */
  hit(row) {
    const number = Math.floor(row / PART);
    const part = this.parts.get(number);
    if (!part) this.fetch(number);
    return part?.rows?.[row - number * PART] ?? null;
  }

  async fetch(number) {
    const { stamp } = this;
    const part = { rows: null };
    this.parts.set(number, part);
    if (this.parts.size > MOST_PARTS) this.parts.delete(this.parts.keys().next().value);
    await new Promise((resolve) => setTimeout(resolve, 30)); // a scroll that goes on asks for other parts
    if (stamp !== this.stamp) return;
    const first = Math.floor(this.scroller.first / PART);
    const last = Math.floor((this.scroller.first + this.box.clientHeight / ROW) / PART);
    if (number < first - 1 || number > last + 1) {
      this.parts.delete(number);
      return;
    }
    try {
      const { q, mode, case: isCase } = this.search.query;
      const answer = await this.timeline.source.hits({ q, mode, case: isCase, order: this.order,
        down: this.down ? 1 : 0, first: number * PART, rows: PART });
      if (stamp !== this.stamp) return;
      part.rows = answer.rows;
      this.take(answer);
    } catch (error) {
      if (stamp !== this.stamp) return;
      this.parts.delete(number);
      clear(this.head).append(failure(error));
    }
  }

  /** The list has only the first of very many hits. */
  take({ events, listed }) {
    if (listed < events)
      this.drawHead(`${plural(events, "hit")} of “${visible(this.search.query.q, 80)}”`,
        `the first ${counted(listed)} are listed; a longer name has fewer hits`);
    if (listed !== this.shown) this.scroller.show(this.shown = listed);
    else this.scroller.draw();
  }

  /** Marks the hit that the search is at; in order of time it is brought into sight. */
  mark() {
    if (!this.shown || this.listed !== this.stamp) return;
    const { number } = this.search;
    if (number !== null && this.order === "start" && number < this.shown) {
      this.active = this.down ? -1 : number;
      if (!this.down) this.scroller.reveal(number);
    }
    this.scroller.draw();
  }

  click(event) {
    const row = event.target.closest(".tl-hits-row")?.dataset.row;
    if (row !== undefined) this.pick(Number(row));
  }

  pick(row) {
    const hit = this.hit(row);
    this.active = row;
    if (hit) this.search.at(hit, this.order === "start" && !this.down ? row : null);
    this.scroller.reveal(row);
  }

  key(event) {
    if (event.target !== this.box || event.ctrlKey || event.metaKey || event.altKey) return;
    const page = Math.max(1, Math.floor((this.box.clientHeight - HEAD) / ROW) - 1);
    const { active } = this;
    const to =
      { ArrowDown: active + 1, ArrowUp: active - 1, PageDown: active + page, PageUp: active - page, Home: 0,
        End: this.shown - 1 }[event.key];
    if (to !== undefined) {
      event.preventDefault();
      this.active = Math.min(Math.max(to, 0), this.shown - 1);
      this.scroller.reveal(this.active);
    } else if (event.key === "Enter" && active >= 0) {
      event.preventDefault();
      this.pick(active);
    }
  }
}
