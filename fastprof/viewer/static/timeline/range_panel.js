/** The sums of a range, by name: how often, how long, how long within the range. */

import { copyTime } from "../clipboard.js";
import { clear, h } from "../dom.js";
import { list } from "../list.js";
import { sumsTable } from "./sums_table.js";
import { counted, plural, visible } from "./text.js";
import { short } from "./time_format.js";

const COLUMNS = list("name, count, clipped_ps, share, total_ps, mean_ps, min_ps, max_ps");

export class RangePanel {
  constructor(selection, source, { zoom, find, opened }) {
    Object.assign(this, { selection, source, zoom, find, opened });
    this.node = h("div.tl-panel");
    this.answer = null;
    this.nothing();
  }

  /** Empties the panel, and lets go of its table. */
  clear() {
    this.table?.leave();
    this.table = null;
    return clear(this.node);
  }

  nothing() {
    this.stamp = null;
    this.answer = null;
    this.clear().append(
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
    this.clear().append(this.head(range, ""));
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
    if (host !== undefined) buttons.unshift(copyTime(clock.flag(range.start, range.end, host)));
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
    this.clear().append(this.head(range, facts));
    if (rows.length) this.table = sumsTable(this.node, rows, COLUMNS, this.find);
    else this.node.append(h("p.tl-hint", "No event lies in this range."));
    if (more) {
      this.node.append(h("p.tl-hint", `${counted(more)} more names with less time in the range are not shown.`));
    }
  }
}
