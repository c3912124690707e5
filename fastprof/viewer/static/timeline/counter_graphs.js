/** Counters as graphs: memory in use, rates, whatever a capture counts over time. */

import { firstThat } from "../bisect.js";
import { number, scale } from "../units.js";
import { rootLevel, tileSpan } from "./tile.js";

const WIDTH = 1024;
const AT_ONCE = 3;
const RETRY_MS = 3000;
const MOST_KEPT = 2000;
const LINE = 1.5;
const LEAST_LABELLED = 40; // pixels of height
/** Units of captures as units that scale, and by what their values are multiplied. */
const BASES = { B: ["bytes", 1], "MB/s": ["bytes/s", 1e6], "GB/s": ["bytes/s", 1e9], MHz: ["hertz", 1e6],
  mW: ["watts", 1e-3], counts: ["counts", 1] };

export class CounterGraphs {
  constructor(source, changed) {
    Object.assign(this, { source, changed });
    this.parts = new Map();
    this.underWay = 0;
  }

  show(model) {
    this.key = model.key;
    this.root = rootLevel(model.span);
  }

  get loading() {
    return this.underWay > 0;
  }

  part(model, track, level, index) {
    const place = `${model.id[track]}/${level}/${index}`;
    const part = this.parts.get(place);
    if (part && (part.key === this.key || performance.now() - (part.failed ?? -Infinity) < RETRY_MS)) return part.data;
    if (!part?.pending && this.underWay < AT_ONCE)
      this.fetch(place, model, track, level, index);
    return part?.data ?? null;
  }

  async fetch(place, model, track, level, index) {
    const part = this.parts.get(place) ?? {};
    this.parts.set(place, part);
    part.pending = true;
    this.underWay++;
    const span = tileSpan(level);
    try {
      const query = { host: model.hostOf(track), track: model.id[track], start_ps: index * span,
        end_ps: (index + 1) * span, width: WIDTH };
      part.data = readable(await this.source.counters(query), query.start_ps, Math.min(query.end_ps, model.span));
      part.key = this.key;
    } catch {
      part.failed = performance.now();
    } finally {
      part.pending = false;
      this.underWay--;
      if (this.parts.size > MOST_KEPT) this.parts.delete(this.parts.keys().next().value);
      this.changed();
    }
  }

  /** The parts that cover a window: of its own level if they are here, else that of the session. */
  seen(model, track, view) {
    const all = this.part(model, track, this.root, 0);
    const level = Math.min(view.level(), this.root);
    if (level === this.root || !all || all.exact) return { all, parts: all ? [all] : [] };
    const span = tileSpan(level);
    const parts = [];
    const last = Math.min(Math.floor(view.end / span), tileSpan(this.root) / span - 1);
    for (let index = Math.max(0, Math.floor(view.start / span)); index <= last; index++) {
      const part = this.part(model, track, level, index);
      if (!part) return { all, parts: [all] };
      parts.push(part);
    }
    return { all, parts };
  }

  /** The value at a time, with its unit; null where it is not known. */
  valueAt(model, track, view, time) {
    for (const part of this.seen(model, track, view).parts) {
      const low = firstThat((place) => part.t[place] > time, 0, part.t.length);
      if (low > 0 && (low < part.t.length || time - part.t[low - 1] < view.span))
        return { value: part.last[low - 1], unit: part.unit };
    }
    return null;
  }

  draw(context, model, track, view, top, tall, colours) {
    const { all, parts } = this.seen(model, track, view);
    if (!all || !all.t.length) return;
    const drawn = parts.map((part) => columnsOf(part, view));
    const [low, high] = axisOf(drawn.flat());
    const isLow = tall < LEAST_LABELLED;
    const floor = top + tall - 5;
    const y = (value) => floor - ((value - low) / (high - low || 1)) * (tall - (isLow ? 10 : 22));
    context.save();
    context.beginPath();
    context.rect(0, top, view.width, tall);
    context.clip();
    for (const columns of drawn) trace(context, columns, y, y(Math.max(0, low)), colours.counter);
    if (!isLow && low <= high) {
      context.font = `11px ${colours.font}`;
      context.textBaseline = "top";
      context.fillStyle = colours.text;
      context.fillText(rangeText(low, high, all.unit), 6, top + 3);
    }
    context.restore();
  }
}

/** Columns of numbers, and their ends; `begin` and `end`: the time they are of. */
function readable(answer, begin, end) {
  const [unit, factor] = BASES[answer.unit || "counts"] ?? [answer.unit, 1];
  const numbers = (values) => Float64Array.from(values ?? [], (value) => value * factor);
  const part = { t: Float64Array.from(answer.t, Number), min: numbers(answer.min), max: numbers(answer.max),
    last: numbers(answer.last), unit, begin, end };
  part.exact = part.t.length < WIDTH / 4 && part.min.every((value, place) => value === part.max[place]);
  return part;
}

/** The [low, high] of an axis for values: from 0, unless what changes is small beside them. */
export function axisOf(columns) {
  const low = columns.reduce((least, { min }) => Math.min(least, min), Infinity);
  const high = columns.reduce((most, { max }) => Math.max(most, max), -Infinity);
  if (low > 0 && high < 2 * low) return high === low ? [0, high] : [low, high];
  return [Math.min(low, 0), Math.max(high, 0)];
}

/** The ends of an axis in one unit: "0 – 3.2 GiB". */
export function rangeText(low, high, unit) {
  const { unit: sign, divide } = scale([low, high], unit);
  const ends = new Set([low, high].map((value) => number(value / divide)));
  return `${[...ends].join(" – ")} ${sign}`.trim();
}

/**
 * A graph in steps: a value holds until the next one, and what lay between is a bar from least to most. Rectangles on
 * full pixels, never a path: a path of thousands of corners takes longer to fill than a frame lasts.
 */
function trace(context, columns, y, ground, colour) {
  context.fillStyle = colour;
  context.globalAlpha = 0.28;
  for (const { x0, x1, last } of columns) {
    const top = Math.round(y(last));
    context.fillRect(x0, Math.min(top, ground), x1 - x0, Math.abs(ground - top));
  }
  context.globalAlpha = 1;
  let before = null;
  for (const { x0, x1, min, max, last } of columns) {
    const [high, low] = [Math.round(y(Math.max(max, before ?? max))), Math.round(y(Math.min(min, before ?? min)))];
    if (low > high) context.fillRect(x0, high, 1, low - high + LINE);
    context.fillRect(x0, Math.round(y(last)), x1 - x0, LINE);
    before = last;
  }
}

/** The points of the window by columns of pixels, {x0, x1, min, max, last}: those of one column are taken together. */
function columnsOf({ t, min, max, last, begin, end }, view) {
  const columns = [];
  const across = (time) => Math.round(Math.min(Math.max(view.x(Math.max(time, begin)), -2), view.width + 2));
  let open = null;
  for (let place = firstShown(t, view.start); place < t.length && t[place] <= view.end; place++) {
    const x0 = across(t[place]);
    const x1 = across(place + 1 < t.length ? t[place + 1] : Math.max(end, t[place]));
    if (open && x0 < open.x0 + 1) {
      open.min = Math.min(open.min, min[place]);
      open.max = Math.max(open.max, max[place]);
      open.last = last[place];
      open.x1 = Math.max(x1, open.x0 + 1);
    } else columns.push(open = { x0, x1: Math.max(x1, x0 + 1), min: min[place], max: max[place], last: last[place] });
  }
  return columns;
}

/** The last point at or before a time, else the first. */
function firstShown(t, time) {
  return Math.max(firstThat((place) => t[place] > time, 0, t.length) - 1, 0);
}
