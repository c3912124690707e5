/** Marks of a time axis: at round times as they are shown, with texts that stay short however narrow the window is. */

import { roundStep } from "../charts/scales.js";
import { floored } from "./clock.js";
import { exact, unitOf } from "./time_format.js";

/**
 * Marks of `start` and `span` (ps of the page) over `width` pixels, each with `room`: {step, times, lead, text(time)}.
 * `times` are of the page and round as shown, `origin` (BigInt) after it. Where a text would take more than seven digits,
 * it is the distance from `lead`, the text of a round time left of the window; else lead is "".
 */
export function ticksOf({ start, span, width }, origin, room) {
  const step = roundStep(Math.max((span * room) / width, 1)); // at least 1 ps
  const phase = Number(origin - floored(origin, BigInt(step)));
  const times = [];
  for (let time = Math.ceil((start + phase) / step) * step - phase; time <= start + span; time += step)
    times.push(time);
  return { step, times, ...textsOf(start, span, step, origin) };
}

function textsOf(start, span, step, origin) {
  const first = Number(origin) + start;
  const largest = Math.max(Math.abs(first), Math.abs(first + span));
  const isFar = largest / step >= 1e6;
  const base = isFar ? floored(origin + BigInt(Math.floor(start)), roundSpan(span)) : 0n;
  const shift = Number(origin - base);
  const [unit, power] = unitOf(Math.max(isFar ? span : largest, step));
  const decimals = Math.max(0, power - Math.floor(Math.log10(step) + 1e-9));
  const digits = new Intl.NumberFormat("en-US", { minimumFractionDigits: decimals, maximumFractionDigits: decimals });
  const text = (time) => {
    const value = (time + shift) / 10 ** power;
    return value === 0 && !isFar ? "0" : `${isFar ? "+" : ""}${digits.format(value).replace("-", "−")} ${unit}`;
  };
  return { lead: isFar ? exact(base) : "", text };
}

function roundSpan(span) {
  return BigInt(10 ** Math.ceil(Math.log10(Math.max(span, 1))));
}

/** The marks whose texts, {x, words}, have room: right of the lead, within the width. */
export function fitting(marks, context, lead, width) {
  const taken = lead ? context.measureText(lead).width + 14 : 0;
  return marks.filter(({ x, words }) => x >= taken && x + context.measureText(words).width <= width);
}
