/** How the user arranged the tracks: which are pinned on top, which are hidden, which were moved, as the address has it. */

import { numbers, spelled } from "../number_ranges.js";

const MOST_PINNED = 200;
const MOST_MOVED = 400;
const MOST_HIDDEN = 100_000;

/** Things that were moved, by id: each follows another one, null: it is the first. Later ones follow earlier ones. */
export class Moves {
  constructor(after = []) {
    this.after = new Map(after);
  }

  /** The ids in the order that the moves make of their own one. What would follow one that is absent keeps its place. */
  ordered(ids) {
    if (!this.after.size) return ids;
    const place = new Map(ids.map((id, at) => [id, at]));
    const moved = [...this.after].filter(([id]) => place.has(id));
    if (!moved.length) return ids;
    const away = new Set(moved.map(([id]) => id));
    const found = ids.filter((id) => !away.has(id));
    for (const [id, before] of moved) {
      let at = before === null ? 0 : found.indexOf(before) + 1;
      if (before !== null && at === 0) {
        at = found.findIndex((one) => place.get(one) > place.get(id));
        if (at < 0) at = found.length;
      }
      found.splice(at, 0, id);
    }
    return found;
  }

  /** Moves one of these, which are in their present order, before another one; null: to the end. */
  move(ids, id, before) {
    const order = ids.filter((one) => one !== id);
    order.splice(before === null ? order.length : order.indexOf(before), 0, id);
    const moved = new Set([id, ...ids.filter((one) => this.after.has(one))]);
    for (const one of moved) this.after.delete(one);
    order.forEach((one, at) => moved.has(one) && this.after.set(one, at ? order[at - 1] : null));
  }
}

export class Arrangement {
  constructor() {
    this.clear();
  }

  clear() {
    this.pinned = []; // ids of tracks, from the top
    this.hidden = new Set(); // ids of tracks
    this.hiddenSections = new Set(); // ids of processes
    this.tracks = new Moves();
    this.sections = new Moves();
    this.hidesEmpty = false; // whether tracks that are empty in the window are left out
  }

  get isPlain() {
    return !this.pinned.length && !this.hiddenCount && !this.hidesEmpty && !this.moved;
  }

  get hiddenCount() {
    return this.hidden.size + this.hiddenSections.size;
  }

  get moved() {
    return this.tracks.after.size + this.sections.after.size;
  }

  isPinned(id) {
    return this.pinned.includes(id);
  }

  pin(id, before = null) {
    this.unpin(id);
    this.pinned.splice(before === null ? this.pinned.length : this.pinned.indexOf(before), 0, id);
    this.hidden.delete(id);
  }

  unpin(id) {
    this.pinned = this.pinned.filter((one) => one !== id);
  }

  hide(id) {
    this.unpin(id);
    this.hidden.add(id);
  }

  showAll() {
    this.hidden.clear();
    this.hiddenSections.clear();
  }

  /** Shows a track of a process again; true if it was hidden. */
  unhide(id, process) {
    const was = this.hidden.delete(id);
    return this.hiddenSections.delete(process) || was;
  }

  /** Parameters of an address; null if there is nothing of the kind. */
  written() {
    const moves = [
      ...[...this.tracks.after].map(([id, after]) => `${id}~${after ?? ""}`),
      ...[...this.sections.after].map(([id, after]) => `s${id}~${after ?? ""}`),
    ];
    const hidden = [spelled(this.hidden), ...[...this.hiddenSections].map((id) => `s${id}`)].filter(Boolean);
    return { pin: this.pinned.slice(0, MOST_PINNED).join(",") || null, hide: hidden.join(",") || null,
      order: moves.slice(0, MOST_MOVED).join(",") || null, empty: this.hidesEmpty ? "hidden" : null };
  }

  /** Takes what an address says. Anything that is not understood is left out. */
  read(params) {
    this.clear();
    const list = (name) => (params.get(name) ?? "").split(",").filter(Boolean);
    const pinned = list("pin").filter((text) => /^\d{1,10}$/.test(text)).map(Number);
    this.pinned = [...new Set(pinned)].slice(0, MOST_PINNED);
    this.hiddenSections = new Set(list("hide").filter((text) => /^s\d{1,10}$/.test(text)).map(sectionId));
    const ranges = list("hide").filter((text) => /^\d{1,10}(-\d{1,10})?$/.test(text));
    this.hidden = numbers(ranges.join(","), MOST_HIDDEN) ?? new Set();
    for (const move of list("order").slice(0, MOST_MOVED)) {
      const [, section, id, after] = /^(s?)(\d{1,10})~(\d{0,10})$/.exec(move) ?? [];
      if (id !== undefined)
        (section ? this.sections : this.tracks).after.set(Number(id), after === "" ? null : Number(after));
    }
    this.hidesEmpty = params.get("empty") === "hidden";
  }
}

function sectionId(text) {
  return Number(text.slice(1));
}
