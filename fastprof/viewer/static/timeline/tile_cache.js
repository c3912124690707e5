/** Tiles that were fetched, the ones on their way, and the best picture of a window from those that are here. */

import { DEPTHS } from "./session_model.js";
import { decode, rootLevel, tileSpan } from "./tile.js";

const LIMIT_BYTES = 192 * 2 ** 20;
const AT_ONCE = 6;
const RETRY_MS = 2000;
const NAMES_WAIT_MS = 150;
const FINER_TRIED = 2;

export class TileCache {
  /** `changed()` is called when a tile comes, `gone()` when the server no longer knows the key of the session. */
  constructor(source, names, changed, gone) {
    Object.assign(this, { source, names, changed, gone });
    this.entries = new Map(); // in the order of their last use
    this.numbers = new Map(); // of groups, by their tracks: they outlive a model
    this.bytes = 0;
    this.key = null;
    this.origin = null;
    this.root = 0;
    this.queue = [];
    this.underWay = 0;
    this.closed = false;
    this.fetched = 0;
  }

  /** Takes a model: tiles of an older key still serve until their successors come, but for another origin of time. */
  show(model) {
    if (this.origin !== null && this.origin !== model.origin) {
      this.entries.clear();
      this.bytes = 0;
    }
    this.key = model.key;
    this.origin = model.origin;
    this.root = rootLevel(model.span);
    for (const group of model.groups) {
      if (!this.numbers.has(group.query)) this.numbers.set(group.query, this.numbers.size);
      group.cachedAs = this.numbers.get(group.query);
    }
  }

  close() {
    this.closed = true;
    this.queue = [];
    this.entries.clear();
  }

  entry(place) {
    const entry = this.entries.get(place);
    if (entry?.tile) {
      this.entries.delete(place);
      this.entries.set(place, entry);
    }
    return entry;
  }

  /** The tile that is here; of a deep track else one of more lanes or, as the last resort, of fewer. */
  tile(group, level, index) {
    for (const depth of group.depth ? [group.depth, ...[...DEPTHS].reverse()] : [0]) {
      const entry = this.entry(placeOf(group, level, index, depth));
      if (entry?.tile) return entry.tile;
    }
    return null;
  }

  /** The indices [first, last] of the tiles of a level about an interval of time, within the session. */
  indices(level, start, end) {
    const span = tileSpan(level);
    const last = Math.floor(tileSpan(this.root) / span) - 1;
    return [Math.max(0, Math.floor(start / span)), Math.min(last, Math.floor(end / span))];
  }

  /**
   * What can be drawn of a group between two times: a list of {tile, from, to} that covers what is known, each part
   * by the tile of the level, else by finer ones, else by the nearest coarser one.
   */
  pieces(group, level, start, end) {
    const used = Math.min(level, this.root);
    const span = tileSpan(used);
    const [first, last] = this.indices(used, start, end);
    const pieces = [];
    for (let index = first; index <= last; index++) {
      const [from, to] = [index * span, (index + 1) * span];
      const tile = this.tile(group, used, index);
      if (tile) pieces.push({ tile, from, to });
      else if (!this.addFiner(pieces, group, used, index, FINER_TRIED)) this.addCoarser(pieces, group, used, index);
    }
    return pieces;
  }

  addFiner(pieces, group, level, index, tried) {
    if (level === 0 || tried === 0) return false;
    const found = [];
    for (const child of [2 * index, 2 * index + 1]) {
      const tile = this.tile(group, level - 1, child);
      const span = tileSpan(level - 1);
      if (tile) found.push({ tile, from: child * span, to: (child + 1) * span });
      else if (!this.addFiner(found, group, level - 1, child, tried - 1)) return false;
    }
    pieces.push(...found);
    return true;
  }

  addCoarser(pieces, group, level, index) {
    const span = tileSpan(level);
    for (let coarser = level + 1; coarser <= this.root; coarser++) {
      const tile = this.tile(group, coarser, Math.floor(index / 2 ** (coarser - level)));
      if (!tile) continue;
      pieces.push({ tile, from: index * span, to: (index + 1) * span });
      return;
    }
  }

  /** Begins a frame's list of wishes: what is not wished again is not fetched any more. */
  begin() {
    this.queue = [];
  }

  /** Wishes for a tile; the earlier it is wished in a frame the earlier it comes. True where it is here, and fresh. */
  want(group, level, index) {
    const used = Math.min(level, this.root);
    const entry = this.entries.get(placeOf(group, used, index));
    if (entry?.tile && entry.key === this.key) return true;
    if (entry?.pending === this.key) return false;
    if (entry?.failed && performance.now() - entry.failed < RETRY_MS) return false;
    this.queue.push({ group, level: used, index, place: placeOf(group, used, index) });
    return false;
  }

  /** Wishes for the tiles of a window. */
  wantWindow(group, level, start, end) {
    const used = Math.min(level, this.root);
    const [first, last] = this.indices(used, start, end);
    let here = true;
    for (let index = first; index <= last; index++) here = this.want(group, used, index) && here;
    return here;
  }

  /** Ends a frame's wishes, and sends for as many as may be under way. */
  pump() {
    while (!this.closed && this.underWay < AT_ONCE && this.queue.length) {
      const { group, level, index, place } = this.queue.shift();
      const entry = this.entries.get(place) ?? {};
      if (entry.pending === this.key || (entry.tile && entry.key === this.key)) continue;
      this.entries.set(place, entry);
      entry.pending = this.key;
      this.fetch(entry, this.key, group, level, index, group.depth || group.lanes);
    }
  }

  async fetch(entry, key, group, level, index, lanes) {
    this.underWay++;
    try {
      const tile = decode(await this.source.tile(key, level, index, group.query, undefined, lanes));
      await this.name(group.host, tile);
      if (key === this.key || !entry.tile) this.keep(entry, key, tile);
    } catch (error) {
      entry.failed = performance.now();
      this.error = error;
      if (error?.status === 409) this.gone();
    } finally {
      if (entry.pending === key) entry.pending = null;
      this.underWay--;
      this.pump();
      if (!this.closed) this.changed();
    }
  }

  keep(entry, key, tile) {
    this.bytes += tile.bytes - (entry.tile?.bytes ?? 0);
    entry.tile = tile;
    entry.key = key;
    entry.failed = 0;
    this.error = null;
    this.fetched++;
    if (this.bytes > LIMIT_BYTES) this.evict();
  }

  /** Colours come from names: a tile is shown with them, where they come soon. */
  name(host, tile) {
    const ids = new Set(tile.name);
    const late = new Promise((resolve) => setTimeout(resolve, NAMES_WAIT_MS));
    return Promise.race([this.names.learn(host, ids), late]);
  }

  /** Lets go of the tiles not used for longest; those of the entire session stay, as the last resort of any picture. */
  evict() {
    for (const [place, entry] of this.entries) {
      if (this.bytes <= 0.9 * LIMIT_BYTES) return;
      if (!entry.tile || place.split("/")[1] === String(this.root)) continue;
      this.entries.delete(place);
      this.bytes -= entry.tile.bytes;
    }
  }
}

/** The key of a tile: its group, level, index, and the lanes it has of a track that has very many. */
function placeOf(group, level, index, depth = group.depth) {
  return `${group.cachedAs}/${level}/${index}/${depth}`;
}
