/** Names of processes and tracks beside the canvas: only the rows that are seen are elements. */

import { h } from "../dom.js";
import { LabelDrag } from "./label_drag.js";
import { HEADER } from "./row_layout.js";
import { KINDS } from "./session_model.js";
import { counted, plural } from "./text.js";
import { hideIcon, menuIcon, pinIcon } from "./track_icons.js";
import { TrackMenu } from "./track_menu.js";

const MOVES = {
  ArrowUp: -1,
  ArrowDown: 1,
  Home: -Infinity,
  End: Infinity,
};

export class LabelColumn {
  /** `actions`: TrackActions. */
  constructor(actions) {
    this.actions = actions;
    this.menu = new TrackMenu(actions);
    this.rows = h("div.tl-label-rows");
    this.pins = h("div.tl-label-rows.tl-label-pins");
    this.sticky = this.makeRow();
    this.sticky.node.classList.add("tl-label-sticky");
    this.root = h("div.tl-labels", { role: "list", "aria-label": "Processes and tracks" }, this.rows, this.sticky.node,
      this.pins);
    this.drag = new LabelDrag(this.root, actions);
    this.used = new Map();
    this.free = [];
    this.hits = null;
    this.keyed = false; // whether the change to be drawn came from the keyboard
    this.stamp = "";
    this.version = 0;
  }

  /** Takes the hits of a search by track id, or null. */
  setHits(hits) {
    this.hits = hits;
    this.version++;
  }

  makeRow() {
    const chevron = h("span.tl-chevron", { "aria-hidden": "true" });
    const host = h("span.tl-label-host");
    const name = h("span.tl-label-name");
    const note = h("span.tl-label-note");
    const act = (icon, run) => h("button.tl-label-act", { onclick: run }, icon);
    const target = () => this.actions.of(row.row);
    const pin = act(pinIcon(), () => this.actions.togglePin(target()));
    const hide = act(hideIcon(), () => this.actions.hide(target()));
    const more = act(menuIcon(), () => this.menu.open(target(), more));
    const main = h("button.tl-label-main", { onclick: () => this.drag.moved || this.actions.toggle(row.row),
      onpointerdown: (event) => this.drag.press(event, target()), onkeydown: (event) => this.key(event, target()) },
      chevron, host, name, note);
    const acts = h("span.tl-label-acts", pin, hide, more);
    const node = h("div.tl-label", { role: "listitem", oncontextmenu: (event) => {
      event.preventDefault();
      this.menu.open(target(), more, event);
    } }, main, acts);
    const row = { node, main, acts, pin, hide, more, chevron, host, name, note, row: -1 };
    return row;
  }

  /** Alt and an arrow move a track, or a section. */
  key(event, target) {
    const by = event.altKey && !event.ctrlKey && !event.metaKey ? MOVES[event.key] : undefined;
    if (!by || !target) return;
    event.preventDefault();
    event.stopPropagation();
    this.keyed = true;
    this.actions.move(target, by);
  }

  /** The row whose label the pointer is over, -1: none. */
  get hovered() {
    return [...this.used.values()].find((one) => !one.node.hidden && one.node.matches(":hover"))?.row ?? -1;
  }

  /** The row whose label the keyboard is at, -1: none. */
  get focused() {
    const held = [...this.used.values(), this.sticky].find((one) => one.node.querySelector(":focus-visible"));
    return held?.row ?? -1;
  }

  /** Follows the layout. Nothing of the page is touched where neither it nor the scroll has changed. */
  draw(model, layout) {
    const { version, scroll, pinScroll, height } = layout;
    const stamp = `${model.key} ${version} ${scroll} ${pinScroll} ${height} ${this.version}`;
    if (stamp === this.stamp) return;
    const moved = `${model.key} ${version} ${this.version}`;
    const focus = moved === this.filled ? null : this.focusHeld();
    if (moved !== this.filled) { for (const row of this.used.keys()) this.drop(row); }
    this.filled = moved;
    this.stamp = stamp;
    this.pins.style.height = `${layout.pinHeight}px`;
    const zones = layout.zones();
    for (const row of this.used.keys())
      if (!zones.some(({ first, last }) => row >= first && row < last)) this.drop(row);
    for (const { first, last } of zones)
      for (let row = first; row < last; row++) {
        const held = this.used.get(row) ?? this.take(model, layout, row);
        held.node.style.transform = `translateY(${layout.y(row)}px)`;
        held.main.style.paddingTop = held.acts.style.paddingTop = this.pushed(layout, row);
      }
    this.drawSticky(model, layout);
    if (focus) this.focusAgain(model, layout, focus);
  }

  /** What has the focus, by the track or section and the part of its label. */
  focusHeld() {
    const held = [...this.used.values()].find((one) => one.node.contains(document.activeElement));
    const isKept = this.keyed || held?.node.querySelector(":focus-visible"); // a click of the mouse is over
    this.keyed = false;
    if (!held || !isKept) return null;
    const part = ["main", "pin", "hide", "more"].find((name) => held[name] === document.activeElement);
    return { key: held.key, part };
  }

  /** Gives the focus back to the label of its track after rows were listed again. */
  focusAgain(model, layout, { key, part }) {
    const held = [...this.used.values()].find((one) => one.key === key);
    (held?.[part] ?? held?.main)?.focus({ preventScroll: true });
  }

  /** The name of a track higher than the screen stays in sight: below the header that stays, within its row. */
  pushed(layout, row) {
    const isPin = row < layout.pinned;
    const hidden = (isPin ? 0 : layout.pinHeight + HEADER) - layout.y(row);
    if (layout.track[row] < 0 || hidden <= 0) return "";
    const height = layout.top[row + 1] - layout.top[row];
    return `${Math.max(4, Math.min(hidden + 4, height - 22))}px`;
  }

  drawSticky(model, layout) {
    const sticky = layout.sticky();
    this.sticky.node.hidden = sticky === null;
    if (!sticky) return;
    this.fill(this.sticky, model, layout, sticky.row);
    this.sticky.node.style.transform = `translateY(${sticky.y}px)`;
  }

  drop(row) {
    const held = this.used.get(row);
    this.used.delete(row);
    held.node.hidden = true;
    this.free.push(held);
  }

  take(model, layout, row) {
    const held = this.free.pop() ?? this.makeRow();
    const parent = row < layout.pinned ? this.pins : this.rows;
    const next = [...this.used.keys()].reduce((least, one) => (one > row && one < least ? one : least), Infinity);
    const before = this.used.get(next)?.node;
    parent.insertBefore(held.node, before?.parentNode === parent ? before : null); // in their order for the Tab key
    held.node.hidden = false;
    this.fill(held, model, layout, row);
    this.used.set(row, held);
    return held;
  }

  fill(held, model, layout, row) {
    held.row = row;
    const track = layout.track[row];
    held.node.style.height = `${layout.top[row + 1] - layout.top[row]}px`;
    if (track < 0) this.fillProcess(held, model, layout, layout.process[row]);
    else this.fillTrack(held, model, layout, track);
  }

  fillProcess(held, model, layout, number) {
    const process = model.processes[number];
    const closed = layout.closed.has(process.id);
    const shown = layout.shownOf[number].length;
    const all = process.last - process.first;
    const tracks = shown < all ? `${counted(shown)} of ${plural(all, "track")}` : plural(all, "track");
    held.key = `s${process.id}`;
    dress(held, process.name, null);
    // If there is no room for all of it, the name of the host is cut first: many processes share it.
    show(held, {
      kind: `tl-label-process${held === this.sticky ? " tl-label-sticky" : ""}`,
      ...process.title,
      hits: closed ? this.hitsWithin(model, process) : 0,
      note: tracks,
      isOpen: !closed,
      title: [
        process.name,
        `${tracks}, ${plural(process.events, "event")}`,
        `${closed ? "Open" : "Close"} the section`,
      ],
    });
  }

  hitsWithin(model, process) {
    let sum = 0;
    for (let track = process.first; this.hits && track < process.last; track++)
      sum += Number(this.hits[model.id[track]] ?? 0);
    return sum;
  }

  fillTrack(held, model, layout, track) {
    const counter = model.kind[track] === KINDS.counter;
    const lanes = model.lanes[track];
    const isPin = held.row < layout.pinned;
    held.key = String(model.id[track]);
    dress(held, model.name[track], isPin);
    const folded = layout.isFolded(track);
    const foldable = model.canFold(track);
    const seen = layout.lanesSeen(track);
    const taken = layout.lanesShown(track);
    const empty = !folded && taken < lanes ? `, ${counted(lanes - taken)} of them empty here` : "";
    const cut = folded && seen < lanes ? `, ${counted(seen)} of them shown` : empty;
    const size = plural(model.events[track], counter ? "point" : "event");
    show(held, {
      kind: `${model.derived[track] ? "tl-label-derived" : ""}${foldable ? "" : " tl-label-plain"}`,
      host: isPin ? model.processes[model.process[track]].title.name : "",
      name: model.name[track],
      hits: this.hits?.[model.id[track]],
      note: "",
      isOpen: foldable ? !folded : null,
      title: [
        model.name[track],
        lanes > 1 ? `${size}, ${counted(lanes)} lanes${cut}` : size,
        foldable && (folded ? `Unfold to ${counter ? "a high graph" : "a row a lane"}` : "Fold to one row"),
      ],
    });
  }
}

/** `isOpen`: null if the row does not open; `title`: lines. */
function show(held, { kind, host, name, hits, note, isOpen, title }) {
  held.node.className = `tl-label ${kind}`;
  held.host.textContent = host;
  held.name.textContent = name;
  held.note.textContent = hits ? plural(hits, "hit") : note;
  held.note.classList.toggle("tl-label-hits", Boolean(hits));
  held.chevron.textContent = isOpen === null ? "" : isOpen ? "▾" : "▸";
  if (isOpen === null) held.main.removeAttribute("aria-expanded");
  else held.main.setAttribute("aria-expanded", isOpen);
  held.main.title = title.filter(Boolean).join("\n");
}

/** Names the buttons of a label; `isPin`: null if it cannot be pinned. */
function dress({ pin, hide, more }, name, isPin) {
  pin.hidden = isPin === null;
  pin.setAttribute("aria-pressed", String(Boolean(isPin)));
  for (const [button, text] of [[pin, isPin ? "Unpin (P)" : "Pin on top (P)"], [hide, "Hide (H)"], [more, "More"]]) {
    button.title = text;
    button.setAttribute("aria-label", `${text.replace(/ \(.*/, "")}: ${name}`);
  }
}
