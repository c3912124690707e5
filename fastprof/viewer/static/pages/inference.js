// Requests and batches of a model server: how long they take, and what that is made of, model by model.

import { columns, panel, section, sentence } from "../cards.js";
import { bars } from "../charts/bar_list.js";
import { scatter, stacked } from "../charts/series.js";
import { picker, tabs } from "../controls.js";
import { h } from "../dom.js";
import { list } from "../list.js";
import { reportPage, reportTable, tableSection } from "../report_page.js";
import { label, scale, text } from "../units.js";

export const show = reportPage(draw, { params: ["steps"] });

const PERCENTILES = list("mean_ps=Mean, p50_ps=50 %, p75_ps=75 %, p90_ps=90 %, p99_ps=99 %, p999_ps=99.9 %");
const PARTS = ["#4c78c8", "#7fa6e8", "#8d6fc4", "#f0882e", "#3fa66b", "#f7b56d", "#4aa8b8", "#a3adbb", "#6d7a8d"];
const ALL = "";
const MOST_DOTS = 5_000;

function draw(body, report, context) {
  const { models } = report.tables;
  if (!models.length) {
    sentence(body, "The capture has no model server requests.");
    return;
  }
  tableSection(context, body, "models", models, { rows: 8 });
  const choices = [
    [ALL, "All models"],
    ...models.column("model").map((model) => [model ?? "", model ?? "unknown"]),
  ];
  const box = h("div");
  const choose = (model) => {
    box.replaceChildren();
    context.replace({ model: model || null });
    new ModelPage(box, report, model, context).draw();
  };
  const value = context.params.get("model") ?? (models.length === 1 ? models.value(0, "model") : ALL);
  body.append(h("div.parameters", picker({ label: "Model", options: choices, value, onchange: choose })), box);
  choose(value);
}

class ModelPage {
  constructor(body, report, model, context) {
    Object.assign(this, { body, report, model, context });
  }

  draw() {
    this.latency();
    this.requests();
    this.batches();
    this.transfers();
  }

  of(name) {
    const data = this.report.tables[name];
    return this.model === ALL ? data : data.where((row) => data.value(row, "model") === this.model);
  }

  latency() {
    const breakdown = this.of("breakdown");
    if (!breakdown.length) return;
    const box = panel("Parts of latency, by percentile",
      "Each part has its own percentiles, so the parts of one percentile may belong to different requests.");
    section(this.body, "Latency by part").append(box);
    const parts = [...breakdown.groupBy("part")];
    const series = parts.map(([part, rows], at) => ({ name: label(part), colour: PARTS[at % PARTS.length],
      values: PERCENTILES.map(([column]) => mean(rows.map((row) => breakdown.value(row, column)))) })
    );
    const shown = series.filter((one) => one.values.some((value) => value > 0));
    stacked(box.body, { x: PERCENTILES.map(([, words]) => words), series: shown, unit: "ps",
      label: "Latency by part and percentile" });
  }

  requests() {
    const data = this.of("requests");
    const part = section(this.body, "Requests", {
      note: "Percentiles count requests by latency: 99 means that 99 % are shorter.",
    });
    if (!data.length) {
      sentence(part, "No requests.");
      return;
    }
    const box = panel("Latency over time");
    part.append(box);
    this.dots(box.body, data, "latency_ps", "Request");
    reportTable(this.context, part, "requests", data, {
      columns: list(`model, request_id, shorter_percent, start_ps, latency_ps,
      host_preprocess_ps, host_batch_formation_ps, host_runtime_ps, write_to_device_ps, device_compute_ps,
      read_from_device_ps, host_postprocess_ps, idle_ps, other_ps, size`),
      sort: { by: "latency_ps", down: true },
    });
  }

  batches() {
    const data = this.of("batches");
    if (!data.length) return;
    const part = section(this.body, "Batches");
    this.batching(part);
    const [over, sizes] = [panel("Batch time"), panel("By size")];
    columns(part, over, sizes);
    this.dots(over.body, data, "duration_ps", "Batch");
    this.sizes(sizes.body);
    reportTable(this.context, part, "batches", data, { sort: { by: "duration_ps", down: true } });
  }

  /** The parameters of batching, if the server recorded them. */
  batching(part) {
    const recorded = this.of("models").rows().filter((row) => row.max_batch_size !== null);
    for (const row of recorded) {
      const words = [
        [row.num_batch_threads, "batching threads"],
        [row.batch_timeout_us, "µs timeout"],
        [row.max_batch_size, "maximum in a batch"],
        [row.max_enqueued_batches, "maximum number of enqueued batches"],
        [row.allowed_batch_sizes, "allowed sizes"],
      ].filter(([value]) => value !== null);
      part.append(
        h("p.section-note", `${row.model}: ${words.map(([value, name]) => `${text(value)} ${name}`).join(", ")}`),
      );
    }
  }

  sizes(element) {
    const sizes = this.of("batch_sizes");
    const columnsOf = [["mean_latency_ps", "Latency"], ["mean_ps", "Duration"], ["mean_delay_ps", "Delay"]];
    const box = h("div");
    const choose = (column) => {
      box.replaceChildren();
      const names = sizes.rows().map((row) => `${this.model === ALL ? `${row.model} · ` : ""}${row.padded_size}`);
      bars(box, { names, values: sizes.column(column), unit: "ps", label: "Batches by size" });
    };
    element.append(tabs({ label: "What", options: columnsOf, onchange: choose }), box);
    choose(columnsOf[0][0]);
  }

  transfers() {
    tableSection(this.context, this.body, "tensor_patterns", this.of("tensor_patterns"));
  }

  /** A dot for each row, the longest where they are many. */
  dots(element, data, column, kind) {
    const rows = data.select().sort((one, other) => data.value(other, column) - data.value(one, column)).slice(0,
      MOST_DOTS);
    const [x, y] = [scale(data.column("start_ps"), "ps"), scale(data.column(column), "ps")];
    const id = data.has("request_id") ? "request_id" : "batch_id";
    const points = rows.map((row) => ({
      x: data.value(row, "start_ps"),
      y: data.value(row, column),
      group: data.value(row, "model") ?? "unknown",
      title: `${kind} ${data.value(row, id)}\n${text(data.value(row, column), "ps")} at ${
        text(data.value(row, "start_ps"), "ps")
      }`,
      size: 6,
    }));
    scatter(element, { points, x: { title: `Start, ${x.unit}`, divide: x.divide },
      y: { title: y.unit, divide: y.divide }, height: 260, label: `${kind}s over time` });
  }
}

function mean(values) {
  const known = values.filter((value) => value !== null);
  return known.length ? known.reduce((sum, value) => sum + value, 0) / known.length : null;
}
