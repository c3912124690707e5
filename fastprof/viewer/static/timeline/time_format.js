/** Times as text. Times are picoseconds: numbers where a pixel decides, BigInt or digits where every one counts. */

import { text } from "../units.js";

const UNITS = [
  ["s", 12],
  ["ms", 9],
  ["µs", 6],
  ["ns", 3],
  ["ps", 0],
];
const NO_TIME = "–";

/** The largest unit in which a time is at least one, with its power of ten. */
export function unitOf(size) {
  for (const one of UNITS) if (size >= 10 ** one[1]) return one;
  return UNITS[UNITS.length - 1];
}

/** Every digit of a time: "1.234567891234 s". Takes a BigInt, a string of digits or a number; null is "–". */
export function exact(ps) {
  if (ps === null || ps === undefined) return NO_TIME;
  const value = typeof ps === "number" ? BigInt(Math.round(ps)) : BigInt(ps);
  const size = value < 0n ? -value : value;
  const [unit, power] = unitOf(Number(size));
  const scale = 10n ** BigInt(power);
  const fraction = power === 0 ? "" : (size % scale).toString().padStart(power, "0").replace(/0+$/, "");
  return `${value < 0n ? "−" : ""}${size / scale}${fraction ? "." + fraction : ""} ${unit}`;
}

/** A time to four digits: "1.235 ms". */
export function short(ps) {
  if (ps === null || ps === undefined || Number.isNaN(Number(ps))) return NO_TIME;
  return Number(ps) === 0 ? "0 ps" : text(Number(ps), "ps").replace("-", "−");
}
