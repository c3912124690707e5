// Compiled programs: their text as XLA prints it, an instruction in it, and what is around that.

import { section, sentence } from "../cards.js";
import { field, picker, slider, tabs, toggle } from "../controls.js";
import { h, paused } from "../dom.js";
import { tableOf } from "../report.js";
import { choice } from "../report_page.js";
import { table } from "../table.js";
import { number } from "../units.js";
import { code, detailsPanel, link, linkRow, pairList } from "./details.js";
import { drawHloGraph } from "./hlo_graph.js";
import { HloLines } from "./hlo_lines.js";

const FORMS = [
  ["short-txt", "Short", "Names without %, constants of at most ten elements"],
  ["long-txt", "Long", "With signatures, constants and control dependencies"],
];
const COLUMNS = [
  { name: "module", type: "string", width: 320 },
  { name: "instruction_count", type: "int64" },
  { name: "computation_count", type: "int64" },
  { name: "size_bytes", type: "int64", unit: "bytes" },
  { name: "host", type: "string" },
  { name: "problem", type: "string" },
];
const WIDEST = 8;
const PAUSE_MS = 250;

export async function show(root, context) {
  const body = h("div.page-body.hlo");
  root.append(body);
  const { modules } = await context.source.hlo({ host: context.host }, context.signal);
  if (!modules.length) {
    sentence(body,
      "The capture has no compiled programs. They are in captures with HLO, or in files beside the capture.");
    return undefined;
  }
  const page = new HloPage(body, modules, context);
  await page.follow(context.params);
  return { params: (params) => page.follow(params) };
}

class HloPage {
  constructor(body, modules, context) {
    Object.assign(this, { body, modules, context, shown: {} });
    this.widen = paused((to) => context.push({ width: to === 2 ? null : to }), PAUSE_MS);
    this.bar = h("div.parameters");
    this.textBody = h("div");
    this.graphBody = h("div");
    body.append(this.bar, this.textBody, this.graphBody);
    this.list();
  }

  /** What the address asks for: a program, in a form, at an instruction. */
  async follow(params) {
    const next = { module: params.get("module") ?? this.modules[0].module,
      form: choice(this.context, "form", FORMS.map(([value]) => value)), metadata: params.get("metadata") === "yes",
      instruction: params.get("instruction"),
      width: Math.min(WIDEST, Math.max(1, Number(params.get("width") ?? 2) || 2)) };
    const before = this.shown;
    this.shown = next;
    this.controls();
    const sameText = before.module === next.module && before.form === next.form && before.metadata === next.metadata;
    if (sameText && this.lines && (await this.reached(next.instruction))) this.lines.mark(next.instruction);
    else await this.drawText();
    if (before.instruction !== next.instruction || before.width !== next.width || before.module !== next.module) {
      await this.drawGraph();
    }
  }

  controls() {
    const { module, form, metadata, instruction } = this.shown;
    const names = [...new Set(this.modules.map((one) => one.module))];
    if (!names.includes(module)) names.unshift(module);
    const push = (changes) => this.context.push(changes);
    this.bar.replaceChildren(
      picker({ label: "Program", options: names, value: module, onchange: (to) =>
        push({ module: to, instruction: null }) }),
      tabs({ label: "Form", options: FORMS, value: form, onchange: (to) =>
        push({ form: to === "short-txt" ? null : to }) }),
      toggle({ label: "Metadata", value: metadata, title: "Origin of each instruction", onchange: (to) =>
        push({ metadata: to ? "yes" : null }) }),
      field({ label: "Instruction or computation", value: instruction ?? "", placeholder: "fusion.3", size: 26,
        onchange: (to) => push({ instruction: to.trim() || null }) }),
      ...(instruction ? this.links(instruction) : []),
    );
  }

  links(instruction) {
    return [
      link("HLO stats", this.context.href("hlo_stats", { op: instruction })),
      link("Timeline", this.context.href("timeline", { q: instruction })),
    ];
  }

  ask(options) {
    const { module, form, metadata } = this.shown;
    return this.context.source.hlo({ host: this.context.host, module, form, metadata: metadata ? 1 : 0, ...options },
      this.context.signal);
  }

  /** Brings the line of an instruction into sight; false where the program has none of that name. */
  async reached(instruction) {
    if (!instruction) return true;
    const { at } = await this.ask({ instruction, lines: 1 });
    if (at === null) return false;
    this.lines.go(at);
    return true;
  }

  async drawText() {
    const { instruction } = this.shown;
    this.lines = null;
    this.textBody.replaceChildren(h("p.sentence", "Writing the program …"));
    const first = await this.ask(instruction ? { instruction } : {});
    this.textBody.replaceChildren();
    if (first.others.length) {
      sentence(this.textBody,
        `The program of ${first.host}; a different program of ${first.others.slice(0, 8).join(", ")} has its id.`);
    }
    this.lines = new HloLines(this.textBody, first, { more: (from, count) => this.ask({ first: from, lines: count }),
      onname: (name) => this.context.push({ instruction: name }) });
    if (instruction) this.lines.mark(instruction);
    if (first.at !== null) this.lines.go(first.at);
  }

  async drawGraph() {
    const { module, instruction, width } = this.shown;
    this.graphBody.replaceChildren();
    if (!instruction) return;
    const found = await this.context.source.hlo({ host: this.context.host, module, instruction, width, around: 1 },
      this.context.signal);
    if (this.shown.instruction !== instruction || this.shown.width !== width) return;
    this.graphBody.replaceChildren();
    const part = section(this.graphBody, `Around ${found.instruction}`, {
      note: `In ${found.computation}: operands above, users below. Click an instruction to go to it${
        found.more ? `; ${number(found.more)} more are farther away` : ""
      }.`,
      actions: [slider({ label: "Uses away", min: 1, max: WIDEST, value: width, onchange: (to) => this.widen(to) })],
    });
    const details = detailsPanel("Choose an instruction.");
    const holder = h("div.graph-holder");
    part.append(h("div.with-details", holder, details));
    drawHloGraph(holder, found, (node) => this.describe(details, node));
    this.describe(details, found.nodes.find((node) => node.distance === 0) ?? found.nodes[0]);
  }

  describe(details, node) {
    if (!node) return;
    const here = node.name === this.shown.instruction;
    details.show(node.name,
      linkRow(
        here
          ? null
          : link("Go there",
            this.context.href("hlo", { ...Object.fromEntries(this.context.params), instruction: node.name })),
        ...this.links(node.name),
      ), pairList([
        ["Opcode", node.opcode],
        ["Shape", node.shape],
        ["Relation", here ? "itself" : `${node.relation}, ${number(node.distance)} away`],
      ]), code("HLO", node.instruction));
  }

  list() {
    if (this.modules.length < 2) return;
    const part = section(this.body, "Programs");
    const data = tableOf("programs",
      COLUMNS.map((column) => ({ ...column, values: this.modules.map((one) => one[column.name]) })));
    const columns = COLUMNS.filter(({ name }) => name !== "problem" || data.isRecorded(name));
    table(part, data, { columns: columns.map(({ name, width }) => ({ name, width })), rows: 8,
      onrow: (row) => this.context.push({ module: data.value(row, "module"), instruction: null }) });
  }
}
