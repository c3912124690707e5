/** The view in the address of the page: window, selection, range, marks, search, what is closed. */

const WAIT_MS = 250;
const MOST_CLOSED = 200;
const MOST_TRACKS = 400;

/** What an address says of the view. Anything that is not understood is left out. */
export function read(params) {
  const number = (text) => (text !== null && /^-?\d+(\.\d+)?$/.test(text) ? Number(text) : null);
  const pair = (text) => {
    const parts = (text ?? "").split("~").map(number);
    return parts.length === 2 && parts.every((part) => part !== null) ? parts : null;
  };
  const list = (name) => (params.get(name) ?? "").split(",").filter(Boolean);
  const [, at, host] = /^(\d+)@([\s\S]*)$/.exec(params.get("event") ?? "") ?? [];
  const marks = list("marks").map((text) => pair(text) ?? (number(text) === null ? null : [number(text), number(text)]));
  return {
    window: pair(params.get("t")),
    event: at === undefined ? null : { at: Number(at), host },
    range: pair(params.get("range")),
    tracks: params.has("tracks") ? list("tracks").map(Number).filter(Number.isInteger) : null,
    marks: marks.filter(Boolean).map(([start, end]) => ({ start, end })),
    search: { q: params.get("q") ?? "", mode: params.get("mode") === "regex" ? "regex" : "substring", case: params.get("case") === "1" ? 1 : 0 },
    filter: params.get("filter") ?? "",
    closed: list("closed"),
    scroll: number(params.get("y")) ?? 0,
  };
}

/** The view as changes of an address: null takes a parameter out. */
export function written(timeline, search) {
  const { view, selection, layout, model } = timeline;
  const { event, range, marks } = selection;
  const window = view.target;
  const whole = window.span >= (view.high - view.low) * 0.999;
  const span = (start, end) => `${round(start)}~${round(end)}`;
  const closed = model.processes.filter((process) => layout.closed.has(process.id)).map((process) => process.id);
  return {
    t: whole ? null : span(window.start, window.start + window.span),
    event: event && event.count === 1 ? `${event.at}@${event.host}` : null,
    range: range ? span(range.start, range.end) : null,
    tracks: range?.ids && range.ids.length <= MOST_TRACKS ? range.ids.join(",") : null,
    marks: marks.length ? marks.map((mark) => (mark.end > mark.start ? span(mark.start, mark.end) : round(mark.start))).join(",") : null,
    q: search.q || null,
    mode: search.q && search.mode === "regex" ? "regex" : null,
    case: search.q && search.case ? "1" : null,
    filter: layout.filter || null,
    closed: closed.length && closed.length <= MOST_CLOSED ? closed.join(",") : null,
    y: layout.scroll || null,
  };
}

function round(time) {
  return Number.isInteger(time) ? String(time) : String(Number(time.toFixed(3)));
}

/** Writes the address a moment after the view stands still. */
export class AddressWriter {
  constructor(write) {
    this.write = write;
    this.timer = 0;
  }

  soon() {
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.write(), WAIT_MS);
  }

  leave() {
    clearTimeout(this.timer);
  }
}
