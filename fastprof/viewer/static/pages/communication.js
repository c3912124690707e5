// Communication: how much of collectives, copies and feeds compute hides, what the rest costs, and who is late.

import { columns, panel, section, sentence } from "../cards.js";
import { scatter, stacked } from "../charts/series.js";
import { CATEGORY, colourOf, FAINT } from "../colours.js";
import { picker } from "../controls.js";
import { h } from "../dom.js";
import { list } from "../list.js";
import { choice, reportPage, reportTable, tableSection } from "../report_page.js";
import { number, text } from "../units.js";
import { besideDetails, code, columnPairs, detailsPanel, meter, opLinks, pairList } from "./details.js";
import { hostsThatMeet, worstLinks } from "./hosts_that_meet.js";

const PARTS = [
  ["compute_ps", "Computes", CATEGORY.device_compute],
  ["exposed_between_devices_ps", "Exposed: between devices", "#d9534f"],
  ["exposed_with_host_ps", "Exposed: with the host", "#f0882e"],
  ["exposed_within_device_ps", "Exposed: within the device", "#e3b341"],
  ["idle_ps", "Idle", FAINT],
];
const OF_OPERATION = list(`kind, scope, device_count=Devices, occurrences, total_ps=On the way, mean_ps=Mean,
  min_ps=Shortest, max_ps=Longest, hidden_ps=Hidden, exposed_ps=Exposed, wait_ps=Devices stand at it,
  payload_bytes=Message size, moved_bytes=Bytes of all, algorithm_bytes_per_s=Algorithm bandwidth,
  bus_bytes_per_s=Bus bandwidth, best_bus_bytes_per_s=Best bus bandwidth, replica_groups, group_size`);
const ALL = "";
const MOST_BARS = 300;
const SIZES = Array.from({ length: 50 }, (_, at) => 2 ** at);
const RATES = Array.from({ length: 18 }, (_, at) => 10 ** at);

const TABLES = [
  "steps",
  "devices",
  "kinds",
  "operations",
  "links",
  "meetings",
  "stragglers",
  "blame",
  "clocks",
  "host_steps",
];

export const show = reportPage(draw, { params: ["steps", "steps_from"], tables: TABLES,
  labels: () => ({ exposed_share: "exposed part" }) });

async function draw(body, report, context) {
  if (!report.tables.devices.length) return sentence(body, "No device work to show.");
  divided(body, report, context);
  kinds(body, report, context);
  operations(body, report, context);
  worstLinks(body, report, context);
  hostsThatMeet(body, report, context);
  return meetings(body, report, context);
}

// ---- time of steps and devices

function divided(body, report, context) {
  const { steps, devices } = report.tables;
  const names = devices.column("core_name");
  const device = choice(context, "device", [ALL, ...names]);
  const hasSteps = steps.column("step").some((step) => step !== null);
  const choose = picker({ label: "Steps of", options: [[ALL, "One bar per device"], ...names], value: device,
    onchange: (to) => context.push({ device: to }) });
  const part = section(body, device ? `Steps of ${device}` : "Devices", {
    note: "Time counts once: as compute, else as exposed communication, else as idle time.",
    actions: hasSteps ? [choose] : [],
  });
  const data = device ? steps.where((row) => steps.value(row, "core_name") === device) : devices;
  const shown = data.length > MOST_BARS ? data.where((row) => row < MOST_BARS) : data;
  if (shown !== data) sentence(part, `The first ${MOST_BARS} of ${number(data.length)}.`);
  stacked(part, {
    x: device
      ? shown.column("step").map((step, row) => (step === null ? (shown.value(row, "name") ?? "all") : String(step)))
      : shown.column("core_name"),
    series: PARTS.filter(([name]) => shown.column(name).some((value) => value > 0)).map(([name, title, shade]) => ({
      name: title,
      values: shown.column(name),
      colour: shade,
    })),
    unit: "ps",
    xTitle: device ? "Step" : "Device",
    label: "Compute, exposed communication and idle time",
    height: 320,
    onclick: device ? undefined : (place) => hasSteps && context.push({ device: shown.value(place, "core_name") }),
  });
  reportTable(context, part, device ? "steps" : "devices", data, { rows: 8 });
}

// ---- kinds

function kinds(body, report, context) {
  const data = report.tables.kinds;
  if (!data.length) return;
  const part = section(body, "By kind", {
    note: "Hidden communication costs nothing. Exposed time counts for one kind at a time, so the kinds add up.",
  });
  const boxes = [panel("Hidden and exposed"), panel("Kinds")];
  columns(part, ...boxes);
  stacked(boxes[0].body, { x: data.column("kind"), series: [
    { name: "Exposed", values: data.column("exposed_ps"), colour: "#d9534f" },
    { name: "Hidden by compute", values: data.column("hidden_ps"), colour: CATEGORY.device_compute },
  ], unit: "ps", label: "Hidden and exposed communication by kind", height: 300 });
  reportTable(context, boxes[1].body, "kinds", data, {
    columns: list("kind, exposed_ps, exposed_share, hidden_ps, occurrences, moved_bytes"),
    rows: 9,
  });
}

// ---- operations

function operations(body, report, context) {
  const data = report.tables.operations;
  if (!data.length) return;
  const details = detailsPanel("Choose an operation to see its bandwidth and its devices.");
  const part = section(body, "Operations", { note: "The most exposed first." });
  const left = besideDetails(part, details);
  const describe = (row) => operation(details, data, row, context);
  const shown = reportTable(context, left, "operations", data, {
    columns: list(`name:200, kind, exposed_ps, exposed_share, hidden_ps, total_ps,
    mean_ps, occurrences, payload_bytes, bus_bytes_per_s, group_size, framework_op`),
    filters: ["kind"],
    bar: "exposed_share",
    rows: 12,
    onrow: describe,
  });
  bandwidth(left, data, (row) => {
    shown.select(row);
    describe(row);
  });
}

function operation(details, data, row, context) {
  const known = data.row(row);
  details.show(known.name,
    meter("Hidden by compute",
      known.hidden_ps + known.exposed_ps ? (100 * known.hidden_ps) / (known.hidden_ps + known.exposed_ps) : null),
    opLinks(context, known), pairList(columnPairs(data, known, OF_OPERATION)), code("Framework op", known.framework_op),
    code("HLO", known.text));
}

/** How fast bytes move by how many they are: small messages are slow, and large ones below the others have a reason. */
function bandwidth(element, data, onclick) {
  const rows = data.rows().map((row, key) => ({ ...row, key })).filter((row) =>
    row.payload_bytes > 0 && row.bus_bytes_per_s > 0
  );
  if (rows.length < 2) return;
  element.append(h("h3.subtitle", "Bus bandwidth by message size"));
  const most = Math.max(...rows.map((row) => row.total_ps));
  scatter(element, {
    points: rows.slice(0, 1_000).map((row) => ({
      x: row.payload_bytes,
      y: row.bus_bytes_per_s,
      group: row.kind,
      colour: colourOf(row.kind),
      size: 6 + 18 * Math.sqrt(row.total_ps / most),
      title: [
        row.name,
        `${text(row.payload_bytes, "bytes")}, ${text(row.bus_bytes_per_s, "bytes/s")}`,
        `${number(row.occurrences)} times, ${text(row.mean_ps, "ps")} each`,
      ].join("\n"),
      key: row.key,
    })),
    x: { log: true, title: "Message size", ticks: SIZES, text: (value) => text(value, "bytes") },
    y: { log: true, title: "Bus bandwidth", ticks: RATES, text: (value) => text(value, "bytes/s") },
    label: "Bus bandwidth by size",
    height: 320,
    onclick,
  });
}

// ---- who is late

function meetings(body, report, context) {
  const { meetings: data, stragglers } = report.tables;
  if (!data.length) return;
  const part = section(body, "Who is late", {
    note: "The events of one collective on several devices belong together. A device's wait is the excess of its "
      + "event over the shortest event.",
  });
  if (stragglers.length > 1 && stragglers.length <= MOST_BARS) {
    const series = [
      { name: "Wait of other devices for it", values: stragglers.column("caused_ps"), colour: "#d9534f" },
      { name: "Its wait for other devices", values: stragglers.column("waited_ps"), colour: "#7fa6e8" },
    ].filter(({ values }) => values.some((value) => value !== null));
    stacked(part, { x: stragglers.column("core_name"), series, unit: "ps", label: "Wait time in collectives by device",
      height: 260 });
  }
  reportTable(context, part, "stragglers", stragglers);
  tableSection(context, body, "meetings", data, { filters: ["kind", "last_device"] });
}
