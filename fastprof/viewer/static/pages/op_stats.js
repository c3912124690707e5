// Ops by time: rings by type and by op, on devices and on hosts, with idle time or without; and all ops as tables.

import { columns, figures, panel, section, sentence } from "../cards.js";
import { bars } from "../charts/bar_list.js";
import { pie } from "../charts/ring.js";
import { FAINT } from "../colours.js";
import { picker } from "../controls.js";
import { h, shortened } from "../dom.js";
import { list } from "../list.js";
import { reportPage } from "../report_page.js";
import { address, reportTable } from "../report_tables.js";
import { label, text } from "../units.js";

export const show = reportPage(draw, { params: ["steps"] });

const IDLE = "IDLE";
const SIDES = [["Device", "On devices"], ["Host", "On hosts"]];
const MOST_RATES = 20;
const MOST_SLICES = 10;
const LEAST_SHARE = 0.2;
const OP_COLUMNS = ["rank", "host_or_device", "type", "name", "self_ps"];
const MORE_COLUMNS = ["occurrences", "mean_ps", "total_ps"];
const WORK_COLUMNS = ["flops_per_s", "bytes_per_s", "flops_per_byte", "bound_by", "tensor_core_share"];
const DEVICE_COLUMNS = list(`rank, program, category, name, self_ps, busy_share, occurrences, mean_ps, total_ps,
  flops_per_s, bytes_per_s, bound_by`);
const HOST_COLUMNS = list("rank, type, name, self_ps, busy_share, occurrences, mean_ps, total_ps, is_eager");

/** What the address calls the words that tables are filtered by. */
const SEARCHES = {
  device_ops: "device_search",
  host_ops: "host_search",
};

function draw(body, report, context) {
  new OpStats(body, report, context).draw();
}

class OpStats {
  constructor(body, report, context) {
    Object.assign(this, { body, report, context, ops: report.tables.ops });
    this.idle = context.params.get("idle") === "1";
    this.rings = [];
  }

  draw() {
    const { body, report, context } = this;
    figures(section(body, "Time"), report);
    if (!this.ops.length) {
      sentence(body, "The capture has no ops.");
      return;
    }
    this.drawRings();
    this.drawRates();
    this.drawOps();
    this.drawTable("device_ops", "Device ops", "Instructions of compiled programs, and kernels; summed over devices.",
      DEVICE_COLUMNS, ["program", "category"]);
    this.drawTable("host_ops", "Host ops", "Summed over threads.", HOST_COLUMNS, ["type"]);
    for (const name of ["tf_functions", "sparse_core_ops", "hosts"])
      this.drawTable(name, label(name), null, undefined, []);
    context.actions.append(
      h("a.button", { href: address(context, "ops") ?? "#", download: "op_stats.csv",
        hidden: !address(context, "ops") }, "Export as CSV"),
    );
  }

  drawRings() {
    const choice = picker({ label: "Idle time",
      options: [{ value: "0", text: "left out" }, { value: "1", text: "counted" }], value: this.idle ? "1" : "0",
      onchange: (value) => this.setIdle(value === "1") });
    const part = section(this.body, "Self time", { actions: [choice] });
    const boxes = [];
    for (const [side, words] of SIDES) {
      if (!this.rows(side, true).some((row) => this.ops.value(row, "self_ps") > 0)) continue;
      for (const [by, title] of [["type", `${words}, by type`], ["name", `${words}, by op`]]) {
        const box = panel(title);
        boxes.push(box);
        this.rings.push({ side, by, box, title });
      }
    }
    columns(part, ...boxes).classList.add("columns-rings");
    for (const ring of this.rings) this.drawRing(ring);
  }

  drawRing(ring) {
    const { ops, context } = this;
    const groups = Map.groupBy(this.rows(ring.side, this.idle), (row) => ops.value(row, ring.by) ?? "unknown");
    const slices = [...groups].map(([name, rows]) => ({ name, value: ops.sum("self_ps", rows),
      colour: name === IDLE ? FAINT : null })
    );
    const onclick = (slice) => this.filter(ring, slice);
    const { body } = ring.box;
    body.replaceChildren();
    const largest = slices.filter(({ value }) => value > 0).sort((one, other) => other.value - one.value);
    const whole = largest.reduce((sum, { value }) => sum + value, 0);
    const top = largest.slice(0, MOST_SLICES - 1);
    const share = top.reduce((sum, { value }) => sum + value, 0) / whole;
    if (largest.length > MOST_SLICES && share < LEAST_SHARE) return this.drawLongest(ring, top, share);
    context.keep(pie(body, slices, { unit: "ps", label: ring.title, height: 250, onclick, most: MOST_SLICES }));
    return undefined;
  }

  /** Where no op takes much, bars: a ring would be one slice of others. */
  drawLongest(ring, top, share) {
    ring.box.body.append(
      h("p.section-note",
        `No op takes much: the ${top.length} that take longest have ${text(share, "share")} of the time.`),
    );
    this.context.keep(
      bars(ring.box.body, { names: top.map(({ name }) => name), values: top.map(({ value }) => value), unit: "ps",
        label: ring.title, onclick: (at) => this.filter(ring, top[at]) }),
    );
  }

  /** Rates of the ops on devices that take most time, as XProf shows them. */
  drawRates() {
    const { ops } = this;
    if (!ops.has("flops_per_s")) return;
    const rows = this.rows("Device", false).filter((row) => ops.value(row, "flops_per_s") > 0).slice(0, MOST_RATES);
    if (!rows.length) return;
    const box = panel("FLOP/s of the ops on devices that take most time");
    columns(this.body, box);
    const of = (name) => rows.map((row) => ops.value(row, name));
    const titles = rows.map((row) => shortened(ops.value(row, "name"), 200));
    this.context.keep(
      bars(box.body, { names: of("name"), values: of("flops_per_s"), titles, unit: "flop/s", label: "FLOP/s by op" }),
    );
  }

  drawOps() {
    const { context } = this;
    this.part = section(this.body, "Framework ops", {
      note: "Ops of the framework; device ops are summed over devices, host ops over threads.",
    });
    this.drawOpTable(context.params.get("search") ?? "");
    if (context.params.get("search")) this.reveal(this.part);
  }

  drawOpTable(filter) {
    const shares = this.idle ? ["self_share", "cumulative_self_share"] : ["busy_share", "cumulative_busy_share"];
    this.table?.leave();
    this.table = reportTable(this.context, this.part, "ops", this.ops, { columns: [
      ...OP_COLUMNS,
      ...shares,
      ...MORE_COLUMNS,
      ...WORK_COLUMNS,
    ], bar: shares[0], filters: ["host_or_device", "type", "name"], filter,
      where: (row) => this.idle || this.ops.value(row, "type") !== IDLE, rows: 20, caption: "Framework ops" });
  }

  drawTable(name, title, note, shown, filters) {
    const { report, context } = this;
    const data = report.tables[name];
    if (!data?.length) return;
    const part = section(this.body, title, { note });
    const filter = context.params.get(SEARCHES[name]) ?? "";
    if (filter) this.reveal(part);
    const link = name === "device_ops"
      ? { name: "name", node: (value, row) => this.hloLink(data, value, row) }
      : "name";
    reportTable(context, part, name, data, { columns: shown?.map((column) => (column === "name" ? link : column)),
      bar: "busy_share", filters, filter, rows: name === "hosts" ? 8 : 15 });
  }

  /** The name of an instruction, that leads to its text where its program is in the capture. */
  hloLink(data, name, row) {
    const program = data.value(row, "program_id");
    if (this.context.saved || !program || program === "0" || name === IDLE) return h("span", name);
    return h("a", { href: this.context.href("hlo", { module: program, instruction: name }),
      title: "Show it in its program" }, name);
  }

  /** Brings the first part that the address filters into sight. */
  reveal(part) {
    if (this.revealed) return;
    this.revealed = true;
    requestAnimationFrame(() => part.scrollIntoView());
  }

  setIdle(idle) {
    this.idle = idle;
    this.context.replace({ idle: idle ? "1" : null });
    for (const ring of this.rings) this.drawRing(ring);
    this.drawOpTable("");
  }

  /** A slice that is clicked is what the table shows. */
  filter(ring, slice) {
    if (slice.others) return;
    this.drawOpTable(slice.name);
    this.part.scrollIntoView({ behavior: "smooth" });
  }

  rows(side, idle) {
    const { ops } = this;
    return ops.select((row) => ops.value(row, "host_or_device") === side && (idle || ops.value(row, "type") !== IDLE));
  }
}
