/** Steps as bands: a set for each host or core that has any. One set at a time stands over the tracks. */

import { visible } from "./text.js";

class StepSet {
  constructor(key, host, process) {
    Object.assign(this, { key, host, process });
    this.bands = [];
  }

  /** Whose steps they are, {host, name}: the name of a process without that of its host, which is before it. */
  title(model) {
    const process = model.processes.find((one) => one.id === this.process && one.host === this.host);
    return process?.title ?? { host: "", name: visible(this.host) };
  }
}

export class StepSets {
  /** Takes bands as the server describes them: {name, start_ps, duration_ps, host, process (null: of the host)}. */
  constructor(bands) {
    this.sets = new Map();
    for (const band of bands) {
      const key = keyOf(band.host, band.process);
      let set = this.sets.get(key);
      if (!set) this.sets.set(key, set = new StepSet(key, band.host, band.process ?? null));
      set.bands.push({ name: visible(band.name), start: Number(band.start_ps), duration: Number(band.duration_ps) });
    }
    for (const set of this.sets.values()) set.bands.sort((one, other) => one.start - other.start);
  }

  /** The steps of a process, else of its host; undefined where there are none. */
  of(host, process) {
    return this.sets.get(keyOf(host, process)) ?? this.sets.get(keyOf(host));
  }

  get(key) {
    return this.sets.get(key);
  }

  get all() {
    return [...this.sets.values()];
  }
}

/** A step set in an address: "ID@HOST" for a process, "@HOST" for a host. */
function keyOf(host, process) {
  return `${process ?? ""}@${host}`;
}
