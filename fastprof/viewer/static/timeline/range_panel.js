/** The sums of a range, by name: how often, how long, how long within the range. */

import { notSaved } from "../cards.js";
import { clear, h } from "../dom.js";
import { list } from "../list.js";
import { copyTime, failure, hint, panelButton, panelHead } from "./panel_parts.js";
import { sumsTable } from "./sums_table.js";
import { counted, plural } from "./text.js";
import { short } from "./time_format.js";

const COLUMNS = list("name, count, clipped_ps, share, total_ps, mean_ps, min_ps, max_ps");

export class RangePanel {
  constructor(selection, source, { zoom, find, opened }) {
    Object.assign(this, { selection, source, zoom, find, opened });
    this.node = h("div.tl-panel");
    this.answer = null;
    this.nothing();
  }

  nothing() {
    this.stamp = null;
    this.answer = null;
    clear(this.node).append(
      hint("Drag over the tracks, or over the time axis for all of them, to sum up a time range by name."),
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
    if (this.source.saved) {
      this.node.append(hint(notSaved("sums of ranges")));
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
      if (stamp === this.stamp) this.node.append(failure(error));
    }
  }

  head(range, facts) {
    const where = range.ids ? `in ${plural(range.ids.length, "track")}` : "in all tracks";
    const { clock } = this.selection.timeline.model;
    const host = this.hostOf(range);
    return panelHead(short(range.end - range.start),
      `${where} · from ${clock.exact(range.start)} to ${clock.exact(range.end)}${facts}`,
      host !== undefined && copyTime(clock.flag(range.start, range.end, host)),
      range.ids
        && panelButton("All tracks", "Sum up this time over all tracks", () =>
          this.selection.setRange({ ...range, ids: null })),
      panelButton("Zoom to it", "Zoom to the range (f)", this.zoom));
  }

  /** The host whose times those of a range are: any where all have one clock, undefined where the hosts of it differ. */
  hostOf(range) {
    const { model } = this.selection.timeline;
    const tracks = (range.ids ?? []).map((id) => model.placeOf.get(id)).filter((track) => track !== undefined);
    const named = range.ids ? tracks.map((track) => model.hostOf(track)) : model.hosts.map((one) => one.host);
    const hosts = [...new Set(named)];
    return new Set(hosts.map((host) => model.clock.offset(host))).size === 1 ? hosts[0] : undefined;
  }

  fill(range) {
    const { events, rows, more } = this.answer;
    const facts = ` · ${plural(events, "event")} of ${plural(rows.length + (more ?? 0), "name")}`;
    clear(this.node).append(this.head(range, facts));
    if (rows.length) sumsTable(this.node, rows, COLUMNS, this.find);
    else this.node.append(hint("No event lies in this range."));
    if (more) this.node.append(hint(`${counted(more)} more names with less time in the range are not shown.`));
  }
}
