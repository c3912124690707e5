// What a query may go on with: tables, columns of the tables that it names, keywords.

const WORD = /[\p{L}\p{N}_.]*$/u;
const REST = /^[\p{L}\p{N}_]*/u;
const NAMED =
  /\b(?:from|join|describe|summarize)\s+([\w.]+)(?:\s+(?:as\s+)?(?!(?:where|join|on|using|group|order|limit|left|right|full|inner|cross|union)\b)(\w+))?/giu;
const WANTS_TABLE = /\b(?:from|join|describe|summarize)\s+[\w.]*$/i;
const KEYWORDS = [
  "select",
  "from",
  "where",
  "group by",
  "order by",
  "limit",
  "join",
  "using",
  "having",
  "with",
  "as",
  "and",
  "or",
  "not",
  "in",
  "like",
  "between",
  "is null",
  "desc",
  "distinct",
  "case when",
  "count(*)",
  "sum(",
  "avg(",
  "min(",
  "max(",
  "median(",
  "quantile_cont(",
  "count(",
  "arg_max(",
  "coalesce(",
];
const MOST = 12;

/** The word that the caret is in: {start, end, text}, where `text` is what stands before the caret. */
export function wordAt(query, caret) {
  const text = WORD.exec(query.slice(0, caret))[0];
  return { start: caret - text.length, end: caret + REST.exec(query.slice(caret))[0].length, text };
}

/** The tables that a query names, each by its name and its alias, in lower case. */
export function namedTables(query, tables) {
  const known = new Map(tables.map((one) => [one.table.toLowerCase(), one]));
  const named = new Map();
  for (const [, name, alias] of query.matchAll(NAMED)) {
    const table = known.get(name.toLowerCase());
    if (!table) continue;
    named.set(name.toLowerCase().split(".").at(-1), table);
    if (alias) named.set(alias.toLowerCase(), table);
  }
  return named;
}

/**
 * What may stand at the caret: {text, kind, about}, the likeliest first. `tables`: {table, row, columns} each. After FROM
 * these are tables, after "alias." the columns of that table, else columns, tables and keywords that begin with the word.
 */
export function completions(query, caret, tables) {
  const { text } = wordAt(query, caret);
  const word = text.toLowerCase();
  const named = namedTables(query, tables);
  const asTable = tables.map((one) => ({ text: one.table, kind: "table", about: one.row ?? "" }));
  if (WANTS_TABLE.test(query.slice(0, caret))) return matching(asTable, word);
  const dot = word.lastIndexOf(".");
  if (dot >= 0) {
    const table = named.get(word.slice(0, dot));
    if (!table) return matching(asTable, word);
    return matching(asColumns(table), word.slice(dot + 1)).map((one) => ({ ...one,
      text: `${text.slice(0, dot + 1)}${one.text}` })
    );
  }
  if (!word) return [];
  const columns = [...new Set(named.values())].flatMap(asColumns);
  const keywords = KEYWORDS.map((one) => ({ text: one, kind: "keyword", about: "" }));
  return matching([...columns, ...keywords, ...asTable], word);
}

function asColumns({ table, columns }) {
  return columns.map((text) => ({ text, kind: "column", about: table }));
}

/** Suggestions that begin with a word, then suggestions that contain it; none if the word is complete. */
function matching(all, word) {
  const unique = [...new Map(all.map((one) => [one.text, one])).values()];
  const begins = unique.filter(({ text }) => text.toLowerCase().startsWith(word));
  const contains = unique.filter(({ text }) => text.toLowerCase().indexOf(word) > 0);
  const both = [...begins, ...contains];
  return both.length === 1 && both[0].text.toLowerCase() === word ? [] : both.slice(0, MOST);
}
