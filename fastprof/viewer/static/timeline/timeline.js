/** The timeline: what is shown of a session, and one frame of it at a time. */

import { CounterGraphs } from "./counter_graphs.js";
import { LabelColumn } from "./label_column.js";
import { MINIMAP, Minimap } from "./minimap.js";
import { NameBook } from "./name_book.js";
import { Overlay } from "./overlay.js";
import { Painter } from "./painter.js";
import { RowLayout, SUMMARY_TRACKS } from "./row_layout.js";
import { Ruler, TICK_ROOM } from "./ruler.js";
import { Selection } from "./selection.js";
import { DEPTHS } from "./session_model.js";
import { pageColours } from "./slice_colours.js";
import { StepSets } from "./step_sets.js";
import { Surface } from "./surface.js";
import { Fitter } from "./text.js";
import { TileCache } from "./tile_cache.js";
import { ticksOf } from "./time_axis.js";
import { TrackActions } from "./track_actions.js";
import { View } from "./view.js";
import { WindowWatch } from "./window_watch.js";

const AHEAD = 1; // tiles fetched at each side of the window

export class Timeline {
  /** `gone()` is called when the server no longer knows the session by its key; `reached()` when one was answered. */
  constructor(source, gone) {
    this.source = source;
    this.view = new View();
    this.layout = new RowLayout();
    this.model = null;
    const changed = () => this.invalidate();
    this.names = new NameBook(source, changed);
    this.cache = new TileCache(source, this.names, changed, gone);
    this.counters = new CounterGraphs(source, changed);
    this.tracks = new Surface({ class: "tl-tracks", "aria-hidden": "true" }, true);
    this.over = new Surface({ class: "tl-over", tabindex: "0", role: "img",
      "aria-label": "Timeline. Press ? for the keys." });
    this.axis = new Surface({ class: "tl-axis", "aria-hidden": "true" }, true);
    this.map = new Surface({ class: "tl-map", "aria-hidden": "true" }, true);
    this.painter = new Painter(this.tracks, this.names, this.counters);
    this.overlay = new Overlay(this.over);
    this.ruler = new Ruler(this.axis);
    this.minimap = new Minimap(this.map, this.names);
    this.frames = new Set(); // called before each frame; a truthy answer asks for another frame
    this.drawn = new Set(); // called after each frame
    this.selection = new Selection(this);
    this.actions = new TrackActions(this);
    this.labels = new LabelColumn(this.actions);
    this.holds = new Set([() => this.labels.drag.isHeld]); // whether rows have to stay where they are, for a drag
    this.watch = new WindowWatch(this, () => [...this.holds].some((isHeld) => isHeld()));
    this.hovered = null;
    this.hoverTime = null;
    this.hoverY = null; // where the pointer is over the tracks
    this.scheduled = 0;
    this.fitted = false;
    this.stepsWanted = null; // the key of the steps that were picked
    this.wishes = new Map();
  }

  /** Takes a model of the session, the first or a fuller one. */
  show(model) {
    const first = this.model === null;
    if (!first && model.origin !== this.model.origin) this.shift(Number(this.model.origin - model.origin));
    this.model = model;
    this.cache.show(model);
    this.counters.show(model);
    this.minimap.show(model);
    this.layout.show(model);
    this.view.bound(0, model.span, model.run);
    if (first || !this.fitted) this.view.goHome();
    this.selection.remodel();
    this.invalidate();
  }

  /** A host was read that begins before the others: what is shown stays at its time. */
  shift(by) {
    this.view.shift(by);
    this.selection.shift(by);
  }

  /** Takes the colours of the page's theme. */
  dress(root) {
    this.colours = pageColours(root);
    this.painter.dress(this.colours);
    this.minimap.colours = this.colours;
    this.ruler.fitter = new Fitter(this.axis.context, `11px ${this.colours.font}`);
    this.invalidate();
  }

  /** Takes the size of the tracks' box in CSS pixels. */
  resize(width, height, ratio) {
    this.layout.height = Math.max(height, 1);
    this.layout.scrollTo(this.layout.scroll);
    this.view.width = Math.max(width, 1);
    this.tracks.resize(width, height, ratio);
    this.over.resize(width, height, ratio);
    this.axis.resize(width, this.ruler.height, ratio);
    this.map.resize(width, MINIMAP, ratio);
    if (this.model) this.frame(performance.now());
  }

  invalidate() {
    if (this.scheduled || this.closed) return;
    this.scheduled = requestAnimationFrame((now) => {
      this.scheduled = 0;
      this.frame(now);
    });
  }

  close() {
    this.closed = true;
    cancelAnimationFrame(this.scheduled);
    this.cache.close();
    this.watch.close();
  }

  frame(now) {
    if (!this.model || !this.colours || this.closed || !this.over.width) return; // without a size until there is room
    let more = this.view.advance(now);
    for (const step of this.frames) more = step(now) || more;
    this.wishes.clear();
    this.wish();
    this.watch.grow();
    const ticks = ticksOf(this.view, this.model.origin, TICK_ROOM);
    this.painter.draw(this.model, this.layout, this.view, (group) => this.piecesOf(group),
      ticks.times.map((time) => this.view.x(time)));
    const shown = { range: this.selection.range, marks: this.selection.marks, hover: this.hoverTime };
    this.ruler.draw(this.view, ticks, this.colours, shown);
    this.minimap.draw(this.model, this.view, this.cache, shown);
    this.labels.draw(this.model, this.layout);
    this.overlay.draw(this.view, this.layout, this.colours, { ...shown, range: this.selection.rangeDrawn(),
      outlined: { selected: this.selection.box(), hovered: this.hovered ? this.selection.boxOf(this.hovered) : null },
      arrows: this.selection.arrows() });
    this.watch.follow();
    for (const listener of this.drawn) listener();
    if (more) this.invalidate();
  }

  piecesOf(group) {
    let pieces = this.wishes.get(group.number);
    if (!pieces) {
      pieces = this.cache.pieces(group, this.view.level(), this.view.start, this.view.end);
      this.wishes.set(group.number, pieces);
    }
    return pieces;
  }

  /** The groups of the rows that are seen, from the top. */
  groupsSeen() {
    const seen = new Set();
    const add = (track) => {
      const number = this.model.groupOf[track];
      if (number < 0) return;
      seen.add(number);
      const group = this.model.groups[number];
      if (group.depth && this.layout.rowOfTrack[track] >= 0)
        group.depth = DEPTHS.find((depth) => depth >= this.layout.lanesSeen(track)) ?? DEPTHS.at(-1);
    };
    for (const { first, last } of this.layout.zones())
      for (let row = first; row < last; row++) this.layout.tracksOf(row, SUMMARY_TRACKS).forEach(add);
    return [...seen].map((number) => this.model.groups[number]);
  }

  /** Wishes for tiles: what nothing could be drawn for, what is seen, the entire session, and what is next to the window. */
  wish() {
    const { cache, view } = this;
    const groups = this.groupsSeen();
    const level = view.level();
    const ahead = view.target;
    cache.begin();
    for (const group of groups) if (!this.piecesOf(group).length) cache.want(group, cache.root, 0);
    let here = true;
    for (const group of groups) here = cache.wantWindow(group, level, ahead.start, ahead.start + ahead.span) && here;
    this.settled = here;
    for (const group of groups) cache.want(group, cache.root, 0);
    this.minimap.want(cache);
    if (here) {
      const reach = AHEAD * view.span;
      for (const group of groups) cache.wantWindow(group, level, view.start - reach, view.end + reach);
    }
    cache.pump();
  }

  /** True once the session is complete and every visible tile of the wanted level is drawn, on the lanes that stay. */
  get idle() {
    const { model, settled, view, scheduled, counters, watch } = this;
    return Boolean(model?.ready && settled && !view.glide && !scheduled && !counters.loading && watch.settled);
  }

  /** Makes a change of the rows, and keeps in place what is under the pointer, else what is selected. */
  rearrange(change) {
    const box = this.selection.box();
    const y = this.hoverY ?? (box && box.y >= 0 && box.y < this.layout.height ? box.y : null);
    this.layout.hold(y, () => {
      change();
      this.layout.make();
    });
    this.invalidate();
  }

  /** Called when the lanes of a window were taken; `first`: of the first one. */
  lanesTaken(first) {
    if (first && this.scrollWanted) this.layout.scrollTo(this.scrollWanted);
    this.invalidate();
  }

  /** Takes the steps of the session, [{name, start_ps, duration_ps, host, process}]: of hosts or of cores. */
  setBands(bands) {
    this.steps = new StepSets(bands);
    this.chooseBands();
  }

  /** The steps over the tracks are those that were picked, else those of what is selected, else the first ones. */
  chooseBands() {
    const event = this.selection.event;
    const process = event && this.model.processes[this.model.process[event.track]];
    const set = this.steps?.get(this.stepsWanted) ?? this.steps?.of(process?.host, process?.id) ?? this.steps?.all[0];
    this.ruler.bands = set?.bands ?? [];
    this.bandsOf = set ?? null;
    this.invalidate();
  }

  toggleRow(row) {
    const track = this.layout.track[row];
    if (row < 0 || row >= this.layout.count) return;
    if (track < 0) this.layout.toggleProcess(this.layout.process[row]);
    else if (this.model.canFold(track)) this.layout.toggleTrack(track);
    this.invalidate();
  }

  /** Scrolls what is at a place of the screen: the pinned tracks, if there are more than fit, or the others. */
  scrollAt(y, pixels) {
    const { layout } = this;
    if (y < layout.pinHeight && layout.top[layout.pinned] > layout.pinHeight) {
      layout.scrollPins(pixels);
      this.invalidate();
    } else this.scrollBy(pixels);
  }

  scrollBy(pixels) {
    this.scrollWanted = null;
    this.layout.scrollTo(this.layout.scroll + pixels);
    this.invalidate();
  }

  zoom(factor, x = this.view.width / 2) {
    this.view.zoom(factor, x);
    this.invalidate();
  }

  pan(pixels) {
    this.view.pan(pixels);
    this.invalidate();
  }

  fit() {
    this.view.fit();
    this.invalidate();
  }

  /** Brings an interval of time on a lane into sight. The zoom stays where the event can be seen with it. */
  reveal(track, lane, start, duration) {
    this.layout.reveal(track, lane);
    const { view } = this;
    const width = duration * (view.width / view.target.span);
    if (width < 6 || width > view.width * 0.95) view.show(start, start + Math.max(duration, 1), width < 6 ? 0.15 : 0.7);
    else if (start < view.target.start || start + duration > view.target.start + view.target.span)
      view.moveTo(start + duration / 2 - view.target.span / 2, view.target.span);
    this.invalidate();
  }
}
