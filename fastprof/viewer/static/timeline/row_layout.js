/** Rows of the page from top to bottom: a header for each process and its tracks, each with its height in CSS pixels. */

import { firstThat } from "../bisect.js";
import { KINDS } from "./session_model.js";

export const HEADER = 28;
export const LANE = 19;
/** How many tracks the header of a closed process shows. */
export const SUMMARY_TRACKS = 24;
const PADDING = 3;
const FLAT = 26;
const COUNTER = 52;
/** A track of more lanes than this begins folded. */
const MOST_LANES_OPEN = 40;
/** The most lanes that a folded track shows. */
const MOST_LANES_FOLDED = 512;

export class RowLayout {
  constructor() {
    this.closed = new Set(); // ids of processes
    this.folded = new Set(); // ids of tracks drawn on one lane
    this.unfolded = new Set();
    this.filter = "";
    this.scroll = 0;
    this.height = 1; // of the part that is seen
    this.model = null;
    this.version = 0; // grows whenever rows change
    this.clear();
  }

  clear() {
    this.count = 0;
    this.track = new Int32Array(0);
    this.process = new Int32Array(0);
    this.top = new Float64Array(1);
    this.rowOfTrack = new Int32Array(0);
    this.rowOfProcess = new Int32Array(0);
  }

  /** Takes another model; what was at the top stays there. */
  show(model) {
    const anchor = this.anchor();
    this.model = model;
    this.make();
    this.restore(anchor);
  }

  anchor() {
    if (!this.count) return null;
    const row = this.rowAt(this.scroll);
    const track = this.track[row];
    const id = track >= 0 ? this.model.id[track] : this.model.processes[this.process[row]].id;
    return { id, isTrack: track >= 0, shift: this.scroll - this.top[row] };
  }

  restore(anchor) {
    if (!anchor) return;
    const place = anchor.isTrack
      ? this.model.placeOf.get(anchor.id)
      : this.model.processes.findIndex((process) => process.id === anchor.id);
    const row = place === undefined || place < 0 ? -1 : (anchor.isTrack ? this.rowOfTrack : this.rowOfProcess)[place];
    if (row >= 0 && this.scroll > 0) this.scroll = this.top[row] + anchor.shift;
    this.scrollTo(this.scroll);
  }

  /** Lists the rows again: a pass over all tracks, after something was opened, closed, filtered or added. */
  make() {
    this.version++;
    const model = this.model;
    const most = model.tracks + model.processes.length;
    this.track = new Int32Array(most);
    this.process = new Int32Array(most);
    this.top = new Float64Array(most + 1);
    this.rowOfTrack = new Int32Array(model.tracks).fill(-1);
    this.rowOfProcess = new Int32Array(model.processes.length).fill(-1);
    this.count = 0;
    const wanted = this.filter.trim().toLowerCase();
    for (let number = 0; number < model.processes.length; number++) this.addProcess(number, wanted);
    this.scrollTo(this.scroll);
  }

  addProcess(number, wanted) {
    const process = this.model.processes[number];
    const all = !wanted || process.name.toLowerCase().includes(wanted) || process.host.toLowerCase().includes(wanted);
    const shown = [];
    for (let track = process.first; track < process.last; track++)
      if (all || this.model.name[track].toLowerCase().includes(wanted)) shown.push(track);
    if (!shown.length && wanted) return;
    this.rowOfProcess[number] = this.addRow(-1, number, HEADER);
    if (this.closed.has(process.id)) return;
    for (const track of shown) this.rowOfTrack[track] = this.addRow(track, number, this.heightOf(track));
  }

  addRow(track, process, height) {
    const row = this.count++;
    this.track[row] = track;
    this.process[row] = process;
    this.top[row + 1] = this.top[row] + height;
    return row;
  }

  isFolded(track) {
    const id = this.model.id[track];
    return this.folded.has(id) || (this.model.lanes[track] > MOST_LANES_OPEN && !this.unfolded.has(id));
  }

  heightOf(track) {
    if (this.model.kind[track] === KINDS.counter) return COUNTER;
    return this.isFolded(track) ? FLAT : this.model.lanes[track] * LANE + 2 * PADDING;
  }

  /** Where a lane is drawn, from the top of its row: {y, height}. Lanes of a folded track share its one row. */
  laneBox(track, lane) {
    if (!this.isFolded(track)) return { y: PADDING + lane * LANE, height: LANE - 1 };
    const share = (FLAT - 2 * PADDING) / this.model.lanes[track];
    return { y: PADDING + lane * share, height: Math.max(share, 1) };
  }

  /** The lane under a place of a track's row. */
  laneAt(track, y) {
    const each = this.isFolded(track) ? (FLAT - 2 * PADDING) / this.model.lanes[track] : LANE;
    return Math.min(Math.max(Math.floor((y - PADDING) / each), 0), this.model.lanes[track] - 1);
  }

  /** How many lanes of a track reach into what is seen, from its first one. */
  lanesSeen(track) {
    const lanes = this.model.lanes[track];
    if (this.isFolded(track)) return Math.min(lanes, MOST_LANES_FOLDED);
    return this.laneAt(track, this.scroll + this.height - this.top[this.rowOfTrack[track]]) + 1;
  }

  get total() {
    return this.top[this.count];
  }

  scrollTo(place) {
    this.scroll = Math.round(Math.min(Math.max(place, 0), Math.max(0, this.total - this.height)));
  }

  /** The tracks that a row shows: its own, the first ones of a closed process, none in the header of an open one. */
  tracksOf(row, most = Infinity) {
    if (this.track[row] >= 0) return [this.track[row]];
    const { id, first, last } = this.model.processes[this.process[row]];
    const count = this.closed.has(id) ? Math.min(last - first, most) : 0;
    return Array.from({ length: count }, (_, place) => first + place);
  }

  /** The row that holds a place of the page. */
  rowAt(y) {
    return Math.max(firstThat((row) => this.top[row] > y, 0, this.count) - 1, 0);
  }

  /** The [first, last) rows that are seen. */
  seen() {
    if (!this.count) return [0, 0];
    return [this.rowAt(this.scroll), Math.min(this.rowAt(this.scroll + this.height) + 1, this.count)];
  }

  /** The header that stays at the top while its tracks are passed, {row, y}, pushed out by the next one; or null. */
  sticky() {
    if (!this.count || this.scroll === 0) return null;
    const first = this.rowAt(this.scroll);
    if (this.track[first] < 0 && this.top[first] === this.scroll) return null;
    const row = this.rowOfProcess[this.process[first]];
    let next = first + 1;
    while (next < this.count && this.track[next] >= 0 && this.top[next] < this.scroll + HEADER) next++;
    const pushed = next < this.count && this.track[next] < 0 ? this.top[next] - this.scroll - HEADER : 0;
    return { row, y: Math.min(0, pushed) };
  }

  toggleProcess(number) {
    toggle(this.closed, this.model.processes[number].id);
    this.make();
  }

  toggleTrack(track) {
    const id = this.model.id[track];
    const folded = this.isFolded(track);
    this.folded.delete(id);
    this.unfolded.delete(id);
    (folded ? this.unfolded : this.folded).add(id);
    this.make();
  }

  closeAll(closed) {
    this.closed = new Set(closed ? this.model.processes.map((process) => process.id) : []);
    this.make();
  }

  /** Opens and scrolls so that a lane of a track is seen; the filter goes where it hides the track. */
  reveal(track, lane) {
    const process = this.model.processes[this.model.process[track]];
    if (this.rowOfTrack[track] < 0) {
      this.closed.delete(process.id);
      this.make();
    }
    if (this.rowOfTrack[track] < 0) {
      this.filter = "";
      this.make();
    }
    const box = this.laneBox(track, lane);
    const top = this.top[this.rowOfTrack[track]] + box.y;
    const hidden = top < this.scroll + HEADER || top + box.height > this.scroll + this.height;
    if (hidden) this.scrollTo(top - this.height / 3);
  }
}

function toggle(set, value) {
  if (!set.delete(value)) set.add(value);
}
