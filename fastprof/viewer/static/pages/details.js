// What a chosen op, buffer or iterator is, in a panel beside a table or chart: pairs, meters, code, links.

import { copyButton } from "../clipboard.js";
import { button } from "../controls.js";
import { h } from "../dom.js";
import { list } from "../list.js";
import { exact, label, text } from "../units.js";
import { seen, seenLines } from "../unseen.js";

const MOST_CODE = 200_000;
/** What is known of an op or a node of a tree of ops, as far as a table has it. */
const OP_FACTS = list(`kind, program=Program, category, core_type, self_ps=Self time, total_ps=Total time, mean_ps=Mean,
  min_ps=Shortest, share=Of all time, self_share=Of all time, busy_share=Of busy time, own_ps=Ops of this name,
  forward_ps=Forward, backward_ps=Backward, recompute_ps=Recompute, other_ps=Other, lost_ps=Lost,
  dma_stall_share=Waiting for DMA, normalized_ps=At nominal clock, ops, occurrences, executions, instances,
  bound_by=Bound by, cost_share=Of the fusion, work_known_share=Work known, is_rematerialized, is_outside_compilation,
  is_eager, replica_groups, cores=Devices, energy_joules=Energy, deduplicated_name, attribution,
  unattributed=Not attributed`);
const OP_WORK = list(`flops=Operations, model_flops=Of the model, flops_per_s=Operations/s,
  attainable_flops_per_s=At the roofline, flops_source=Operations known from, accessed_bytes=Bytes,
  bytes_per_s=Bandwidth, hbm_bytes=Of HBM, hbm_bytes_per_s=HBM bandwidth, bytes_source=Bytes known from,
  flops_per_byte=Operations a byte, array_bytes=Arrays, padded_bytes=With padding, padding_share=Padding`);

/**
 * A panel that says what to choose until something is: `.show(title, ...nodes)`, `.empty()`. `.load(title, nodes)` shows
 * the nodes of a promise, unless something else is chosen meanwhile.
 */
export function detailsPanel(invitation) {
  const title = h("h3.details-title");
  const body = h("div.details-body", { "aria-live": "polite" });
  const panel = h("aside.details", { "aria-label": "Details" }, title, body);
  panel.show = (name, ...nodes) => {
    panel.awaited = null;
    Object.assign(title, { textContent: seen(String(name)), title: seenLines(String(name)) });
    body.replaceChildren(...nodes.flat().filter(Boolean));
    body.scrollTop = 0;
  };
  panel.load = async (name, nodes) => {
    panel.show(name, h("p.sentence", "Reading …"));
    panel.awaited = nodes;
    try {
      const loaded = await nodes;
      if (panel.awaited === nodes) panel.show(name, ...loaded);
    } catch (error) {
      if (panel.isConnected) throw error; // else the page was left meanwhile, which ends its requests
    }
  };
  panel.empty = () => panel.show("", h("p.sentence", invitation));
  panel.empty();
  return panel;
}

/** An element for a table or chart with a panel of details beside it. */
export function besideDetails(part, details) {
  const left = h("div");
  part.append(h("div.with-details", left, details));
  return left;
}

/** Names and values, one below the other. `pairs`: [name, text or Node, title]; those of null are left out. */
export function pairList(pairs) {
  const rows = pairs.filter((pair) => pair && pair[1] !== null && pair[1] !== undefined && pair[1] !== "");
  return h("dl.pairs", rows.flatMap(([name, value, title]) => [
    h("dt", name),
    h("dd", { title: title ?? null }, value),
  ]));
}

/** Pairs of columns of a row of a table, each a name or [name, what to call it]; what is not known is left out. */
export function columnPairs(table, row, names) {
  const listed = names.map((name) => (Array.isArray(name) ? name : [name, label(name)]));
  return listed.filter(([name]) => table.has(name)).map(([name, words]) => {
    const { unit, description } = table.about(name);
    const value = row[name];
    if (value === null || value === undefined || value === false) return null;
    const written = typeof value === "number" ? exact(value, unit) : "";
    return [words, text(value, unit), [written, description].filter(Boolean).join(" · ")];
  });
}

/** Lists of what is known of an op: its time, then its work. */
export function opFacts(table, row) {
  return [OP_FACTS, OP_WORK].map((names) => pairList(columnPairs(table, row, names)));
}

export function legend(names, shade) {
  return h("span.legend",
    names.map((name) => h("span.legend-entry", h("span.dot", { style: { background: shade(name) } }), name)));
}

/** A bar of how much of a peak is reached, or of what `shade` is the colour of; null where that is not known. */
export function meter(name, percent, written = null, shade = null) {
  if (percent === null || percent === undefined) return null;
  const width = Math.max(0, Math.min(100, percent));
  return h("div.meter", h("div.meter-name", h("span", name), h("span", written ?? text(percent, "%"))),
    h("div.meter-track",
      h("div.meter-bar", { style: { width: `${width}%`, background: shade ?? heat(percent / 100) } })));
}

/** Text as it is, in a box that scrolls. */
export function code(name, value) {
  if (!value) return null;
  const cut = value.length > MOST_CODE;
  return h("div.code", h("div.code-name", h("span", name), copyButton(value, { kind: "button small" })),
    h("pre", { tabindex: "0" }, h("code", cut ? `${value.slice(0, MOST_CODE)}…` : value)));
}

export function linkRow(...links) {
  const there = links.filter(Boolean);
  return there.length ? h("div.link-row", there) : null;
}

export function link(words, href, title = null) {
  return h("a.button", { href, title }, words);
}

/** Where to go on from a row of an op of a program: its text, its row in other pages, its events. `except`: this page. */
export function opLinks(context, { program, program_id: id, name }, except = "") {
  if (!name) return null;
  const module = program ?? (id && String(id) !== "0" ? String(id) : null);
  return linkRow(
    module
      && link("HLO text", context.href("hlo", { module, instruction: name }),
        "The instruction and its neighbours in the program"),
    link("Timeline", context.href("timeline", { q: name }), "Its events"),
    except !== "hlo_stats" && context.lists("hlo_stats") && link("HLO stats", context.href("hlo_stats", { op: name })),
    except !== "roofline" && link("Roofline", context.href("roofline", { op: name })),
  );
}

/** Red through yellow to green: from none of a peak to all of it. */
export function heat(share) {
  const at = Math.max(0, Math.min(1, share));
  return `hsl(${Math.round(at * 130)} 62% 46%)`;
}

/** Red where much is lost. */
export function lossColour(share) {
  return heat(1 - Math.min(1, Math.max(0, share) * 2));
}

/**
 * A button that goes to the timeline. `where()`: {host, start, end} in picoseconds from the start of the host's capture, or
 * a promise of that; with `device`, the time is marked on the tracks of that device.
 */
export function timelineButton(context, where, title = "Timeline") {
  return button(title, async () => context.navigate("timeline", await windowOf(context, await where())), {
    title: "Show this time in the timeline",
  });
}

/** Parameters of the timeline for a time of a host, with some room around it: on the common clock of all hosts. */
async function windowOf(context, { host, start, end, device = null }) {
  const { hosts, processes } = await context.source.timeline({});
  const shift = Number(hosts.find((one) => one.host === host)?.offset_ps ?? 0);
  const room = Math.max(1_000, (end - start) * 0.1);
  const span = (more) => `${Math.round(start + shift - more)}~${Math.round(end + shift + more)}`;
  if (device === null) return { t: span(room) };
  const tracks = processes.filter((one) => one.host === host && one.name === device).flatMap((one) => one.tracks.id);
  return { t: span(room), range: span(0), tracks: tracks.length ? tracks.join(",") : null };
}

const SPANS = [["start_ps", "duration_ps"], ["longest_start_ps", "longest_ps"]];

/** The names of the columns that say when the time of a row begins and how long it is; undefined: it has no such. */
export function spanColumns(data) {
  return data.has("host") ? SPANS.find((names) => names.every((name) => data.has(name))) : undefined;
}

/** Where the time of a row is, as `timelineButton` takes it. */
export function spanOf(data, row) {
  const [start, duration] = spanColumns(data).map((name) => data.value(row, name));
  return { host: data.value(row, "host"), device: data.has("device") ? data.value(row, "device") : null, start,
    end: start + duration };
}
