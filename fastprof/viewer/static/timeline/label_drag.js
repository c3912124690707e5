/** Drags of labels: a track to another place of its section or among the pinned ones, a section among the sections. */

import { h, on } from "../dom.js";

const REACH = 5; // pixels: less is a click
const EDGE = 24;
const SCROLL_A_FRAME = 9;

export class LabelDrag {
  constructor(root, actions) {
    Object.assign(this, { root, actions, drag: null, moved: false });
    this.line = h("div.tl-drop", { hidden: true });
    root.append(this.line);
    actions.timeline.frames.add(() => this.scroll());
  }

  get isHeld() {
    return this.drag !== null;
  }

  press(event, target) {
    this.moved = false;
    if (event.button !== 0 || !target || event.pointerType === "touch") return;
    this.drag = { target, y: event.clientY, place: null };
    const ended = new AbortController();
    const end = (drop) => {
      ended.abort();
      this.end(drop);
    };
    // The label itself may be given to another row while the rows scroll.
    on(window, { pointermove: (move) => this.move(move), pointerup: () => end(true), pointercancel: () => end(false),
      keydown: (key) => key.key === "Escape" && end(false) }, ended.signal);
  }

  move(event) {
    const { drag } = this;
    if (!this.moved && Math.abs(event.clientY - drag.y) < REACH) return;
    this.moved = true;
    drag.at = event.clientY - this.root.getBoundingClientRect().y;
    drag.place = this.placeAt(drag.at);
    this.show(drag.place);
    this.actions.timeline.invalidate();
  }

  /** Where it would come: {pins, before, y}, before which row (null: after the last one); null: nowhere else. */
  placeAt(y) {
    const { layout } = this.actions.timeline;
    const { target } = this.drag;
    const isPin = this.actions.isPinned(target);
    if (target.track >= 0 && layout.pinned && y < layout.pinHeight)
      return { pins: true, ...this.between(Array.from({ length: layout.pinned }, (_, row) => row), y) };
    if (isPin) return { pins: false, before: null, y: layout.pinHeight };
    return { pins: false, ...this.between(this.actions.siblings(target), y) };
  }

  /** Between which rows a place of the screen lies: before the first one whose middle is below it. */
  between(rows, y) {
    const { layout } = this.actions.timeline;
    const end = (row) => layout.y(row) + layout.top[row + 1] - layout.top[row];
    const before = rows.find((row) => y < (layout.y(row) + end(row)) / 2);
    return { before: before ?? null, y: before === undefined ? end(rows.at(-1)) : layout.y(before) };
  }

  show(place) {
    this.line.hidden = !place;
    if (place) this.line.style.transform = `translateY(${Math.max(place.y - 2, 0)}px)`;
  }

  /** At the edges of the screen the rows scroll along. */
  scroll() {
    const { drag, actions: { timeline } } = this;
    if (!drag || drag.at === undefined) return false;
    const { layout } = timeline;
    const isUp = drag.at >= layout.pinHeight && drag.at < layout.pinHeight + EDGE;
    const by = drag.at > layout.height - EDGE ? SCROLL_A_FRAME : isUp ? -SCROLL_A_FRAME : 0;
    if (!by || this.actions.isPinned(drag.target)) return false;
    const before = layout.scroll;
    layout.scrollTo(before + by);
    drag.place = this.placeAt(drag.at);
    this.show(drag.place);
    return layout.scroll !== before;
  }

  end(drop) {
    const { drag, actions } = this;
    this.drag = null;
    this.show(null);
    if (!drop || !this.moved || !drag.place) return;
    const { target, place: { pins, before } } = drag;
    if (pins && !actions.isPinned(target)) actions.pinBefore(target, before);
    else if (!pins && actions.isPinned(target)) actions.unpin(target);
    else if (before !== target.row) actions.moveBefore(target, before);
  }
}
