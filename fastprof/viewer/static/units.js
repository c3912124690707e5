// Numbers for people: times, sizes, shares and rates in a unit that suits. Unknown is "–".

const TIMES = [["s", 1e12], ["ms", 1e9], ["µs", 1e6], ["ns", 1e3], ["ps", 1]];
const SIZES = [["TiB", 2 ** 40], ["GiB", 2 ** 30], ["MiB", 2 ** 20], ["KiB", 2 ** 10], ["B", 1]];
const PREFIXES = [["E", 1e18], ["P", 1e15], ["T", 1e12], ["G", 1e9], ["M", 1e6], ["k", 1e3], ["", 1]];
const IN_PICOSECONDS = { ps: 1, ns: 1e3, us: 1e6, µs: 1e6, ms: 1e9, s: 1e12 };
const SIGNS = { flop: "FLOP", "flop/s": "FLOP/s", "bytes/s": "B/s", joules: "J", "bytes*s": "B·s", watts: "W",
  hertz: "Hz", counts: "" };
const ENDINGS = /_(ps|bytes|percent|share|joules|us|ms)$/;
const RATE = /_per_(s|byte)$/;
const WORDS = new Map(
  ["id", "hbm", "cpu", "gpu", "tpu", "mxu", "cmem", "vmem", "smem", "dma", "xla", "hlo", "tf", "io"].map((word) => [
    word,
    word.toUpperCase(),
  ]),
);
for (const end of ["", "/s", "/byte"]) WORDS.set(`flops${end}`, `FLOPs${end}`);

export const UNKNOWN = "–";

/** A value with its unit, in a few digits. */
export function text(value, unit = null) {
  if (value === null || value === undefined) return UNKNOWN;
  if (typeof value === "boolean") return value ? "yes" : "no";
  if (typeof value !== "number") return typeof value === "object" ? JSON.stringify(value) : String(value);
  if (!Number.isFinite(value)) return Number.isNaN(value) ? "not a number" : value > 0 ? "∞" : "−∞";
  if (value === 0 && (unit in IN_PICOSECONDS || unit === "bytes")) return "0";
  if (unit in IN_PICOSECONDS) return scaled(value * IN_PICOSECONDS[unit], TIMES);
  if (unit === "bytes") return scaled(value, SIZES);
  if (unit === "share") return `${percent(value * 100)} %`;
  if (unit === "%") return `${percent(value)} %`;
  if (unit in SIGNS) return scaled(value, PREFIXES, SIGNS[unit]);
  return unit ? `${number(value)} ${unit}` : number(value);
}

/** A change with its sign and unit. */
export function signed(value, unit = null) {
  if (typeof value !== "number" || value === 0 || Number.isNaN(value)) return text(value, unit);
  return `${value > 0 ? "+" : "−"}${text(Math.abs(value), unit)}`;
}

/** A value with all digits, in the unit in which it is stored. */
export function exact(value, unit = null) {
  if (typeof value !== "number" || !Number.isFinite(value)) return text(value);
  const digits = Number.isInteger(value) ? value.toLocaleString("en-US") : String(value);
  return unit && unit !== "share" ? `${digits} ${unit}` : digits;
}

/** A number without unit. */
export function number(value) {
  if (Number.isInteger(value) && Math.abs(value) < 1e15) return value.toLocaleString("en-US");
  const size = Math.abs(value);
  if (size >= 1e15 || (size < 1e-4 && size > 0)) return value.toExponential(3);
  return value.toLocaleString("en-US", { maximumSignificantDigits: 4 });
}

/**
 * One unit for many values of a unit, as an axis or a column has it: {unit, divide, text(value)}. `divide`: by what the
 * values are divided to be numbers of that unit; `text` takes a value as it is stored.
 */
export function scale(values, unit) {
  let most = 0;
  for (const value of values) {
    if (typeof value === "number" && Number.isFinite(value)) most = Math.max(most, Math.abs(value));
  }
  const [name, divide] = chosen(most, unit);
  return { unit: name, divide, text: (value) => inUnit(value, name, divide, unit) };
}

/** The `scale` of a column of a table; null if the values are too far apart for one unit. */
export function columnScale(values, unit) {
  if (unit === "share") return { unit: "%", divide: 0.01, digits: 2 };
  if (unit === "%") return { unit: "%", divide: 1, digits: 2 };
  if (!(unit in IN_PICOSECONDS) && unit !== "bytes") return null;
  let [least, most] = [Infinity, 0];
  for (const value of values) {
    if (typeof value !== "number" || value === 0 || !Number.isFinite(value)) continue;
    least = Math.min(least, Math.abs(value));
    most = Math.max(most, Math.abs(value));
  }
  if (most === 0) return null;
  const units = unit === "bytes" ? SIZES : TIMES;
  const stored = IN_PICOSECONDS[unit] ?? 1;
  for (const [name, size] of units) {
    if (least * stored * 100 >= size && most * stored < size * 1e6 && (most * stored >= size || size === 1)) {
      return { unit: name, divide: size / stored, digits: size === 1 ? 0 : 3 };
    }
  }
  return null;
}

/** What a name of a column or figure says in words, its unit left out: "self_ps" is "Self". */
export function label(name) {
  if (name === "tf_data") return "tf.data";
  const words = name.replace(RATE, (_, of) => `/${of}`).replace(ENDINGS, "").split("_").filter(Boolean);
  const written = words.map((word, at) =>
    WORDS.get(word) ?? percentile(word) ?? (at ? word : word[0].toUpperCase() + word.slice(1))
  );
  return written.join(" ") || name;
}

/** A number with unit as people write it ("1.5ms", "20 MiB", "5%"), as it is stored; NaN where it is none. */
export function parsed(written, unit) {
  const found = /^\s*([-+]?[\d.,]+(?:e[-+]?\d+)?)\s*([a-zµ%/]*)\s*$/i.exec(written);
  if (!found) return NaN;
  const value = Number(found[1].replaceAll(",", ""));
  const sign = found[2].toLowerCase();
  if (!sign) return value;
  if (unit in IN_PICOSECONDS)
    return sign in IN_PICOSECONDS ? (value * IN_PICOSECONDS[sign]) / IN_PICOSECONDS[unit] : NaN;
  if (unit === "bytes") return value * (SIZES.find(([name]) => name.toLowerCase()[0] === sign[0])?.[1] ?? NaN);
  if (unit === "share") return sign === "%" ? value / 100 : NaN;
  if (unit === "%") return sign === "%" ? value : NaN;
  return value * (PREFIXES.find(([name]) => name.toLowerCase() === sign[0])?.[1] ?? 1);
}

/** "p999" is the percentile 99.9. */
function percentile(word) {
  const found = /^p(\d\d)(\d*)$/.exec(word);
  return found && (found[2] ? `p${found[1]}.${found[2]}` : word);
}

function chosen(most, unit) {
  if (unit in IN_PICOSECONDS) {
    const [name, size] = largest(most * IN_PICOSECONDS[unit], TIMES);
    return [name, size / IN_PICOSECONDS[unit]];
  }
  if (unit === "bytes") return largest(most, SIZES);
  if (unit === "share") return ["%", 0.01];
  if (unit in SIGNS) {
    const [prefix, size] = largest(most, PREFIXES);
    return [prefix + SIGNS[unit], size];
  }
  return [unit ?? "", 1];
}

function inUnit(value, name, divide, unit) {
  if (typeof value !== "number") return text(value, unit);
  const written = name === "%" ? percent(value / divide) : number(rounded(value / divide));
  return name ? `${written} ${name}` : written;
}

function largest(value, units) {
  const size = Math.abs(value);
  return units.find(([, unit]) => size >= unit) ?? units.at(-1);
}

function scaled(value, units, sign = "") {
  const [name, size] = largest(value, units);
  return `${number(rounded(value / size))} ${name}${sign}`.trim();
}

function rounded(value) {
  return Math.abs(value) >= 1000 ? Math.round(value) : Number(value.toPrecision(4));
}

function percent(value) {
  const size = Math.abs(value);
  const digits = size !== 0 && size < 0.1 ? 3 : size < 10 ? 2 : 1;
  return value.toLocaleString("en-US", { maximumFractionDigits: digits });
}
