// Charts with two axes, drawn as SVG: lines, areas, bars and dots, with values beside the pointer, a legend that hides
// series, and a closer look by dragging. Arrow keys move from place to place, Enter chooses one.

import { h, on, onResize, shortened, svg } from "../dom.js";
import { elided } from "../elision.js";
import { number } from "../units.js";
import { barsOf, dotsOf, linesOf, stackedBases } from "./marks.js";
import { pictureButton } from "./picture.js";
import { decadeTicks, extent, nearest, roundTicks, scaleOf } from "./scales.js";

const LETTER = 6.6;
const TICK_TALL = 44;
const MOST_TURNED = 40;
const DOT_REACH = 18;
const DRAGGED = 5;

class Plot {
  constructor(element, spec, options = {}) {
    Object.assign(this, { options, hidden: new Set(), zoomed: { x: null, y: null }, active: null });
    this.legend = h("div.chart-legend");
    this.drawing = svg("svg.chart-drawing", { role: "img", tabindex: "0", "aria-label": options.label ?? "Chart" });
    this.tip = h("div.chart-tip", { role: "status", hidden: true });
    element.append(
      h("div", { class: `chart chart-box legend-${options.legend ?? "top"}` }, this.legend,
        h("div.chart-area", this.drawing, this.tip, pictureButton(this.drawing, options.label))),
    );
    this.listen();
    this.update(spec);
    onResize(this.drawing.parentNode, () => this.draw());
  }

  /** Other data; what is hidden and how close one looks stays. */
  update(spec) {
    this.spec = spec;
    const names = spec.series.filter((one) => !one.quiet);
    this.legend.hidden = names.length < 2;
    this.legend.replaceChildren(...names.map((one) => this.entry(one)));
    this.draw();
  }

  entry(series) {
    const toggle = () => {
      if (!this.hidden.delete(series.name)) this.hidden.add(series.name);
      button.setAttribute("aria-pressed", String(!this.hidden.has(series.name)));
      this.draw();
    };
    const [drawn, gap] = series.dash?.split(" ") ?? [];
    const mark = h("span", { class: `chart-key chart-key-${series.kind}${series.dash ? " chart-key-dashed" : ""}`,
      style: { "--series": series.colour, ...(gap && { "--drawn": `${drawn}px`, "--dash": `${+drawn + +gap}px` }) } });
    const button = h("button.chart-entry", { title: `${series.name}\nHide or show it`, onclick: toggle,
      "aria-pressed": String(!this.hidden.has(series.name)) }, mark, h("span", shortened(series.name, 40)));
    return button;
  }

  get shown() {
    return this.spec.series.filter((one) => !this.hidden.has(one.name));
  }

  draw() {
    const width = this.drawing.parentNode?.clientWidth;
    if (!width) return;
    const height = Math.max(120, (this.options.height ?? 280) - (this.legend.hidden ? 0 : this.legendTall()));
    const bases = stackedBases(this.shown);
    this.ranges(bases);
    this.place(width, height);
    const marks = this.shown.map((series) => {
      const scales = { x: this.x, y: series.axis === "y2" ? this.y2 : this.y, bottom: this.area.bottom };
      const draw = { bars: barsOf, dots: dotsOf }[series.kind] ?? linesOf;
      return draw(series, bases.get(series) ?? null, { ...scales, places: this.placesOf(series), band: this.band });
    });
    const { left, top, right, bottom } = this.area;
    const clip = `clip-${(Plot.clips = (Plot.clips ?? 0) + 1)}`;
    this.cursor = svg("line.chart-cursor", { y1: top, y2: bottom, visibility: "hidden" });
    this.drawing.setAttribute("viewBox", `0 0 ${width} ${height}`);
    this.drawing.style.height = `${height}px`;
    this.drawing.replaceChildren(
      svg("clipPath", { id: clip }, svg("rect", { x: left, y: top, width: right - left, height: bottom - top })),
      ...this.axes(),
      svg("g", { "clip-path": `url(#${clip})` }, this.bands(), marks, this.cursor),
    );
  }

  legendTall() {
    return this.options.legend === "right" ? 0 : this.legend.offsetHeight;
  }

  placesOf(series) {
    return series.x ?? this.spec.x.values ?? this.spec.x.names.map((_, at) => at);
  }

  /** What the axes reach over: all values of the series shown, or what one looks at. */
  ranges(bases) {
    const { x, y, y2 } = this.spec;
    const all = (axis) =>
      this.shown.filter((one) => (one.axis ?? "y") === axis).flatMap((one) => {
        const base = bases.get(one);
        return one.values.map((value, at) => (value === null ? null : value + (base?.[at] ?? 0)));
      });
    const reach = (axis, values) => {
      const [low, high] = extent(values, axis.log);
      return axis.range
        ?? (axis.log ? [low / 1.6, high * 1.6] : [Math.min(0, low), high + (high - Math.min(0, low)) * 0.05]);
    };
    const [first, last] = x.names
      ? [-0.5, x.names.length - 0.5]
      : extent(this.shown.flatMap((one) => this.placesOf(one)), x.log);
    const room = x.log ? 0 : (last - first) * (this.spec.isDots ? 0.03 : 0.01);
    const across = x.range ?? (x.log ? [first / 1.6, last * 1.6] : [first - room, last + room || first + 1]);
    this.range = { x: this.zoomed.x ?? across, y: this.zoomed.y ?? reach(y, all("y")), y2: y2 && reach(y2, all("y2")) };
  }

  /** Places the area of the marks beside the texts of the axes. */
  place(width, height) {
    const { x, y, y2 } = this.spec;
    const [rows, columns] = [Math.max(2, Math.floor(height / TICK_TALL)), Math.max(2, Math.floor(width / 90))];
    this.ticks = { y: ticksOf(y, this.range.y, rows), y2: y2 ? ticksOf(y2, this.range.y2, rows) : [] };
    const wide = (ticks) => Math.max(0, ...ticks.map(({ text }) => text.length)) * LETTER + 12;
    const left = Math.max(36, wide(this.ticks.y));
    const right = width - (y2 ? wide(this.ticks.y2) : 22);
    this.ticks.x = x.names ? this.nameTicks(right - left) : ticksOf(x, this.range.x, columns);
    const turned = this.ticks.x.turned;
    const below = turned
      ? Math.min(96, 14 + 0.62 * LETTER * Math.max(...this.ticks.x.map(({ text }) => text.length)))
      : 20;
    const top = y.title || y2?.title ? 24 : 10;
    this.area = { left, right, top, bottom: height - below - (x.title ? 18 : 0), width, height };
    const { bottom } = this.area;
    this.x = scaleOf(this.range.x, [left, right], x.log);
    this.y = scaleOf(this.range.y, [bottom, top], y.log);
    this.y2 = y2 && scaleOf(this.range.y2, [bottom, top]);
    this.band = x.names ? Math.abs(this.x.at(1) - this.x.at(0)) : 0;
  }

  /** Names of places, turned where all of them are wanted and there is no room side by side, else some of them. */
  nameTicks(room) {
    const { names } = this.spec.x;
    const [first, last] = [
      Math.max(0, Math.ceil(this.range.x[0])),
      Math.min(names.length - 1, Math.floor(this.range.x[1])),
    ];
    const texts = elided(names.slice(first, last + 1), 22);
    const widest = Math.max(1, ...texts.map((text) => text.length)) * LETTER + 8;
    const each = room / Math.max(1, texts.length);
    const turned = widest > each && texts.length <= MOST_TURNED && texts.some((text) => !/^\d+$/.test(text));
    const every = turned ? 1 : Math.ceil(widest / each);
    const ticks = texts.map((text, at) => ({ value: first + at, text })).filter((_, at) => at % every === 0);
    return Object.assign(ticks, { turned });
  }

  axes() {
    const { left, right, top, bottom, height } = this.area;
    const { x, y, y2 } = this.spec;
    const text = (place, words, more = {}) => svg("text.chart-text", { ...place, ...more }, words);
    const nodes = this.ticks.y.flatMap(({ value, text: words }) => {
      const at = this.y.at(value);
      return [
        svg("line.chart-grid", { x1: left, x2: right, y1: at, y2: at }),
        text({ x: left - 6, y: at + 4 }, words, { "text-anchor": "end" }),
      ];
    });
    for (const { value, text: words } of this.ticks.y2)
      nodes.push(text({ x: right + 6, y: this.y2.at(value) + 4 }, words));
    for (const { value, text: words } of this.ticks.x) {
      const at = this.x.at(value);
      if (!x.names) nodes.push(svg("line.chart-grid", { x1: at, x2: at, y1: top, y2: bottom }));
      const turn = this.ticks.x.turned
        ? { transform: `rotate(-38 ${at} ${bottom + 14})`, "text-anchor": "end" }
        : { "text-anchor": "middle" };
      nodes.push(text({ x: at, y: bottom + 15 }, words, turn));
    }
    nodes.push(svg("line.chart-axis", { x1: left, x2: right, y1: bottom, y2: bottom }));
    if (y.title) nodes.push(text({ x: 2, y: 12 }, y.title));
    if (y2?.title) nodes.push(text({ x: this.area.width - 2, y: 12 }, y2.title, { "text-anchor": "end" }));
    if (x.title) nodes.push(text({ x: (left + right) / 2, y: height - 4 }, x.title, { "text-anchor": "middle" }));
    return nodes;
  }

  bands() {
    const { top, bottom } = this.area;
    return (this.spec.bands ?? []).map(({ from, to, colour }) =>
      svg("rect", { x: this.x.at(from), y: top, height: bottom - top,
        width: Math.max(0, this.x.at(to) - this.x.at(from)), fill: colour })
    );
  }

  // ---- pointer and keys

  listen() {
    on(this.drawing, {
      pointermove: (event) => this.move(event),
      pointerleave: () => this.point(null),
      pointerdown: (event) => this.press(event),
      pointerup: (event) => this.release(event),
      dblclick: () => this.zoom(null, null),
      keydown: (event) => this.key(event),
    });
  }

  press(event) {
    if (event.button !== 0 || !this.area) return;
    this.drawing.setPointerCapture(event.pointerId);
    this.drag = { x: event.offsetX, y: event.offsetY };
  }

  move(event) {
    if (!this.area) return;
    const { drag } = this;
    if (drag && Math.hypot(event.offsetX - drag.x, event.offsetY - drag.y) > DRAGGED) {
      this.point(null);
      this.stretch(event);
    } else this.point(this.find(event.offsetX, event.offsetY), event.offsetX);
  }

  /** The rectangle of the drag: of charts of dots both ways, else from side to side. */
  stretch(event) {
    const { drag, area } = this;
    const clamp = (value, low, high) => Math.min(Math.max(value, low), high);
    const xs = [drag.x, clamp(event.offsetX, area.left, area.right)].sort((one, other) => one - other);
    const ys = this.spec.isDots
      ? [drag.y, clamp(event.offsetY, area.top, area.bottom)].sort((one, other) => one - other)
      : [area.top, area.bottom];
    drag.to = { xs, ys };
    this.selected?.remove();
    this.selected = svg("rect.chart-selected", { x: xs[0], y: ys[0], width: xs[1] - xs[0], height: ys[1] - ys[0] });
    this.drawing.append(this.selected);
  }

  release(event) {
    const { drag } = this;
    this.drag = null;
    this.selected?.remove();
    if (drag?.to) {
      const { xs, ys } = drag.to;
      if (xs[1] - xs[0] > DRAGGED)
        this.zoom(xs.map(this.x.back), this.spec.isDots ? [...ys].reverse().map(this.y.back) : null);
    } else if (drag) this.choose(this.find(event.offsetX, event.offsetY));
  }

  zoom(x, y) {
    if (!x && !this.zoomed.x) return;
    this.zoomed = { x, y };
    this.draw();
    this.options.onzoom?.(x);
  }

  /** What is under a pixel: {at, series} of a dot, {at} of a place of the x axis; null: nothing. */
  find(px, py) {
    const { left, right, top, bottom } = this.area;
    if (px < left || px > right || py < top || py > bottom) return null;
    if (!this.spec.isDots) {
      const at = this.spec.x.names ? Math.round(this.x.back(px)) : nearest(this.spec.x.values, this.x.back(px));
      return { at };
    }
    let [best, least] = [null, DOT_REACH];
    for (const series of this.shown) {
      if (series.kind !== "dots") continue;
      series.values.forEach((value, at) => {
        const away = Math.hypot(this.x.at(series.x[at]) - px, this.y.at(value) - py);
        if (away <= least) [best, least] = [{ at, series }, away];
      });
    }
    return best;
  }

  /** Shows what is known of a place beside it; null: of none. */
  point(found, px = null) {
    this.active = found;
    this.tip.hidden = !found;
    this.drawing.style.cursor = found && this.options.onclick ? "pointer" : "default";
    this.cursor?.setAttribute("visibility", "hidden");
    if (!found) return;
    const at = this.x.at(found.series ? found.series.x[found.at] : this.placesOf({})[found.at]);
    const [first, ...lines] = this.spec.describe(found.at, found.series);
    this.tip.replaceChildren(h("b", first), ...lines.filter(Boolean).map((line) => h("div", line)));
    const side = (px ?? at) > (this.area.left + this.area.right) / 2;
    Object.assign(this.tip.style, { left: side ? "auto" : `${at + 12}px`,
      right: side ? `${this.area.width - at + 12}px` : "auto" });
    if (found.series) return;
    for (const end of ["x1", "x2"]) this.cursor.setAttribute(end, at);
    this.cursor.setAttribute("visibility", "visible");
  }

  choose(found) {
    if (found) this.options.onclick?.(found.series?.keys ? found.series.keys[found.at] : found.at);
  }

  key(event) {
    const by = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (event.key === "Escape") this.zoom(null, null);
    else if (event.key === "Enter") this.choose(this.active);
    else if (!by) return;
    event.preventDefault();
    if (!by) return;
    const series = this.active?.series
      ?? (this.spec.isDots ? this.shown.find((one) => one.kind === "dots") : undefined);
    const last = (series ? series.values : this.placesOf({})).length - 1;
    const next = this.active ? this.active.at + by : by > 0 ? 0 : last;
    this.point({ at: Math.min(Math.max(next, 0), last), series });
  }
}

/**
 * A chart in an element. `spec`: {x, y, y2, series, bands, describe, isDots}.
 * An axis: {title, values, names, log, divide, ticks, text, integers, range}; x has `values` in ascending order, or `names`
 * for places without numbers; `divide` makes stored values those of the title's unit.
 * A series: {name, kind: "line" | "area" | "bars" | "dots", values, colour, x (of its own), axis: "y2", stack, step, dash,
 * width, sizes, quiet: without a place in the legend, keys: what a dot stands for}.
 * `bands`: [{from, to, colour}] of x; `describe(at, series)`: lines of text beside the pointer.
 * Options: `label`, `height`, `onclick(at, series)`, `onzoom(range of x or null)`, `legend`: "right" or "top".
 */
export function plot(element, spec, options) {
  return new Plot(element, spec, options);
}

/** Marks of an axis: {value as stored, text}. */
function ticksOf(axis, [low, high], count) {
  const divide = axis.divide ?? 1;
  const range = [low / divide, high / divide];
  const write = axis.text ?? number;
  if (axis.ticks) {
    const seen = axis.ticks.filter((value) => value >= low && value <= high);
    const each = Math.ceil(seen.length / count);
    return seen.filter((_, at) => at % each === 0).map((value) => ({ value, text: write(value) }));
  }
  const values = axis.log ? decadeTicks(range, count) : roundTicks(range, count, axis.integers);
  return values.map((value) => ({ value: value * divide, text: write(axis.text ? value * divide : value) }));
}
