/** All of the session in a strip, with the window that is seen: drag the window, its edges, or a new one. */

import { KINDS } from "./session_model.js";
import { Strip } from "./strip.js";
import { tileSpan } from "./tile.js";
import { fitting, ticksOf } from "./time_axis.js";

export const MINIMAP = 44;
const MOST_ROWS = 32;
const EDGE = 5;
const AXIS = 12;
const TICK_ROOM = 80;

export class Minimap {
  constructor(surface, names) {
    Object.assign(this, { surface, names });
    this.strip = new Strip();
    this.tracks = [];
    this.stamp = "";
    this.drag = null;
  }

  /** Chooses the tracks that stand for the session: the busiest of each process in turn, in their own order. */
  show(model) {
    const byProcess = model.processes.map((process) => {
      const tracks = [];
      for (let track = process.first; track < process.last; track++)
        if (model.kind[track] !== KINDS.counter && model.events[track] > 0) tracks.push(track);
      return tracks.sort((one, other) => model.events[other] - model.events[one]);
    });
    const chosen = [];
    for (let turn = 0; chosen.length < MOST_ROWS && byProcess.some((tracks) => tracks.length > turn); turn++)
      for (const tracks of byProcess) if (turn < tracks.length && chosen.length < MOST_ROWS) chosen.push(tracks[turn]);
    this.tracks = chosen.sort((one, other) => one - other);
    this.groups = [...new Set(this.tracks.map((track) => model.groupOf[track]))].map((number) => model.groups[number]);
    this.stamp = "";
  }

  want(cache) {
    for (const group of this.groups ?? []) cache.want(group, cache.root, 0);
  }

  x(view, time) {
    return ((time - view.low) / (view.high - view.low)) * this.surface.width;
  }

  time(view, x) {
    return view.low + (x / this.surface.width) * (view.high - view.low);
  }

  draw(model, view, cache, { range, marks }) {
    this.write(model, view, cache);
    const { surface, colours } = this;
    const { width, height } = surface;
    const context = surface.fresh(colours.band);
    const each = (height - AXIS - 5) / Math.max(this.tracks.length, 1);
    this.strip.place(surface, this.tracks.map((_, row) => ({ y: AXIS + row * each, height: each })));
    this.drawAxis(context, view, model.origin);
    if (range) {
      const x0 = this.x(view, range.start);
      surface.fill(colours.select, x0, 0, Math.max(this.x(view, range.end) - x0, 1), height);
    }
    for (const mark of marks) surface.fill(colours.mark, Math.round(this.x(view, mark.start)), 0, 1, height);
    this.drawWindow(view);
    surface.fill(colours.line, 0, height - 1, width, 1);
  }

  drawAxis(context, view, origin) {
    context.fillStyle = this.colours.faint;
    context.font = `10px ${this.colours.font}`;
    context.textBaseline = "middle";
    const all = { start: view.low, span: view.high - view.low, width: this.surface.width };
    const { times, lead, text } = ticksOf(all, origin, TICK_ROOM);
    const marks = times.map((time) => ({ x: Math.round(this.x(view, time)) + 3, words: text(time) }));
    for (const { x, words } of fitting(marks, context, lead, this.surface.width)) {
      context.fillRect(x - 3, 2, 1, AXIS - 4);
      context.fillText(words, x, AXIS / 2);
    }
    context.fillText(lead, 4, AXIS / 2);
  }

  drawWindow(view) {
    const { surface, colours: { shade, accent } } = this;
    const { width, height } = surface;
    const x0 = this.x(view, view.start);
    const x1 = Math.max(this.x(view, view.end), x0 + 2);
    surface.fill(shade, 0, 0, x0, height);
    surface.fill(shade, x1, 0, width - x1, height);
    for (const x of [x0, x1 - 1.5]) {
      surface.fill(accent, x, 0, 1.5, height);
      surface.fill(accent, x - 2, height / 2 - 7, 5.5, 14);
    }
  }

  /** Writes the strip when what it shows has changed: a tile, a name's colour, the width. */
  write(model, view, cache) {
    const width = Math.round(this.surface.width * this.surface.ratio);
    const stamp = `${width} ${cache.fetched} ${this.names.stamp} ${model.key} ${this.tracks.length}`;
    if (stamp === this.stamp) return;
    this.stamp = stamp;
    this.strip.begin(width, this.tracks.length);
    const map = { start: view.low, scale: width / (view.high - view.low), label: Infinity, wide() {} };
    this.tracks.forEach((track, row) => {
      const group = model.groups[model.groupOf[track]];
      const tile = cache.tile(group, cache.root, 0);
      if (!tile) return;
      map.codes = this.names.codes(group.host, tile.largestName);
      this.strip.write(row, { tile, from: 0, to: tileSpan(cache.root) }, model.id[track], 0, map);
    });
    this.strip.end();
  }

  /** What is under a place: "left" or "right" edge of the window, its "inside", or "outside". */
  partAt(view, x) {
    const [x0, x1] = [this.x(view, view.start), this.x(view, view.end)];
    if (Math.abs(x - x0) <= EDGE && x < (x0 + x1) / 2) return "left";
    if (Math.abs(x - x1) <= EDGE) return "right";
    return x > x0 && x < x1 ? "inside" : "outside";
  }

  press(view, x) {
    this.drag = { part: this.partAt(view, x), x, start: view.start, end: view.end, moved: false };
  }

  move(view, x) {
    const drag = this.drag;
    if (!drag) return;
    drag.moved ||= Math.abs(x - drag.x) > 2;
    const shift = this.time(view, x) - this.time(view, drag.x);
    view.glide = null;
    if (drag.part === "inside") view.set(drag.start + shift, drag.end - drag.start);
    else if (drag.part === "left")
      view.set(Math.min(drag.start + shift, drag.end), Math.abs(drag.end - drag.start - shift));
    else if (drag.part === "right") view.set(drag.start, Math.max(drag.end + shift - drag.start, 1));
    else if (drag.moved) {
      const [one, other] = [this.time(view, drag.x), this.time(view, x)];
      view.set(Math.min(one, other), Math.abs(one - other));
    }
  }

  /** A press without a move outside the window brings the window there. */
  release(view) {
    const drag = this.drag;
    this.drag = null;
    if (drag && !drag.moved && drag.part === "outside") view.moveTo(this.time(view, drag.x) - view.span / 2, view.span);
  }
}
