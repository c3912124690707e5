/** Names of events by host and number: requested in groups, never dropped, with the colour of each. */

import { shownName } from "../kernel_names.js";
import { codeOfName, codeOfNumber, DIMMED } from "./slice_colours.js";
import { visible } from "./text.js";

const AT_ONCE = 250;
const MOST_WAITED_FOR = 1000;

class HostNames {
  constructor() {
    this.texts = new Map();
    this.labels = new Map(); // kernels without namespaces and arguments
    this.requested = new Set();
    this.codes = new Uint8Array(0);
  }

  /** Codes for numbers up to `largest`: a colour by number until the name is known. */
  codesUpTo(largest, found) {
    if (largest < this.codes.length) return this.codes;
    const grown = new Uint8Array(Math.max(1024, 2 * (largest + 1)));
    grown.set(this.codes);
    for (let id = this.codes.length; id < grown.length; id++) grown[id] = codeOfNumber(id) + (found ? DIMMED : 0);
    this.codes = grown;
    return grown;
  }

  colour(id, found) {
    const text = this.texts.get(id);
    const code = text === undefined ? codeOfNumber(id) : codeOfName(this.labels.get(id));
    return found && !(text !== undefined && found.has(text)) ? code + DIMMED : code;
  }
}

export class NameBook {
  /** `source.names(host, ids)`; `changed` is called as names come in. */
  constructor(source, changed) {
    Object.assign(this, { source, changed });
    this.hosts = new Map();
    this.wanted = new Map();
    this.found = null;
    this.stamp = 0; // grows as names and colours change
  }

  host(name) {
    let host = this.hosts.get(name);
    if (!host) this.hosts.set(name, host = new HostNames());
    return host;
  }

  /** Colour codes by number, at least up to `largest`. */
  codes(host, largest) {
    return this.host(host).codesUpTo(largest, this.found);
  }

  /** Whether a search did not find the name. */
  isDimmed(host, id) {
    return this.host(host).codes[id] >= DIMMED;
  }

  /** The name on slices, or undefined while it is on its way. */
  label(host, id) {
    return this.text(host, id) && this.host(host).labels.get(id);
  }

  /** The name, or undefined while it is on its way. */
  text(host, id) {
    const names = this.host(host);
    const text = names.texts.get(id);
    if (text === undefined && !names.requested.has(id)) this.want(host, id);
    return text;
  }

  want(host, id) {
    if (this.wanted.size === 0) queueMicrotask(() => this.askWanted());
    let ids = this.wanted.get(host);
    if (!ids) this.wanted.set(host, ids = new Set());
    ids.add(id);
  }

  askWanted() {
    const wanted = this.wanted;
    this.wanted = new Map();
    for (const [host, ids] of wanted) this.learn(host, ids);
  }

  /** Asks for those of the names that are not known; done once they are all here, or could not be had. */
  async learn(host, ids) {
    const names = this.host(host);
    const missing = [];
    for (const id of ids) {
      if (names.texts.has(id) || names.requested.has(id)) continue;
      names.requested.add(id);
      missing.push(id);
      if (missing.length === MOST_WAITED_FOR) break;
    }
    const parts = [];
    for (let first = 0; first < missing.length; first += AT_ONCE) parts.push(missing.slice(first, first + AT_ONCE));
    await Promise.all(parts.map((part) => this.ask(host, names, part)));
  }

  async ask(host, names, ids) {
    try {
      const texts = await this.source.names(host, ids);
      const largest = ids.reduce((most, id) => Math.max(most, id), 0);
      names.codesUpTo(largest, this.found);
      for (const id of ids) {
        names.texts.set(id, visible(texts[id] ?? `(name ${id})`));
        names.labels.set(id, shownName(names.texts.get(id)));
        names.codes[id] = names.colour(id, this.found);
      }
      this.stamp++;
      this.changed();
    } catch {
      // The names are requested again when they are next drawn.
      for (const id of ids) names.requested.delete(id);
    }
  }

  /** Dims all names but these (a Set of visible texts); null dims none. */
  highlight(found) {
    this.found = found;
    this.stamp++;
    for (const names of this.hosts.values())
      for (let id = 0; id < names.codes.length; id++) names.codes[id] = names.colour(id, found);
    this.changed();
  }
}
