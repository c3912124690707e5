// Ops by time: rings by type and by op, on devices and on hosts, with idle time or without; and all ops as tables.

import { columns, panel, section, sentence } from "../cards.js";
import { bars, rateBars } from "../charts/bar_list.js";
import { pie } from "../charts/ring.js";
import { FAINT } from "../colours.js";
import { picker } from "../controls.js";
import { h } from "../dom.js";
import { list } from "../list.js";
import { csvAddress, reportPage, reportTable, tableSection } from "../report_page.js";
import { label, text } from "../units.js";

export const show = reportPage((body, report, context) => new OpStats(body, report, context).draw(), {
  params: ["steps"],
});

const IDLE = "IDLE";
const SIDES = [["Device", "On devices"], ["Host", "On hosts"]];
const MOST_SLICES = 10;
const LEAST_SHARE = 0.2;
const OP_COLUMNS = list("rank, host_or_device, type, name, self_ps");
const MORE_COLUMNS = list(`occurrences, mean_ps, total_ps, flops_per_s, bytes_per_s, flops_per_byte, bound_by,
  tensor_core_share`);
const DEVICE_COLUMNS = list(`rank, program, category, name, self_ps, busy_share, occurrences, mean_ps, total_ps,
  flops_per_s, bytes_per_s, bound_by`);
const HOST_COLUMNS = list("rank, type, name, self_ps, busy_share, occurrences, mean_ps, total_ps, is_eager");

class OpStats {
  constructor(body, report, context) {
    Object.assign(this, { body, report, context, ops: report.tables.ops });
    this.idle = context.params.get("idle") === "1";
    this.rings = [];
  }

  draw() {
    const { body, context } = this;
    if (!this.ops.length) {
      sentence(body, "The capture has no ops.");
      return;
    }
    this.drawRings();
    this.drawRates();
    this.drawOps();
    this.drawTable("device_ops", "Device ops", {
      note: "Instructions of compiled programs, and kernels; summed over devices.",
      columns: DEVICE_COLUMNS.map((name) =>
        name === "name" ? { name, node: (value, row) => this.hloLink(value, row) } : name
      ),
      filters: ["program", "category"],
      search: "device_search",
    });
    this.drawTable("host_ops", "Host ops", { note: "Summed over threads.", columns: HOST_COLUMNS, filters: ["type"],
      search: "host_search" });
    this.drawTable("tf_functions");
    this.drawTable("sparse_core_ops");
    this.drawTable("hosts", "Hosts", { rows: 8 });
    const href = csvAddress(context, "ops");
    if (href) context.actions.append(h("a.button", { href, download: "op_stats.csv" }, "Export as CSV"));
  }

  drawRings() {
    const choice = picker({ label: "Idle time", options: [["0", "left out"], ["1", "counted"]],
      value: this.idle ? "1" : "0", onchange: (value) => this.setIdle(value === "1") });
    for (const [side, words] of SIDES) {
      if (!this.rows(side, true).some((row) => this.ops.value(row, "self_ps") > 0)) continue;
      for (const [by, title] of [["type", `${words}, by type`], ["name", `${words}, by op`]])
        this.rings.push({ side, by, box: panel(title), title });
    }
    const part = section(this.body, "Self time", { actions: [choice] });
    columns(part, ...this.rings.map(({ box }) => box)).classList.add("columns-rings");
    for (const ring of this.rings) this.drawRing(ring);
  }

  drawRing({ side, by, box: { body }, title }) {
    const { ops } = this;
    body.replaceChildren();
    const groups = Map.groupBy(this.rows(side, this.idle), (row) => ops.value(row, by) ?? "unknown");
    const slices = [...groups].map(([name, rows]) => ({ name, value: ops.sum("self_ps", rows),
      colour: name === IDLE ? FAINT : null })
    ).filter(({ value }) => value > 0).sort((one, other) => other.value - one.value);
    const sum = (some) => some.reduce((total, { value }) => total + value, 0);
    const top = slices.slice(0, MOST_SLICES - 1);
    const share = sum(top) / sum(slices);
    if (slices.length > MOST_SLICES && share < LEAST_SHARE) {
      // No op takes much: a ring would be one slice of others.
      body.append(h("p.section-note", `The ${top.length} longest ops take only ${text(share, "share")} of the time.`));
      bars(body, { names: top.map(({ name }) => name), values: top.map(({ value }) => value), unit: "ps", label: title,
        onclick: (at) => this.filter(top[at]) });
    } else {
      pie(body, slices, { unit: "ps", label: title, height: 250, onclick: (slice) => this.filter(slice),
        most: MOST_SLICES });
    }
  }

  /** Rates of the ops on devices that take most time, as XProf shows them. */
  drawRates() {
    const box = panel("FLOP/s of the longest device ops");
    if (rateBars(box.body, this.ops, this.rows("Device", false))) columns(this.body, box);
  }

  drawOps() {
    const words = this.context.params.get("search") ?? "";
    this.part = section(this.body, "Framework ops", {
      note: "Framework ops; device ops are summed over devices, host ops over threads.",
    });
    this.drawOpTable(words);
    if (words) this.reveal(this.part);
  }

  drawOpTable(filter) {
    const shares = this.idle ? ["self_share", "cumulative_self_share"] : ["busy_share", "cumulative_busy_share"];
    this.part.replaceChildren();
    reportTable(this.context, this.part, "ops", this.ops, { columns: [...OP_COLUMNS, ...shares, ...MORE_COLUMNS],
      bar: shares[0], filters: ["host_or_device", "type", "name"], filter,
      where: (row) => this.idle || this.ops.value(row, "type") !== IDLE, rows: 20, caption: "Framework ops" });
  }

  /** `search`: what the address calls the words that the table is filtered by. */
  drawTable(name, title = label(name), { note = null, search = null, ...options } = {}) {
    const filter = this.context.params.get(search) ?? "";
    tableSection(this.context, this.body, name, this.report.tables[name], { title, note, bar: "busy_share", filter,
      rows: 15, ...options });
    if (filter) this.reveal(this.body.lastElementChild);
  }

  /** The name of an instruction, as a link to its text if its program is in the capture. */
  hloLink(name, row) {
    const module = this.report.tables.device_ops.value(row, "program_id");
    if (this.context.saved || !module || module === "0" || name === IDLE) return h("span", name);
    return h("a", { href: this.context.href("hlo", { module, instruction: name }), title: "Show it in its program" },
      name);
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

  /** Filters the table by the name of a slice. */
  filter(slice) {
    if (slice.others) return;
    this.drawOpTable(slice.name);
    this.part.scrollIntoView();
  }

  rows(side, idle) {
    const { ops } = this;
    return ops.select((row) => ops.value(row, "host_or_device") === side && (idle || ops.value(row, "type") !== IDLE));
  }
}
