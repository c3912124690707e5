// The report of an analysis, as pages hold it: figures, notices, and tables by column.

const ODD = { NaN, Infinity, "-Infinity": -Infinity };
const NUMBERS = /^(u?int\d+|double|float|halffloat|decimal)/;

/** Reads JSON. Integers that a double cannot hold exactly become texts of their digits. */
export function readJson(text) {
  if (!/\d{16}/.test(text)) return JSON.parse(text);
  const exact = text.replace(/"(?:[^"\\]|\\.)*"|(?<![\d.])-?\d{16,}(?![\d.eE])/g,
    (piece) => piece[0] === '"' || Number.isSafeInteger(Number(piece)) ? piece : `"${piece}"`);
  return JSON.parse(exact);
}

export class Report {
  /** `analysis`: its entry in the server's list, with display names of figures and of their values. */
  constructor(document, { labels = {}, sections = [] } = {}) {
    const words = Object.assign({}, ...sections.map((one) => one.words));
    this.analysis = document.analysis;
    this.notices = document.notices ?? [];
    this.scalars = {};
    for (const [name, scalar] of Object.entries(document.scalars ?? {})) {
      this.scalars[name] = { name, label: labels[name] || "", words: words[name]?.[scalar.value], ...scalar,
        value: figure(scalar.value, scalar.unit) };
    }
    this.tables = {};
    for (const [name, table] of Object.entries(document.tables ?? {})) this.tables[name] = new Table(table);
  }

  /** The value of a figure; null where it is not known. */
  value(name) {
    return this.scalars[name]?.value ?? null;
  }
}

/** A table by column. Texts are stored once each, and decoded when their column is read. */
export class Table {
  constructor(document) {
    const { table, columns, rows } = document;
    this.name = table ?? "";
    this.length = document.length ?? rows?.length ?? 0;
    this.of = document.of ?? this.length;
    this.columns = columns.map(({ name, type, unit, description, reason }) => ({ name, type, unit,
      description: reason ? `${description} · Unknown: ${reason}` : description })
    );
    this.decoded = new Map();
    this.stored = new Map();
    for (const column of columns) {
      if (column.texts) this.stored.set(column.name, { texts: column.texts, codes: column.codes });
      else this.decoded.set(column.name, values(column, column.values ?? rows.map((row) => row[column.name])));
    }
  }

  has(name) {
    return this.stored.has(name) || this.decoded.has(name);
  }

  /** Whether any row has a value in a column. */
  isRecorded(name) {
    return this.has(name) && this.column(name).some((value) => value !== null && value !== "");
  }

  /** The name, type, unit and description of a column. */
  about(name) {
    return this.columns.find((column) => column.name === name);
  }

  isNumber(name) {
    return NUMBERS.test(this.about(name)?.type ?? "");
  }

  /** All values of a column; null where one is not known. */
  column(name) {
    if (!this.decoded.has(name)) {
      const { texts, codes } = this.coded(name);
      this.decoded.set(name, Array.from(codes, (code) => (code < 0 ? null : texts[code])));
    }
    return this.decoded.get(name);
  }

  /** A column as {texts: those that differ, codes: which one each row has, -1 for null}. */
  coded(name) {
    if (!this.stored.has(name)) this.stored.set(name, encoded(this.decoded.get(name)));
    const found = this.stored.get(name);
    if (!found) throw new Error(`The table ${this.name} has no column ${name}.`);
    return found;
  }

  value(row, name) {
    if (this.decoded.has(name)) return this.decoded.get(name)[row];
    const { texts, codes } = this.coded(name);
    return codes[row] < 0 ? null : texts[codes[row]];
  }

  row(row) {
    return Object.fromEntries(this.columns.map(({ name }) => [name, this.value(row, name)]));
  }

  rows() {
    return Array.from({ length: this.length }, (_, row) => this.row(row));
  }

  /** The numbers of the rows for which `wanted(row number)` holds, in their order. */
  select(wanted = () => true) {
    const rows = [];
    for (let row = 0; row < this.length; row += 1) if (wanted(row)) rows.push(row);
    return rows;
  }

  /** A table of the rows for which `wanted(row number)` holds. */
  where(wanted) {
    return this.taken(this.select(wanted));
  }

  /** These rows, by number. */
  taken(rows) {
    const columns = this.columns.map((column) => {
      if (!this.stored.has(column.name)) return { ...column, values: rows.map((row) => this.value(row, column.name)) };
      const { texts, codes } = this.stored.get(column.name);
      return { ...column, texts, codes: rows.map((row) => codes[row]) };
    });
    return new Table({ table: this.name, length: rows.length, columns });
  }

  /** Numbers of the rows by the value of a column, in the order in which the values first come. */
  groupBy(name) {
    const values = this.column(name);
    return Map.groupBy(values.keys(), (row) => values[row]);
  }

  /** The sum of a column over these rows, all where none are given; unknown values count as 0. */
  sum(name, rows = null) {
    const of = this.column(name);
    return (rows ? rows.map((row) => of[row]) : of).reduce((total, value) => total + (value ?? 0), 0);
  }
}

/** Joins the documents of a table's parts. */
export function joinTables(parts) {
  const columns = parts[0].columns.map((column, at) => {
    const found = parts.map((part) => part.columns[at]);
    return column.texts ? joinTexts(column, found) : { ...column, values: found.flatMap(({ values }) => values) };
  });
  return { ...parts[0], length: parts.reduce((sum, { length }) => sum + length, 0), columns };
}

/** Joins the parts of a column of strings, and stores each string once. */
function joinTexts(column, found) {
  const numbers = new Map();
  const codes = found.flatMap(({ texts, codes }) => {
    for (const text of texts) if (!numbers.has(text)) numbers.set(text, numbers.size);
    const own = texts.map((text) => numbers.get(text));
    return codes.map((code) => (code < 0 ? code : own[code]));
  });
  return { ...column, texts: [...numbers.keys()], codes };
}

/** A table made in the page. `columns`: {name, type, unit, description, values}. */
export function tableOf(name, columns) {
  const length = columns[0]?.values.length ?? 0;
  const kind = (values) => (typeof values.find((value) => value !== null) === "number" ? "double" : "string");
  return new Table({ table: name, length,
    columns: columns.map((column) => ({ unit: null, description: null, ...column,
      type: column.type ?? kind(column.values) })
    ) });
}

function values(column, found) {
  if (!NUMBERS.test(column.type)) return found;
  const floating = !/int/.test(column.type);
  if (!floating && !column.unit) return found;
  return found.map((value) => figure(value, column.unit, floating));
}

function figure(value, unit, floating = false) {
  if (typeof value !== "string") return value;
  if (floating && value in ODD) return ODD[value];
  return (unit || floating) && /^-?\d+$/.test(value) ? Number(value) : value;
}

function encoded(found) {
  const numbers = new Map();
  const texts = [];
  const codes = new Int32Array(found.length);
  found.forEach((value, row) => {
    if (value === null) {
      codes[row] = -1;
      return;
    }
    const text = typeof value === "string" ? value : JSON.stringify(value);
    if (!numbers.has(text)) {
      numbers.set(text, texts.length);
      texts.push(text);
    }
    codes[row] = numbers.get(text);
  });
  return { texts, codes };
}
