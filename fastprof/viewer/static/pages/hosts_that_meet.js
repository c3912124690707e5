// Hosts that meet in collectives: which of them delays the others, in which steps, and how far apart their clocks are.

import { section, sentence } from "../cards.js";
import { stacked } from "../charts/series.js";
import { picker } from "../controls.js";
import { list } from "../list.js";
import { asked, choice, reportTable, tableSection } from "../report_page.js";
import { number } from "../units.js";
import { CoreMap } from "./core_map.js";

const METRICS = list(`beyond_ps=Work beyond the median host, work_ps=Work between collectives,
  waited_ps=Waiting for the last host`);
const MOST_HOSTS = 10;
const MOST_LINKS = 10;
const MOST_CELLS = 400_000;

/** What the report communication has of several hosts; nothing if there is one, or none met another. */
export function hostsThatMeet(body, report, context) {
  const { blame, clocks } = report.tables;
  if (!clocks.length) return;
  if (blame.length) worstHosts(body, report, context);
  hostMap(body, report, context);
  tableSection(context, body, "clocks", clocks, { title: "Host clocks" });
}

/** What devices send each other, the slowest first; nothing if no capture records between which devices. */
export function worstLinks(body, report, context) {
  const { links } = report.tables;
  if (!links.length) return;
  const part = section(body, "Links between devices", {
    note:
      "The slowest first. Time includes waiting for the other device; the fastest operation waited least. The route "
      + "between two devices is not recorded.",
  });
  reportTable(context, part, "links", links, { filters: ["kind"], rows: MOST_LINKS });
}

/** The hosts that delay the others most, and the slowest links, on the page of another report; nothing if a saved report lacks them. */
export async function worstHostsOf(body, context) {
  const analysis = context.analyses.find(({ name }) => name === "communication");
  if (!analysis) return;
  const options = { ...asked(analysis, context), tables: "blame,clocks,links" };
  const report = await context.source.report(analysis.name, options, context.signal);
  if (context.signal.aborted) return;
  const own = Object.create(context, { analysis: { value: analysis } });
  if (report.tables.blame.length) worstHosts(body, report, own);
  worstLinks(body, report, own);
}

/** The hosts that delay the others most, as bars, and a table of all. */
function worstHosts(body, report, context) {
  const { blame } = report.tables;
  const part = section(body, "Who delays the others", {
    note: "The critical path continues at each collective with the host that arrived last. A host's excess is its "
      + "work on the path beyond the median of the others.",
  });
  const { straggler_host: straggler } = report.scalars;
  sentence(part, straggler.value === null ? `${capital(straggler.reason)}.` : `${straggler.value} delays the others.`);
  const worst = blame.where((row) => row < MOST_HOSTS);
  if (worst.length < blame.length) sentence(part, `The first ${MOST_HOSTS} of ${number(blame.length)} hosts.`);
  stacked(part, { x: worst.column("host"), series: [
    { name: "Excess on the critical path", values: worst.column("excess_ps"), colour: "#d9534f" },
    { name: "Its wait for other devices", values: worst.column("waited_ps"), colour: "#7fa6e8" },
  ], unit: "ps", label: "Excess and waiting by host", height: 260 });
  reportTable(context, part, "blame", blame, { rows: MOST_HOSTS });
}

function capital(text) {
  return text.slice(0, 1).toUpperCase() + text.slice(1);
}

function hostMap(body, report, context) {
  const data = report.tables.host_steps.where((row) => report.tables.host_steps.value(row, "step") !== null);
  const steps = [...new Set(data.column("step"))].sort((one, other) => one - other);
  if (steps.length < 2 || data.length > MOST_CELLS) return;
  const metric = choice(context, "of", METRICS.map(([name]) => name));
  const part = section(body, "All steps on all hosts", {
    note: "One row per host, one column per step.",
    actions: [
      picker({ label: "Colour by", options: METRICS, value: metric, onchange: (to) => context.push({ of: to }) }),
    ],
  });
  const map = new CoreMap(part, data, { steps, metric, names: data.column("host"), label: "Steps by host",
    onselect: () => {} });
  context.on_theme(() => map.draw());
}
