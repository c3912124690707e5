/** What the session holds: hosts, processes and tracks in the order they are shown, and the groups in which tiles are requested. */

import { spelled } from "../number_ranges.js";
import { Clock } from "./clock.js";
import { visible } from "./text.js";
import { LANES_AT_ONCE } from "./tile.js";

const TRACKS_IN_GROUP = 24;
/** If a track has more lanes than the first of these, only those near the screen are requested. */
export const DEPTHS = [128, 512, 1024, 2048, 4096];
export const KINDS = {
  events: 0,
  counter: 1,
  steps: 2,
  frames: 3,
  samples: 4,
  derived: 5,
};
const FOLDED = new Set([KINDS.counter, KINDS.frames, KINDS.samples, KINDS.derived]);
/** A track of more lanes than this begins folded. */
const MOST_LANES_OPEN = 40;

export class SessionModel {
  /** Reads the answer of `source.timeline()`. Columns of tracks are parallel; a track is meant by its place in them. */
  constructor(timeline) {
    this.key = timeline.key;
    this.ready = timeline.state === "ready";
    this.hosts = timeline.hosts ?? [];
    this.origin = BigInt(timeline.origin_ps ?? 0);
    this.clock = new Clock(this.origin, this.hosts);
    this.span = Math.max(Number(timeline.span_ps ?? 0), 1);
    this.run = timeline.run_ps?.map(Number) ?? [0, this.span]; // what is shown first
    this.processes = [];
    this.id = [];
    this.name = [];
    this.process = [];
    this.lanes = [];
    this.events = [];
    this.derived = [];
    this.kind = [];
    for (const process of inOrder(timeline.processes ?? [], this.hosts)) this.addProcess(process);
    this.placeOf = new Map(this.id.map((id, place) => [id, place]));
    this.makeGroups();
  }

  get tracks() {
    return this.id.length;
  }

  addProcess(process) {
    const { id, name: names, sort, lanes, events, derived, kind } = process.tracks;
    const order = id.map((_, place) => place);
    order.sort((one, other) => (sort?.[one] ?? 0) - (sort?.[other] ?? 0) || one - other);
    const first = this.id.length;
    const number = this.processes.length;
    let total = 0;
    for (const place of order) {
      this.id.push(id[place]);
      this.name.push(visible(names[place]) || "(no name)");
      this.process.push(number);
      this.lanes.push(Math.max(1, Number(lanes?.[place] ?? 1)));
      this.events.push(Number(events?.[place] ?? 0));
      this.derived.push(Boolean(derived?.[place]));
      this.kind.push(KINDS[kind?.[place]] ?? 0);
      total += Number(events?.[place] ?? 0);
    }
    const name = visible(process.name) || "(no name)";
    const isNamed = name.startsWith(`${process.host} `);
    const title = { host: isNamed ? process.host : "", name: isNamed ? name.slice(process.host.length + 1) : name };
    this.processes.push({ id: process.id, host: process.host, name, title, kind: process.kind, pid: process.pid, first,
      last: this.id.length, events: total });
  }

  /** Return whether a track is folded at first: counters, samples, Python calls, derived tracks but steps, many lanes. */
  startsFolded(track) {
    const kind = this.kind[track];
    const isDerived = this.derived[track] && kind !== KINDS.steps;
    return isDerived || FOLDED.has(kind) || this.lanes[track] > MOST_LANES_OPEN;
  }

  /** Return whether a track can fold: counters to a low graph, others to one row for all lanes. */
  canFold(track) {
    return this.kind[track] === KINDS.counter || this.lanes[track] > 1;
  }

  hostOf(track) {
    return this.processes[this.process[track]].host;
  }

  /**
   * Tiles of neighbours are requested together: few requests, few bytes that nobody looks at. Raw and derived tracks keep
   * apart, so that the groups of raw ones, and with them their tiles, stay as they are when derived tracks come.
   */
  makeGroups() {
    this.groups = [];
    this.groupOf = new Int32Array(this.tracks).fill(-1);
    for (const process of this.processes)
      for (const derived of [false, true]) {
        let group = null;
        for (let track = process.first; track < process.last; track++) {
          if (this.derived[track] !== derived || this.kind[track] === KINDS.counter) continue;
          if (!group || group.tracks.length >= TRACKS_IN_GROUP || group.lanes + this.lanes[track] > LANES_AT_ONCE) {
            group = { number: this.groups.length, host: process.host, tracks: [], lanes: 0, query: "", depth: 0 };
            this.groups.push(group);
          }
          group.tracks.push(this.id[track]);
          group.lanes += this.lanes[track];
          this.groupOf[track] = group.number;
        }
      }
    for (const group of this.groups) {
      group.query = spelled(group.tracks);
      if (group.lanes > DEPTHS[0]) group.depth = DEPTHS[0];
    }
  }
}

/** Sorts by host as the session lists them, then as the profiler sorts processes. */
function inOrder(processes, hosts) {
  const place = new Map(hosts.map((host, number) => [host.host, number]));
  const keyed = processes.map((process, number) => [place.get(process.host) ?? 0, process.sort ?? 0, number, process]);
  keyed.sort((one, other) => one[0] - other[0] || one[1] - other[1] || one[2] - other[2]);
  return keyed.map((key) => key[3]);
}
