/** Details of the selected event: times, stats, what encloses it and what it encloses, flows, its op. */

import { notSaved } from "../cards.js";
import { clear, h } from "../dom.js";
import { shownName } from "../kernel_names.js";
import { folded } from "./folded_text.js";
import { PanelColumns } from "./panel_columns.js";
import { copyTime, failure, hint, panelButton, panelHead } from "./panel_parts.js";
import { sumsTable } from "./sums_table.js";
import { counted, plural, visible } from "./text.js";
import { exact, short } from "./time_format.js";

const LONGEST_TITLE = 200;
const TIMES = /(_ps|_ns)$/;
/** What a time is of: an event of a device may have two. */
const MEANINGS = {
  Duration:
    "As in the timeline. Op stats adds up the stat device_duration_ps, by the device's own clock, if the event has it",
  "Self time": "Duration minus the time of the events inside it",
};
const NAMES = { Name: "name", "Metadata name": "metadata_name" };
const CLOCKS = {
  device_duration_ps: "Measured by the device's own clock; op stats sums these values. The timeline shows Duration",
  device_offset_ps: "By the device's own clock; the timeline shows Start",
  min_duration_ps: "Shortest of the occurrences that this event aggregates",
};

export class EventPanel {
  /** `open(page, params)` leads to another page, `zoom()` to the event. */
  constructor(selection, source, { open, zoom, opened }) {
    Object.assign(this, { selection, source, open, zoom, opened });
    this.node = h("div.tl-panel", { "aria-live": "polite" });
    this.columns = new PanelColumns();
    this.details = null;
    this.nothing();
  }

  nothing() {
    this.stamp = null;
    this.details = null;
    clear(this.node).append(
      hint("Click an event to see its details here. Drag over the tracks to sum up a time range."),
    );
  }

  /** Follows the selection. */
  async follow() {
    const event = this.selection.event;
    if (!event) {
      this.nothing();
      return;
    }
    const stamp = (this.stamp = `${event.host} ${event.at} ${event.count}`);
    this.opened();
    this.details = null;
    if (event.count > 1) await this.showMany(event, stamp);
    else await this.showOne(event, stamp);
  }

  get clock() {
    return this.selection.timeline.model.clock;
  }

  timeButton({ host, start, duration }) {
    return copyTime(this.clock.flag(start, start + duration, host));
  }

  zoomButton() {
    return panelButton("Zoom to it", "Zoom to the event (f)", this.zoom);
  }

  async showMany(event, stamp) {
    const facts = `${plural(event.count, "event")} too short to draw individually, within ${short(event.duration)}`;
    const rows = h("div");
    clear(this.node).append(
      panelHead(`${event.text ?? "Events"} and others`, facts, this.timeButton(event), this.zoomButton()),
      rows,
    );
    if (this.source.saved) {
      rows.append(hint(notSaved("sums of events that are drawn together")));
      return;
    }
    try {
      const answer = await this.source.slice({ host: event.host, at: event.at, count: event.count });
      if (stamp !== this.stamp) return;
      this.details = answer;
      sumsTable(rows, answer.rows ?? answer, ["name", "count", "total_ps", "max_ps"]);
    } catch (error) {
      if (stamp === this.stamp) rows.append(failure(error));
    }
  }

  async showOne(event, stamp) {
    clear(this.node).append(
      panelHead(event.text ?? "…", short(event.duration), this.timeButton(event), this.zoomButton()),
    );
    if (this.source.saved) {
      const { start, duration, host } = event;
      const facts = [["Start", this.clock.exact(start)], ["Duration", exact(duration)], ["Host", visible(host)]];
      this.node.append(this.facts(facts), hint(notSaved("stats of single events")));
      return;
    }
    try {
      const details = await this.source.event({ host: event.host, at: event.at });
      if (stamp !== this.stamp) return;
      this.details = details;
      this.selection.setEventFlows(details.flows ?? []);
      this.fill(event, details);
    } catch (error) {
      if (stamp === this.stamp) this.node.append(failure(error));
    }
  }

  fill(event, details) {
    const shown = details.display_name || details.name || event.text || "(no name)";
    const sections = [this.section("Event", this.facts(ownFacts(details, shown, this.clock), details))];
    if (details.stats?.length)
      sections.push(this.section(plural(details.stats_count, "stat"), this.stats(details)));
    sections.push(this.section("Related", this.related(details)));
    const columns = this.columns.of(sections);
    clear(this.node).append(
      panelHead(visible(shown, LONGEST_TITLE), short(details.duration_ps), ...this.opButtons(details),
        this.timeButton({ host: details.host, start: BigInt(details.start_ps), duration: BigInt(details.duration_ps) }),
        this.zoomButton()),
      columns,
    );
  }

  section(title, ...content) {
    return h("section.tl-section", h("h3", title), ...content);
  }

  /** How all of a text is had if it has more `letters` than the details hold. `what`: which text. */
  restOf({ host, at }, letters, what) {
    return letters ? { letters, get: () => this.source.eventText({ host, at, ...what }) } : null;
  }

  facts(pairs, details = {}) {
    const rows = pairs.filter(([, value]) => value !== null && value !== undefined && value !== "");
    const rest = (title) => {
      const name = title === "Name" && details.display_name ? "display_name" : NAMES[title];
      return this.restOf(details, details.letters?.[name], { name });
    };
    return h("dl.tl-facts",
      rows.map((
        [name, value],
      ) => [h("dt", { title: MEANINGS[name] ?? "" }, name), h("dd", folded(value, "", rest(name)))]));
  }

  /** The stats of the details, and a button that adds the next if there are more. */
  stats(details) {
    const list = h("dl.tl-facts.tl-stats", this.statRows(details, 0));
    let count = details.stats.length;
    const more = h("button.tl-fold", { onclick: async () => {
      try {
        const next = await this.source.event({ host: details.host, at: details.at, first_stat: count });
        list.append(...this.statRows(next, count).flat());
        count += next.stats.length;
        label();
      } catch (error) {
        more.replaceWith(failure(error));
      }
    } });
    const label = () => {
      more.textContent = `Show more (${counted(details.stats_count - count)} left)`;
      more.hidden = count >= details.stats_count;
    };
    label();
    return h("div", list, more);
  }

  statRows(details, first) {
    return details.stats.map((stat, place) => [
      h("dt", { title: stat.of === "metadata" ? "All events with this name" : "Of this event",
        class: stat.of === "metadata" ? "tl-of-metadata" : "" }, visible(stat.name)),
      h("dd", { title: CLOCKS[stat.name] ?? stat.kind },
        folded(stat.value ?? "–", inUnit(stat), this.restOf(details, stat.letters, { stat: first + place }))),
    ]);
  }

  opButtons(details) {
    const op = details.op;
    const buttons = [];
    const link = (text, title, page, params) =>
      buttons.push(panelButton(text, title, () => this.open(page, { ...given(params), host: details.host })));
    if (op?.hlo)
      link("HLO", op.hlo.instruction ? "The op's HLO text in its program" : "The program's HLO text", "hlo", op.hlo);
    if (op?.op_stats) link("In op stats", "The op stats rows that include this event", "op_stats", op.op_stats);
    return buttons;
  }

  related(details) {
    const parts = [];
    if (details.parent) parts.push(this.refs("Inside of", [details.parent]));
    const children = details.children;
    if (children?.count)
      parts.push(
        this.refs(`Holds ${counted(children.count)}`, children.first ?? [],
          children.count - (children.first?.length ?? 0)),
      );
    for (const [direction, title] of [["in", "Caused by"], ["out", "Leads to"]]) {
      const flows = (details.flows ?? []).filter((flow) => flow.direction === direction);
      if (flows.length) parts.push(this.refs(title, flows.map((flow) => ({ ...flow.other, kind: flow.kind }))));
    }
    if (!parts.length) parts.push(hint("No enclosing or enclosed events, and no flows."));
    return h("div", parts);
  }

  refs(title, refs, more = 0) {
    return h("div.tl-refs", h("h4", title),
      h("ul", refs.map((ref) => this.ref(ref)), more > 0 ? h("li.tl-hint", `and ${counted(more)} more`) : null));
  }

  ref(ref) {
    const name = visible(shownName(ref.name ?? ""), 120) || "(no name)";
    const note = `${ref.kind ? `${visible(ref.kind)} · ` : ""}${short(ref.duration_ps)}`;
    const go = h("button.tl-link", { title: visible(ref.name ?? ""), onclick: () => this.selection.selectRef(ref) },
      h("span.tl-link-name", name), h("span.tl-link-note", note));
    return h("li", go);
  }
}

/** Start and duration come first; names only if they are not the title, or longer than it. */
function ownFacts(details, shown, clock) {
  const words = (value) => value && String(value);
  const other = (name) => (words(name) === shown ? null : words(name));
  const { op } = details;
  return [
    ["Start", clock.exact(details.start_ps)],
    ["Duration", exact(details.duration_ps)],
    ["Self time", exact(details.self_time_ps)],
    ["Start on its host", clock.offset(details.host) ? exact(clock.ofHost(details.start_ps, details.host)) : null],
    ["Name", shown.length > LONGEST_TITLE ? shown : other(details.name)],
    ["Metadata name", details.metadata_name === details.name ? null : other(details.metadata_name)],
    ["Op", op ? [op.name, op.category].filter(Boolean).join(" · ") : null],
    ["Program", words(op?.module)],
    ["Step", known(details.step)],
    ["Group", details.group < 0 ? null : known(details.group)],
    ["Track", words(details.track_name ?? details.line)],
    ["Process", words(details.process)],
    ["Plane", words(details.plane)],
    ["Line", words(details.line)],
    ["Host", words(details.host)],
    ["Event id", eventId(details)],
  ];
}

/** The parts of an object that are there. */
function given(parts) {
  return Object.fromEntries(Object.entries(parts).filter(([, value]) => value !== null && value !== undefined));
}

/** The number that tables of the capture have of it; addresses of this page have another. */
function eventId(details) {
  if (details.event_id === null || details.event_id === undefined) return null;
  return `${details.event_id} in tables (in this address: ${details.at}@${visible(details.host ?? "")})`;
}

/** A stat whose name says that it is a time is also shown in a readable unit. */
function inUnit(stat) {
  const value = String(stat.value);
  if (!TIMES.test(stat.name) || !/^-?\d{1,18}$/.test(value) || /^-?0*$/.test(value)) return "";
  return `(${short(Number(value) * (stat.name.endsWith("_ns") ? 1000 : 1))})`;
}

function known(value) {
  return value === null || value === undefined ? null : String(value);
}
