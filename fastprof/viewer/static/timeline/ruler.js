/** The time axis: marks of time, the steps as bands, flags, and the range that is selected. */

import { firstThat } from "../bisect.js";
import { fitting } from "./time_axis.js";
import { short } from "./time_format.js";

export const RULER = 28;
export const STEPS = 20;
export const TICK_ROOM = 110;

export class Ruler {
  constructor(surface) {
    this.surface = surface;
    this.bands = []; // of steps, [{name, start, duration}] in order of time
  }

  get height() {
    return RULER + (this.bands.length ? STEPS : 0);
  }

  draw(view, ticks, colours, { range, marks, hover }) {
    const context = this.surface.fresh(colours.background);
    const { width, height } = this.surface;
    if (range)
      this.surface.fill(colours.select, view.x(range.start), 0, (range.end - range.start) * view.scale, RULER);
    this.drawTicks(context, view, ticks, colours);
    if (this.bands.length) this.drawBands(context, view, colours);
    if (range) this.drawRange(context, view, range, colours);
    this.drawMarks(context, view, marks, colours);
    if (hover !== null) this.surface.fill(colours.faint, Math.round(view.x(hover)), 0, 1, RULER);
    this.surface.fill(colours.line, 0, height - 1, width, 1);
  }

  drawTicks(context, view, { step, times, lead, text }, colours) {
    context.font = `11px ${colours.font}`;
    context.textBaseline = "middle";
    context.fillStyle = colours.faint;
    for (const time of times) {
      const x = Math.round(view.x(time));
      context.fillRect(x, RULER - 8, 1, 8);
      for (let part = 1; part < 5; part++)
        context.fillRect(Math.round(view.x(time + (part * step) / 5)), RULER - 4, 1, 4);
    }
    const marks = times.map((time) => ({ x: Math.round(view.x(time)) + 4, words: text(time) }));
    for (const { x, words } of fitting(marks, context, lead, view.width)) context.fillText(words, x, RULER / 2 - 3);
    context.fillStyle = colours.text;
    context.fillText(lead, 6, RULER / 2 - 3);
  }

  /** The number of the first band that ends after a time. */
  firstBand(time) {
    const { bands } = this;
    return firstThat((place) => bands[place].start + bands[place].duration > time, 0, bands.length);
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
      this.surface.fill(colours[place % 2 ? "step-other" : "step"], x0, RULER + 1, Math.max(x1 - x0 - 1, 1), STEPS - 3);
      context.fillStyle = colours.text;
      const left = Math.max(x0, 0) + 5;
      const text = this.bandText(name, x1 - left - 3);
      if (text) context.fillText(text, left, RULER + STEPS / 2);
    }
  }

  /** The name of a step where there is room for all of it, else its number, which distinguishes it; else nothing. */
  bandText(name, room) {
    const fitted = room > 6 ? this.fitter?.fit(name, room) : "";
    const [number] = /\d+$/.exec(name) ?? [];
    if (!number || fitted === name) return fitted;
    return this.fitter?.length(number) <= room ? number : "";
  }

  drawRange(context, view, range, colours) {
    const [x0, x1] = [view.x(range.start), view.x(range.end)];
    this.surface.fill(colours.accent, x0, RULER - 3, x1 - x0, 3);
    const text = short(range.end - range.start);
    context.font = `600 11px ${colours.font}`;
    const width = context.measureText(text).width + 10;
    const middle = Math.min(Math.max((Math.max(x0, 0) + Math.min(x1, view.width)) / 2, width / 2),
      view.width - width / 2);
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
