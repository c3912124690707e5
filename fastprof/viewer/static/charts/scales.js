// Scales of charts: from values to pixels and back, and the round values that an axis marks.

import { firstThat } from "../bisect.js";

/** A scale from [low, high] to pixels [from, to]: {at(value), back(pixel)}. `log`: equal steps are equal factors. */
export function scaleOf([low, high], [from, to], log = false) {
  const read = log ? Math.log10 : Number;
  const write = log ? (power) => 10 ** power : Number;
  const first = read(low);
  const pixels = (to - from) / (read(high) - first || 1);
  return {
    at: (value) => from + (read(value) - first) * pixels,
    back: (pixel) => write(first + (pixel - from) / pixels),
  };
}

/** The smallest number of at least `least` that is 1, 2 or 5 times a power of ten. */
export function roundStep(least) {
  const power = 10 ** Math.floor(Math.log10(least));
  return power * [1, 2, 5, 10].find((factor) => factor * power >= least * (1 - 1e-9));
}

/** Round values within [low, high], about `count` of them, 1, 2 or 5 times a power of ten apart. */
export function roundTicks([low, high], count, integers = false) {
  const round = roundStep((high - low) / Math.max(count, 1) || 1);
  const step = integers ? Math.max(1, Math.round(round)) : round;
  const ticks = [];
  for (let at = Math.ceil(low / step - 1e-9); at * step <= high + step * 1e-9; at += 1) {
    ticks.push(Number((at * step).toPrecision(12)));
  }
  return ticks;
}

/** Powers of ten within [low, high], at most about `count`; round values where there are fewer than two. */
export function decadeTicks([low, high], count) {
  const [first, last] = [Math.ceil(Math.log10(low) - 1e-9), Math.floor(Math.log10(high) + 1e-9)];
  if (last - first < 1) return roundTicks([low, high], count);
  const each = Math.ceil((last - first + 1) / Math.max(count, 1));
  return Array.from({ length: Math.floor((last - first) / each) + 1 }, (_, at) => 10 ** (first + at * each));
}

/** [least, most] of some values, null and what is no number left out; [0, 1] where there are none. */
export function extent(values, positive = false) {
  let [low, high] = [Infinity, -Infinity];
  for (const value of values) {
    if (typeof value !== "number" || !Number.isFinite(value) || (positive && value <= 0)) continue;
    if (value < low) low = value;
    if (value > high) high = value;
  }
  return low <= high ? [low, high] : positive ? [1, 10] : [0, 1];
}

/** The number of the value that is nearest to another, of ascending values. */
export function nearest(values, value) {
  const high = Math.min(firstThat((at) => values[at] > value, 0, values.length), values.length - 1);
  const low = Math.max(high - 1, 0);
  return Math.abs(values[high] - value) < Math.abs(values[low] - value) ? high : low;
}
