// Colours of the names of one page, those of most weight first, so that these have their own on every page.

import { coloursOf, FAINT } from "../colours.js";

/** A function from a name to its colour. `names` and `weights`: by row. */
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
