// What tests of the page are fed with: tiles as the server sends them, sessions, tables.

import { Table } from "../../fastprof/viewer/static/report.js";
import { SessionModel } from "../../fastprof/viewer/static/timeline/session_model.js";

/** The bytes of a tile: rows of [track, lane, slices], each slice [start, duration, busy, count, name, at]. */
export function tileBytes(rows) {
  const slices = rows.flatMap(([, , ofRow]) => ofRow);
  const body = Math.ceil((32 + 12 * rows.length) / 8) * 8;
  const buffer = new ArrayBuffer(body + 32 * slices.length);
  new Uint32Array(buffer, 0, 8).set([0x31545046, 1, rows.length, slices.length]);
  let end = 0;
  const ends = rows.map(([, , ofRow]) => (end += ofRow.length));
  new Uint32Array(buffer, 32, 3 * rows.length).set([
    ...rows.map(([track]) => track),
    ...rows.map(([, lane]) => lane),
    ...ends,
  ]);
  let place = body;
  [Float64Array, Float64Array, Float32Array, Uint32Array, Uint32Array, Uint32Array].forEach((Kind, column) => {
    new Kind(buffer, place, slices.length).set(slices.map((slice) => slice[column]));
    place += slices.length * Kind.BYTES_PER_ELEMENT;
  });
  return buffer;
}

/** A session of one host and one process whose tracks have these numbers of lanes, and these columns of tracks. */
export function sessionOf(lanes, more = {}, columns = {}) {
  const id = lanes.map((_, place) => place);
  const tracks = { id, name: id.map(String), sort: id, lanes, events: lanes.map(() => 1), derived: lanes.map(() => 0),
    kind: [], ...columns };
  return new SessionModel({ key: "k", state: "ready", span_ps: "1000", hosts: [{ host: "h" }],
    processes: [{ id: 0, host: "h", name: "p", sort: 0, tracks }], ...more });
}

/** A table of columns {name: [values]}; `units`: by column, which makes it one of integers. */
export function tableOf(columns, units = {}) {
  const names = Object.keys(columns);
  return new Table({ table: "t", length: columns[names[0]].length, columns: names.map((name) => {
    const isNumber = columns[name].some((value) => typeof value === "number");
    return { name, type: isNumber ? "double" : "string", unit: units[name] ?? null, description: null,
      values: columns[name] };
  }) });
}
