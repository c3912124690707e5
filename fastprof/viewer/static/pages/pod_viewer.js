// Pod viewer: each step on each core of all hosts, what it spent its time on, and who waits for whom.

import { section, sentence } from "../cards.js";
import { stacked } from "../charts/series.js";
import { CATEGORY } from "../colours.js";
import { picker, slider } from "../controls.js";
import { h } from "../dom.js";
import { list } from "../list.js";
import { choice, reportPage, tableSection } from "../report_page.js";
import { number, text } from "../units.js";
import { CoreMap, scaleBar, shade } from "./core_map.js";
import { columnPairs, detailsPanel, linkRow, pairList, timelineButton } from "./details.js";
import { worstHostsOf } from "./hosts_that_meet.js";

const PARTS = list(`device_compute_ps=Device compute, device_to_device_ps=Device to device,
  device_collectives_ps=Device collectives, host_compute_ps=Host compute, kernel_launch_ps=Kernel launch,
  input_ps=Input, output_ps=Output, compilation_ps=Compilation, all_others_ps=All others,
  copies_ps=Copies, not_training_ps=Evaluation and saving`);
const OF_STEP = list(`hostname=Host, period_ps=Step time, start_ps=Begin, bottleneck, bottleneck_share=Share of it,
  pod_core_id=XProf's id`);
const MOST_BARS = 256;
const MOST_HOSTS = 512;
const MOST_COLLECTIVES = 60;

export const show = reportPage(draw, { params: ["steps", "steps_from"] });

async function draw(body, report, context) {
  if (!report.tables.cores.length) return sentence(body, "The capture has no steps to show.");
  new PodViewer(body, report, context).draw();
  if (new Set(report.tables.cores.column("host")).size > 1) return worstHostsOf(body, context);
}

/** The name of a core without that of its host. */
function shortCore({ core_name: core, host }) {
  return core.startsWith(host) ? core.slice(host.length).replace(/^[:\s/]+/, "") || core : core;
}

class PodViewer {
  constructor(body, report, context) {
    Object.assign(this, { body, report, context, data: report.tables.cores });
    this.byStep = this.data.groupBy("step");
    this.steps = [...this.byStep.keys()].sort((one, other) => one - other);
    this.parts = PARTS.filter(([name]) => this.data.column(name).some((value) => value > 0));
    this.metric = choice(context, "metric", ["period_ps", ...PARTS.map(([name]) => name)]);
    this.step = Math.max(0, this.steps.indexOf(Number(context.params.get("step") ?? NaN)));
    this.details = detailsPanel("Choose a core to see its step time by category.");
  }

  draw() {
    this.drawControls();
    this.drawStep();
    if (this.steps.length > 1) {
      this.gridBody = section(this.body, "All steps on all cores", {
        note: "One row per core, one column per step. Click to open the step.",
      });
      this.drawGrid();
    }
    this.drawTables();
    this.context.on_theme(() => this.grid?.draw());
  }

  drawControls() {
    const words = (place) => `${number(this.steps[place])} (${number(place + 1)} of ${number(this.steps.length)})`;
    this.slider = slider({ label: "Step", min: 0, max: this.steps.length - 1, value: this.step, text: words,
      onchange: (place) => this.chooseStep(place) });
    const options = [["period_ps", "Step time"], ...this.parts];
    const metric = picker({ label: "Colour cores by", options, value: this.metric,
      onchange: (to) => this.chooseMetric(to) });
    this.bar = section(this.body, "A step on all cores");
    this.bar.append(h("div.parameters", this.slider, metric));
    this.mapHolder = h("div");
    this.chartHolder = h("div");
    this.collectiveHolder = h("div");
    this.bar.append(h("div.with-details", h("div", this.mapHolder, this.chartHolder), this.details),
      this.collectiveHolder);
  }

  chooseStep(place) {
    this.step = place;
    this.context.replace({ step: this.steps[place] });
    cancelAnimationFrame(this.waiting);
    this.waiting = requestAnimationFrame(() => this.drawStep());
  }

  chooseMetric(metric) {
    this.metric = metric;
    this.context.replace({ metric: metric === "period_ps" ? null : metric });
    this.drawMap();
    if (this.gridBody) this.drawGrid();
  }

  rows() {
    const { data } = this;
    return [...this.byStep.get(this.steps[this.step])].sort((one, other) =>
      data.value(one, "pod_core_id") - data.value(other, "pod_core_id")
    );
  }

  drawStep() {
    this.drawMap();
    this.drawBars();
    this.drawCollectives();
    if (this.chosen) this.describe(this.chosen);
  }

  /** The cores of the step by host: the topology, as far as captures record it. */
  drawMap() {
    const { data } = this;
    const rows = this.rows();
    const hosts = Map.groupBy(rows, (row) => data.value(row, "host"));
    const all = data.column(this.metric);
    const most = Math.max(...rows.map((row) => all[row]), 1);
    const least = this.metric === "period_ps" ? Math.min(...rows.map((row) => all[row])) : 0;
    const cell = (row) => this.cell(row, shade(this.metric, (all[row] - least) / Math.max(1, most - least)));
    const shown = [...hosts].slice(0, MOST_HOSTS);
    this.mapHolder.replaceChildren(
      h("div.hosts", { role: "group", "aria-label": "Cores by host" }, shown.map(([host, rows]) =>
        h("div.host", h("div.host-name", { title: host }, host), h("div.host-cores", rows.map(cell)))
      )),
      scaleBar(this.metric, least, most),
    );
  }

  /** A core of the step as a button. */
  cell(row, background) {
    const known = this.data.row(row);
    const ofStep = this.metric === "period_ps" ? "" : ` of ${text(known.period_ps, "ps")}`;
    const kinds = ["core", known.sparse_core && "core-sparse", known.core_name === this.chosen && "chosen"];
    return h("button", { class: kinds.filter(Boolean).join(" "), style: { background },
      title: `${known.core_name}: core id ${known.core_id}, ${
        text(known[this.metric], "ps")
      }${ofStep}, most for ${known.bottleneck}`, onclick: () => this.describe(known.core_name) }, shortCore(known));
  }

  drawBars() {
    const { data } = this;
    let rows = this.rows();
    const all = rows.length;
    if (all > MOST_BARS) {
      rows = rows.sort((one, other) => data.value(other, "period_ps") - data.value(one, "period_ps")).slice(0,
        MOST_BARS);
    }
    const box = h("div");
    this.chartHolder.replaceChildren(
      all > MOST_BARS ? h("p.sentence", `The ${MOST_BARS} cores of the longest steps, of ${number(all)}.`) : "",
      box,
    );
    stacked(box, { x: rows.map((row) => data.value(row, "core_name")),
      series: this.parts.map(([name, title]) => ({ name: title, values: rows.map((row) => data.value(row, name)),
        colour: CATEGORY[name.slice(0, -3)] })
      ), unit: "ps", label: "Step time by core and category", height: 330,
      onclick: (place) => this.describe(data.value(rows[place], "core_name")) });
  }

  drawCollectives() {
    const { collectives } = this.report.tables;
    const [fastest, slowest] = [collectives.column("fastest_ps"), collectives.column("slowest_ps")];
    const ofStep = collectives.groupBy("step").get(this.steps[this.step]) ?? [];
    const rows = ofStep.sort((one, other) => slowest[other] - slowest[one]).slice(0, MOST_COLLECTIVES);
    this.collectiveHolder.replaceChildren();
    if (!rows.length) return;
    const box = h("div");
    this.collectiveHolder.replaceChildren(h("h3.subtitle", "Collectives of the step"),
      h("p.section-note",
        "The shortest event of an operation is its duration. Cores with longer events wait for the slowest core."),
      box);
    stacked(box, { x: rows.map((row) => String(collectives.value(row, "collective_id"))), series: [
      { name: "Shortest event", values: rows.map((row) => fastest[row]), colour: CATEGORY.device_collectives },
      { name: "Longest excess", values: rows.map((row) => slowest[row] - fastest[row]), colour: "#d9534f" },
    ], unit: "ps", xTitle: "Operation", label: "Collectives of the step", height: 260 });
  }

  describe(core) {
    this.chosen = core;
    const { data } = this;
    const row = this.rows().find((one) => data.value(one, "core_name") === core);
    if (row === undefined) {
      this.details.show(core, h("p.sentence", "The core took no part in this step."));
      return;
    }
    const known = data.row(row);
    this.details.show(core,
      linkRow(
        timelineButton(this.context,
          () => ({ host: known.host, start: known.start_ps, end: known.start_ps + known.period_ps })),
      ), pairList([...columnPairs(data, known, OF_STEP), ["Complete", known.complete ? null : "no, as far as known"]]),
      pairList(this.parts.map(([name, title]) => [
        title,
        known[name]
          ? `${text(known[name], "ps")}, ${text(known.period_ps ? known[name] / known.period_ps : null, "share")}`
          : null,
      ])));
    for (const node of this.mapHolder.querySelectorAll(".core"))
      node.classList.toggle("chosen", node.title.startsWith(`${core}:`));
  }

  drawGrid() {
    this.gridBody.replaceChildren();
    this.grid = new CoreMap(this.gridBody, this.data, { steps: this.steps, metric: this.metric,
      onselect: (place, core) => {
        this.slider.value = place;
        this.chosen = core;
        this.chooseStep(place);
      } });
  }

  drawTables() {
    const { context, body } = this;
    tableSection(context, body, "cores", this.data, { columns: [
      ...list("step, core_name, period_ps, bottleneck, bottleneck_share"),
      ...this.parts.map(([name]) => name),
      "complete",
      "host",
    ], filters: ["bottleneck", "host"], rows: 14 });
    tableSection(context, body, "collectives", this.report.tables.collectives);
  }
}
