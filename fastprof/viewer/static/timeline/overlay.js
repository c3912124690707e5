/** What lies over the tracks: the selected range, marks, the outlines of slices, arrows of flows. */

import { HEADER } from "./row_layout.js";

const ARROW = 5;
const MOST_BEND = 120;
const LEVEL = 4; // pixels: ends as near are on one lane
const SAG = 24;

export class Overlay {
  constructor(surface) {
    this.surface = surface;
    this.empty = false;
  }

  /**
   * `shown`: {range, marks, hover (time or null), outlined: {selected, hovered}, arrows}. Outlines are boxes {x, y, width,
   * height}; arrows are {x0, y0, x1, y1, strong}, all in pixels of the tracks.
   */
  draw(view, layout, colours, { range, marks, outlined, arrows }) {
    const empty = !range && !marks.length && !arrows.length && !outlined.hovered && !outlined.selected;
    if (empty && this.empty) return; // a surface that is not touched costs nothing
    this.empty = empty;
    const { surface } = this;
    const context = surface.fresh();
    if (range) this.drawRange(context, view, layout, range, colours);
    context.globalAlpha = 0.8;
    for (const { start, end } of marks)
      for (const time of new Set([start, end]))
        surface.fill(colours.mark, Math.round(view.x(time)), 0, 1, surface.height);
    context.globalAlpha = 1;
    context.save();
    this.clip(context, layout);
    for (const arrow of arrows) this.drawArrow(context, arrow, colours);
    if (outlined.hovered) this.outline(context, outlined.hovered, colours.text, 1);
    if (outlined.selected) this.outline(context, outlined.selected, colours.accent, 2);
    context.restore();
  }

  /** Keeps off the header that stays above the rows that scroll. */
  clip(context, layout) {
    const sticky = layout.sticky();
    if (!sticky) return;
    const { width, height } = this.surface;
    const bottom = sticky.y + HEADER;
    context.beginPath();
    context.rect(0, 0, width, layout.pinHeight);
    context.rect(0, bottom, width, height - bottom);
    context.clip();
  }

  drawRange(context, view, layout, range, colours) {
    const { surface } = this;
    const [x0, x1] = [view.x(range.start), view.x(range.end)];
    const left = Math.max(x0, 0);
    const width = Math.min(x1, surface.width) - left;
    for (const [top, bottom] of range.spans ? boxesOf(layout, range.spans) : [[0, surface.height]]) {
      surface.fill(colours.select, left, top, width, bottom - top);
      for (const x of [x0, x1]) surface.fill(colours.accent, Math.round(x) - 0.5, top, 1, bottom - top);
      if (!range.spans) return;
      context.globalAlpha = 0.5;
      for (const y of [top, bottom - 1]) surface.fill(colours.accent, left, y, width, 1);
      context.globalAlpha = 1;
    }
  }

  outline(context, box, colour, thick) {
    const left = Math.max(box.x, -4);
    const width = Math.max(Math.min(box.x + box.width, this.surface.width + 4) - left, 3);
    const inset = thick / 2;
    context.save();
    context.beginPath();
    context.rect(0, box.zone[0], this.surface.width, box.zone[1] - box.zone[0]);
    context.clip();
    context.strokeStyle = colour;
    context.lineWidth = thick;
    context.strokeRect(Math.round(left) - inset, Math.round(box.y) - inset, Math.round(width) + thick,
      Math.round(box.height) + thick);
    context.restore();
  }

  drawArrow(context, { x0, y0, x1, y1, strong, faint, headless }, colours) {
    const bend = Math.min(Math.max(Math.abs(x1 - x0) / 2, 24), MOST_BEND);
    context.strokeStyle = context.fillStyle = colours.flow;
    context.globalAlpha = strong ? 1 : faint;
    context.lineWidth = strong ? 1.75 : 1;
    context.beginPath();
    context.moveTo(x0, y0);
    const sag = Math.abs(y1 - y0) < LEVEL ? SAG : 0; // along a lane it would strike through the names there
    context.bezierCurveTo(x0 + bend, y0 + sag, x1 - bend, y1 + sag, x1 - ARROW, y1);
    context.stroke();
    if (!headless) this.drawHead(context, x1, y1);
    context.globalAlpha = 1;
  }

  drawHead(context, x1, y1) {
    context.beginPath();
    context.moveTo(x1, y1);
    context.lineTo(x1 - ARROW - 2, y1 - ARROW + 1);
    context.lineTo(x1 - ARROW - 2, y1 + ARROW - 1);
    context.closePath();
    context.fill();
  }
}

/** Where rows are on the screen, [top, bottom] of each [first, last] that is seen. */
export function boxesOf(layout, spans) {
  return spans.flatMap(([first, last]) => {
    const [low, high] = layout.zone(first);
    const top = Math.max(layout.y(first), low - 2);
    const bottom = Math.min(layout.y(last) + layout.top[last + 1] - layout.top[last], high + 2);
    return bottom > top ? [[top, bottom]] : [];
  });
}
