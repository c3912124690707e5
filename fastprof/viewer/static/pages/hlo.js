// Compiled programs: their text as XLA prints it, an instruction in it, and what is around that.

import { section, sentence } from "../cards.js";
import { field, picker, slider, tabs, toggle } from "../controls.js";
import { h } from "../dom.js";
import { tableOf } from "../report.js";
import { table } from "../table.js";
import { number } from "../units.js";
import { code, detailsPanel, link, linkRow, pairList } from "./details.js";
import { HloGraph } from "./hlo_graph.js";
import { HloLines } from "./hlo_lines.js";

const FORMS = [
  { value: "short-txt", text: "Short", title: "Names without %, constants of more than ten elements left out" },
  { value: "long-txt", text: "Long", title: "With signatures, constants and what runs before what" },
];
const WIDEST = 8;

export async function show(root, context) {
  const body = h("div.page-body.hlo");
  root.append(body);
  if (typeof context.source.hlo !== "function") {
    sentence(body, "The text of programs needs a server: fastprof serve has it.");
    return { leave() {} };
  }
  const { modules } = await context.source.hlo({ host: context.host }, context.signal);
  if (!modules.length) {
    sentence(body,
      "The capture has no compiled programs: they are there where HLO was recorded, or in files beside it.");
    return { leave() {} };
  }
  const page = new HloPage(body, modules, context);
  await page.follow(context.params);
  return { params: (params) => page.follow(params), leave: () => page.leave() };
}

class HloPage {
  constructor(body, modules, context) {
    Object.assign(this, { body, modules, context, shown: {} });
    this.bar = h("div.parameters");
    this.textBody = h("div");
    this.graphBody = h("div");
    body.append(this.bar, this.textBody, this.graphBody);
    this.list();
  }

  /** What the address asks for: a program, in a form, at an instruction. */
  async follow(params) {
    const asked = params.get("module");
    const module = asked ?? this.modules[0].module;
    const next = { module, form: params.get("form") === "long-txt" ? "long-txt" : "short-txt",
      metadata: params.get("metadata") === "yes", instruction: params.get("instruction"),
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
      toggle({ label: "Metadata", value: metadata, title: "Where each instruction comes from", onchange: (to) =>
        push({ metadata: to ? "yes" : null }) }),
      field({ label: "Instruction or computation", value: instruction ?? "", placeholder: "fusion.3", size: 26,
        onchange: (to) => push({ instruction: to.trim() || null }) }),
      ...(instruction
        ? [
          link("HLO stats", this.context.href("hlo_stats", { op: instruction })),
          link("Timeline", this.context.href("timeline", { q: instruction })),
        ]
        : []),
    );
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
    this.lines?.leave();
    this.lines = null;
    this.textBody.replaceChildren(h("p.sentence", "Writing the program …"));
    const first = await this.ask(instruction ? { instruction } : {});
    this.textBody.replaceChildren();
    if (first.others.length) {
      sentence(this.textBody,
        `The program of ${first.host}; another of ${first.others.slice(0, 8).join(", ")} has its id.`);
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
      note: `In ${found.computation}: operands above, users below. A click goes to an instruction${
        found.more ? `; ${number(found.more)} more are farther away` : ""
      }.`,
      actions: [slider({ label: "Uses away", min: 1, max: WIDEST, value: width, onchange: (to) => this.widen(to) })],
    });
    const details = detailsPanel("Choose an instruction.");
    const holder = h("div.graph-holder");
    part.append(h("div.with-details", holder, details));
    const graph = new HloGraph(holder, found, { onselect: (node) => this.describe(details, node) });
    graph.reveal();
    this.describe(details, found.nodes.find((node) => node.distance === 0) ?? found.nodes[0]);
  }

  widen(width) {
    clearTimeout(this.waiting);
    this.waiting = setTimeout(() => this.context.push({ width: width === 2 ? null : width }), 250);
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
        link("HLO stats", this.context.href("hlo_stats", { op: node.name })),
        link("Timeline", this.context.href("timeline", { q: node.name })),
      ), pairList([
        ["Opcode", node.opcode],
        ["Shape", node.shape],
        ["Relation", here ? "itself" : `${node.relation}, ${number(node.distance)} away`],
      ]), code("HLO", node.instruction));
  }

  list() {
    if (this.modules.length < 2) return;
    const part = section(this.body, "Programs");
    const of = (name) => this.modules.map((one) => one[name]);
    const data = tableOf("programs", [
      { name: "module", values: of("module") },
      { name: "host", values: of("host") },
      { name: "instruction_count", values: of("instruction_count"), type: "int64" },
      { name: "computation_count", values: of("computation_count"), type: "int64" },
      { name: "size_bytes", values: of("size_bytes"), unit: "bytes", type: "int64" },
      { name: "problem", values: of("problem"), type: "string" },
    ]);
    this.table = table(part, data, { columns: [
      { name: "module", width: 320 },
      "instruction_count",
      "computation_count",
      "size_bytes",
      "host",
      ...(of("problem").some(Boolean) ? ["problem"] : []),
    ], rows: 8, onrow: (row) => this.context.push({ module: data.value(row, "module"), instruction: null }) });
  }

  leave() {
    clearTimeout(this.waiting);
    this.lines?.leave();
    this.table?.leave();
  }
}
