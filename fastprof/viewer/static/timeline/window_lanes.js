/** Which lanes have events in the window: the others take no room. */

import { numbers } from "../number_ranges.js";

export class WindowLanes {
  /**
   * `answer`: {all, some}: the tracks all of whose lanes have events ("1,5-9"), and the lanes that do of others, by
   * track; all others are empty. `known`: has(id) of the tracks that the answer is about.
   */
  constructor(answer, known) {
    this.known = known;
    this.all = numbers(answer.all) ?? new Set();
    this.some = new Map(
      Object.entries(answer.some ?? {}).map(([id, lanes]) => [Number(id), [...numbers(lanes)].sort(ascending)]),
    );
  }

  /** The lanes of a track that have events, ascending; null: all of them, or it is not known. */
  of(id) {
    if (this.all.has(id) || !this.known.has(id)) return null;
    return this.some.get(id) ?? [];
  }

  /** Adds a lane; true if that is new. */
  add(id, lane) {
    const lanes = this.of(id);
    if (lanes === null || lanes.includes(lane)) return false;
    this.some.set(id, [...lanes, lane].sort(ascending));
    return true;
  }
}

function ascending(one, other) {
  return one - other;
}
