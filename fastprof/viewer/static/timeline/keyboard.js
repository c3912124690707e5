/** Timeline keys. Held keys move the timeline smoothly; nothing is taken from fields, and nothing with Ctrl or Alt. */

import { on } from "../dom.js";

const ZOOM_A_SECOND = 3.2; // the power of e by which a held key zooms in a second
const PAN_A_SECOND = 1.1; // widths of the window
const SCROLL_A_SECOND = 900; // pixels
const WARM_UP_MS = 350;
const TAP = 0.12; // what a tap does, in seconds of holding

const HELD = {
  KeyW: { zoom: -1 },
  KeyS: { zoom: 1 },
  KeyA: { pan: -1 },
  KeyD: { pan: 1 },
  ArrowLeft: { pan: -1 },
  ArrowRight: { pan: 1 },
  ArrowUp: { scroll: -1 },
  ArrowDown: { scroll: 1 },
};

export class Keyboard {
  /**
   * `actions`: functions by key (event.key); `usable(event)`: whether a key is the timeline's; `pressed()` is called for
   * each; `signal`: ends it.
   */
  constructor(timeline, actions, { usable, pressed, signal }) {
    Object.assign(this, { timeline, actions, usable, pressed });
    this.held = new Map();
    this.last = 0;
    on(window, { keydown: (event) => this.down(event), keyup: (event) => this.held.delete(event.code),
      blur: () => this.held.clear() }, signal);
    timeline.frames.add((now) => this.advance(now));
  }

  down(event) {
    if (event.ctrlKey || event.metaKey || event.altKey || !this.usable(event)) return;
    this.pressed();
    const held = HELD[event.code];
    if (held && !(event.shiftKey && event.code.startsWith("Key"))) {
      event.preventDefault();
      if (event.repeat || this.held.has(event.code)) return;
      this.held.set(event.code, { ...held, since: performance.now() });
      this.apply(held, TAP);
      this.timeline.invalidate();
      return;
    }
    const action = this.actions[event.key];
    if (!action) return;
    event.preventDefault();
    action(event);
  }

  /** One frame of the held keys; true while there are any. */
  advance(now) {
    const seconds = Math.min((now - this.last) / 1000, 0.05);
    this.last = now;
    for (const held of this.held.values()) {
      const age = performance.now() - held.since;
      if (age > 120) this.apply(held, seconds * Math.min(1, 0.4 + age / WARM_UP_MS));
    }
    return this.held.size > 0;
  }

  apply({ zoom, pan, scroll }, seconds) {
    const { timeline } = this;
    const middle = timeline.hoverTime === null ? timeline.view.width / 2 : timeline.view.x(timeline.hoverTime);
    if (zoom)
      timeline.zoom(Math.exp(zoom * ZOOM_A_SECOND * seconds), Math.min(Math.max(middle, 0), timeline.view.width));
    if (pan) timeline.pan(pan * PAN_A_SECOND * seconds * timeline.view.width);
    if (scroll) timeline.scrollBy(scroll * SCROLL_A_SECOND * seconds);
  }
}
