// Colours of series: by number, by name, and those of the categories of step time.

import { list } from "./list.js";

/** Ten hues, then a lighter tone of each. */
const PALETTE = list(`#4c78c8, #f0882e, #3fa66b, #d9534f, #8d6fc4, #b0803a, #d76fae, #4aa8b8, #9aa53a, #6d7a8d,
  #7fa6e8, #f7b56d, #82cc9e, #ee9a94, #b9a3e3, #d9b886, #eda6cf, #8fd0db, #c6cf7a, #a3adbb`);
const HUES = PALETTE.length / 2;

/** The colour of idle time and of what is too small to be shown alone. */
export const FAINT = "#98a0ab";

/** Categories of step time by colour: compute is green, waiting for input red, as users of profilers know it. */
const CATEGORIES = {
  "#3fa66b": "device_compute, device_compute_16bit, compute",
  "#82cc9e": "device_compute_32bit",
  "#b0803a": "device_to_device, copies",
  "#8d6fc4": "device_collectives, collectives, all_reduce",
  "#4aa8b8": "sparse_core",
  "#4c78c8": "host_compute",
  "#e3b341": "kernel_launch",
  "#98a0ab": "tc_idle, idle",
  "#d9534f": "input, infeed",
  "#ee9a94": "host_prepare",
  "#f0882e": "output, outfeed",
  "#d76fae": "compilation",
  "#7fa6e8": "host_to_host",
  "#6d7a8d": "all_others, all_other, other",
  "#9c8a4a": "not_training",
};
/** The colour of a category of step time. */
export const CATEGORY = Object.fromEntries(
  Object.entries(CATEGORIES).flatMap(([shade, names]) => list(names).map((name) => [name, shade])),
);

/** All colours of names. */
export const COLOURS = [...new Set([...PALETTE, ...Object.values(CATEGORY)])];

export function colour(number) {
  return PALETTE[number % PALETTE.length];
}

const MOST_ASSIGNED = 2000;
/** Colours of names that were shown: a name keeps its colour on all pages. */
const assigned = new Map();

/** Colours of names that stand side by side: as colourOf, but no two alike while the palette lasts. */
export function coloursOf(names) {
  const shown = assigned.size < PALETTE.length ? assigned.values() : names.map((name) => assigned.get(name));
  const taken = new Set(shown);
  return names.map((name) => {
    if (assigned.has(name)) return assigned.get(name);
    let found = colourOf(name);
    for (let next = 0; taken.has(found) && next < PALETTE.length; next += 1) found = colour(next);
    taken.add(found);
    if (assigned.size < MOST_ASSIGNED) assigned.set(name, found);
    return found;
  });
}

/**
 * The colour of a name: the one in which charts showed it, else always the same. Numbers in a name decide the tone only:
 * fusion.1 and fusion.2 are seen as relatives.
 */
export function colourOf(name) {
  const known = assigned.get(name);
  if (known) return known;
  if (Object.hasOwn(CATEGORY, name)) return CATEGORY[name];
  const family = name.replace(/[\s._:#-]*\d+/g, "") || name;
  return PALETTE[(hash(family) % HUES) + HUES * (hash(name) % 2)];
}

/** FNV-1a over the code units of a text, as an unsigned 32-bit number. */
function hash(text) {
  let value = 0x811c9dc5;
  for (let at = 0; at < text.length; at += 1) value = Math.imul(value ^ text.charCodeAt(at), 0x01000193);
  return value >>> 0;
}

/** A function from a name to its colour. `names`, `weights`: by row; names of most weight have a colour of their own. */
export function palette(names, weights) {
  const sums = new Map();
  names.forEach((name, row) => {
    if (name !== null) sums.set(name, (sums.get(name) ?? 0) + (weights[row] ?? 0));
  });
  const ordered = [...sums].sort(([one, first], [other, second]) => second - first || (one < other ? -1 : 1));
  const colours = coloursOf(ordered.map(([name]) => name));
  const shades = new Map(ordered.map(([name], place) => [name, colours[place]]));
  return (name) => shades.get(name) ?? FAINT;
}
