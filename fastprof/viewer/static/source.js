// Where the page gets its data: a server of fastprof. file_source.js is its twin in a saved report.

import { joinTables, readJson, Report } from "./report.js";
import { joined } from "./tile_cut.js";
import { LANES_AT_ONCE } from "./timeline/tile.js";

const KEPT_REPORTS = 24;
/** Bytes of tables, tracks and steps in an answer. */
const PART_BYTES = 800_000;
const TRACKS_AT_ONCE = 5_000;
const STEPS_AT_ONCE = 4_000;
const MOST_STEPS = 100_000;
/** The status of a request for a version of a run that is gone. */
const GONE = 410;
/** Requests that answer with JSON, by the method that asks for them: `source.event(options, signal)`. */
const REQUESTS = {
  empty: "empty",
  analysed: "analysed",
  counters: "counters",
  event: "event",
  slice: "slice",
  range: "range",
  search: "search",
  next: "search/next",
  hits: "search/hits",
  flows: "flows",
  lanes: "lanes",
  hlo: "hlo",
  trends: "trends",
};

/** What went wrong, in a sentence for the user; `status` is that of HTTP, 0 where the server was not reached. */
export class SourceError extends Error {
  constructor(message, status = 0) {
    super(message);
    this.name = "SourceError";
    this.status = status;
  }
}

/**
 * The data of one version of a run: the one that the server opens first. Once the files of the run have changed, `gone`
 * says so, nothing is requested any more, and `onGone(sentence)` is called.
 */
export class ServerSource {
  constructor(run = null) {
    Object.assign(this, { run, version: null, gone: null, onGone: () => {} });
    this.saved = false;
    this.opening = null;
    this.reports = new Map();
    this.listed = null;
  }

  /** The newest runs, or with `q` those whose names contain it, and how many there are (`count`). */
  runs(options = {}, signal = undefined) {
    return this.json("runs", options, signal);
  }

  /** Opens the run, or the one that the server shows: {run, version, hosts, notice}; run is null while there is none. */
  open() {
    this.opening ??= this.json("open").then((opened) => {
      if (opened.run === null) this.opening = null;
      else Object.assign(this, { run: opened.run, version: opened.version });
      return opened;
    });
    return this.opening;
  }

  /** The analyses, with titles, parameters and sections; requested once. */
  analyses(signal) {
    this.listed ??= this.json("analyses", {}, signal).then((analyses) => ({ analyses }), (error) => {
      this.listed = null;
      throw error;
    });
    return this.listed;
  }

  /** Hosts, processes and tracks; with `after`, once their key has changed. Tracks come in several answers. */
  async timeline(options = {}, signal = undefined) {
    const tracks = TRACKS_AT_ONCE;
    const document = await this.json("timeline", { ...options, tracks }, signal);
    for (let first = tracks, more = document.more_tracks; more; first += tracks) {
      const next = await this.json("timeline", { first, tracks }, signal);
      if (next.key !== document.key) return this.timeline({}, signal);
      for (const process of next.processes) addTracks(document.processes, process);
      more = next.more_tracks;
    }
    return document;
  }

  /** The first MOST_STEPS steps, and how many follow. */
  async steps(options = {}, signal = undefined) {
    const rows = STEPS_AT_ONCE;
    const document = await this.json("steps", { ...options, rows }, signal);
    while (document.more && document.bands.length < MOST_STEPS) {
      const { bands, more } = await this.json("steps", { ...options, first: document.bands.length, rows }, signal);
      document.bands.push(...bands);
      document.more = bands.length ? more : 0;
    }
    return document;
  }

  /** A tile of tracks, with the first `lanes` of each; more than LANES_AT_ONCE come in several answers. */
  async tile(key, level, index, tracks, signal, lanes = 0) {
    const path = `tiles/${encodeURIComponent(key)}/${level}/${index}`;
    const get = async (some) => (await this.fetched(path, { tracks, lanes: some }, signal)).arrayBuffer();
    if (lanes <= LANES_AT_ONCE) return get(null);
    const firsts = Array.from({ length: Math.ceil(lanes / LANES_AT_ONCE) }, (_, at) => at * LANES_AT_ONCE);
    const last = (first) => Math.min(first + LANES_AT_ONCE, lanes) - 1;
    return joined(await Promise.all(firsts.map((first) => get(`${first}-${last(first)}`))));
  }

  /** All of a text that the details of an event have the begin of: of a `stat` by its number, or of a `name` by its key. */
  async eventText(options, signal) {
    return (await this.fetched("event/text", options, signal)).text();
  }

  async names(host, ids, signal) {
    const answer = await this.json("names", { host, ids: ids.join(",") }, signal);
    return answer.names;
  }

  /** An answer about tfprof's views: "about", "rows", "row", "find", "stacks", "advice". */
  tfprof(what, options, signal) {
    return this.json(`tfprof/${what}`, options, signal);
  }

  /** The entire name of a row of a view of tfprof. */
  async tfprofName(options, signal) {
    return (await this.fetched("tfprof/name", options, signal)).text();
  }

  /** The report of an analysis. `params`: its parameters, and host (a name or several) and steps. */
  async report(name, params = {}, signal) {
    const key = this.address(`report/${name}`, params);
    const found = this.reports.get(key);
    this.reports.delete(key);
    const report = found ?? (await this.fetchedReport(name, params, signal));
    this.reports.set(key, report);
    if (this.reports.size > KEPT_REPORTS) this.reports.delete(this.reports.keys().next().value);
    return report;
  }

  async fetchedReport(name, params, signal) {
    const [listed, document] = await Promise.all([
      this.analyses(),
      this.columns(`report/${name}`, params, signal),
    ]);
    return new Report(document, listed.analyses.find((analysis) => analysis.name === name));
  }

  /** The comparison of the run with the run `base`. */
  async comparison(base, signal) {
    return new Report(await this.columns("compare", { base }, signal));
  }

  /** A report by column, in answers of at most PART_BYTES. The next answer continues the table that was cut. */
  async columns(path, options, signal) {
    const asked = { ...options, shape: "columns", bytes: PART_BYTES };
    const document = await this.json(path, asked, signal);
    for (const [name, table] of Object.entries(document.tables)) {
      const parts = [table];
      const last = Math.min(table.of, table.first + (options.rows ?? Infinity));
      let next = table.first + table.length;
      while (next < last) {
        const { tables } = await this.json(path, { ...asked, tables: name, first: next, rows: last - next }, signal);
        if (!tables[name].length) throw new SourceError(`The table ${name} ends at row ${next} of ${last}.`);
        parts.push(tables[name]);
        next += tables[name].length;
      }
      if (parts.length > 1) document.tables[name] = joinTables(parts);
    }
    return document;
  }

  /** Address of the run as a file: "report.html" or "trace.pftrace". */
  saving(file) {
    return this.address(`save/${file}`);
  }

  /** Address of a table as a file; null where there is none. */
  csv(name, table, params = {}) {
    return this.address(`report/${name}/${table}.csv`, params);
  }

  /** The first rows of the answer to a query, and how many there are: {answer, of, seconds}. */
  async sql(options, signal) {
    return readJson(await (await this.fetched("sql", options, signal)).text());
  }

  /** All rows of the answer to a query, as CSV. */
  async sqlCsv(options, signal) {
    return (await this.fetched("sql.csv", options, signal)).blob();
  }

  /** The tables that queries may name: {tables: [{table, row, columns}]}. */
  sqlTables(signal) {
    return this.json("sql/tables", {}, signal);
  }

  /** How far a capture is that pages may begin; with options one begins, or stops. */
  async capture(options = null) {
    const how = { method: options ? "POST" : "GET", headers: { "x-fastprof": "page" }, credentials: "same-origin" };
    const response = await answered(`/api/capture?${new URLSearchParams(options ?? {})}`, how);
    if (!response.ok) throw new SourceError(await sentenceOf(response), response.status);
    return response.json();
  }

  address(path, options = {}) {
    const query = new URLSearchParams();
    const all = { run: this.run, version: this.version, ...options };
    for (const [name, value] of Object.entries(all)) {
      for (const one of Array.isArray(value) ? value : [value]) {
        if (one !== null && one !== undefined) query.append(name, one);
      }
    }
    const text = query.toString();
    return `/api/${path}${text ? `?${text}` : ""}`;
  }

  async json(path, options, signal) {
    const response = await this.fetched(path, options, signal);
    return readJson(await response.text());
  }

  async fetched(path, options, signal) {
    if (this.gone) throw new SourceError(this.gone, GONE);
    const how = { signal, headers: { "x-fastprof": "page" }, credentials: "same-origin" };
    const response = await answered(this.address(path, options), how);
    if (response.ok) return response;
    const sentence = await sentenceOf(response);
    if (response.status === GONE) {
      this.gone = sentence;
      this.onGone(sentence);
    }
    throw new SourceError(sentence, response.status);
  }
}

for (const [method, path] of Object.entries(REQUESTS)) {
  ServerSource.prototype[method] = function(options = {}, signal = undefined) {
    return this.json(path, options, signal);
  };
}

/** Adds a process, or only its tracks if the process is there. */
function addTracks(processes, process) {
  const last = processes.at(-1);
  if (last?.id !== process.id || last.host !== process.host) processes.push(process);
  else for (const [name, column] of Object.entries(process.tracks)) last.tracks[name].push(...column);
}

async function answered(address, how) {
  try {
    return await fetch(address, how);
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new SourceError("The server does not answer. Is fastprof serve still running?");
  }
}

/** The server's sentence on what went wrong. */
async function sentenceOf(response) {
  try {
    const { error } = await response.json();
    if (typeof error === "string" && error) return error;
  } catch {
    // not a sentence of this server: say what is known
  }
  return `The server answered ${response.status} ${response.statusText}.`.replace(" .", ".");
}
