/** Steps as bands: a set for each host or core that has any. One set at a time stands over the tracks. */

import { visible } from "./text.js";

class StepSet {
  constructor(host, process) {
    this.host = host;
    this.process = process;
    this.bands = [];
  }

  /** Whose steps they are. */
  title(model) {
    const process = model.processes.find((one) => one.id === this.process && one.host === this.host);
    return process ? process.name : visible(this.host);
  }
}

export class StepSets {
  /** Takes bands as the server tells of them: {name, start_ps, duration_ps, host, process (null: of the whole host)}. */
  constructor(bands) {
    this.sets = new Map();
    for (const band of bands) {
      const key = JSON.stringify([band.host, band.process ?? null]);
      let set = this.sets.get(key);
      if (!set) this.sets.set(key, (set = new StepSet(band.host, band.process ?? null)));
      set.bands.push({ name: visible(band.name), start: Number(band.start_ps), duration: Number(band.duration_ps) });
    }
    for (const set of this.sets.values()) set.bands.sort((one, other) => one.start - other.start);
  }

  /** The steps of a process, else of its host, else the first; undefined where there are none. */
  of(host, process) {
    const key = (id) => JSON.stringify([host, id]);
    return this.sets.get(key(process ?? null)) ?? this.sets.get(key(null)) ?? this.sets.values().next().value;
  }
}
