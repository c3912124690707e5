// Memory viewer: what memory a compiled program takes, when, and what fills it at the peak.

import { columns, notSaved, panel, section, sentence } from "../cards.js";
import { ringPanel } from "../charts/ring.js";
import { colourOf } from "../colours.js";
import { picker } from "../controls.js";
import { h, shortened } from "../dom.js";
import { list } from "../list.js";
import { reportPage, tablePart, tableSection } from "../report_page.js";
import { text } from "../units.js";
import { BufferBars } from "./buffer_bars.js";
import { BufferMap } from "./buffer_map.js";
import { besideDetails, code, columnPairs, detailsPanel, legend, link, linkRow, pairList } from "./details.js";
import { HeapChart } from "./heap_chart.js";

const CATEGORIES = {
  Parameter: "#4c78c8",
  Output: "#3fa66b",
  Constant: "#b0803a",
  Temporary: "#f0882e",
  "Thread-local": "#6d7a8d",
};
const HEAP = ["allocation", "point", "event", "instruction", "heap_bytes", "unpadded_heap_bytes", "total_bytes"];
const LIVES = list(`buffer_id, buffer, category, allocation, timeline_bytes, offset_bytes, bytes, start, end,
  is_at_peak, op_name, shape`);
const OF_BUFFER = list(`bytes=Size, share=Of the peak, unpadded_bytes=Without padding, padding_bytes=Padding,
  category=For, shape, padded_shape=Padded, opcode, allocation, offset_bytes=Offset, parameter_number=Parameter`);

export const show = reportPage(draw, { params: [],
  tables: ["modules", "buffers_at_peak", "peak_by_op", "by_allocation_type", "heap", "allocations"],
  columns: { heap: HEAP } });

async function draw(body, report, context) {
  const { modules } = report.tables;
  if (!modules.length) return sentence(body, "There are no programs to show.");
  return new MemoryViewer(body, report, context).draw();
}

class MemoryViewer {
  constructor(body, report, context) {
    Object.assign(this, { body, report, context, bars: [] });
    this.data = report.tables.buffers_at_peak;
    this.module = report.value("module");
    this.space = report.value("memory_space");
  }

  async draw() {
    const { body } = this;
    if (this.context.saved) sentence(body, notSaved("other programs and memory spaces"));
    else body.append(this.pickers());
    this.details = detailsPanel("Choose a buffer in a chart or table to see its shape, origin and lifetime.");
    this.left = besideDetails(body, this.details);
    this.drawHeap();
    await this.drawMap();
    this.drawBuffers();
    this.drawTables();
  }

  pickers() {
    const { modules } = this.report.tables;
    const programs = [...modules.groupBy("module")].map(([value, [row]]) => {
      const { peak_bytes: peak, memory_space_name: space } = modules.row(row);
      const memory = peak === null ? "" : `${text(peak, "bytes")}${space ? ` of ${space}` : ""} — `;
      return [value, memory + shortened(value, 28)];
    });
    const own = modules.rows().filter((row) => row.module === this.module && row.memory_space !== null);
    const spaces = own.map((
      { memory_space: space, memory_space_name: name, peak_bytes: peak },
    ) => [String(space), `${name ?? space}${peak === null ? "" : ` — ${text(peak, "bytes")}`}`]);
    const push = (changes) => this.context.push(changes);
    return h("div.parameters",
      picker({ label: "Program", options: programs, value: this.module, title: this.module,
        onchange: (module) => push({ module, memory_space: null }) }),
      picker({ label: "Memory", options: spaces, value: String(this.space),
        onchange: (space) => push({ memory_space: space === "0" ? null : space }) }));
  }

  drawHeap() {
    const { heap } = this.report.tables;
    const part_ = section(this.left, "Memory over the program", {
      note: "Points are allocations and frees, in program order.",
    });
    if (!heap.length)
      return sentence(part_, "The program does not record when its temporaries are allocated and freed.");
    const of = heap.groupBy("allocation");
    const allocations = [...of.keys()];
    const largest = allocations.sort((one, other) => peakOf(heap, of.get(other)) - peakOf(heap, of.get(one)))[0];
    const holder = h("div");
    const choose = (allocation) => {
      holder.replaceChildren();
      this.heap = new HeapChart(holder, heap.taken(of.get(allocation)), { onpoint: (row) => this.atPoint(row) });
    };
    if (allocations.length > 1) {
      part_.append(
        h("div.parameters",
          picker({ label: "Heap of allocation", options: allocations.map(String), value: String(largest),
            onchange: (to) => choose(Number(to)) })),
      );
    }
    part_.append(holder);
    return choose(largest);
  }

  /** A point of the program: what happens there, and the buffer that it happens to. */
  atPoint(row) {
    this.map?.markPoint(row.point);
    this.details.show(`Point ${row.point}: ${row.event} at ${row.instruction ?? "?"}`,
      row.instruction
        ? linkRow(link("HLO text", this.context.href("hlo", { module: this.module, instruction: row.instruction })))
        : null, pairList([
        ["In use", text(row.total_bytes, "bytes")],
        ["In this heap", text(row.heap_bytes, "bytes")],
        ["Without padding", text(row.unpadded_heap_bytes, "bytes")],
      ]));
  }

  async drawMap() {
    const lifetimes = await tablePart(this.context, "lifetimes", { columns: LIVES });
    const rows = lifetimes.select((row) =>
      lifetimes.value(row, "start") !== null && lifetimes.value(row, "timeline_bytes") !== null
    );
    if (!rows.length) return;
    const part_ = section(this.left, "Placement and lifetimes of buffers", {
      note:
        "Left to right: the program. Bottom to top: addresses of temporaries. Buffers that are alive at the peak are "
        + "outlined.",
    });
    this.map = new BufferMap(part_, lifetimes.taken(rows), { points: this.report.value("program_points") ?? 0,
      peak: this.report.value("peak_point"), colour: (name) => colourOf(family(name)),
      onselect: (row) => this.select(row) });
  }

  drawBuffers() {
    const { data } = this;
    if (!data.length) return;
    const part_ = section(this.left, "Live allocations at the peak", {
      actions: [legend([...data.groupBy("category").keys()], shade)],
    });
    const padded = data.column("padding_bytes").some((value) => value > 0);
    const orders = list("size=By size, program=In the order of the program, padding=By padding");
    for (const [by, title] of orders) {
      if (by === "padding" && !padded) continue;
      const holder = panel(title);
      part_.append(holder);
      this.bars.push(
        new BufferBars(holder.body, data, { by, colour: (row) => shade(data.value(row, "category")), choose: (row) =>
          this.select(data.row(row), row) }),
      );
    }
  }

  drawTables() {
    const { data, report, context, body } = this;
    this.table = tableSection(context, body, "buffers_at_peak", report.tables.buffers_at_peak, {
      note: "They add up to the peak.",
      filters: ["category"],
      rows: 12,
      onrow: (row) => this.select(data.row(row), row),
    });
    this.drawUse();
    for (const name of ["peak_by_op", "allocations", "modules"]) tableSection(context, body, name, report.tables[name]);
  }

  drawUse() {
    const { peak_by_op: byOp, by_allocation_type: types } = this.report.tables;
    const rows = types.rows().filter((row) => row.memory_space === this.space && row.bytes > 0);
    if (!rows.length) return;
    const uses = rows.map((row) => ({ name: row.category, value: row.bytes, colour: CATEGORIES[row.category] }));
    const ops = byOp.rows().map((row) => ({ name: row.op ?? row.category, value: row.bytes, title: row.shape ?? "" }));
    columns(section(this.body, "Memory by use"), ringPanel("Allocations by use", uses, { unit: "bytes" }),
      ringPanel("The peak by op", ops, { unit: "bytes", most: 10 }));
  }

  /** Marks a buffer in all charts, and shows its details. `row`: its number in buffers_at_peak, if known. */
  select(buffer, row = null) {
    const { data, context, module } = this;
    const id = buffer.buffer_id;
    const at = row ?? (id === null ? -1 : data.column("buffer_id").indexOf(id));
    const marked = at >= 0 ? at : null;
    for (const bars of this.bars) bars.mark(marked);
    this.table?.select(marked);
    this.map?.mark(id);
    const known = { ...buffer, ...(at >= 0 && data.row(at)) };
    const name = instructionOf(known.buffer);
    this.details.show(known.buffer ?? known.category,
      name
        ? linkRow(link("HLO text", context.href("hlo", { module, instruction: name })),
          link("HLO stats", context.href("hlo_stats", { op: name })))
        : null, pairList([...columnPairs(data, known, OF_BUFFER), ["Lives", life(known)]]),
      code("Framework op", known.op_name), code("Source", known.stack ?? known.source));
  }
}

function peakOf(heap, rows) {
  return rows.reduce((most, row) => Math.max(most, heap.value(row, "heap_bytes")), 0);
}

function shade(category) {
  return CATEGORIES[category] ?? colourOf(category);
}

function life({ start, end, start_instruction: from, end_instruction: to }) {
  if (start === null || start === undefined) return "throughout";
  return `from point ${start}${from ? ` (${from})` : ""} to ${end}${to ? ` (${to})` : ""}`;
}

/** "fusion.3{0}" is an element of what fusion.3 makes. */
function instructionOf(buffer) {
  return buffer ? buffer.replace(/\s*\{[\d,]*\}$/, "") : null;
}

/** Instructions that differ only in a number have one colour. */
function family(name) {
  return (name ?? "").replace(/[.\d{},]+$/, "");
}
