// The view in the URL: #/PAGE?run=…&host=…&what the page keeps there. Addresses of profiler-ui, #{"view":…}, are those of
// the page of tfprof.

/** The page that shows an analysis: the first page shows two. */
export function pageOf(analysis) {
  return analysis === "diagnosis" ? "overview" : analysis;
}

/** The route of an address: {page, run, host, params}; params are those of the page. `first`: the page of none. */
export function read(hash, first) {
  const old = /^#?(\{|%7B)/i.test(hash) ? profilerUi(decoded(hash.replace(/^#/, ""))) : null;
  if (old) return { page: "tfprof", run: null, host: null, params: old };
  const [, path = "", query = ""] = /^#?\/?([^?]*)\??(.*)$/s.exec(hash) ?? [];
  const params = new URLSearchParams(query);
  const route = { page: pageOf(decoded(path)) || first, run: params.get("run"), host: params.get("host"), params };
  params.delete("run");
  params.delete("host");
  return route;
}

export function written({ page, run, host, params }) {
  const all = new URLSearchParams();
  if (run !== null) all.set("run", run);
  if (host !== null) all.set("host", host);
  for (const [name, value] of params) all.append(name, value);
  const query = all.toString();
  return `#/${encodeURIComponent(page)}${query ? `?${query}` : ""}`;
}

/** The run that a run is compared with, unless one is chosen: the one before it, or the one after the first. */
export function usualBase(runs, run) {
  const at = runs.findIndex(({ name }) => name === run);
  const others = [...runs.slice(at + 1), ...runs.slice(0, Math.max(at, 0)).reverse()];
  return others.find(({ problem }) => !problem)?.name ?? null;
}

/** The params with these changes; what is null or empty goes. */
export function changed(params, changes) {
  if (changes instanceof URLSearchParams) return new URLSearchParams(changes);
  const found = new URLSearchParams(params);
  for (const [name, value] of Object.entries(changes)) {
    if (value === null || value === undefined || value === "") found.delete(name);
    else found.set(name, value);
  }
  return found;
}

/** The params that the pages of two analyses have both: links from one to the other keep them. */
export function shared(params, here, there) {
  const key = ({ name, type, choices }) => JSON.stringify([name, type, choices]);
  const known = new Set(there.params.map(key));
  const names = here.params.filter((param) => known.has(key(param))).map(({ name }) => name);
  const both = new Set([...names, "steps"]); // each analysis has steps
  return new URLSearchParams([...params].filter(([name]) => both.has(name)));
}

function decoded(path) {
  try {
    return decodeURIComponent(path);
  } catch {
    return path;
  }
}

/** The parameters of an address of profiler-ui, an object in JSON; null if it is none. Lists are written in JSON. */
function profilerUi(text) {
  try {
    const given = Object.entries(JSON.parse(text));
    return new URLSearchParams(
      given.map(([name, value]) => [name, typeof value === "object" ? JSON.stringify(value) : String(value)]),
    );
  } catch {
    return null;
  }
}
