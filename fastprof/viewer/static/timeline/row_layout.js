/**
 * Rows of the page from top to bottom, each with its height in CSS pixels: the pinned tracks, which stay on top, then a
 * header for each process and its tracks, which scroll below them.
 */

import { firstThat } from "../bisect.js";
import { Arrangement } from "./arrangement.js";
import { KINDS } from "./session_model.js";

export const HEADER = 28;
export const LANE = 19;
/** How many tracks the header of a closed process shows. */
export const SUMMARY_TRACKS = 24;
const PADDING = 3;
const FLAT = 26;
const COUNTER = 52;
/** The most lanes that a folded track shows. */
const MOST_LANES_FOLDED = 512;
/** Pinned tracks take at most this share of the height; more of them scroll. */
const MOST_PINNED_HEIGHT = 0.6;

export class RowLayout {
  constructor() {
    this.arrangement = new Arrangement();
    this.closed = new Set(); // ids of processes
    this.folds = new Map(); // by id of a track that the user folded or unfolded: whether it is folded
    this.occupied = null; // WindowLanes; null: all lanes are shown
    this.filter = "";
    this.scroll = 0;
    this.pinScroll = 0;
    this.height = 1; // of the part that is seen
    this.model = null;
    this.version = 0; // grows whenever rows change
    this.clear();
  }

  clear() {
    this.count = 0;
    this.pinned = 0; // rows of pinned tracks: the first ones
    this.track = new Int32Array(0);
    this.process = new Int32Array(0);
    this.top = new Float64Array(1); // as if nothing scrolled
    this.rowOfTrack = new Int32Array(0);
    this.rowOfProcess = new Int32Array(0);
    this.shownOf = []; // by process, the tracks below its header
    this.shownLanes = new Map();
  }

  /** Takes another model; what was at the top stays there. */
  show(model) {
    const change = () => {
      this.model = model;
      this.make();
    };
    if (this.model) this.hold(null, change);
    else change();
  }

  /** Lists the rows again: a pass over all tracks, after something was opened, closed, moved, filtered or added. */
  make() {
    this.version++;
    const { model, arrangement } = this;
    const most = model.tracks + model.processes.length;
    this.track = new Int32Array(most);
    this.process = new Int32Array(most);
    this.top = new Float64Array(most + 1);
    this.rowOfTrack = new Int32Array(model.tracks).fill(-1);
    this.rowOfProcess = new Int32Array(model.processes.length).fill(-1);
    this.count = 0;
    this.shownOf = [];
    this.shownLanes.clear();
    const pinned = arrangement.pinned.map((id) => model.placeOf.get(id)).filter((track) => track !== undefined);
    for (const track of pinned) this.addTrack(track, model.process[track]);
    this.pinned = this.count;
    const wanted = this.filter.trim().toLowerCase();
    for (const number of this.processesInOrder()) this.addProcess(number, wanted);
    this.scroll = Math.min(this.scroll, this.furthest);
    this.scrollTo(this.scroll);
    this.scrollPins(0);
  }

  /** The numbers of all processes as they are arranged, hidden ones too. */
  processesInOrder() {
    const { processes } = this.model;
    const numbers = processes.map((_, number) => number);
    const { sections } = this.arrangement;
    if (!sections.after.size) return numbers;
    const number = new Map(processes.map((process, place) => [process.id, place]));
    return sections.ordered(processes.map((process) => process.id)).map((id) => number.get(id));
  }

  /** The tracks of a process as they are arranged, pinned and hidden ones too. */
  tracksInOrder(number) {
    const { model, arrangement } = this;
    const { first, last } = model.processes[number];
    const tracks = Array.from({ length: last - first }, (_, place) => first + place);
    if (!arrangement.tracks.after.size) return tracks;
    return arrangement.tracks.ordered(tracks.map((track) => model.id[track])).map((id) => model.placeOf.get(id));
  }

  addProcess(number, wanted) {
    const process = this.model.processes[number];
    this.shownOf[number] = [];
    if (this.arrangement.hiddenSections.has(process.id)) return;
    const all = !wanted || process.name.toLowerCase().includes(wanted) || process.host.toLowerCase().includes(wanted);
    const shown = this.tracksInOrder(number).filter((track) =>
      (all || this.model.name[track].toLowerCase().includes(wanted)) && this.isShown(track)
    );
    this.shownOf[number] = shown;
    if (!shown.length && process.last > process.first) return;
    this.rowOfProcess[number] = this.addRow(-1, number, HEADER);
    if (this.closed.has(process.id)) return;
    for (const track of shown) this.addTrack(track, number);
  }

  isShown(track) {
    const id = this.model.id[track];
    const { hidden, hidesEmpty } = this.arrangement;
    if (this.rowOfTrack[track] >= 0 || hidden.has(id)) return false;
    return !hidesEmpty || this.model.kind[track] === KINDS.counter || this.occupied?.of(id)?.length !== 0;
  }

  addTrack(track, number) {
    if (this.rowOfTrack[track] >= 0) return;
    const lanes = this.occupied?.of(this.model.id[track]) ?? null;
    if (lanes && this.model.kind[track] !== KINDS.counter) this.shownLanes.set(track, lanes.length ? lanes : [0]);
    this.rowOfTrack[track] = this.addRow(track, number, this.heightOf(track));
  }

  addRow(track, process, height) {
    const row = this.count++;
    this.track[row] = track;
    this.process[row] = process;
    this.top[row + 1] = this.top[row] + height;
    return row;
  }

  // ---- lanes

  isFolded(track) {
    return this.folds.get(this.model.id[track]) ?? this.model.startsFolded(track);
  }

  /** How many lanes of a track take room, unless it is folded. */
  lanesShown(track) {
    return this.shownLanes.get(track)?.length ?? this.model.lanes[track];
  }

  /** The lane that is drawn at a place among those of its track. */
  laneOf(track, place) {
    return this.shownLanes.get(track)?.[place] ?? place;
  }

  /** The place at which a lane is drawn, or would be: lanes that are empty in the window take none. */
  placeOfLane(track, lane) {
    const shown = this.shownLanes.get(track);
    return shown ? Math.min(firstThat((place) => shown[place] >= lane, 0, shown.length), shown.length - 1) : lane;
  }

  isLaneShown(track, lane) {
    const shown = this.shownLanes.get(track);
    return !shown || this.isFolded(track) || shown[this.placeOfLane(track, lane)] === lane;
  }

  heightOf(track) {
    if (this.isFolded(track)) return FLAT;
    return this.model.kind[track] === KINDS.counter ? COUNTER : this.lanesShown(track) * LANE + 2 * PADDING;
  }

  /** Where a lane is drawn, from the top of its row: {y, height}. Lanes of a folded track share its one row. */
  laneBox(track, lane) {
    if (!this.isFolded(track)) return { y: PADDING + this.placeOfLane(track, lane) * LANE, height: LANE - 1 };
    const share = (FLAT - 2 * PADDING) / this.model.lanes[track];
    return { y: PADDING + lane * share, height: Math.max(share, 1) };
  }

  /** The lane under a place of a track's row. */
  laneAt(track, y) {
    const folded = this.isFolded(track);
    const each = folded ? (FLAT - 2 * PADDING) / this.model.lanes[track] : LANE;
    const last = (folded ? this.model.lanes[track] : this.lanesShown(track)) - 1;
    const place = Math.min(Math.max(Math.floor((y - PADDING) / each), 0), last);
    return folded ? place : this.laneOf(track, place);
  }

  /** How many lanes of a track reach into what is seen, from its first one. */
  lanesSeen(track) {
    const lanes = this.model.lanes[track];
    if (this.isFolded(track)) return Math.min(lanes, MOST_LANES_FOLDED);
    return this.laneAt(track, this.height - this.y(this.rowOfTrack[track])) + 1;
  }

  // ---- places on the screen

  /** The height of the pinned tracks on the screen. */
  get pinHeight() {
    return Math.min(this.top[this.pinned], Math.floor(this.height * MOST_PINNED_HEIGHT));
  }

  /** The height of all rows that scroll. */
  get total() {
    return this.top[this.count] - this.top[this.pinned];
  }

  /** The height in which they scroll. */
  get room() {
    return this.height - this.pinHeight;
  }

  get furthest() {
    return Math.max(0, this.total - this.room);
  }

  /** Where a row begins on the screen. */
  y(row) {
    if (row < this.pinned) return this.top[row] - this.pinScroll;
    return this.top[row] - this.top[this.pinned] + this.pinHeight - this.scroll;
  }

  /** The range of the screen in which a row is seen: [top, bottom]. */
  zone(row) {
    return row < this.pinned ? [0, this.pinHeight] : [this.pinHeight, this.height];
  }

  /** Scrolls, but not past the last row, unless what was held in place lies there. */
  scrollTo(place) {
    this.scroll = Math.round(Math.min(Math.max(place, 0), Math.max(this.furthest, this.scroll)));
  }

  scrollPins(pixels) {
    this.pinScroll = Math.min(Math.max(this.pinScroll + pixels, 0), this.top[this.pinned] - this.pinHeight);
  }

  /** The tracks that a row shows: its own, the first ones of a closed process, none in the header of an open one. */
  tracksOf(row, most = Infinity) {
    if (this.track[row] >= 0) return [this.track[row]];
    const number = this.process[row];
    return this.closed.has(this.model.processes[number].id) ? this.shownOf[number].slice(0, most) : [];
  }

  /** The row in which a track is seen: its own, else the header of its process; -1: none. */
  rowShowing(track) {
    if (track === undefined) return -1;
    return this.rowOfTrack[track] >= 0 ? this.rowOfTrack[track] : this.rowOfProcess[this.model.process[track]];
  }

  /** The row under a place of the screen; -1 below the last one. */
  rowAt(y) {
    const isPin = y < this.pinHeight;
    const [first, last] = isPin ? [0, this.pinned] : [this.pinned, this.count];
    const place = isPin ? y + this.pinScroll : y - this.pinHeight + this.scroll + this.top[this.pinned];
    if (first === last || place >= this.top[last]) return -1;
    return Math.max(firstThat((row) => this.top[row] > place, first, last) - 1, first);
  }

  /** The [first, last) rows below the pinned ones that are seen. */
  seen() {
    const first = this.rowAt(this.pinHeight);
    if (first < 0) return [this.count, this.count];
    const last = this.rowAt(this.height);
    return [first, last < 0 ? this.count : last + 1];
  }

  /** The [first, last) rows that are seen in each zone, and its range of the screen: {first, last, top, bottom}. */
  zones() {
    const [first, last] = this.seen();
    const zones = [{ first, last, top: this.pinHeight, bottom: this.height }];
    if (!this.pinned) return zones;
    const end = firstThat((row) => this.y(row) >= this.pinHeight, 0, this.pinned);
    return [...zones, { first: this.rowAt(0), last: end, top: 0, bottom: this.pinHeight }];
  }

  /** The header that stays at the top while its tracks are passed, {row, y}, pushed out by the next one; or null. */
  sticky() {
    const top = this.pinHeight;
    const first = this.scroll === 0 ? -1 : this.rowAt(top);
    if (first < 0 || (this.track[first] < 0 && this.y(first) === top)) return null;
    let next = first + 1;
    while (next < this.count && this.track[next] >= 0 && this.y(next) < top + HEADER) next++;
    const pushed = next < this.count && this.track[next] < 0 ? this.y(next) - top - HEADER : 0;
    return { row: this.rowOfProcess[this.process[first]], y: top + Math.min(0, pushed) };
  }

  // ---- changes

  /**
   * Makes a change that lists the rows again; what is at a place of the screen stays there, if it is still shown, else
   * what is near to it. `y` null: what is at the top, if it was scrolled to.
   */
  hold(y, change) {
    const held = y === null && this.scroll === 0 ? [] : this.held(y ?? this.pinHeight);
    change();
    for (const { id, isTrack, lane, at } of held) {
      const place = isTrack
        ? this.model.placeOf.get(id)
        : this.model.processes.findIndex((process) => process.id === id);
      const row = place === undefined || place < 0 ? -1 : (isTrack ? this.rowOfTrack : this.rowOfProcess)[place];
      if (row < this.pinned) continue; // gone, or pinned
      const now = this.y(row) + (isTrack ? this.laneBox(place, lane).y : 0);
      this.scroll = Math.max(0, Math.round(this.scroll + now - at));
      return;
    }
  }

  /** The rows that are seen, the nearest to a place first, with the lane there and where it is drawn. */
  held(y) {
    const [first, last] = this.seen();
    const under = Math.max(this.rowAt(Math.max(y, this.pinHeight)), first);
    const below = Array.from({ length: Math.max(last - under, 0) }, (_, place) => under + place);
    const above = Array.from({ length: Math.max(Math.min(under, last) - first, 0) }, (_, place) => under - 1 - place);
    return [...below, ...above].map((row) => {
      const track = this.track[row];
      if (track < 0) return { id: this.model.processes[this.process[row]].id, isTrack: false, at: this.y(row) };
      const lane = this.laneAt(track, y - this.y(row));
      return { id: this.model.id[track], isTrack: true, lane, at: this.y(row) + this.laneBox(track, lane).y };
    });
  }

  toggleProcess(number) {
    toggle(this.closed, this.model.processes[number].id);
    this.make();
  }

  toggleTrack(track) {
    this.folds.set(this.model.id[track], !this.isFolded(track));
    this.make();
  }

  closeAll(closed) {
    this.closed = new Set(closed ? this.model.processes.map((process) => process.id) : []);
    this.make();
  }

  /** Opens and scrolls so that a lane of a track is seen; whatever hides the track no longer does. */
  reveal(track, lane) {
    const id = this.model.id[track];
    const process = this.model.processes[this.model.process[track]];
    const isNew = this.occupied?.add(id, lane);
    if (this.arrangement.unhide(id, process.id) || isNew) this.make();
    if (this.rowOfTrack[track] < 0) {
      this.closed.delete(process.id);
      this.make();
    }
    if (this.rowOfTrack[track] < 0) {
      this.filter = "";
      this.make();
    }
    this.bring(this.rowOfTrack[track], this.laneBox(track, lane));
  }

  bring(row, box) {
    const top = this.y(row) + box.y;
    const [low, high] = this.zone(row);
    const isPin = row < this.pinned;
    if (top >= low + (isPin ? 0 : HEADER) && top + box.height <= high) return;
    const by = top - low - (high - low) / 3;
    if (isPin) this.scrollPins(by);
    else this.scrollTo(this.scroll + by);
  }
}

function toggle(set, value) {
  if (!set.delete(value)) set.add(value);
}
