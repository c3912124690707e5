/** The page of the timeline: its parts, and what each learns of the others. */

import { h, onDrag, onResize, paused } from "../dom.js";
import { Drawer } from "./drawer.js";
import { EventPanel } from "./event_panel.js";
import { HitsPanel } from "./hits_panel.js";
import { Keyboard } from "./keyboard.js";
import { probeOf } from "./page_probe.js";
import { errorText } from "./panel_parts.js";
import { Pointer } from "./pointer.js";
import { RangePanel } from "./range_panel.js";
import { Scrollbar } from "./scrollbar.js";
import { SearchBar } from "./search_bar.js";
import { SessionFeed } from "./session_feed.js";
import { ShortcutHelp } from "./shortcut_help.js";
import { StatusLine } from "./status_line.js";
import { StepPicker } from "./step_picker.js";
import { visible } from "./text.js";
import { Timeline } from "./timeline.js";
import { Tooltip } from "./tooltip.js";
import { TracksButton } from "./tracks_button.js";
import { read, written } from "./view_address.js";

const NARROWEST_NAMES = 90;
const ADDRESS_PAUSE_MS = 250;

/** Shows the timeline in an element of definite height. Returns {timeline, leave(), params(params)}. */
export function show(root, context) {
  const page = new TimelinePage(root, context);
  return { timeline: page.timeline, leave: () => page.leave(), params: () => page.readdress() };
}

class TimelinePage {
  constructor(root, context) {
    Object.assign(this, { root, context });
    const { source } = context;
    this.timeline = new Timeline(source, () => this.feed.again());
    const { timeline } = this;
    const { selection } = timeline;
    this.status = new StatusLine();
    this.tip = new Tooltip(timeline, () => this.box);
    this.help = new ShortcutHelp();
    this.search = new SearchBar(source, { found: (hits) => this.highlight(hits), go: (ref) => this.goTo(ref),
      place: () => timeline.view.start, changed: () => this.writeAddress(), list: () => this.listHits() });
    const zoom = () => this.zoomToSelection();
    this.events = new EventPanel(selection, source, { open: (page, params) => context.navigate(page, params), zoom,
      opened: () => this.drawer.open("event") });
    this.hits = new HitsPanel(timeline, this.search);
    this.ranges = new RangePanel(selection, source, { zoom,
      find: (name) => this.search.set({ q: name.replace(/…$/, ""), mode: "substring", case: 1 }, true),
      opened: () => this.drawer.open("range") });
    this.drawer = new Drawer({ event: { title: "Event", node: this.events.node },
      range: { title: "Range", node: this.ranges.node },
      hits: { title: "Hits", node: this.hits.node, opened: () => this.hits.opened() } }, () => this.measure());
    this.writeAddress = paused(
      () => timeline.model && context.replace(written(timeline, this.search.query, this.awaited)),
      ADDRESS_PAUSE_MS,
    );
    this.awaited = null; // an event of the address, {at, host}, while it is requested
    this.beyond = null; // a window of the address that is not in what is read so far, {text, shown}
    this.scrollbar = new Scrollbar(timeline);
    this.build();
    this.pointer = new Pointer(timeline, (event, hit) => this.tip.show(event, hit));
    timeline.holds.add(() => this.pointer.drag !== null);
    timeline.actions.changed.add(() => this.writeAddress());
    this.keyboard = new Keyboard(timeline, this.actions(), { usable: (event) => this.takesKeys(event),
      pressed: () => (this.pointer.quiet = true), signal: context.signal });
    selection.listeners.add((kind) => this.selected(kind));
    timeline.drawn.add(() => this.afterFrame());
    this.begin();
  }

  build() {
    const { timeline } = this;
    this.filter = h("input.tl-filter", { type: "search", placeholder: "Filter tracks",
      "aria-label": "Show tracks of this name only", autocomplete: "off", spellcheck: "false",
      oninput: () => this.setFilter(this.filter.value) });
    this.flowButton = h("button.tl-button", { title: "Show the flows in the window (g)", "aria-pressed": "false",
      onclick: () => timeline.selection.toggleFlows() }, "Flows");
    this.tracks = new TracksButton(timeline.actions);
    const button = (text, label, act) =>
      h("button.tl-button", { title: label, "aria-label": label, onclick: act }, text);
    const tools = h("div.tl-tools", { role: "toolbar", "aria-label": "Timeline" }, this.search.root, this.status.root,
      this.tracks.root, this.flowButton, button("−", "Zoom out (s)", () => timeline.zoom(1.6)),
      button("+", "Zoom in (w)", () => timeline.zoom(1 / 1.6)),
      button("Fit", "Fit the entire session (0)", () => timeline.fit()),
      button("?", "Keys and gestures (?)", () => this.help.toggle()));
    this.steps = new StepPicker((key) => this.pickSteps(key));
    this.corner = h("div.tl-corner", this.filter, this.steps.root);
    this.axes = h("div.tl-axes", timeline.map.canvas, timeline.axis.canvas);
    this.area = h("div.tl-area", timeline.tracks.canvas, timeline.over.canvas, this.scrollbar.root);
    this.divider = h("div.tl-divider", { role: "separator", "aria-orientation": "vertical",
      "aria-label": "Width of the track names" });
    this.box = h("div.tl-main", this.corner, this.axes, timeline.labels.root, this.area, this.divider,
      timeline.labels.menu.root, this.tip.root);
    this.shell = h("div.tl", tools, this.box, this.drawer.root, this.help.root);
    this.makeSizable();
    timeline.labels.root.addEventListener("wheel", (event) => {
      event.preventDefault();
      const y = event.clientY - timeline.labels.root.getBoundingClientRect().y;
      timeline.scrollAt(y, event.deltaY * (event.deltaMode === 1 ? 18 : 1));
    });
  }

  makeSizable() {
    onDrag(this.divider, () => this.box.getBoundingClientRect(), ({ clientX }, box) => {
      const width = Math.min(Math.max(clientX - box.x, NARROWEST_NAMES), 0.6 * box.width);
      this.root.closest(".page-root").style.setProperty("--tl-names", `${Math.round(width)}px`);
      this.measure();
    });
  }

  begin() {
    this.root.append(this.shell);
    const dress = () => this.timeline.dress(this.shell);
    dress();
    this.context.on_theme(dress);
    onResize(this.area, () => this.measure());
    this.measure();
    this.feed = new SessionFeed(this.context, (model, answer) => this.took(model, answer),
      (error) => this.status.fail(error));
    this.feed.follow();
    window.fastprofTimeline = this.probe = probeOf(this.timeline, { event: this.events, range: this.ranges,
      search: this.search });
  }

  measure() {
    const { clientWidth: width, clientHeight: height } = this.area;
    if (width > 0 && height > 0) this.timeline.resize(width, height, window.devicePixelRatio || 1);
  }

  took(model, answer) {
    this.status.show(answer);
    if (!model) return;
    const first = this.timeline.model === null;
    if (first) {
      this.timeline.layout.closed = closedOf(model, read(this.context.params, model.clock));
      this.timeline.layout.arrangement.read(this.context.params);
      this.tracks.show();
    }
    this.timeline.show(model);
    if (!this.addressed && model.tracks) {
      this.addressed = true;
      this.readAddress(false);
    }
    this.checkWindow();
    if (model.ready) this.takeSteps();
  }

  /** The address was changed outside the page: back, forward, an edit, a pasted link. */
  readdress() {
    if (!this.addressed) return; // it is read once there is something to show
    this.writeAddress.cancel();
    this.readAddress(true);
  }

  /** Shows all that the address says. `glide`: from what is shown. */
  readAddress(glide) {
    const { timeline } = this;
    const { layout, selection, model } = timeline;
    const wanted = read(this.context.params, model.clock);
    this.status.note(wanted.faults.map((fault) => visible(fault)).join("; "));
    this.readWindow(wanted.window, glide);
    this.filter.value = layout.filter = wanted.filter;
    layout.closed = closedOf(model, wanted);
    layout.arrangement.read(this.context.params);
    this.tracks.show();
    layout.make();
    layout.scrollTo(wanted.scroll ?? 0);
    timeline.scrollWanted = wanted.scroll;
    selection.marks = wanted.marks;
    timeline.stepsWanted = wanted.steps;
    timeline.chooseBands();
    this.showBands();
    this.readSearch(wanted.search);
    if (wanted.range)
      selection.setRange({ start: wanted.range[0], end: wanted.range[1], ids: wanted.tracks, first: wanted.tracks?.[0],
        last: wanted.tracks?.at(-1) });
    else if (selection.range) selection.setRange(null);
    this.readEvent(wanted);
    timeline.invalidate();
  }

  readWindow(window, glide) {
    const { timeline } = this;
    const { view } = timeline;
    this.beyond = null;
    if (!window) {
      if (glide) view.goHome(true);
      return;
    }
    const span = window[1] - window[0];
    if (glide) view.moveTo(window[0], span);
    else view.set(window[0], span);
    timeline.fitted = true;
    if (!view.hasRoomFor(...window)) this.beyond = { text: this.context.params.get("t"), shown: view.target };
    this.checkWindow();
  }

  /** Says that a window of the address is not in the session, once all is read: hosts that come later may have it. */
  checkWindow() {
    const { beyond, timeline: { model, view } } = this;
    if (!beyond || !model.ready) return;
    this.beyond = null;
    const [start, end] = read(new URLSearchParams({ t: beyond.text }), model.clock).window;
    if (!view.hasRoomFor(start, end))
      this.remark(`The link's t=${beyond.text} is outside the session: the nearest is shown`);
    else if (view.target.start === beyond.shown.start && view.target.span === beyond.shown.span)
      view.set(start, end - start);
  }

  /** Adds to what is said of the address. */
  remark(sentence) {
    this.status.note([this.status.remark, sentence].filter(Boolean).join("; "));
  }

  readSearch(wanted) {
    const { query } = this.search;
    const same = wanted.q === query.q && (!wanted.q || (wanted.mode === query.mode && wanted.case === query.case));
    if (!same) this.search.set(wanted);
  }

  /** Selects the event of the address; it stays there until it is known whether there is one. */
  async readEvent({ event: wanted, scroll }) {
    const { selection, layout } = this.timeline;
    const shown = selection.event;
    this.awaited = null;
    if (!wanted) {
      if (shown) selection.select(null);
      return;
    }
    if (shown?.at === wanted.at && shown.host === wanted.host && shown.count === 1) return;
    if (this.context.saved) return;
    this.awaited = wanted;
    try {
      const details = await this.context.source.event(wanted);
      if (this.awaited !== wanted) return;
      const hit = selection.hitOf(details);
      selection.select(hit);
      if (hit && scroll === null) layout.reveal(hit.track, hit.lane);
    } catch (error) {
      if (this.awaited !== wanted) return;
      this.status.note(`The link's event ${wanted.at}@${visible(wanted.host)} is not selected: ${errorText(error)}`);
      if (shown) selection.select(null);
    }
    if (this.awaited === wanted) this.awaited = null;
    this.writeAddress();
  }

  async takeSteps() {
    try {
      const { bands } = await this.context.source.steps();
      this.timeline.setBands(bands ?? []);
      this.steps.offer(this.timeline.steps.all, this.timeline.model);
      this.showBands();
    } catch (error) {
      this.status.fail(error);
    }
  }

  /** Says whose steps the bands are; with the first ones the axis grows. */
  showBands() {
    this.steps.show(this.timeline.bandsOf, this.timeline.stepsWanted, this.timeline.model);
    this.measure();
  }

  pickSteps(key) {
    this.timeline.stepsWanted = key;
    this.timeline.chooseBands();
    this.showBands();
    this.writeAddress();
  }

  setFilter(text) {
    const { layout } = this.timeline;
    layout.filter = text;
    if (layout.model) layout.make();
    this.writeAddress();
    this.timeline.invalidate();
  }

  /** Shows a hit of the search. The list of all stays open. */
  goTo(ref) {
    const shown = this.drawer.root.hidden ? null : this.drawer.shown;
    this.pointer.quiet = true;
    this.timeline.selection.selectRef(ref);
    if (shown === "hits") this.drawer.open("hits");
    this.hits.mark();
  }

  listHits() {
    if (!this.search.answer?.events) return;
    this.drawer.open("hits");
    this.hits.mark();
  }

  highlight(hits) {
    this.hits.follow();
    this.timeline.names.highlight(hits?.names ?? null);
    this.timeline.labels.setHits(hits?.tracks ?? null);
    this.timeline.invalidate();
  }

  selected(kind) {
    if (kind === "event") {
      if (this.timeline.selection.event && !this.awaited) this.status.note("");
      this.awaited = null;
      this.events.follow();
      this.timeline.chooseBands();
      this.showBands();
    }
    if (kind === "range") this.ranges.follow();
    if (kind === "flows")
      this.flowButton.setAttribute("aria-pressed", String(this.timeline.selection.allFlows !== null));
    this.writeAddress();
  }

  afterFrame() {
    const { timeline } = this;
    this.scrollbar.draw();
    timeline.selection.followFlows();
    this.status.busy(timeline.cache);
    const { view, layout } = timeline;
    const stamp = `${view.start} ${view.span} ${layout.scroll} ${layout.pinScroll} ${layout.version}`;
    if (stamp !== this.stamp) {
      this.writeAddress();
      this.pointer.refresh();
    }
    this.stamp = stamp;
    timeline.fitted ||= !view.isHome;
  }

  takesKeys(event) {
    if (!this.timeline.model || this.help.root.open || this.context.takes_keys?.() === false) return false;
    return !event.target.closest?.("input, textarea, select, [contenteditable], [role=grid]");
  }

  zoomToSelection() {
    const { selection, view } = this.timeline;
    const { event, range } = selection;
    if (range && (this.drawer.shown === "range" || !event)) view.show(range.start, range.end, 0.9);
    else if (event) view.show(event.start, event.start + Math.max(event.duration, 1));
    this.timeline.invalidate();
  }

  mark() {
    const { selection, view, hoverTime } = this.timeline;
    if (selection.event)
      selection.toggleMark({ start: selection.event.start, end: selection.event.start + selection.event.duration });
    else {
      const time = Math.round(hoverTime ?? view.start + view.span / 2);
      selection.toggleMark({ start: time, end: time });
    }
  }

  /** The event that follows on the lane, or comes before: events of a lane are numbered one after the other. */
  async neighbour(step) {
    const { event } = this.timeline.selection;
    if (!event || this.context.saved) return;
    const at = step > 0 ? event.at + event.count : event.at - 1;
    try {
      const details = await this.context.source.event({ host: event.host, at });
      if (details.track === event.id && details.lane === event.lane) this.timeline.selection.selectRef(details);
    } catch {
      // There is no event before the first one or after the last one.
    }
  }

  /** The track or section of the focused label, else under the pointer, else the track of the selected event. */
  pointedAt() {
    const { layout, labels, actions, selection, hoverY } = this.timeline;
    const rows = [
      labels.focused,
      labels.hovered,
      hoverY === null ? -1 : layout.rowAt(hoverY),
      selection.event ? layout.rowOfTrack[selection.event.track] : -1,
    ];
    return actions.of(rows.find((row) => row >= 0) ?? -1);
  }

  withTarget(act) {
    const target = this.pointedAt();
    if (target) act(target);
  }

  letGo() {
    const { selection } = this.timeline;
    if (selection.event) selection.select(null);
    else if (selection.range) selection.setRange(null);
    else if (!this.drawer.root.hidden) this.drawer.close();
    else if (this.search.query.q) this.search.clear();
  }

  actions() {
    const { timeline } = this;
    return { 0: () => timeline.fit(), Home: () => timeline.fit(), f: () => this.zoomToSelection(), m: () => this.mark(),
      M: () => timeline.selection.clearMarks(), g: () => timeline.selection.toggleFlows(),
      "/": () => this.search.focus(), l: () => this.listHits(), n: () => this.search.step("next"),
      N: () => this.search.step("previous"), ",": () => this.neighbour(-1), ".": () => this.neighbour(1),
      p: () => timeline.selection.selectRef(this.events.details?.parent),
      c: () => timeline.selection.selectRef(this.events.details?.children?.first?.[0]), e: () => {
        timeline.layout.closeAll(timeline.layout.closed.size === 0);
        timeline.invalidate();
      }, P: () => this.withTarget((target) => timeline.actions.togglePin(target)),
      H: () => this.withTarget((target) => timeline.actions.hide(target)), E: () => timeline.actions.toggleEmpty(),
      PageDown: () => timeline.scrollBy(timeline.layout.room * 0.9),
      PageUp: () => timeline.scrollBy(-timeline.layout.room * 0.9), Escape: () => this.letGo(),
      "?": () => this.help.toggle() };
  }

  leave() {
    this.timeline.close();
    this.shell.remove();
    if (window.fastprofTimeline === this.probe) delete window.fastprofTimeline;
  }
}

/** The ids of the processes that an address says are closed. */
function closedOf(model, wanted) {
  const ids = new Set(wanted.closed);
  return new Set(model.processes.filter((process) => ids.has(String(process.id))).map((process) => process.id));
}
