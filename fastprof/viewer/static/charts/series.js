// Charts of series that several pages draw: stacked over places, lines over numbers, dots.

import { colour } from "../colours.js";
import { scale, text } from "../units.js";
import { plot } from "./plot.js";

const MOST_MARKED = 60;
const DASHES = { dot: "2 3", dash: "6 4" };

/** Series on top of each other. `x`: names of places; `series`: {name, values, colour}; `kind`: "bars" or "area". */
export function stacked(element, { x, series, unit, kind = "bars", xTitle, label, height = 320, onclick }) {
  const totals = x.map((_, at) => series.reduce((sum, one) => sum + (one.values[at] ?? 0), 0));
  const axis = scale(totals, unit);
  const describe = (at) => [
    `${x[at]}: ${text(totals[at], unit)}`,
    ...series.filter((one) => one.values[at] > 0).reverse().map((one) =>
      `${one.name}: ${text(one.values[at], unit)} (${text(one.values[at] / totals[at], "share")})`
    ),
  ];
  return plot(element, {
    x: { names: x, title: xTitle },
    y: { title: axis.unit, divide: axis.divide },
    series: series.map((one, at) => ({ colour: colour(at), kind, stack: true, width: 0.5, ...one })),
    describe,
  }, { label, height, onclick, legend: "right" });
}

/** Lines over ascending numbers, or over names. `series`: {name, values, colour, dash, titles}; `xUnit`: that of `x`. */
export function lines(element, { x, series, unit, xUnit, xTitle = "", label, height = 280, onclick }) {
  const axis = scale(series.flatMap((one) => one.values), unit);
  const across = xUnit ? scale([x.at(0), x.at(-1)], xUnit) : null;
  const isNamed = typeof x[0] === "string";
  const isCount = !across && !isNamed && x.every(Number.isInteger);
  const describe = (at) => [
    isNamed ? x[at] : `${xTitle || "At"} ${across ? text(x[at], xUnit) : x[at]}`,
    ...series.map((one) => `${one.name}: ${text(one.values[at], unit)}${one.titles ? `, ${one.titles[at]}` : ""}`),
  ];
  return plot(element, {
    x: isNamed
      ? { names: x, title: xTitle }
      : { values: x, title: [xTitle, across?.unit].filter(Boolean).join(", "), divide: across?.divide,
        integers: isCount },
    y: { title: axis.unit, divide: axis.divide },
    series: series.map((one, at) => ({
      kind: "line",
      marked: (isCount || isNamed) && x.length <= MOST_MARKED,
      ...one,
      colour: one.colour ?? colour(at),
      dash: DASHES[one.dash],
    })),
    describe,
  }, { label, height, onclick });
}

/** Dots. `points`: {x, y, title, size, colour, key}; one series a `group`. `x` and `y`: axes as Plot has them. */
export function scatter(element, { points, x, y, label, height = 360, onclick }) {
  const groups = Map.groupBy(points, (point) => point.group ?? "");
  return plot(element, {
    x,
    y,
    isDots: true,
    series: [...groups].map(([name, of], at) => ({
      name,
      kind: "dots",
      colour: of[0].colour ?? colour(at),
      x: of.map((point) => point.x),
      values: of.map((point) => point.y),
      sizes: of.map((point) => point.size),
      keys: of.map((point) => point.key),
      titles: of.map((point) => point.title),
    })),
    describe: (at, series) => series.titles[at].split("\n"),
  }, { label, height, onclick });
}
