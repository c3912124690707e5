/** Names of processes and tracks beside the canvas: only the rows that are seen are elements. */

import { h } from "../dom.js";
import { HEADER } from "./row_layout.js";
import { KINDS } from "./session_model.js";
import { counted, plural } from "./text.js";

export class LabelColumn {
  /** `toggle(row)` opens or closes what a row of the layout stands for. */
  constructor(toggle) {
    this.toggle = toggle;
    this.rows = h("div.tl-label-rows");
    this.sticky = this.makeRow();
    this.sticky.node.classList.add("tl-label-sticky");
    this.root = h("div.tl-labels", { role: "list", "aria-label": "Processes and tracks" }, this.rows, this.sticky.node);
    this.used = new Map();
    this.free = [];
    this.hits = null;
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
    const node = h("button.tl-label", { role: "listitem" }, chevron, host, name, note);
    const row = { node, chevron, host, name, note, row: -1 };
    node.addEventListener("click", () => this.toggle(row.row));
    return row;
  }

  /** Follows the layout. Nothing of the page is touched where neither it nor the scroll has changed. */
  draw(model, layout) {
    const stamp = `${model.key} ${layout.version} ${layout.scroll} ${layout.height} ${this.version}`;
    if (stamp === this.stamp) return;
    const moved = `${model.key} ${layout.version} ${this.version}`;
    if (moved !== this.filled) { for (const row of this.used.keys()) this.drop(row); }
    this.filled = moved;
    this.stamp = stamp;
    const [first, last] = layout.seen();
    for (const row of this.used.keys()) if (row < first || row >= last) this.drop(row);
    for (let row = first; row < last; row++) {
      const held = this.used.get(row) ?? this.take(model, layout, row);
      held.node.style.transform = `translateY(${layout.top[row] - layout.scroll}px)`;
      held.node.style.paddingTop = this.pushed(layout, row);
    }
    this.drawSticky(model, layout);
  }

  /** The name of a track higher than the screen stays in sight: below the header that stays, within its row. */
  pushed(layout, row) {
    const hidden = layout.scroll + HEADER - layout.top[row];
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
    if (!held.node.parentNode) this.rows.append(held.node);
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
    const tracks = plural(process.last - process.first, "track");
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
    const folded = layout.isFolded(track);
    const foldable = !counter && lanes > 1;
    const seen = layout.lanesSeen(track);
    const cut = folded && seen < lanes ? `, ${counted(seen)} of them shown` : "";
    const size = plural(model.events[track], counter ? "point" : "event");
    show(held, {
      kind: `${model.derived[track] ? "tl-label-derived" : ""}${foldable ? "" : " tl-label-plain"}`,
      host: "",
      name: model.name[track],
      hits: this.hits?.[model.id[track]],
      note: "",
      isOpen: foldable ? !folded : null,
      title: [
        model.name[track],
        foldable ? `${size}, ${counted(lanes)} lanes${cut}` : size,
        foldable && (folded ? "Unfold to a row a lane" : "Fold to one row"),
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
  if (isOpen === null) held.node.removeAttribute("aria-expanded");
  else held.node.setAttribute("aria-expanded", isOpen);
  held.node.title = title.filter(Boolean).join("\n");
}
