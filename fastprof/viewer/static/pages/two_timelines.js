// The timelines of two runs, one over the other. Their windows move together, with a step of both at the same place.

import { clear, h } from "../dom.js";
import { written } from "../route.js";
import { show as showTimeline } from "../timeline/page.js";
import { visible } from "../timeline/text.js";
import { signed, text } from "../units.js";

const SIDES = ["new", "base"];
const MOST_OFFERED = 2_000;
const ROOM = 0.25;
const NUMBER = /\d+$/;

/** Shows both timelines in an element of definite height. `base`: the name of the run that is the base. */
export async function show(root, context, base) {
  const page = new TwoTimelines(context, base);
  root.append(page.node);
  await page.open();
  return { leave: () => page.leave() };
}

class TwoTimelines {
  constructor(context, base) {
    Object.assign(this, { context, base, active: "new" });
    this.runs = { new: context.run, base };
    this.parts = {};
    this.windows = {};
    this.bands = {};
    this.pairs = [];
    this.pair = null;
    this.picker = h("select", { onchange: () => this.align(this.pairs[Number(this.picker.value)]) });
    this.change = h("span.two-change", { role: "status" }, "Reading both runs …");
    const step = (by, words, label) =>
      h("button.button", { "aria-label": label, title: label, onclick: () => this.go(by) }, words);
    const link = (words, run, params) => h("a.button", { href: addressOf(run, params) }, words);
    this.choice = h("span.two-choice", h("label", "Aligned at step ", this.picker), step(-1, "‹", "Previous step"),
      step(1, "›", "Next step"));
    this.tools = h("div.two-tools", this.choice, this.change, h("span.spring"), link("Figures", context.run, { base }),
      link("Swap runs", base, { base: context.run, view: "timelines" }));
    this.halves = Object.fromEntries(SIDES.map((side) => [side, this.halfOf(side)]));
    this.node = h("div.two", this.tools, ...SIDES.map((side) => this.halves[side]));
  }

  /** A half of the page; keys go to the one that was used last. */
  halfOf(side) {
    const use = () => (this.active = side);
    const title = `${side === "new" ? "New" : "Base"}: ${this.runs[side]}`;
    return h("section.two-half", { "aria-label": title, onpointerenter: use, onfocusin: use }, h("h2", visible(title)));
  }

  async open() {
    const sources = { new: this.context.source, base: await this.context.open(this.base) };
    if (this.context.signal.aborted) return;
    for (const side of SIDES) {
      this.parts[side] = showTimeline(this.halves[side], this.contextOf(side, sources[side]));
      this.parts[side].timeline.frames.add(() => this.follow(side));
    }
  }

  /** Page context of a half: parameter names begin with the side, and links lead to the side's run. */
  contextOf(side, source) {
    const { context, runs } = this;
    const own = `${side}-`;
    return {
      ...context,
      source,
      run: runs[side],
      get params() {
        const mine = [...context.params].filter(([name]) => name.startsWith(own));
        return new URLSearchParams(mine.map(([name, value]) => [name.slice(own.length), value]));
      },
      replace: (changes) =>
        context.replace(Object.fromEntries(Object.entries(changes).map(([name, value]) => [own + name, value]))),
      navigate: (page, params) => {
        window.location.hash = written({ page, run: runs[side], host: null, params: new URLSearchParams(params) });
      },
      takes_keys: () => this.active === side,
    };
  }

  /** Called before each frame of a half, once the steps of both are known: if its window moved, the other one follows. */
  follow(side) {
    if (!SIDES.every((name) => this.parts[name]?.timeline.steps)) return false;
    const { ruler, view } = this.parts[side].timeline;
    const seen = this.windows[side];
    if (this.bands[side] !== ruler.bands) this.pairSteps();
    else if (seen.start !== view.start || seen.span !== view.span) this.lead(side);
    return false;
  }

  /** Moves the window of the other half to where that of this half is. */
  lead(side) {
    const other = SIDES.find((name) => name !== side);
    const { start, span } = this.parts[side].timeline.view;
    const partner = this.parts[other].timeline;
    this.windows[side] = { start, span };
    this.windows[other] = { start: start + this.pair[other].start - this.pair[side].start, span };
    Object.assign(partner.view, this.windows[other], { glide: null });
    partner.invalidate();
  }

  /** Pairs the steps that both halves show, and aligns the same pair as before, that of the address, or the middle one. */
  pairSteps() {
    const [one, other] = SIDES.map((side) => this.parts[side].timeline);
    this.bands = { new: one.ruler.bands, base: other.ruler.bands };
    this.pairs = pairsOf(this.bands.new, this.bands.base);
    const options = this.pairs.slice(0, MOST_OFFERED).map(({ name }, at) => h("option", { value: at }, name));
    clear(this.picker).append(...options);
    const isFirst = this.pair === null;
    const wanted = isFirst ? this.context.params.get("align") : this.pair.name;
    this.pair = this.pairs.find(({ name }) => name === wanted) ?? this.pairs[this.pairs.length >> 1]
      ?? startsOf(one.model, other.model);
    this.describe();
    for (const timeline of [one, other]) timeline.fitted = true;
    if (isFirst && !this.context.params.has("new-t")) this.showPair();
    else this.lead("new");
  }

  /** Shows the pair with some room at both sides. */
  showPair() {
    const { view } = this.parts.new.timeline;
    const longest = Math.max(this.pair.new.duration, this.pair.base.duration);
    view.glide = null;
    view.set(this.pair.new.start - ROOM * longest, (1 + 2 * ROOM) * longest);
    this.parts.new.timeline.invalidate();
    this.lead("new");
  }

  /** Aligns another pair, at the place and the zoom of the one before if that is in the window. */
  align(pair) {
    const { view } = this.parts.new.timeline;
    const { start } = this.pair.new;
    const stays = view.holds(start, start);
    this.pair = pair;
    this.describe();
    this.context.replace({ align: pair.name });
    if (!stays) this.showPair();
    else {
      view.start += pair.new.start - start;
      this.lead("new");
      this.parts.new.timeline.invalidate();
    }
  }

  go(by) {
    const place = this.pairs.indexOf(this.pair) + by;
    if (this.pairs[place]) this.align(this.pairs[place]);
  }

  /** Says what is aligned, and how long it takes in both runs. */
  describe() {
    this.choice.hidden = !this.pairs.length;
    if (!this.pairs.length) {
      this.change.textContent = "Steps are missing in a run; both timelines start at the left edge.";
      return;
    }
    this.picker.value = String(this.pairs.indexOf(this.pair));
    const [before, after] = [this.pair.base.duration, this.pair.new.duration];
    const share = before ? ` (${signed((after - before) / before, "share")})` : "";
    this.change.textContent = `base ${text(before, "ps")}, new ${text(after, "ps")}${share}`;
  }

  leave() {
    for (const part of Object.values(this.parts)) part.leave();
  }
}

/**
 * Pairs of steps, {name, new, base}: of the same number if at least half of the steps of one run have their number in
 * the other run, else of the same place.
 */
export function pairsOf(after, before) {
  const numbers = (bands) => new Map(bands.map((band) => [NUMBER.exec(band.name)?.[0], band]));
  const known = numbers(before);
  known.delete(undefined);
  const shared = after.flatMap((band) => {
    const partner = known.get(NUMBER.exec(band.name)?.[0]);
    return partner ? [{ name: band.name, new: band, base: partner }] : [];
  });
  if (2 * shared.length >= Math.min(after.length, before.length)) return shared;
  return after.slice(0, before.length).map((band, at) => ({ name: band.name, new: band, base: before[at] }));
}

/** What is aligned without steps: the starts of both runs. */
function startsOf(...models) {
  const [after, before] = models.map(({ run: [start, end] }) => ({ start, duration: end - start }));
  return { name: "start", new: after, base: before };
}

function addressOf(run, params) {
  return written({ page: "compare", run, host: null, params: new URLSearchParams(params) });
}
