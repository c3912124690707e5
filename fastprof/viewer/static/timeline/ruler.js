/** The time axis: marks of time, the steps as bands, flags, and the range that is selected. */

import { short, tickStep, tickTexts } from "./time_format.js";

export const RULER = 28;
export const STEPS = 20;
const TICK_ROOM = 110;

/** Where the lines of the time axis stand: {step, times, xs}. */
export function ticksOf(view) {
  const step = tickStep((view.span * TICK_ROOM) / view.width);
  const times = [];
  for (let time = Math.ceil(view.start / step) * step; time <= view.end; time += step) times.push(time);
  return { step, times, xs: times.map((time) => view.x(time)) };
}

export class Ruler {
  constructor(surface) {
    this.surface = surface;
    this.bands = [];
  }

  /** Takes the bands of steps, [{name, start, duration}] in order of time. */
  setBands(bands) {
    this.bands = bands;
  }

  get height() {
    return RULER + (this.bands.length ? STEPS : 0);
  }

  draw(view, ticks, colours, { range, marks, hover }) {
    const context = this.surface.fresh(colours.background);
    const { width, height } = this.surface;
    if (range) {
      context.fillStyle = colours.select;
      context.fillRect(view.x(range.start), 0, (range.end - range.start) * view.scale, RULER);
    }
    this.drawTicks(context, view, ticks, colours);
    if (this.bands.length) this.drawBands(context, view, colours);
    if (range) this.drawRange(context, view, range, colours);
    this.drawMarks(context, view, marks, colours);
    if (hover !== null) {
      context.fillStyle = colours.faint;
      context.fillRect(Math.round(view.x(hover)), 0, 1, RULER);
    }
    context.fillStyle = colours.line;
    context.fillRect(0, height - 1, width, 1);
  }

  drawTicks(context, view, { step, times, xs }, colours) {
    const { base, text } = tickTexts(view.start, view.span, step);
    context.font = `11px ${colours.font}`;
    context.textBaseline = "middle";
    const lead = base ? `${tickTexts(0, base, base / 10).text(base)}` : "";
    const leadWidth = base ? context.measureText(lead).width + 14 : 0;
    context.fillStyle = colours.faint;
    for (let place = 0; place < xs.length; place++) {
      const x = Math.round(xs[place]);
      context.fillRect(x, RULER - 8, 1, 8);
      for (let part = 1; part < 5; part++) {
        const between = Math.round(xs[place] + (part * step * view.scale) / 5);
        context.fillRect(between, RULER - 4, 1, 4);
      }
      if (x >= leadWidth - 4) context.fillText(text(times[place]), x + 4, RULER / 2 - 3);
    }
    if (base) {
      context.fillStyle = colours.text;
      context.fillText(lead, 6, RULER / 2 - 3);
    }
  }

  /** The number of the first band that ends after a time. */
  firstBand(time) {
    const bands = this.bands;
    let [low, high] = [0, bands.length];
    while (low < high) {
      const middle = (low + high) >> 1;
      if (bands[middle].start + bands[middle].duration <= time) low = middle + 1;
      else high = middle;
    }
    return low;
  }

  bandAt(time) {
    const band = this.bands[this.firstBand(time)];
    return band && band.start <= time ? band : null;
  }

  drawBands(context, view, colours) {
    const bands = this.bands;
    context.font = `11px ${colours.font}`;
    context.textBaseline = "middle";
    let drawn = -1;
    for (let place = this.firstBand(view.start); place < bands.length && bands[place].start < view.end; place++) {
      const { name, start, duration } = bands[place];
      const x0 = Math.max(view.x(start), -2);
      const x1 = Math.min(view.x(start + duration), view.width + 2);
      if (x1 < drawn + 1) continue; // many steps to a pixel: one stands for them
      drawn = Math.max(Math.ceil(x1), Math.floor(x0) + 1);
      context.fillStyle = place % 2 ? colours["step-other"] : colours.step;
      context.fillRect(x0, RULER + 1, Math.max(x1 - x0 - 1, 1), STEPS - 3);
      context.fillStyle = colours.text;
      const left = Math.max(x0, 0) + 5;
      const text = x1 - left > 16 ? this.fitter?.fit(name, x1 - left - 5) : "";
      if (text) context.fillText(text, left, RULER + STEPS / 2);
    }
  }

  drawRange(context, view, range, colours) {
    const [x0, x1] = [view.x(range.start), view.x(range.end)];
    context.fillStyle = colours.accent;
    context.fillRect(x0, RULER - 3, x1 - x0, 3);
    const text = short(range.end - range.start);
    context.font = `600 11px ${colours.font}`;
    const width = context.measureText(text).width + 10;
    const middle = Math.min(Math.max((Math.max(x0, 0) + Math.min(x1, view.width)) / 2, width / 2), view.width - width / 2);
    context.fillRect(middle - width / 2, 2, width, 16);
    context.fillStyle = colours.background;
    context.textBaseline = "middle";
    context.fillText(text, middle - width / 2 + 5, 10.5);
  }

  drawMarks(context, view, marks, colours) {
    for (const mark of marks) {
      context.fillStyle = colours.mark;
      const x = Math.round(view.x(mark.start));
      if (mark.end > mark.start) {
        context.globalAlpha = 0.35;
        context.fillRect(x, RULER - 6, (mark.end - mark.start) * view.scale, 6);
        context.globalAlpha = 1;
      }
      context.beginPath();
      context.moveTo(x, 0);
      context.lineTo(x + 11, 4.5);
      context.lineTo(x, 9);
      context.closePath();
      context.fill();
      context.fillRect(x, 0, 1, RULER);
    }
  }
}
