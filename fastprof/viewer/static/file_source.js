// Where the page gets its data in a saved report: from the file itself. It has no single events, search, sums or flows.

import { numbers } from "./number_ranges.js";
import { readJson, Report } from "./report.js";
import { cut, within } from "./tile_cut.js";
import { columnsOf } from "./timeline/tile.js";

export class FileSource {
  constructor() {
    this.run = null;
    this.saved = true;
    this.read = new Map();
  }

  runs() {
    return this.json("session");
  }

  async open() {
    const { runs: [{ name, hosts }] } = await this.runs();
    return { run: name, version: null, hosts, notice: null };
  }

  analyses() {
    return this.json("analyses");
  }

  /** Why pages have nothing to show, by name. */
  async empty() {
    return (await this.analyses()).empty ?? {};
  }

  timeline() {
    return this.json("timeline");
  }

  /** A tile of the level or the next finer one in the file, else of the finest. */
  async tile(key, level, index, tracks) {
    const { levels } = await this.json("levels");
    const finer = levels.filter((one) => one <= level);
    const all = await this.once(`tiles-${finer.length ? Math.max(...finer) : Math.min(...levels)}`,
      async (name) => columnsOf(await bytes(name)));
    return cut(all, level, index, numbers(tracks));
  }

  /** Which lanes have events between two times, as far as the file's finest level says. */
  async lanes({ start_ps, end_ps }) {
    const { levels } = await this.json("levels");
    const all = await this.once(`tiles-${Math.min(...levels)}`, async (name) => columnsOf(await bytes(name)));
    const some = {};
    for (let row = 0; row < all.rows; row += 1) {
      const [first, last] = within(all, row, start_ps, end_ps);
      if (last > first) (some[all.track[row]] ??= []).push(all.lane[row]);
    }
    return { all: "", some: Object.fromEntries(Object.entries(some).map(([id, lanes]) => [id, lanes.join(",")])) };
  }

  async names(host, ids) {
    const names = (await this.json("names"))[host] ?? {};
    return Object.fromEntries(ids.filter((id) => id in names).map((id) => [id, names[id]]));
  }

  async steps() {
    return this.json("steps");
  }

  async counters({ track }) {
    return (await this.json("counters"))[track] ?? { t: [], min: [], max: [], last: [], unit: "" };
  }

  async report(name, params = {}) {
    if (!has(`report-${name}`)) throw new Error(`The report was saved without ${name}.`);
    const all = await this.once(`report-${name}`, async (block) => {
      const { analyses } = await this.analyses();
      return new Report(readJson(await text(block)), analyses.find((one) => one.name === name));
    });
    return params.first === undefined && params.rows === undefined ? all : part(all, params);
  }

  csv() {
    return null;
  }

  json(name) {
    return this.once(name, async (block) => readJson(await text(block)));
  }

  /** What is made of data of this name, made once. */
  once(name, make) {
    if (!this.read.has(name)) this.read.set(name, make(name));
    return this.read.get(name);
  }
}

/** Some rows of the requested tables, as a server gives them. */
function part(report, { tables, first = 0, rows = Infinity }) {
  const wanted = tables ? tables.split(",") : Object.keys(report.tables);
  const some = Object.create(report);
  some.tables = { ...report.tables };
  for (const name of wanted) {
    const table = report.tables[name];
    const last = Math.min(table.length, Number(first) + Number(rows));
    some.tables[name] = table.taken(Array.from({ length: Math.max(0, last - first) }, (_, at) => Number(first) + at));
  }
  return some;
}

// Data in the page itself: elements of JSON, or of bytes compressed with gzip and written as base64.

/** Whether the page holds data of this name. */
function has(name) {
  return element(name) !== null;
}

/** The bytes of this name, uncompressed. */
async function bytes(name) {
  const found = element(name);
  if (!found) throw new Error(`The report lacks ${name}: it is incomplete.`);
  const packed = Uint8Array.from(atob(found.textContent.trim()), (letter) => letter.charCodeAt(0));
  const unpacked = new Blob([packed]).stream().pipeThrough(new DecompressionStream("gzip"));
  return new Response(unpacked).arrayBuffer();
}

/** The text of this name, compressed or not. */
async function text(name) {
  const found = element(name);
  if (found?.type === "application/json") return found.textContent;
  return new TextDecoder().decode(await bytes(name));
}

function element(name) {
  return document.getElementById(`data-${name}`);
}
