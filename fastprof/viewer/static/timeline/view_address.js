/** The view in the address of the page: window, selection, range, marks, search, steps, what is closed. Times are as shown. */

import { Clock } from "./clock.js";

const MOST_CLOSED = 200;
const MOST_TRACKS = 400;

/** What an address says of the view. Anything that is not understood is left out; `faults` says so of the main parts. */
export function read(params, clock = new Clock()) {
  const number = (text) => {
    const [, sign, integer, rest = ""] = /^(-?)(\d{1,20})(\.\d+)?$/.exec(text ?? "") ?? [];
    return integer === undefined ? null : clock.back(BigInt(sign + integer)) + Number(`${sign}0${rest}`);
  };
  const pair = (text) => {
    const parts = (text ?? "").split("~").map(number);
    return parts.length === 2 && parts.every((part) => part !== null) ? parts : null;
  };
  const faults = [];
  const ignored = (name, wanted) => {
    faults.push(`The link's ${name}=${params.get(name)} is ignored: it is not ${wanted}`);
    return null;
  };
  const span = (name) => {
    if (!params.has(name)) return null;
    const found = pair(params.get(name));
    return found && found[0] <= found[1] ? found : ignored(name, "a start and a later end");
  };
  const list = (name) => (params.get(name) ?? "").split(",").filter(Boolean);
  const [, at, host] = /^(\d+)@([\s\S]*)$/.exec(params.get("event") ?? "") ?? [];
  if (params.has("event") && at === undefined) ignored("event", "a number, @ and a host");
  const mark = (text) => {
    const found = pair(text) ?? (number(text) === null ? null : [number(text), number(text)]);
    if (found && found[0] <= found[1]) return found;
    faults.push(`The link's mark ${text} is ignored: it is not a time, or a start and a later end`);
    return null;
  };
  const marks = list("marks").map(mark);
  return { window: span("t"), event: at === undefined ? null : { at: Number(at), host }, range: span("range"),
    tracks: params.has("tracks") ? list("tracks").map(Number).filter(Number.isInteger) : null,
    marks: marks.filter(Boolean).map(([start, end]) => ({ start, end })),
    search: { q: params.get("q") ?? "", mode: params.get("mode") === "regex" ? "regex" : "substring",
      case: params.get("case") === "1" ? 1 : 0 }, filter: params.get("filter") ?? "", closed: list("closed"),
    steps: params.get("steps"), faults,
    scroll: params.has("y") && /^\d{1,12}$/.test(params.get("y")) ? Number(params.get("y")) : null };
}

/** The view as changes of an address: null takes a parameter out. `awaited`: an event {at, host} that is being requested. */
export function written(timeline, search, awaited) {
  const { view, selection, layout, model } = timeline;
  const { event, range, marks } = selection;
  const window = view.target;
  const write = (time) => String(model.clock.absolute(time));
  const span = (start, end) => `${write(start)}~${write(end)}`;
  const chosen = awaited ?? (event?.count === 1 ? event : null);
  const closed = model.processes.filter((process) => layout.closed.has(process.id)).map((process) => process.id);
  return {
    t: view.isHome ? null : span(window.start, window.start + window.span),
    event: chosen && `${chosen.at}@${chosen.host}`,
    range: range ? span(range.start, range.end) : null,
    tracks: range?.ids && range.ids.length <= MOST_TRACKS ? range.ids.join(",") : null,
    marks: marks.length
      ? marks.map((mark) => (mark.end > mark.start ? span(mark.start, mark.end) : write(mark.start))).join(",")
      : null,
    q: search.q || null,
    mode: search.q && search.mode === "regex" ? "regex" : null,
    case: search.q && search.case ? "1" : null,
    filter: layout.filter || null,
    closed: closed.length && closed.length <= MOST_CLOSED ? closed.join(",") : null,
    steps: timeline.stepsWanted,
    y: layout.scroll || null,
    ...layout.arrangement.written(),
  };
}
