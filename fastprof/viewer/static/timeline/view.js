/** The window of time on the screen: the only place where times become pixels and pixels times. */

/** The narrowest window: at 10 ps a few pixels are a picosecond, and no time is finer. */
const NARROWEST = 10;
const MARGIN = 0.01;
/** If the run takes this share of the session, the rest is shown too. */
const NEARLY_ALL = 0.9;
const GLIDE_MS = 180;

export class View {
  /** Times are ps from the origin of the session; `width` is in CSS pixels. */
  constructor() {
    this.start = 0;
    this.span = 1;
    this.width = 1;
    this.low = 0;
    this.high = 1;
    this.home = { start: 0, span: 1 };
    this.glide = null;
    this.still = globalThis.matchMedia?.("(prefers-reduced-motion: reduce)").matches ?? false;
  }

  get end() {
    return this.start + this.span;
  }

  /** Pixels for a picosecond. */
  get scale() {
    return this.width / this.span;
  }

  x(time) {
    return (time - this.start) * this.scale;
  }

  time(x) {
    return this.start + x / this.scale;
  }

  /**
   * Takes the ends of the session: the window keeps within them, give or take a margin. `run`: the part of it that is
   * shown first, as `home`: {start, span}.
   */
  bound(start, end, [first, last] = [start, end]) {
    const least = Math.max(end - start, 1000);
    const margin = least * MARGIN;
    this.low = start - margin;
    this.high = start + least + margin;
    const room = (last - first) * MARGIN;
    const isAll = last - first >= least * NEARLY_ALL || last <= first;
    const home = isAll ? [this.low, this.high - this.low] : this.within(first - room, last - first + 2 * room);
    this.home = { start: home[0], span: home[1] };
    this.set(this.start, this.span);
  }

  /** What is shown first. */
  goHome(glide = false) {
    if (glide) this.moveTo(this.home.start, this.home.span);
    else this.set(this.home.start, this.home.span);
  }

  /** Whether the window is, or will be, what is shown first. */
  get isHome() {
    const { start, span } = this.target;
    const near = this.home.span / 1000;
    return Math.abs(start - this.home.start) <= near && Math.abs(span - this.home.span) <= near;
  }

  /** The entire session. */
  fit() {
    this.moveTo(this.low, this.high - this.low);
  }

  set(start, span) {
    [this.start, this.span] = this.within(start, span);
  }

  /** The window nearest to another that keeps within the session and is not too narrow: [start, span]. */
  within(start, span) {
    const width = Math.min(Math.max(span, NARROWEST), this.high - this.low);
    return [Math.min(Math.max(start, this.low), this.high - width), width];
  }

  /** Whether another window lies within the session, give or take the rounding of addresses. */
  hasRoomFor(start, end) {
    return start >= this.low - NARROWEST && end <= this.high + NARROWEST;
  }

  /** Adds to all times. */
  shift(by) {
    this.start += by;
    if (this.glide) { for (const end of [this.glide.from, this.glide.to]) end[0] += by; }
  }

  pan(pixels) {
    this.glide = null;
    this.set(this.start + pixels / this.scale, this.span);
  }

  /** Zooms about a pixel: the time under it stays under it. A factor below 1 shows more detail. */
  zoom(factor, x) {
    this.glide = null;
    const fixed = this.time(x);
    const [, span] = this.within(0, this.span * factor);
    this.set(fixed - (x / this.width) * span, span);
  }

  /** Glides to a window, at once if the user prefers less motion. */
  moveTo(start, span) {
    if (this.still) this.set(start, span);
    else this.glide = { from: [this.start, this.span], to: this.within(start, span), begun: null };
  }

  /** Shows an interval of time with room at both sides. */
  show(start, end, share = 0.8) {
    const span = Math.max((end - start) / share, NARROWEST);
    this.moveTo((start + end) / 2 - span / 2, span);
  }

  /** One frame of a glide; true while there is more of it. */
  advance(now) {
    const glide = this.glide;
    if (!glide) return false;
    glide.begun ??= now;
    const done = Math.min((now - glide.begun) / GLIDE_MS, 1);
    const eased = 1 - (1 - done) ** 3;
    // The span goes by a constant factor a frame, as the eye expects of zooming; its middle follows along.
    const span = glide.from[1] * (glide.to[1] / glide.from[1]) ** eased;
    const share = glide.to[1] === glide.from[1] ? eased : (span - glide.from[1]) / (glide.to[1] - glide.from[1]);
    this.set(glide.from[0] + (glide.to[0] - glide.from[0]) * share, span);
    if (done === 1) {
      this.set(glide.to[0], glide.to[1]);
      this.glide = null;
    }
    return this.glide !== null;
  }

  /** Whether all of an interval of time is in the window. */
  holds(start, end) {
    return this.start <= start && this.end >= end;
  }

  /** Where the window will be once no glide is left. */
  get target() {
    return this.glide ? { start: this.glide.to[0], span: this.glide.to[1] } : { start: this.start, span: this.span };
  }

  /** The level whose buckets (2^level ps) are nearest to a pixel of the screen, and so give about a slice a pixel. */
  level() {
    return Math.max(0, Math.round(Math.log2(1 / this.scale)));
  }
}
