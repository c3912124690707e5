// Roofline: how near ops, steps and programs come to the peaks of the device.

import { NO_OPS, section, sentence } from "../cards.js";
import { picker, tabs, toggle } from "../controls.js";
import { h } from "../dom.js";
import { list } from "../list.js";
import { choice, reportPage, reportTable, tableSection, wholeRow } from "../report_page.js";
import { table } from "../table.js";
import { text } from "../units.js";
import { code, detailsPanel, meter, opFacts, opLinks } from "./details.js";
import { drawRoofline } from "./roofline_chart.js";

const MEMORIES = list(`hbm=HBM, cmem_read=CMEM Read, cmem_write=CMEM Write, vmem_read=VMEM Read,
  vmem_write=VMEM Write`);
const OPS = [
  ...list(`rank, program_id, program, category, name, core_type, occurrences, total_ps, self_ps, self_share, is_feed,
    flops, flops_per_s, accessed_bytes, hbm_bytes_per_s, bound_by, roofline_percent, attainable_flops_per_s,
    framework_op, source, compute_peak_percent, flops_per_byte`),
  ...MEMORIES.flatMap(([name]) => [`flops_per_${name}_byte`, `${name}_peak_percent`]),
];
const SCOPES = [["ops", "Ops"], ["totals", "Session, steps and programs"]];
const OPS_SHOWN = list(`rank, name:200, category, self_ps, self_share, bound_by, roofline_percent,
  compute_peak_percent, hbm_peak_percent, flops_per_s, flops_per_hbm_byte, occurrences, framework_op, program`);
const TOTALS_SHOWN = list(`scope, step, program, per_core_ps, busy_share, bound_by, roofline_percent,
  compute_peak_percent, hbm_peak_percent, flops_per_s, hbm_bytes_per_s, flops_per_hbm_byte`);

export const show = reportPage(draw, { params: ["steps", "steps_from"],
  tables: ["device", "totals", "ops", "lost_time"], columns: { ops: OPS } });

async function draw(body, report, context) {
  if (!report.tables.ops.length) return sentence(body, NO_OPS);
  new Roofline(body, report, context).draw();
  tableSection(context, body, "lost_time", report.tables.lost_time, {
    note: "Time of each op beyond its roofline, largest first.",
  });
  peaks(body, report);
  return undefined;
}

class Roofline {
  constructor(body, report, context) {
    Object.assign(this, { report, context });
    const { ops, device } = report.tables;
    const resources = device.column("resource");
    this.memories = MEMORIES.filter(([, title]) => resources.includes(title));
    this.scope = choice(context, "of", ["ops", "totals"]);
    this.memory = choice(context, "memory", ["hbm", ...this.memories.map(([name]) => name)]);
    this.feeds = context.params.get("feeds") !== "no";
    const hasFeeds = ops.column("is_feed").some(Boolean);
    this.details = detailsPanel("Choose a dot or a row to see its share of each peak.");
    this.holder = h("div");
    this.tableHolder = h("div");
    const part = section(body, "Roofline", {
      note:
        "An op far below the lines can get faster. The area of a dot is self time. Left of the ridge, memory is the "
        + "limit; right of it, arithmetic.",
    });
    part.append(
      h("div.parameters", tabs({ label: "What", options: SCOPES, value: this.scope, onchange: (of) =>
        this.choose({ scope: of }, { of: of === "ops" ? null : of }) }), this.memories.length > 1
        ? picker({ label: "Operations per byte of", options: this.memories, value: this.memory, onchange: (memory) =>
          this.choose({ memory }, { memory: memory === "hbm" ? null : memory }) })
        : null, hasFeeds
        ? toggle({ label: "Infeed and outfeed", value: this.feeds, onchange: (feeds) =>
          this.choose({ feeds }, { feeds: feeds ? null : "no" }) })
        : null),
    );
    part.append(h("div.with-details", h("div", this.holder, this.tableHolder), this.details));
  }

  choose(own, params) {
    Object.assign(this, own);
    this.context.replace(params);
    this.draw();
  }

  data() {
    const { ops, totals } = this.report.tables;
    if (this.scope === "totals") {
      return totals.where((row) =>
        totals.value(row, "with_feeds") === this.feeds || !totals.column("with_feeds").includes(false)
      );
    }
    return this.feeds ? ops : ops.where((row) => !ops.value(row, "is_feed"));
  }

  draw() {
    this.holder.replaceChildren();
    this.tableHolder.replaceChildren();
    const data = this.data();
    const of = this.scope === "ops";
    const onclick = (row) => {
      this.table.select(row);
      this.describe(data, row);
    };
    drawRoofline(this.holder, data, { device: this.report.tables.device, memory: this.memory,
      name: of ? (row) => data.value(row, "name") : (row) => totalName(data, row),
      group: of ? (row) => data.value(row, "category") : (row) => data.value(row, "scope"),
      weight: data.column(of ? "self_ps" : "total_ps"), onclick });
    this.table = reportTable(this.context, this.tableHolder, this.scope, data, { columns: of ? OPS_SHOWN : TOTALS_SHOWN,
      filters: of ? ["category", "bound_by", "program"] : ["scope"], rows: 14, bar: of ? "self_share" : "busy_share",
      onrow: (row) => this.describe(data, row) });
    const row = of ? data.column("name").indexOf(this.context.params.get("op")) : -1;
    if (row >= 0) onclick(row);
    else this.details.empty();
  }

  describe(data, row) {
    const of = this.scope === "ops";
    const name = of ? data.value(row, "name") : totalName(data, row);
    if (of) this.context.replace({ op: name });
    return this.details.load(name, this.nodesOf(data.row(row), data, of));
  }

  async nodesOf(known, data, of) {
    const percent = known.roofline_percent;
    const full = of ? ((await wholeRow(this.context, "ops", known.rank - 1))?.row ?? {}) : {};
    return [
      meter("Share of the roofline", percent,
        percent === null ? null : `${text(percent, "%")}, bound by ${known.bound_by ?? "?"}`),
      meter("Arithmetic", known.compute_peak_percent),
      ...MEMORIES.map(([memory, title]) => meter(title, known[`${memory}_peak_percent`])),
      of ? opLinks(this.context, known, "roofline") : null,
      ...opFacts(data, known),
      code("Framework op", full.framework_op),
      code("Source", full.source),
      code("HLO", full.expression),
    ];
  }
}

function totalName(data, row) {
  const scope = data.value(row, "scope");
  if (scope === "step") return `step ${data.value(row, "step")}`;
  const id = data.value(row, "program_id");
  return scope === "program" ? (data.value(row, "program") ?? (id === null ? "no program" : `program ${id}`)) : scope;
}

function peaks(body, report) {
  const data = report.tables.device;
  if (!data.length) return;
  const part = section(body, "Device peaks", { note: "Peaks per core, or per device if the device has no cores." });
  const units = data.column("unit");
  table(part, data, { columns: [
    "resource",
    { name: "peak", text: (value, row) => text(value, units[row]) },
    "ridge_flops_per_byte",
    "peak_source",
  ], rows: 8 });
}
