/** What the user has chosen: an event, a range of time on some tracks, marks; and the flows that are drawn. */

import { paused } from "../dom.js";
import { spelled } from "../number_ranges.js";
import { boxOf } from "./hit_test.js";
import { KINDS } from "./session_model.js";

const FLOWS_AT_ONCE = 500;
const FLOWS_WAIT_MS = 120;
const MOST_HEADS = 120;

export class Selection {
  constructor(timeline) {
    this.timeline = timeline;
    this.event = null; // {host, at, id, track, lane, start, duration, count, name, text, busy}
    this.range = null; // {start, end, ids | null, first, last} first and last id of a track
    this.marks = [];
    this.eventFlows = [];
    this.spans = [];
    this.allFlows = null; // a list of ends while they are shown
    this.listeners = new Set();
    this.fetchFlowsSoon = paused(() => this.fetchFlows(), FLOWS_WAIT_MS);
  }

  changed(kind) {
    for (const listener of this.listeners) listener(kind);
    this.timeline.invalidate();
  }

  /** Selects what a slice stands for; null for nothing. `bring` moves the window to it. */
  select(hit, bring = false) {
    const { model, names } = this.timeline;
    this.event = hit && { ...hit, id: model.id[hit.track], text: hit.text ?? names.text(hit.host, hit.name) };
    this.eventFlows = [];
    this.changed("event"); // first, as the panel that opens takes room from the tracks
    const { layout } = this.timeline;
    if (hit && layout.isFolded(hit.track)) this.timeline.rearrange(() => layout.folds.set(this.event.id, false));
    if (hit && bring) this.timeline.reveal(hit.track, hit.lane, hit.start, hit.duration);
  }

  /** Selects an event as the server describes it, {host, at, track, lane, name, start_ps, duration_ps}. */
  selectRef(ref) {
    const hit = ref && this.hitOf(ref);
    if (hit) this.select(hit, true);
  }

  hitOf(ref) {
    const track = this.timeline.model.placeOf.get(ref.track);
    if (track === undefined) return null;
    const [start, duration] = [Number(ref.start_ps), Number(ref.duration_ps)];
    return { host: ref.host, at: ref.at, track, lane: ref.lane, start, duration, count: 1, busy: 1, text: ref.name };
  }

  setRange(range) {
    this.range = range;
    this.changed("range");
  }

  /** The tracks of rows first..last of the layout, in both directions; those of a closed process all together. */
  tracksBetween(row, other) {
    const { layout, model } = this.timeline;
    const [first, last] = [Math.min(row, other), Math.min(Math.max(row, other), layout.count - 1)];
    const rows = Array.from({ length: last - first + 1 }, (_, place) => first + place);
    const tracks = rows.flatMap((one) => layout.tracksOf(one)).filter((track) => model.kind[track] !== KINDS.counter);
    return tracks.length && tracks.length < model.tracks ? tracks : null;
  }

  /** A range over tracks (places in the model), or over all where that is null. */
  rangeOf(start, end, tracks) {
    const ids = tracks?.map((track) => this.timeline.model.id[track]) ?? null;
    return { start: Math.min(start, end), end: Math.max(start, end), ids, first: ids?.[0],
      last: ids?.[ids.length - 1] };
  }

  /** The range as the overlay draws it: with the `spans` of rows that its tracks have, [first, last]. */
  rangeDrawn() {
    const range = this.range;
    if (!range?.ids) return range;
    const { model, layout } = this.timeline;
    if (this.spansOf !== range.ids || this.spansAt !== layout.version) {
      const rows = range.ids.map((id) => layout.rowShowing(model.placeOf.get(id))).filter((row) => row >= 0);
      this.spans = spansOf(rows, layout.pinned);
      [this.spansOf, this.spansAt] = [range.ids, layout.version];
    }
    return { ...range, spans: this.spans };
  }

  /** The tracks of the range as the server takes them; undefined for all. */
  rangeTracks() {
    return this.range?.ids ? spelled(this.range.ids) : undefined;
  }

  toggleMark(mark) {
    const same = this.marks.findIndex((one) => one.start === mark.start && one.end === mark.end);
    if (same >= 0) this.marks.splice(same, 1);
    else this.marks.push(mark);
    this.marks.sort((one, other) => one.start - other.start);
    this.changed("marks");
  }

  clearMarks() {
    this.marks = [];
    this.changed("marks");
  }

  boxOf(hit) {
    return boxOf(this.timeline, hit.track, hit.lane, hit.start, hit.duration);
  }

  box() {
    return this.event && this.boxOf(this.event);
  }

  /** Adds to all times. */
  shift(by) {
    if (this.event) this.event.start += by;
    for (const one of [...this.marks, ...(this.range ? [this.range] : [])]) {
      one.start += by;
      one.end += by;
    }
    this.eventFlows = [];
    this.allFlows = this.allFlows && [];
    this.flowsStamp = "";
  }

  /** Finds tracks again in another model, in which they may have moved. */
  remodel() {
    if (!this.event) return;
    const track = this.timeline.model.placeOf.get(this.event.id);
    if (track === undefined) this.event = null;
    else this.event.track = track;
  }

  /** Takes the flows of the selected event, [{direction, kind, other}] of the server's details. */
  setEventFlows(flows) {
    const own = this.event;
    this.eventFlows = [];
    for (const flow of flows) {
      const other = this.hitOf(flow.other);
      if (own && other) this.eventFlows.push(flow.direction === "out" ? [own, other] : [other, own]);
    }
    this.timeline.invalidate();
  }

  /** Arrows in pixels of the tracks, from the end of what causes to the start of what follows. */
  arrows() {
    const arrows = [];
    for (const pair of this.allFlows ?? []) this.addArrow(arrows, pair, false);
    // Many at once are a texture: each fainter, and without a head.
    const faint = Math.min(0.5, Math.max(0.2, 30 / arrows.length));
    for (const arrow of arrows) Object.assign(arrow, { faint, headless: arrows.length > MOST_HEADS });
    for (const pair of this.eventFlows) this.addArrow(arrows, pair, true);
    return arrows;
  }

  addArrow(arrows, [from, to], strong) {
    const [one, other] = [this.boxOf(from), this.boxOf(to)];
    if (!one || !other) return;
    const [x0, x1] = [one.x + one.width, other.x];
    const { width, height } = this.timeline.over;
    if (Math.max(x0, x1) < -50 || Math.min(x0, x1) > width + 50) return;
    const [y0, y1] = [middle(one), middle(other)];
    if (Math.max(y0, y1) < 0 || Math.min(y0, y1) > height) return;
    arrows.push({ x0, y0, x1, y1, strong });
  }

  /** Shows the flows of whatever is in the window, or no longer. */
  toggleFlows() {
    this.allFlows = this.allFlows ? null : [];
    this.flowsStamp = "";
    this.changed("flows");
  }

  /** Asks for the flows of the window once it stands still. Called after each frame. */
  followFlows() {
    const { view, source } = this.timeline;
    if (!this.allFlows || source.saved) return;
    const stamp = `${view.start} ${view.span} ${this.timeline.model.key}`;
    if (stamp === this.flowsStamp) return;
    this.flowsStamp = stamp;
    this.fetchFlowsSoon();
  }

  async fetchFlows() {
    const { view, source } = this.timeline;
    const stamp = this.flowsStamp;
    const window = { start_ps: Math.floor(view.start), end_ps: Math.ceil(view.end), limit: FLOWS_AT_ONCE };
    try {
      const { flows } = await source.flows(window);
      if (!this.allFlows || stamp !== this.flowsStamp) return;
      this.allFlows = this.endsOf(flows);
      this.changed("flows");
    } catch {
      this.flowsStamp = ""; // requested again with the next frame that moves
    }
  }

  endsOf(flows) {
    const ends = [];
    for (let place = 0; place < (flows.from_at?.length ?? 0); place++) {
      const end = (side) =>
        this.hitOf({ track: flows[`${side}_track`][place], lane: flows[`${side}_lane`][place],
          start_ps: flows[`${side}_ps`][place], duration_ps: 0 });
      const [from, to] = [end("from"), end("to")];
      if (from && to) ends.push([from, to]);
    }
    return ends;
  }
}

/** Rows as spans [first, last]; those of pinned tracks keep apart from the others. */
function spansOf(rows, pinned) {
  const spans = [];
  for (const row of [...new Set(rows)].sort((one, other) => one - other)) {
    const last = spans.at(-1);
    if (last && last[1] === row - 1 && row !== pinned) last[1] = row;
    else spans.push([row, row]);
  }
  return spans;
}

/** Where an arrow meets a box: in its middle, or at the pinned tracks if it lies below them. */
function middle(box) {
  const y = box.y + box.height / 2;
  return box.zone[0] ? Math.max(y, box.zone[0]) : y;
}
