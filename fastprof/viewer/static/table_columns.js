// How the columns of a table look: titles, units, texts of values, widths.

import { shortened } from "./dom.js";
import { Elision } from "./elision.js";
import { columnScale, exact, label, number, text, UNKNOWN } from "./units.js";

const FONT = "13px system-ui, -apple-system, 'Segoe UI', 'DejaVu Sans', 'Noto Sans', Roboto, sans-serif";
const AROUND = 22;
const NARROWEST = 54;
const WIDEST = 420;
const WIDEST_GROWING = 320;
const SAMPLE = 200;
const MEASURED = 200;
const MOST_MEASURED = 400;
const MOST_TITLE = 3_000;
const LEADS = ["name", "op_name", "expression", "long_name"];

/** The columns of a table, those to show first. */
export function shownColumns(data, options) {
  const listed = (options.columns ?? data.columns).map((column) => column.name ? column : { name: column });
  const names = new Set(listed.map((column) => column.name));
  const rest = data.columns.filter((column) => !names.has(column.name)).map(({ name }) => ({ name, hidden: true }));
  const columns = [...listed, ...rest].filter((column) => data.has(column.name)).map((column) =>
    described(data, column, options)
  );
  const grows = columns.find((column) => column.grow) ?? growing(columns.filter((column) => !column.hidden));
  for (const column of columns) {
    const least = column.width ?? width(data, column);
    column.flex = column === grows ? `1 0 ${Math.min(least, WIDEST_GROWING)}px` : `0 0 ${least}px`;
  }
  return columns;
}

function described(data, column, options) {
  const { unit, description } = data.about(column.name);
  const isNumber = data.isNumber(column.name);
  const one = column.scale ?? (isNumber && unit ? columnScale(data.column(column.name), unit) : null);
  const plain = column.text ?? cellText(unit, isNumber, one);
  return { ...column, description, number: isNumber, title: column.title ?? label(column.name),
    unit: one ? one.unit : null, text: (value, row) => column.words?.[value] ?? plain(value, row),
    cut: !isNumber && !column.text && !column.node, full: (value) => fullText(value, unit, isNumber),
    share: options.bar === column.name };
}

/** How a value is written in its cell. */
function cellText(unit, isNumber, one) {
  if (one) return (value) => (value === null ? UNKNOWN : fixed(value / one.divide, one.digits));
  if (!isNumber)
    return (value) => (value === null ? UNKNOWN : typeof value === "string" ? shortened(value, MEASURED) : text(value));
  return (value) => text(value, unit);
}

/** Numbers of a column have as many decimals each, so that they can be compared by eye. */
function fixed(value, digits) {
  if (typeof value !== "number" || !Number.isFinite(value)) return text(value);
  if (value === 0) return "0";
  return value.toLocaleString("en-US", { minimumFractionDigits: digits, maximumFractionDigits: digits,
    signDisplay: "negative" });
}

function fullText(value, unit, isNumber) {
  if (value === null) return "not known";
  if (!isNumber) return String(typeof value === "string" ? value : text(value)).slice(0, MOST_TITLE);
  return unit === "share" ? number(value) : exact(value, unit);
}

function width(data, column) {
  let most = textWidth(`${column.title} ${column.unit ?? ""}`) * 1.06 + 16;
  const rows = Math.min(data.length, SAMPLE);
  for (let row = 0; row < rows && most < WIDEST; row += 1) {
    const words = column.text(data.value(row, column.name), row);
    most = Math.max(most, words.length > WIDEST / 4 ? WIDEST : textWidth(words));
  }
  return Math.ceil(Math.max(NARROWEST, Math.min(WIDEST, most)) + AROUND);
}

/** How the texts of a column are cut to its width, by those of the first rows. */
export function elision(data, column, order) {
  const texts = order.slice(0, SAMPLE).map((row) => data.value(row, column.name));
  const width = (words) => (words.length > MOST_MEASURED ? Number.POSITIVE_INFINITY : textWidth(words));
  return new Elision(texts.filter((value) => typeof value === "string"), column.room, width);
}

let measure = null;

function textWidth(words) {
  measure ??= document.createElement("canvas").getContext("2d");
  measure.font = FONT;
  return measure.measureText(words).width;
}

/** Which column takes the room that is left: names first, then any text. */
function growing(columns) {
  return LEADS.map((name) => columns.find((column) => column.name === name)).find(Boolean)
    ?? columns.find((column) => !column.number);
}
