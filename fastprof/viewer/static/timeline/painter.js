/** Draws the tracks: backgrounds, lanes, the names on slices. One call a frame, from tiles that are here. */

import { HEADER, SUMMARY_TRACKS } from "./row_layout.js";
import { KINDS } from "./session_model.js";
import { Strip } from "./strip.js";
import { Fitter } from "./text.js";

const LABEL_LEAST = 26; // CSS pixels
const LABEL_PADDING = 5;
const MOST_FOLDED_ROWS = 20;

export class Painter {
  constructor(surface, names, counters) {
    Object.assign(this, { surface, names, counters });
    this.strip = new Strip();
    this.lanes = []; // rows of the strip on this frame: where each is drawn
    this.labels = [];
  }

  /** Takes the colours of a theme. */
  dress(colours) {
    this.colours = colours;
    this.font = `12px ${colours.font}`;
    this.fitter = new Fitter(this.surface.context, this.font);
  }

  /** Draws a frame: the seen rows of a layout in a window of time. `pieces(group)` gives a group's tiles. */
  draw(model, layout, view, pieces, ticks) {
    const context = this.surface.fresh(this.colours.background);
    for (const zone of layout.zones()) {
      context.save();
      context.beginPath();
      context.rect(0, zone.top, this.surface.width, zone.bottom - zone.top);
      context.clip();
      this.drawZone(context, model, layout, view, pieces, ticks, zone);
      context.restore();
    }
    if (layout.pinned) this.surface.fill(this.colours.faint, 0, layout.pinHeight - 1, this.surface.width, 1);
  }

  drawZone(context, model, layout, view, pieces, ticks, { first, last, top, bottom }) {
    const ratio = this.surface.ratio;
    this.lanes.length = 0;
    this.labels.length = 0;
    this.drawBackgrounds(layout, [first, last], ticks, [top, bottom]);
    for (let row = first; row < last; row++) this.collect(model, layout, row);
    this.writeLanes(model, view, pieces, ratio);
    this.strip.place(this.surface, this.lanes);
    this.drawLabels(context, ratio);
    for (let row = first; row < last; row++) this.drawCounter(context, model, layout, view, row);
    if (first >= layout.pinned) this.drawSticky(layout);
  }

  /** The band of the header that stays, as beside it among the names. */
  drawSticky(layout) {
    const sticky = layout.sticky();
    if (!sticky) return;
    this.surface.fill(this.colours.band, 0, sticky.y, this.surface.width, HEADER);
    this.surface.fill(this.colours.line, 0, sticky.y + HEADER - 1, this.surface.width, 1);
  }

  drawBackgrounds(layout, [first, last], ticks, [from, to]) {
    const { surface, colours: { band, stripe, grid, line } } = this;
    const { width, ratio } = surface;
    for (let row = first; row < last; row++) {
      const top = layout.y(row);
      const tall = layout.top[row + 1] - layout.top[row];
      const isHeader = layout.track[row] < 0;
      if (isHeader || row % 2) surface.fill(isHeader ? band : stripe, 0, top, width, tall);
      surface.fill(line, 0, top + tall - 1, width, 1 / ratio);
    }
    for (const x of ticks) surface.fill(grid, Math.round(x), from, 1 / ratio, to - from);
  }

  /** Notes which lanes of a row are seen, and where. */
  collect(model, layout, row) {
    const top = layout.y(row);
    const track = layout.track[row];
    if (track < 0) {
      this.collectSummary(model, layout.tracksOf(row, SUMMARY_TRACKS), top);
      return;
    }
    if (model.kind[track] === KINDS.counter) return;
    const lanes = model.lanes[track];
    if (layout.isFolded(track) && lanes > MOST_FOLDED_ROWS) {
      this.collectFolded(layout, track, lanes, top);
      return;
    }
    const folded = layout.isFolded(track);
    const shown = folded ? lanes : layout.lanesShown(track);
    for (let place = folded ? 0 : layout.placeOfLane(track, layout.laneAt(track, -top)); place < shown; place++) {
      const lane = folded ? place : layout.laneOf(track, place);
      const box = layout.laneBox(track, lane);
      if (top + box.y > layout.height) break;
      this.lanes.push({ track, first: lane, last: lane + 1, y: top + box.y, height: box.height });
    }
  }

  /** More lanes than the row has pixels: several to a row of the strip, none left out. */
  collectFolded(layout, track, all, top) {
    const lanes = Math.min(all, layout.lanesSeen(track));
    const { y } = layout.laneBox(track, 0);
    const tall = layout.heightOf(track) - 2 * y;
    for (let part = 0; part < MOST_FOLDED_ROWS; part++) {
      const first = Math.floor((part * lanes) / MOST_FOLDED_ROWS);
      const last = Math.floor(((part + 1) * lanes) / MOST_FOLDED_ROWS);
      const height = tall / MOST_FOLDED_ROWS;
      if (last > first) this.lanes.push({ track, first, last, y: top + y + part * height, height });
    }
  }

  /** A closed process shows the outermost lanes of its first tracks in its header. */
  collectSummary(model, tracks, top) {
    const shown = tracks.filter((track) => model.kind[track] !== KINDS.counter);
    const height = (HEADER - 8) / Math.max(shown.length, 1);
    shown.forEach((track, place) => {
      this.lanes.push({ track, first: 0, last: 1, y: top + 4 + place * height, height, quiet: true });
    });
  }

  writeLanes(model, view, pieces, ratio) {
    const strip = this.strip;
    const width = Math.round(this.surface.width * ratio);
    strip.begin(width, this.lanes.length);
    const map = { start: view.start, scale: (view.scale * width) / view.width };
    for (let row = 0; row < this.lanes.length; row++) {
      const place = this.lanes[row];
      const group = model.groups[model.groupOf[place.track]];
      const track = model.id[place.track];
      map.label = place.quiet || place.height < 12 ? Infinity : LABEL_LEAST * ratio;
      for (const piece of pieces(group)) {
        map.codes = this.names.codes(group.host, piece.tile.largestName);
        map.wide = (slice, x0, x1) => {
          this.labels.push({ place, host: group.host, name: piece.tile.name[slice], x0, x1, piece });
        };
        for (let lane = place.first; lane < place.last; lane++) strip.write(row, piece, track, lane, map);
      }
    }
    strip.end();
  }

  /** Names on slices stay in sight while any of the slice is. */
  drawLabels(context, ratio) {
    context.font = this.font;
    context.textBaseline = "middle";
    let drawnUntil = null;
    let drawnOn = null;
    for (const { place, host, name, x0, x1 } of this.labels) {
      const left = Math.max(x0 / ratio, 0) + LABEL_PADDING;
      const room = Math.min(x1 / ratio, this.surface.width) - left - LABEL_PADDING;
      // A slice that two tiles share is met twice; its name is written once.
      if (drawnOn === place && drawnUntil === x1) continue;
      const text = this.names.label(host, name);
      if (text === undefined) continue;
      const fitted = this.fitter.fit(text, room);
      context.fillStyle = this.colours[this.names.isDimmed(host, name) ? "faint" : "slice-text"];
      if (fitted) context.fillText(fitted, left, place.y + place.height / 2 + 0.5);
      drawnOn = place;
      drawnUntil = x1;
    }
  }

  drawCounter(context, model, layout, view, row) {
    const track = layout.track[row];
    if (track < 0 || model.kind[track] !== KINDS.counter) return;
    const top = layout.y(row);
    this.counters.draw(context, model, track, view, top, layout.top[row + 1] - layout.top[row], this.colours);
  }
}
