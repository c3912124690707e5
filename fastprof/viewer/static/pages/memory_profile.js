// Memory profile: an allocator's memory over time, what is alive at its peak, leaks, fragmentation.

import { firstFigures, notSaved, section, sentence } from "../cards.js";
import { bars } from "../charts/bar_list.js";
import { lines } from "../charts/series.js";
import { button, field, picker } from "../controls.js";
import { h } from "../dom.js";
import { list } from "../list.js";
import { reportPage, reportTable, tablePart, tableSection } from "../report_page.js";
import { text } from "../units.js";
import { besideDetails, columnPairs, detailsPanel, linkRow, pairList, timelineButton } from "./details.js";
import { MemoryTimeline } from "./memory_timeline.js";

const TABLES = list("allocators, active_groups, active, at, steps, ops, growth, fragmentation, request, timeline");
const ALIVE = { filters: ["region_type", "data_type"], bar: "share", rows: 14 };
const OF_SNAPSHOT = list(`op_name=Op, allocation_bytes=Size, requested_bytes=Requested, region_type=Region,
  data_type=Type, shape, step, in_use_bytes=In use after, stack_bytes=Stack, heap_bytes=Heap, free_bytes=Free,
  fragmentation, largest_free_bytes=Largest free chunk at most`);
const MOST_BARS = 14;
const MOST_ALLOCATIONS = 20_000;

export const show = reportPage(draw, { params: ["steps", "steps_from", "short_lived_us"], tables: TABLES,
  cards: false });

async function draw(body, report, context) {
  const { allocators } = report.tables;
  if (!allocators.length) return sentence(body, "There is no memory to show.");
  const names = allocators.rows().map((row) => ({ host: row.host, allocator: row.allocator, row }));
  const place = names.findIndex((one) =>
    one.allocator === (context.params.get("allocator") ?? context.params.get("only-active-allocator"))
    && [null, one.host].includes(context.params.get("of"))
  );
  const chosen = names[Math.max(0, place)];
  if (names.length > 1) body.append(pickers(names, chosen, context));
  const of = (name) => {
    const data = report.tables[name];
    return data.where((row) =>
      data.value(row, "host") === chosen.host && data.value(row, "allocator") === chosen.allocator
    );
  };
  cards(body, chosen.row, allocators);
  timeline(body, report, of, chosen, context);
  breakdown(body, of, context);
  steps(body, of, context);
  for (const [name, note] of Object.entries(MORE)) tableSection(context, body, name, of(name), { note });
  allocations(body, report, context);
}

function pickers(names, chosen, context) {
  const hosts = [...new Set(names.map((one) => one.host))];
  const several = hosts.length > 1;
  const options = names.filter((one) => one.host === chosen.host).map((
    { allocator, row },
  ) => [allocator, `${allocator} (peak ${text(row.peak_bytes, "bytes")})`]);
  return h("div.parameters",
    several
      && picker({ label: "Memory of host", options: hosts, value: chosen.host, onchange: (of) =>
        context.push({ of, allocator: names.find((one) => one.host === of).allocator }) }),
    picker({ label: "Allocator", options, value: chosen.allocator,
      onchange: (allocator) => context.push({ allocator, of: several ? chosen.host : null }) }));
}

const CARDS = list(`peak_bytes=Peak in the capture, capacity_bytes=Capacity, peak_ps=Time of the peak,
  fragmentation_at_peak=Fragmentation at the peak, held_at_end_bytes=Bytes held at the end, allocation_count=Allocations,
  free_count=Frees, peak_step=Step of the peak, lifetime_peak_bytes=Lifetime peak,
  stack_at_peak_bytes=Stack at the peak, heap_at_peak_bytes=Heap at the peak, free_at_peak_bytes=Free at the peak,
  wasted_at_peak_bytes=Never requested`);

function cards(body, row, data) {
  const known = CARDS.filter(([name]) => row[name] !== null);
  firstFigures(body, known.map(([name, words]) => {
    const { unit, description } = data.about(name);
    return { name, label: words, value: row[name], unit: name.startsWith("fragmentation") ? "share" : unit,
      definition: description };
  }));
  if (row.peak_bytes !== null && row.capacity_bytes) {
    const share = row.peak_bytes / row.capacity_bytes;
    body.append(
      h("div.capacity", { title: `${text(share, "share")} of the capacity in use at the peak` },
        h("div.capacity-track", h("div.capacity-stack", {
          style: { width: `${(100 * (row.stack_at_peak_bytes ?? 0)) / row.capacity_bytes}%` },
        }), h("div.capacity-heap", {
          style: { width: `${(100 * (row.heap_at_peak_bytes ?? 0)) / row.capacity_bytes}%` },
        })), h("span", `${text(share, "share")} of ${text(row.capacity_bytes, "bytes")} at the peak`)),
    );
  }
}

function timeline(body, report, of, chosen, context) {
  const box = section(body, "Memory over time", {
    note:
      "Click to see the allocation or free, and the live allocations at that time. Drag to zoom in, double-click to "
      + "reset.",
  });
  const details = detailsPanel("Choose a time to see the allocation or free, and the state of the allocator.");
  box.append(ask(context));
  return new MemoryTimeline(besideDetails(box, details), { timeline: of("timeline"), steps: of("steps"),
    request: of("request"), peak: chosen.row, context, describe: (row) => describe(details, row, context) });
}

/** What else the server computes: what is alive at a time, and when a request would have fitted. */
function ask(context) {
  if (context.saved) return h("p.sentence", notSaved("other times and request sizes"));
  const params = context.params;
  return h("div.parameters",
    field({ label: "Alive at", value: params.get("at") ?? "", placeholder: "20ms",
      title: "Also list the live allocations at this time, from the start of the host's capture, such as 1.5s or 20ms",
      onchange: (at) => context.push({ at }) }),
    field({ label: "Would this size fit?", value: params.get("request") ?? "", placeholder: "2GiB",
      title: "Also show when an allocation of this size would have fit",
      onchange: (request) => context.push({ request }) }),
    params.has("at") || params.has("request")
      ? button("Clear", () => context.push({ at: null, request: null }))
      : null);
}

/** `snapshot`: {row, data}; null if a saved report lacks it. */
function describe(details, snapshot, context) {
  if (snapshot === null) {
    details.empty();
    return;
  }
  const { row, data } = snapshot;
  const address = row.address === null ? null : `0x${BigInt.asUintN(64, BigInt(row.address)).toString(16)}`;
  details.show(`${row.activity === "free" ? "Free" : "Allocation"} at ${text(row.start_ps, "ps")}`,
    linkRow(
      context.saved
        ? null
        : button("Live allocations at this time", () => context.push({ at: timeText(row.start_ps) })),
      timelineButton(context, () => ({ host: row.host, start: row.start_ps, end: row.start_ps + 1e6 })),
    ), pairList([...columnPairs(data, row, OF_SNAPSHOT), ["Address", address]]));
}

/** A time as an address has it, exact. */
function timeText(ps) {
  const [unit, size] = [["ms", 1e9], ["us", 1e6], ["ns", 1e3], ["ps", 1]].find(([, one]) => ps % one === 0);
  return `${ps / size}${unit}`;
}

// ---- what is alive

function breakdown(body, of, context) {
  const [groups, active, at] = [of("active_groups"), of("active"), of("at")];
  tableSection(context, body, "at", at, { title: `Alive at ${context.params.get("at")}`, caption: "Allocations",
    ...ALIVE });
  if (!groups.length && !active.length) return;
  const part = section(body, "Live allocations at the peak", {
    note: "Rows add up to the memory in use. Wasted: chunk bytes beyond the requested sizes.",
  });
  const rows = groups.rows().filter((row) => row.total_bytes > 0).slice(0, MOST_BARS);
  if (rows.length > 1) {
    const names = rows.map((row) => row.op_names ?? row.source);
    bars(part, { names, values: rows.map((row) => row.total_bytes), unit: "bytes", titles: rows.map((row, at) =>
      `${names[at]} (${text(row.share, "share")})`
    ), label: "Memory at the peak by op" });
  }
  reportTable(context, part, "active_groups", groups, { caption: "Similar op names merged", bar: "share", rows: 8 });
  reportTable(context, part, "active", active, { caption: "Each kind of allocation", ...ALIVE });
}

// ---- steps, growth, ops, fragmentation

function steps(body, of, context) {
  const data = of("steps");
  if (!data.length) return;
  const part = section(body, "By step");
  if (data.length > 1) {
    const series = list("peak_bytes=Peak, begin_bytes=At its begin, end_bytes=At its end").map(([column, name]) => ({
      name,
      values: data.column(column),
    }));
    lines(part, { x: data.column("step"), series, unit: "bytes", xTitle: "Step", label: "Memory by step",
      height: 240 });
  }
  reportTable(context, part, "steps", data, { rows: 8 });
}

/** Tables below the others, with notes. */
const MORE = {
  growth: "An op that holds more at the end of each step may be a leak.",
  request: null,
  fragmentation: "Share of free memory in chunks too small for the largest later request.",
  ops: null,
};

/** The table of all allocations, which may be millions: some of them, on request. */
function allocations(body, report, context) {
  if (!report.tables.timeline.of) return;
  const box = section(body, "Every allocation", { note: "Each allocation, with its lifetime and fate." });
  const load = button("Show", async () => {
    load.disabled = true;
    const data = await tablePart(context, "allocations", { rows: MOST_ALLOCATIONS });
    load.remove();
    reportTable(context, box, "allocations", data, { columns: list(`op_name, allocation_bytes, requested_bytes,
      allocated_ps, lifetime_ps, fate, allocated_step, freed_step, region_type, shape, allocator`),
      filters: ["allocator", "fate"], rows: 14 });
  });
  box.append(load);
}
