// How a table is sorted and filtered, in the address: "sort-ops=-self_ps", "find-ops=mat mul", "only-ops-category=fusion".

const DOWN = "-";
const UNSORTED = "none";

/** What an address says of a table: {sort: {by, down} or null, undefined: nothing; filter; values, by column}. */
export function read(params, table) {
  const sort = params.get(`sort-${table}`);
  const prefix = `only-${table}-`;
  const values = [...params].filter(([name]) => name.startsWith(prefix)).map((
    [name, value],
  ) => [name.slice(prefix.length), value]);
  return { sort: sort === null ? undefined : sortOf(sort), filter: params.get(`find-${table}`) ?? "",
    values: Object.fromEntries(values) };
}

/** The changes of an address, whose params are these, so that it says how a table is. `usual`: its sort at first. */
export function written(params, table, { sort, filter, values }, usual = null) {
  const same = sort?.by === usual?.by && Boolean(sort?.down) === Boolean(usual?.down);
  const gone = Object.keys(read(params, table).values).filter((column) => !values[column]);
  return { [`sort-${table}`]: same ? null : sort ? `${sort.down ? DOWN : ""}${sort.by}` : UNSORTED,
    [`find-${table}`]: filter || null, ...Object.fromEntries(gone.map((column) => [`only-${table}-${column}`, null])),
    ...Object.fromEntries(Object.entries(values).map(([column, value]) => [`only-${table}-${column}`, value])) };
}

function sortOf(text) {
  if (text === UNSORTED) return null;
  const down = text.startsWith(DOWN);
  return { by: down ? text.slice(DOWN.length) : text, down };
}
