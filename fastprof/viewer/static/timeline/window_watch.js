/**
 * Follows which lanes have events in the window, once it stands still: lanes without any take no room then. A lane appears
 * as soon as one of its events comes into the window; none disappears while the window moves.
 */

import { firstEndingAfter, slicesOf } from "./tile.js";
import { WindowLanes } from "./window_lanes.js";

const SETTLED_MS = 220;
const RETRY_MS = 2000;

export class WindowWatch {
  /** `busy()`: whether rows have to stay as they are for now. */
  constructor(timeline, busy) {
    Object.assign(this, { timeline, busy });
    this.stamp = null; // the window that was last seen
    this.asked = null; // the window that the lanes are of
    this.timer = 0;
    this.first = true;
  }

  close() {
    clearTimeout(this.timer);
  }

  /** True once the lanes are those of the window. */
  get settled() {
    return this.asked === this.stamp;
  }

  /** Called after each frame. */
  follow() {
    const { view, model, layout } = this.timeline;
    const stamp = `${view.start} ${view.span} ${model.key}`;
    if (stamp === this.stamp) return;
    this.stamp = stamp;
    if (layout.occupied || !view.holds(0, model.span)) {
      this.later(SETTLED_MS);
      return;
    }
    this.asked = stamp; // in all of the session each lane has events
    this.first = false;
  }

  later(ms) {
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.ask(), ms);
  }

  async ask() {
    const { view, model, source, closed } = this.timeline;
    if (closed || this.settled) return;
    if (view.glide || this.busy()) {
      this.later(SETTLED_MS);
      return;
    }
    const { stamp } = this;
    try {
      const answer = view.holds(0, model.span)
        ? null
        : await source.lanes({ start_ps: Math.floor(view.start), end_ps: Math.ceil(view.end) });
      if (closed || stamp !== this.stamp) return;
      this.asked = stamp;
      this.take(answer && new WindowLanes(answer, model.placeOf));
    } catch {
      this.later(RETRY_MS);
    }
  }

  take(lanes) {
    const { timeline } = this;
    const { layout } = timeline;
    if (lanes || layout.occupied) timeline.rearrange(() => (layout.occupied = lanes));
    timeline.lanesTaken(this.first);
    this.first = false;
  }

  /** Before each frame: shows lanes that have events in the window by now. */
  grow() {
    const { layout, model, timeline } = { ...this.timeline, timeline: this.timeline };
    if (!layout.occupied) return;
    const found = [];
    for (const { first, last } of layout.zones())
      for (let row = first; row < last; row++) {
        const track = layout.track[row];
        if (track < 0 || layout.isFolded(track) || !layout.shownLanes.has(track)) continue;
        for (const lane of this.lanesWith(track)) if (!layout.isLaneShown(track, lane)) found.push([track, lane]);
      }
    if (!found.length) return;
    timeline.rearrange(() => found.forEach(([track, lane]) => layout.occupied.add(model.id[track], lane)));
  }

  /** The lanes of a track that have slices in the window, by the tiles that are here. */
  lanesWith(track) {
    const { model, view } = this.timeline;
    const found = [];
    for (const { tile, from, to } of this.timeline.piecesOf(model.groups[model.groupOf[track]])) {
      const rows = tile.rowsOf.get(model.id[track]) ?? [0, 0];
      const [left, right] = [Math.max(from, view.start), Math.min(to, view.end)];
      for (let row = rows[0]; row < rows[1]; row++) {
        const [first, last] = slicesOf(tile, row);
        const slice = firstEndingAfter(tile, first, last, left);
        if (slice < last && tile.start[slice] < right) found.push(tile.lane[row]);
      }
    }
    return found;
  }
}
