/** What mouse, touchpad and fingers do over the tracks, the time axis and the minimap. */

import { on } from "../dom.js";
import { rowUnder, sliceUnder } from "./hit_test.js";
import { boxesOf } from "./overlay.js";

const CLICK_REACH = 4;
const EDGE_REACH = 5;
const WHEEL_ZOOM = 0.0022;
const LINE_PIXELS = 18;

export class Pointer {
  constructor(timeline, hovered) {
    this.timeline = timeline;
    this.hovered = hovered; // (event | null, hit | null)
    this.drag = null;
    this.fingers = new Map();
    this.ruleTracks(timeline.over.canvas);
    this.ruleAxis(timeline.axis.canvas);
    this.ruleMap(timeline.map.canvas);
  }

  ruleTracks(canvas) {
    on(canvas, { ...this.drags(false), wheel: (event) => this.wheel(event), dblclick: (event) => this.zoomTo(event),
      auxclick: (event) => event.preventDefault() });
  }

  ruleAxis(canvas) {
    on(canvas, { ...this.drags(true), wheel: (event) => this.wheelOfAxis(event, event.offsetX),
      dblclick: () => this.timeline.fit() });
  }

  drags(axis) {
    return { pointerdown: (event) => this.press(event, axis), pointermove: (event) => this.move(event),
      pointerup: (event) => this.release(event), pointercancel: (event) => this.cancel(event),
      pointerleave: () => this.leave() };
  }

  ruleMap(canvas) {
    const { timeline } = this;
    const { minimap, view } = timeline;
    on(canvas, {
      pointerdown: (event) => {
        canvas.setPointerCapture(event.pointerId);
        minimap.press(view, event.offsetX);
      },
      pointermove: (event) => {
        const part = minimap.drag?.part ?? minimap.partAt(view, event.offsetX);
        canvas.style.cursor = { inside: "grab", outside: "crosshair" }[part] ?? "ew-resize";
        if (!minimap.drag) return;
        minimap.move(view, event.offsetX);
        timeline.invalidate();
      },
      "pointerup pointercancel": () => {
        minimap.release(view);
        timeline.invalidate();
      },
      dblclick: () => timeline.fit(),
      wheel: (event) => this.wheelOfAxis(event, view.x(minimap.time(view, event.offsetX))),
    });
  }

  /** The wheel scrolls; with Ctrl, Alt or the command key it zooms, with Shift or sidewards it pans. */
  wheel(event) {
    event.preventDefault();
    this.quiet = false;
    const { timeline } = this;
    const [across, down] = wheelPixels(event);
    if (event.ctrlKey || event.metaKey || event.altKey)
      timeline.zoom(Math.exp(clamped(down) * WHEEL_ZOOM * (event.ctrlKey && !Number.isInteger(event.deltaY) ? 4 : 1)),
        event.offsetX);
    else if (event.shiftKey) timeline.pan(down || across);
    else {
      if (across) timeline.pan(across);
      if (down) timeline.scrollAt(event.offsetY, down);
    }
    this.hover(event);
  }

  /** Over the time axis and the minimap the wheel zooms. */
  wheelOfAxis(event, x) {
    event.preventDefault();
    const [across, down] = wheelPixels(event);
    if (event.shiftKey || Math.abs(across) > Math.abs(down)) this.timeline.pan(across || down);
    else this.timeline.zoom(Math.exp(clamped(down) * WHEEL_ZOOM), Math.min(Math.max(x, 0), this.timeline.view.width));
  }

  press(event, axis) {
    const { timeline } = this;
    event.target.setPointerCapture(event.pointerId);
    if (event.pointerType === "touch") this.fingers.set(event.pointerId, event.offsetX);
    const pans = event.button === 1 || event.shiftKey || event.pointerType === "touch";
    if (event.button > 1) return;
    if (pans) event.preventDefault();
    const edge = pans ? null : this.edgeAt(event.offsetX, event.offsetY, axis);
    const { range } = timeline.selection;
    const times = { start: range?.end, end: range?.start };
    this.drag = { kind: pans ? "pan" : edge ? "edge" : "range", axis, x: event.offsetX, y: event.offsetY,
      lastX: event.offsetX, lastY: event.offsetY, time: times[edge] ?? timeline.view.time(event.offsetX),
      row: axis ? null : rowUnder(timeline, event.offsetY)?.row ?? timeline.layout.count - 1, moved: false };
  }

  move(event) {
    const { drag } = this;
    this.quiet = false;
    if (this.fingers.size === 2) this.pinch(event);
    else if (!drag) this.hover(event);
    else {
      drag.moved ||= Math.hypot(event.offsetX - drag.x, event.offsetY - drag.y) > CLICK_REACH;
      if (drag.kind === "pan") this.panTo(event);
      else if (drag.moved) this.stretch(event, false);
      [drag.lastX, drag.lastY] = [event.offsetX, event.offsetY];
    }
  }

  panTo(event) {
    const { timeline, drag } = this;
    timeline.pan(drag.lastX - event.offsetX);
    if (!drag.axis) timeline.scrollAt(drag.y, drag.lastY - event.offsetY);
  }

  /** Two fingers: the times under them stay under them. */
  pinch(event) {
    if (!this.fingers.has(event.pointerId)) return;
    const before = [...this.fingers.values()];
    this.fingers.set(event.pointerId, event.offsetX);
    const after = [...this.fingers.values()];
    const [far, near] = [Math.abs(before[0] - before[1]), Math.max(Math.abs(after[0] - after[1]), 8)];
    this.timeline.zoom(Math.max(far, 8) / near, (after[0] + after[1]) / 2);
    this.timeline.pan((before[0] + before[1] - after[0] - after[1]) / 2);
  }

  /** The range under the drag; its sums are requested once the drag is over. */
  stretch(event, done) {
    const { timeline, drag } = this;
    const { selection, view, layout } = timeline;
    const x = Math.min(Math.max(event.offsetX, 0), view.width);
    let tracks = null;
    if (drag.kind === "edge") tracks = selection.range?.ids?.map((id) => timeline.model.placeOf.get(id)) ?? null;
    else if (!drag.axis) {
      const y = Math.min(Math.max(event.offsetY, 0), layout.height - 1);
      tracks = selection.tracksBetween(drag.row, rowUnder(timeline, y)?.row ?? layout.count - 1);
    }
    const range = selection.rangeOf(clampedTime(drag.time, timeline), clampedTime(view.time(x), timeline), tracks);
    if (done) selection.setRange(range);
    else {
      selection.range = range;
      timeline.invalidate();
    }
    this.hovered(null, null);
  }

  release(event) {
    this.fingers.delete(event.pointerId);
    const { drag, timeline } = this;
    this.drag = null;
    if (!drag) return;
    if (drag.kind !== "pan" && drag.moved) {
      this.drag = drag;
      this.stretch(event, true);
      this.drag = null;
    } else if (!drag.moved && !drag.axis && event.button === 0) this.click(event);
    else if (!drag.moved && drag.axis) this.clickAxis(event);
    timeline.invalidate();
  }

  cancel(event) {
    this.fingers.delete(event.pointerId);
    this.drag = null;
  }

  click(event) {
    const { timeline } = this;
    const under = rowUnder(timeline, event.offsetY);
    if (under && under.track < 0) timeline.toggleRow(under.row);
    else timeline.selection.select(sliceUnder(timeline, event.offsetX, event.offsetY));
  }

  /** A click on a flag takes the mark away, elsewhere it lets go of the range. */
  clickAxis(event) {
    const { selection, view } = this.timeline;
    const mark = selection.marks.find((one) =>
      event.offsetX - view.x(one.start) >= -2 && event.offsetX - view.x(one.start) <= 12
    );
    if (mark && event.offsetY < 14) selection.toggleMark(mark);
    else if (selection.range) selection.setRange(null);
  }

  zoomTo(event) {
    const hit = sliceUnder(this.timeline, event.offsetX, event.offsetY);
    if (!hit) return;
    this.timeline.view.show(hit.start, hit.start + Math.max(hit.duration, 1));
    this.timeline.invalidate();
  }

  /** The edge of the range at a place: "start", "end" or null. */
  edgeAt(x, y, axis) {
    const { selection, view, layout } = this.timeline;
    const range = selection.rangeDrawn();
    if (!range) return null;
    if (!axis && range.spans && !boxesOf(layout, range.spans).some(([top, bottom]) => y >= top && y <= bottom))
      return null;
    if (Math.abs(view.x(range.end) - x) <= EDGE_REACH) return "end";
    return Math.abs(view.x(range.start) - x) <= EDGE_REACH ? "start" : null;
  }

  /** What is under the pointer may be another slice after a frame that moved; of keys it does not speak up. */
  refresh() {
    if (!this.last || this.drag) return;
    if (!this.quiet) this.hover(this.last);
    else if (this.timeline.hovered) this.unhover();
  }

  unhover() {
    this.timeline.hovered = null;
    this.hovered(null, null);
    this.timeline.invalidate();
  }

  hover(event) {
    const { timeline } = this;
    const { target, offsetX, offsetY, clientX, clientY } = event;
    this.last = { target, offsetX, offsetY, clientX, clientY };
    const axis = event.target === timeline.axis.canvas;
    timeline.hoverTime = timeline.view.time(event.offsetX);
    timeline.hoverY = axis ? null : offsetY;
    const hit = axis || !timeline.model ? null : sliceUnder(timeline, event.offsetX, event.offsetY);
    timeline.hovered = hit;
    const edge = timeline.model && this.edgeAt(event.offsetX, event.offsetY, axis);
    event.target.style.cursor = edge ? "ew-resize" : hit ? "pointer" : axis ? "crosshair" : "default";
    this.hovered(event, hit);
    timeline.invalidate();
  }

  leave() {
    if (this.drag) return;
    this.last = null;
    this.timeline.hoverTime = null;
    this.timeline.hoverY = null;
    this.unhover();
  }
}

/** What a wheel turned, in pixels, whichever unit the browser uses. */
function wheelPixels(event) {
  const factor = event.deltaMode === 1 ? LINE_PIXELS : event.deltaMode === 2 ? 400 : 1;
  return [event.deltaX * factor, event.deltaY * factor];
}

function clamped(pixels) {
  return Math.min(Math.max(pixels, -300), 300);
}

/** Ranges are integers of ps within the session. */
function clampedTime(time, { model }) {
  return Math.round(Math.min(Math.max(time, 0), model.span));
}
