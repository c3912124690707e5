// Tables as CSV files, written in the page.

const BLANKS = "\t-\r \u0085\u00a0\u00ad\u1680\u180e\u2000-\u200f\u2028-\u202f\u205f-\u206f\u3000\ufeff";
const FORMULA = new RegExp(`^(?:['\\t\\r\\n]|[${BLANKS}]*[=+\\-@\uff1d\uff0b\uff0d\uff20])`);

/** CSV of these columns and rows: values as they are stored, nothing for unknown ones. Texts that a spreadsheet would
 * take for formulas begin with an apostrophe, as in the files of the command line. */
export function written(data, columns, order) {
  const lines = [columns.map((name) => quoted(marked(name))).join(",")];
  const write = new Map(columns.map((name) => [name, data.isNumber(name) ? quoted : (value) => quoted(marked(value))]));
  for (const row of order) lines.push(columns.map((name) => write.get(name)(data.value(row, name))).join(","));
  return `${lines.join("\n")}\n`;
}

/** Saves a Blob, or a text of CSV, as a file. */
export function save(name, content) {
  const address = URL.createObjectURL(
    content instanceof Blob ? content : new Blob([content], { type: "text/csv;charset=utf-8" }),
  );
  const link = document.createElement("a");
  Object.assign(link, { href: address, download: name });
  document.body.append(link);
  link.click();
  link.remove();
  setTimeout(() => URL.revokeObjectURL(address), 10_000);
}

function marked(value) {
  return typeof value === "string" && FORMULA.test(value) ? `'${value}` : value;
}

function quoted(value) {
  if (value === null || value === undefined) return "";
  const text = typeof value === "object" ? JSON.stringify(value) : String(value);
  return text === "" ? '""' : /[",\n\r]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}
