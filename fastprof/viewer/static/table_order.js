// Which rows of a table are shown, and in which order: tests and sorting by the values of columns.

import { parsed } from "./units.js";

const COMPARED = /^(<=|>=|<|>|=)\s*(.+)$/;

/** A test of a row number: whether the column has this value. */
export function is(data, name, value) {
  const { texts, codes } = data.coded(name);
  const code = texts.indexOf(value);
  return (row) => codes[row] === code;
}

/** A test of a row number: whether the column contains a word in small letters. */
export function holds(data, name, word) {
  if (data.isNumber(name)) {
    const values = data.column(name);
    return (row) => values[row] !== null && String(values[row]).includes(word);
  }
  const { texts, codes } = data.coded(name);
  const held = texts.map((text) => text.toLowerCase().includes(word));
  return (row) => codes[row] >= 0 && held[codes[row]];
}

/** A test of a row number by what a user wrote: a text to contain, or of numbers a limit such as "> 1.5ms". */
export function matches(data, name, written) {
  if (!data.isNumber(name)) return holds(data, name, written.toLowerCase().trim());
  const [, sign, amount] = COMPARED.exec(written.trim()) ?? [null, ">=", written.trim().replace(/^[<>=]+$/, "")];
  const least = parsed(amount, data.about(name).unit);
  if (Number.isNaN(least)) return () => true;
  const values = data.column(name).map((value) => (value === null ? NaN : Number(value)));
  const tests = { "<": (row) => values[row] < least, "<=": (row) => values[row] <= least,
    ">": (row) => values[row] > least, ">=": (row) => values[row] >= least, "=": (row) => values[row] === least };
  return tests[sign];
}

/** Sorts row numbers in place; unknown values come last either way, equal ones keep their order. */
export function sortRows(order, data, { by, down }) {
  if (!data.has(by)) return;
  const keys = sortKeys(data, by);
  const sign = down ? -1 : 1;
  order.sort((one, other) => {
    const [first, second] = [keys[one], keys[other]];
    if (first === second) return one - other;
    if (Number.isNaN(first)) return Number.isNaN(second) ? one - other : 1;
    if (Number.isNaN(second)) return -1;
    return sign * (first - second);
  });
}

function sortKeys(data, by) {
  const keys = new Float64Array(data.length).fill(NaN);
  if (data.isNumber(by)) {
    data.column(by).forEach((value, row) => {
      if (value !== null) keys[row] = Number(value);
    });
    return keys;
  }
  const { texts, codes } = data.coded(by);
  const compare = new Intl.Collator("en", { numeric: true }).compare;
  const ranks = new Float64Array(texts.length);
  Array.from(texts.keys()).sort((one, other) => compare(texts[one], texts[other])).forEach((code, rank) => {
    ranks[code] = rank;
  });
  for (let row = 0; row < keys.length; row += 1) if (codes[row] >= 0) keys[row] = ranks[codes[row]];
  return keys;
}
