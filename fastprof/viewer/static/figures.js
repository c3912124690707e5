// The charts that several pages draw: shares as rings, bars, stacked series over steps, lines, dots.

import { chart, hover, plain } from "./chart.js";
import { colour, coloursOf, FAINT } from "./colours.js";
import { distinct } from "./dom.js";
import { scale, text } from "./units.js";

const OTHERS = "Other";
const TAIL = 0.7;
const MOST_MARKED = 60;

/** A ring of shares. `slices`: {name, value, title}; those beyond `most` are one slice, "Other". */
export function pie(element, slices, { unit = "ps", most = 12, label, height = 280, onclick } = {}) {
  const kept = largest(slices, most);
  const total = kept.reduce((sum, slice) => sum + slice.value, 0);
  const trace = { type: "pie", hole: 0.45, sort: false, direction: "clockwise",
    labels: distinct(kept.map((slice) => slice.name), 28, TAIL).map((name, at) =>
      `${plain(name, 28)}${"\u200b".repeat(at)}`
    ), values: kept.map((slice) => slice.value),
    text: kept.map((slice) => hover(`${slice.name}${slice.title ? `\n${slice.title}` : ""}`)),
    customdata: kept.map((slice) => `${text(slice.value, unit)}, ${text(total ? slice.value / total : null, "share")}`),
    marker: { colors: ringColours(kept) }, hovertemplate: "%{text}<br>%{customdata}<extra></extra>",
    texttemplate: kept.map((slice) => text(total ? slice.value / total : null, "share")), textposition: "inside",
    insidetextorientation: "horizontal" };
  const layout = { margin: { l: 8, r: 8, t: 8, b: 8 }, legend: { x: 1.02, y: 0.5, yanchor: "middle" },
    uniformtext: { minsize: 10, mode: "hide" } };
  return chart(element, [trace], layout, { label, height,
    onclick: onclick && ((point) => onclick(kept[point.pointNumber])) });
}

/** Bars, one a name. */
export function bars(element, { names, values, unit, horizontal = false, colours, titles, label, height, onclick }) {
  const axis = scale(values, unit);
  const numbers = values.map((value) => divided(value, axis));
  const places = distinct(names, 44, TAIL).map((name, at) => `${plain(name, 44)}${"\u200b".repeat(at)}`);
  const trace = { type: "bar", orientation: horizontal ? "h" : "v", x: horizontal ? numbers : places,
    y: horizontal ? places : numbers, marker: { color: colours ?? colour(0) },
    text: values.map((value, at) => plain(`${titles?.[at] ?? names[at]}: ${text(value, unit)}`, 300)),
    textposition: "none", hovertemplate: "%{text}<extra></extra>" };
  const value = { title: { text: axis.unit }, rangemode: "tozero" };
  const name = { type: "category", autorange: horizontal ? "reversed" : true, automargin: true };
  const layout = { xaxis: horizontal ? value : name, yaxis: horizontal ? name : value, bargap: 0.25 };
  const tall = horizontal ? 60 + 22 * names.length : 280;
  return chart(element, [trace], layout, { label, height: height ?? tall,
    onclick: onclick && ((point) => onclick(point.pointNumber)) });
}

/**
 * Series on top of each other. `x`: what each place is called; `series`: {name, values, colour}; `kind`: "bar" or
 * "area".
 */
export function stacked(element, { x, series, unit, kind = "bar", xTitle, label, height = 320, onclick }) {
  const totals = x.map((_, at) => series.reduce((sum, one) => sum + (one.values[at] ?? 0), 0));
  const axis = scale(totals, unit);
  const traces = series.map((one, number) => stackedTrace(one, number, { x, totals, axis, unit, kind }));
  const layout = { barmode: "stack", bargap: x.length > 60 ? 0 : 0.15, hovermode: "closest",
    xaxis: { title: { text: xTitle }, type: "category", nticks: 20, showgrid: false },
    yaxis: { title: { text: axis.unit }, rangemode: "tozero" }, legend: { traceorder: "normal" } };
  return chart(element, traces, layout, { label, height, onclick: onclick && ((point) => onclick(point.pointNumber)) });
}

/** Lines over numbers. `series`: {name, values, colour, fill, dash, step}. `xUnit`: that of `x`. */
export function lines(element, { x, series, unit, xUnit, xTitle = "", label, height = 280, onclick, log = false }) {
  const axis = scale(series.flatMap((one) => spread(one.values)), unit);
  const across = xUnit ? scale([x.at(0), x.at(-1)], xUnit) : null;
  const places = across ? x.map((value) => divided(value, across)) : x;
  const whole = !across && x.length > 0 && x.every(Number.isInteger);
  const few = x.length <= MOST_MARKED && whole;
  const traces = series.map((one, number) => ({ type: "scatter",
    mode: x.length === 1 ? "markers" : few ? "lines+markers" : "lines",
    ...(few ? { marker: { size: 5 + Math.min(3, 10 / series.length) * (series.length - 1 - number) } } : {}),
    name: plain(one.name, 40), x: places, y: one.values.map((value) => divided(value, axis)),
    line: { color: one.colour ?? colour(number), width: 1.6, dash: one.dash, shape: one.step ? "hv" : "linear" },
    fill: one.fill, connectgaps: false,
    text: one.values.map((value, at) =>
      plain(`${one.name}: ${text(value, unit)}${one.titles ? `, ${one.titles[at]}` : ""}`, 200)
    ), hovertemplate: "%{text}<extra></extra>" })
  );
  const layout = { hovermode: "x unified",
    xaxis: { title: { text: [xTitle, across?.unit].filter(Boolean).join(", ") }, ...(whole ? wholeTicks(x) : {}) },
    yaxis: { title: { text: axis.unit }, rangemode: "tozero", type: log ? "log" : "linear" },
    legend: { orientation: "h", y: 1.02, yanchor: "bottom" } };
  return chart(element, traces, layout, { label, height, onclick: onclick && ((point) => onclick(point.pointNumber)) });
}

/** Dots. `points`: {x, y, name, title, size, colour}; one trace a colour group, `group` being its name. */
export function scatter(element,
  { points, xTitle, yTitle, log = false, traces = [], label, height = 360, layout = {}, onclick })
{
  const groups = Map.groupBy ? Map.groupBy(points, (point) => point.group ?? "") : grouped(points);
  const dots = [...groups].map(([name, of], number) => ({ type: "scatter", mode: "markers", name: plain(name, 40),
    showlegend: name !== "", x: of.map((point) => point.x), y: of.map((point) => point.y),
    text: of.map((point) => hover(point.title ?? point.name)),
    marker: { color: of[0].colour ?? colour(number), size: of.map((point) => point.size ?? 8), opacity: 0.8 },
    hovertemplate: "%{text}<extra></extra>", customdata: of.map((point) => point.key ?? null) })
  );
  const kind = log ? "log" : "linear";
  const whole = { hovermode: "closest", xaxis: { title: { text: xTitle }, type: kind },
    yaxis: { title: { text: yTitle }, type: kind }, ...layout };
  return chart(element, [...traces, ...dots], whole, { label, height,
    onclick: onclick && ((point) => onclick(point.customdata)) });
}

function stackedTrace(one, number, { x, totals, axis, unit, kind }) {
  const shade = one.colour ?? colour(number);
  const told = (value, at) =>
    `${one.name}: ${text(value, unit)} (${text(totals[at] ? (value ?? 0) / totals[at] : null, "share")})`;
  const shared = { name: plain(one.name, 40), x, y: one.values.map((value) => divided(value, axis)),
    text: one.values.map((value, at) => plain(`${x[at]} · ${told(value, at)} of ${text(totals[at], unit)}`, 300)),
    hovertemplate: "%{text}<extra></extra>" };
  if (kind === "bar") return { ...shared, type: "bar", textposition: "none", marker: { color: shade } };
  return { ...shared, type: "scatter", mode: "lines", stackgroup: "all", line: { color: shade, width: 0.5 },
    fillcolor: shade };
}

/** Ticks at whole numbers only. */
function wholeTicks(x) {
  const span = x.reduce((most, one) => Math.max(most, one), -Infinity)
    - x.reduce((least, one) => Math.min(least, one), Infinity);
  return span <= 20 ? { tickformat: ",d", dtick: 1 } : { tickformat: ",d" };
}

function largest(slices, most) {
  const known = slices.filter((slice) => slice.value > 0).sort((one, other) => other.value - one.value);
  if (known.length <= most) return known;
  const rest = known.slice(most - 1);
  const value = rest.reduce((sum, slice) => sum + slice.value, 0);
  return [...known.slice(0, most - 1), { name: OTHERS, title: `${rest.length.toLocaleString("en-US")} more`, value,
    others: true }];
}

/** Names have their colours, but for those of slices that bring their own. */
function ringColours(slices) {
  const found = coloursOf(slices.map((slice) => slice.name));
  return slices.map((slice, at) => slice.colour ?? (slice.others ? FAINT : found[at]));
}

function divided(value, axis) {
  return typeof value === "number" ? value / axis.divide : null;
}

function spread(found) {
  return found.filter((value) => typeof value === "number");
}

function grouped(points) {
  const groups = new Map();
  for (const point of points) {
    const name = point.group ?? "";
    groups.set(name, [...(groups.get(name) ?? []), point]);
  }
  return groups;
}
