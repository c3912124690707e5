/** What is under the pointer, in a few lines beside it. */

import { h } from "../dom.js";
import { text } from "../units.js";
import { rowUnder } from "./hit_test.js";
import { RULER } from "./ruler.js";
import { KINDS } from "./session_model.js";
import { counted } from "./text.js";
import { short } from "./time_format.js";

const AWAY = 14;
const MARK_REACH = 8; // pixels
const LONGEST_NAME = 160;

/** A tooltip for what the pointer is over: a slice, a step, the value of a counter. */
export class Tooltip {
  /** `box()` is the element that the tooltip stays within. */
  constructor(timeline, box) {
    Object.assign(this, { timeline, box });
    this.name = h("div.tl-tip-name");
    this.facts = h("div.tl-tip-facts");
    this.root = h("div.tl-tip", { role: "tooltip", hidden: true }, this.name, this.facts);
  }

  show(event, hit) {
    const content = event && (hit ? this.ofSlice(hit) : this.ofPlace(event));
    this.root.hidden = !content;
    if (!content) return;
    const [name, facts] = content;
    this.name.textContent = name.length > LONGEST_NAME ? `${name.slice(0, LONGEST_NAME)}…` : name;
    this.facts.textContent = facts;
    const area = this.box().getBoundingClientRect();
    const { offsetWidth: width, offsetHeight: height } = this.root;
    const place = (at, size, room) => Math.round(Math.max(at + AWAY + size > room ? at - AWAY - size : at + AWAY, 2));
    const left = place(event.clientX - area.x, width, area.width);
    this.root.style.transform = `translate(${left}px, ${place(event.clientY - area.y, height, area.height)}px)`;
  }

  ofSlice(hit) {
    const name = this.timeline.names.text(hit.host, hit.name) ?? "…";
    const { clock } = this.timeline.model;
    return [
      name || "(no name)",
      hit.count === 1 ? `${oneFact(hit)}, from ${clock.near(hit.start, this.pixel)}` : manyFacts(hit),
    ];
  }

  ofPlace(event) {
    const { timeline } = this;
    const { model, view } = timeline;
    if (!model) return null;
    const time = view.time(event.offsetX);
    if (event.target === timeline.axis.canvas) return this.ofAxis(time, event.offsetY);
    const under = rowUnder(timeline, event.offsetY);
    if (!under || under.track < 0 || model.kind[under.track] !== KINDS.counter) return null;
    const found = timeline.counters.valueAt(model, under.track, view, time);
    return found && [
      `${model.name[under.track]}: ${text(found.value, found.unit)}`,
      `at ${model.clock.near(time, this.pixel)}`,
    ];
  }

  ofAxis(time, y) {
    const band = y > RULER && this.timeline.ruler.bandAt(time);
    const { clock } = this.timeline.model;
    if (y > RULER)
      return band ? [band.name, `${short(band.duration)}, from ${clock.near(band.start, this.pixel)}`] : null;
    const mark = this.timeline.selection.marks.find((one) => Math.abs(one.start - time) <= MARK_REACH * this.pixel);
    if (!mark) return [clock.near(time, this.pixel), "from the start of profiling"];
    return [
      `Mark at ${clock.exact(mark.start)}`,
      mark.end > mark.start ? short(mark.end - mark.start) : "from the start of profiling",
    ];
  }

  /** The time that a pixel stands for. */
  get pixel() {
    return 1 / this.timeline.view.scale;
  }
}

/** What the tooltip says of a slice. */
function oneFact(hit) {
  return hit.duration === 0 ? "an instant" : short(hit.duration);
}

function manyFacts(hit) {
  const share = `${(100 * hit.busy).toFixed(hit.busy < 0.1 ? 1 : 0)} % of ${short(hit.duration)} busy`;
  return `and others: ${counted(hit.count)} events, ${share}. Zoom in to see them.`;
}
