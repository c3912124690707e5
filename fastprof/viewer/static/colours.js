// Colours of series: by number, by name, and those of the categories of step time.

import { list } from "./list.js";

const PALETTE = list(`#4c78c8, #f0882e, #3fa66b, #d9534f, #8d6fc4, #b0803a, #d76fae, #4aa8b8, #9aa53a, #6d7a8d,
  #7fa6e8, #f7b56d, #82cc9e, #ee9a94, #b9a3e3, #d9b886, #eda6cf, #8fd0db, #c6cf7a, #a3adbb`);

/** Of idle time and of what is too small to be shown alone. */
export const FAINT = "#98a0ab";

/** Of categories of step time: compute is green and blue, waiting for input red, as users of profilers know it. */
export const CATEGORY = {
  device_compute: "#3fa66b",
  device_compute_16bit: "#3fa66b",
  device_compute_32bit: "#82cc9e",
  compute: "#3fa66b",
  device_to_device: "#b0803a",
  device_collectives: "#8d6fc4",
  collectives: "#8d6fc4",
  all_reduce: "#8d6fc4",
  sparse_core: "#4aa8b8",
  host_compute: "#4c78c8",
  kernel_launch: "#e3b341",
  tc_idle: "#98a0ab",
  idle: "#98a0ab",
  input: "#d9534f",
  infeed: "#d9534f",
  host_prepare: "#ee9a94",
  output: "#f0882e",
  outfeed: "#f0882e",
  compilation: "#d76fae",
  host_to_host: "#7fa6e8",
  all_others: "#6d7a8d",
  all_other: "#6d7a8d",
  other: "#6d7a8d",
};

export function colour(number) {
  return PALETTE[number % PALETTE.length];
}

/** Colours of names that stand side by side: as colourOf, but no two alike while the palette lasts. */
export function coloursOf(names) {
  const taken = new Set();
  return names.map((name) => {
    let found = colourOf(name);
    for (let next = 0; taken.has(found) && next < PALETTE.length; next += 1) found = colour(next);
    taken.add(found);
    return found;
  });
}

/** The colour of a name, always the same. */
export function colourOf(name) {
  if (Object.hasOwn(CATEGORY, name)) return CATEGORY[name];
  return PALETTE[hash(name) % PALETTE.length];
}

/** FNV-1a over the code units of a text, as an unsigned 32-bit number. */
export function hash(text) {
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
