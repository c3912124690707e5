/** Times as text. Times are picoseconds: numbers where a pixel decides, BigInt or digits where every one counts. */

const UNITS = [
  ["s", 12],
  ["ms", 9],
  ["µs", 6],
  ["ns", 3],
  ["ps", 0],
];
const NO_TIME = "–";

/** The largest unit in which a time is at least one, with its power of ten. */
function unitOf(size) {
  for (const one of UNITS) if (size >= 10 ** one[1]) return one;
  return UNITS[UNITS.length - 1];
}

/** Every digit of a time: "1.234567891234 s". Takes a BigInt, a string of digits or a number; null is "–". */
export function exact(ps) {
  if (ps === null || ps === undefined) return NO_TIME;
  const whole = typeof ps === "number" ? BigInt(Math.round(ps)) : BigInt(ps);
  const size = whole < 0n ? -whole : whole;
  const [unit, power] = unitOf(Number(size));
  const scale = 10n ** BigInt(power);
  const fraction = power === 0 ? "" : (size % scale).toString().padStart(power, "0").replace(/0+$/, "");
  return `${whole < 0n ? "−" : ""}${size / scale}${fraction ? "." + fraction : ""} ${unit}`;
}

/** A time to four digits: "1.235 ms". */
export function short(ps) {
  if (ps === null || ps === undefined || Number.isNaN(Number(ps))) return NO_TIME;
  const value = Number(ps);
  const size = Math.abs(value);
  if (size === 0) return "0 ps";
  const [unit, power] = unitOf(size);
  const scaled = size / 10 ** power;
  const decimals = power === 0 ? 0 : scaled >= 1000 ? 0 : scaled >= 100 ? 1 : scaled >= 10 ? 2 : 3;
  const digits = decimals ? scaled.toFixed(decimals).replace(/\.?0+$/, "") : Math.round(scaled).toLocaleString("en-US");
  return `${value < 0 ? "−" : ""}${digits} ${unit}`;
}

/** The distance of marks on a ruler: 1, 2 or 5 times a power of ten, at least `least` ps and at least 1 ps. */
export function tickStep(least) {
  const power = 10 ** Math.floor(Math.log10(Math.max(least, 1)));
  for (const factor of [1, 2, 5]) if (factor * power >= least) return factor * power;
  return 10 * power;
}

/**
 * How marks of a ruler from `start` over `span` ps, `step` apart, are written: {base, text(time)}. Where a mark would
 * take more than seven digits it is written as its distance from `base`, a round time left of the window; else base is 0.
 */
export function tickTexts(start, span, step) {
  const largest = Math.max(Math.abs(start), Math.abs(start + span));
  const base = largest / step < 1e6 ? 0 : Math.floor(start / roundSpan(span)) * roundSpan(span);
  const [unit, power] = unitOf(Math.max(base ? span : largest, step));
  const decimals = Math.max(0, power - Math.floor(Math.log10(step) + 1e-9));
  const scale = 10 ** power;
  const text = (time) => `${base ? "+" : ""}${((time - base) / scale).toFixed(decimals)} ${unit}`;
  return { base, text };
}

function roundSpan(span) {
  return 10 ** Math.ceil(Math.log10(Math.max(span, 1)));
}
