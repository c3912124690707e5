/** The sums of a range, by name: how often, how long, how long within the range. */

import { clear, h } from "../dom.js";
import { timeButton } from "./copy_time.js";
import { counted, plural, visible } from "./text.js";
import { exact, short } from "./time_format.js";

const MOST_ROWS = 500;
const COLUMNS = [
  { key: "name", title: "Name", text: true },
  { key: "count", title: "Events", show: counted },
  { key: "clipped_ps", title: "In range", show: short, note: "Time within the range" },
  { key: "share", title: "Of the range, summed over tracks", show: (share) => `${(100 * share).toFixed(1)} %`,
    note: "Time within the range over the length of the range: above 100 % where events overlap" },
  { key: "total_ps", title: "Total", show: short, note: "Whole durations, also outside of the range" },
  { key: "mean_ps", title: "Mean", show: short },
  { key: "min_ps", title: "Shortest", show: short },
  { key: "max_ps", title: "Longest", show: short },
];

export class RangePanel {
  constructor(selection, source, { zoom, find, opened }) {
    this.selection = selection;
    this.source = source;
    this.zoom = zoom;
    this.find = find;
    this.opened = opened;
    this.sort = { key: "clipped_ps", down: true };
    this.node = h("div.tl-panel");
    this.answer = null;
    this.nothing();
  }

  nothing() {
    this.stamp = null;
    this.answer = null;
    clear(this.node).append(
      h("p.tl-hint", "Drag over the tracks, or over the time axis for all of them, to sum up a range of time by name."),
    );
  }

  async follow() {
    const range = this.selection.range;
    if (!range) {
      this.nothing();
      return;
    }
    const stamp = (this.stamp = {});
    this.opened();
    this.answer = null;
    clear(this.node).append(this.head(range, ""));
    if (typeof this.source.range !== "function") {
      this.node.append(
        h("p.tl-hint", "A saved report holds no sums of ranges. Open the session with fastprof serve to see them."),
      );
      return;
    }
    try {
      const query = { start_ps: Math.round(range.start), end_ps: Math.round(range.end),
        tracks: this.selection.rangeTracks() };
      const answer = await this.source.range(query);
      if (stamp !== this.stamp) return;
      const length = Math.max(range.end - range.start, 1);
      for (const row of answer.rows) row.share = Number(row.clipped_ps) / length;
      this.answer = answer;
      this.fill(range);
    } catch (error) {
      if (stamp === this.stamp)
        this.node.append(h("p.tl-failed", { role: "alert" }, visible(error?.message ?? String(error), 1000)));
    }
  }

  head(range, facts) {
    const where = range.ids ? `in ${plural(range.ids.length, "track")}` : "in all tracks";
    const { clock } = this.selection.timeline.model;
    const buttons = [
      h("button.tl-button", { title: "Show the range as wide as the window (f)", onclick: this.zoom }, "Zoom to it"),
    ];
    if (range.ids)
      buttons.unshift(
        h("button.tl-button", { title: "Sum up this time over all tracks", onclick: () =>
          this.selection.setRange({ ...range, ids: null }) }, "All tracks"),
      );
    const host = this.hostOf(range);
    if (host !== undefined) buttons.unshift(timeButton(clock.flag(range.start, range.end, host)));
    return h("header.tl-panel-head", h("h2.tl-panel-title", short(range.end - range.start)),
      h("span.tl-panel-facts", `${where} · from ${clock.exact(range.start)} to ${clock.exact(range.end)}${facts}`),
      h("span.tl-spring"), ...buttons);
  }

  /** The host whose times those of a range are: any where all have one clock, undefined where the hosts of it differ. */
  hostOf(range) {
    const { model } = this.selection.timeline;
    const named = (range.ids ?? []).map((id) => model.placeOf.get(id)).filter((track) => track !== undefined).map((
      track,
    ) => model.hostOf(track));
    const hosts = [...new Set(range.ids ? named : model.hosts.map((one) => one.host))];
    return new Set(hosts.map((host) => model.clock.offset(host))).size === 1 ? hosts[0] : undefined;
  }

  fill(range) {
    const { events, rows, more } = this.answer;
    const facts = ` · ${plural(events, "event")} of ${plural(rows.length + (more ?? 0), "name")}`;
    this.body = h("tbody");
    this.headings = COLUMNS.map((column) => this.heading(column));
    const table = h("table.tl-table", { "aria-label": "Sums by name" }, h("thead", h("tr", this.headings)), this.body);
    clear(this.node).append(this.head(range, facts), h("div.tl-sums", table));
    if (!rows.length) this.node.append(h("p.tl-hint", "No event lies in this range."));
    const left = Math.max(0, rows.length - MOST_ROWS) + (more ?? 0);
    if (left)
      this.node.append(h("p.tl-hint", `${counted(left)} more names with less time in the range are not shown.`));
    this.fillRows();
  }

  heading(column) {
    const sorted = h("button.tl-sort", { title: column.note ?? `Sort by ${column.title.toLowerCase()}`,
      onclick: () => this.sortBy(column) }, column.title);
    const heading = h("th", { scope: "col", class: column.text ? "" : "tl-number" }, sorted);
    heading.column = column.key;
    return heading;
  }

  sortBy(column) {
    const down = this.sort.key === column.key ? !this.sort.down : !column.text;
    this.sort = { key: column.key, down };
    this.fillRows();
  }

  fillRows() {
    const { key, down } = this.sort;
    for (const heading of this.headings)
      heading.setAttribute("aria-sort", heading.column === key ? (down ? "descending" : "ascending") : "none");
    const sign = down ? -1 : 1;
    const rows = [...this.answer.rows].sort((one, other) =>
      sign * (key === "name" ? one.name.localeCompare(other.name) : Number(one[key]) - Number(other[key]))
    );
    clear(this.body).append(...rows.slice(0, MOST_ROWS).map((row) => this.row(row)));
  }

  row(row) {
    const name = h("button.tl-link", { title: `${visible(row.name)}\nFind these events`,
      onclick: () => this.find(row.name) }, visible(row.name) || "(no name)");
    const cells = COLUMNS.slice(1).map((column) =>
      h("td.tl-number", { title: column.key.endsWith("_ps") ? exact(String(row[column.key]).split(".")[0]) : null },
        column.show(row[column.key]))
    );
    return h("tr", h("td", name), cells);
  }
}
