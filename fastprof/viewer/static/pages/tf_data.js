// tf.data: the iterators of an input pipeline as a graph, what its calls wait for, and what would help.

import { section, sentence } from "../cards.js";
import { bars } from "../charts/bar_list.js";
import { lines } from "../charts/series.js";
import { picker, toggle } from "../controls.js";
import { h } from "../dom.js";
import { list } from "../list.js";
import { reportPage, reportTable, tablePart, tableSection } from "../report_page.js";
import { number, text } from "../units.js";
import { columnPairs, detailsPanel, heat, meter, pairList, timelineButton } from "./details.js";
import { drawIterators } from "./iterator_graph.js";
import { alikeName, slowest, strip, summed, together } from "./iterator_sums.js";

const OF_CALL = list(`pipeline, host, rank, iterator_id, start_ps, total_ps, self_ps, critical_ps, call_count,
  is_blocking, is_bottleneck`);
const OF_ITERATOR = list(`critical_ps=Critical time, self_ps=Self time, total_ps=Total time, call_count=Its calls,
  is_async=Runs ahead on own threads, parallelism=Calls at a time, autotune=Tuned by tf.data, buffer_size=Elements buffered,
  batch_size=Elements of a batch, cycle_length, function_ps=Functions, long_name`);
const MOST_CALLS = 1_000;
const MOST_OFFERED = 200;
const ALL = "";

export const show = reportPage(draw, { params: ["steps", "parallel", "slow_call_us"],
  tables: ["pipelines", "iterators", "critical_path", "bottlenecks", "self_time", "step_waits", "what_if", "calls"] });

async function draw(body, report, context) {
  if (!report.tables.pipelines.length) return sentence(body, "There are no input pipelines to show.");
  return new Pipelines(body, report, context).draw();
}

class Pipelines {
  constructor(body, report, context) {
    Object.assign(this, { body, report, context });
    this.pipelines = report.tables.pipelines.rows();
    const { params } = context;
    const ofHost = this.pipelines.filter((one) => !params.has("of") || one.host === params.get("of"));
    const { host, pipeline } = ofHost.find((one) => one.pipeline === params.get("pipeline"))
      ?? (params.has("of") ? ofHost[0] : null) ?? this.reported() ?? this.pipelines[0];
    Object.assign(this, { host, pipeline, alike: params.get("alike") !== "no" });
  }

  /** The pipeline that the report calls slow; undefined if it calls none so. */
  reported() {
    const slow = this.report.value("slow_pipeline");
    return this.pipelines.find(({ host, pipeline }) => [pipeline, `${pipeline} of ${host}`].includes(slow));
  }

  of(name) {
    const data = this.report.tables[name];
    return data.where((row) => data.value(row, "host") === this.host && data.value(row, "pipeline") === this.pipeline);
  }

  async draw() {
    const { body } = this;
    this.calls = this.of("calls");
    this.iterators = this.of("iterators");
    const rank = Number(this.context.params.get("rank") ?? NaN);
    this.rank = Number.isInteger(rank) && rank >= 0 && rank < this.calls.length ? rank : null;
    this.graphBody = section(body, "The pipeline", {
      note: "The program is at the top, sources are at the bottom. Critical time is the time that calls waited for an "
        + "iterator itself. Red: the bottleneck. Thick lines: the critical path.",
    });
    this.graphBody.append(this.pickers());
    this.remarks();
    this.holder = h("div.graph-holder");
    this.details = detailsPanel(
      "Choose an iterator to see its settings, the parts of its time, and changes that would make a batch faster.",
    );
    this.graphBody.append(h("div.with-details", this.holder, this.details));
    await this.drawGraph();
    this.drawPath();
    this.drawCalls();
    this.drawTables();
  }

  pickers() {
    const hosts = [...new Set(this.pipelines.map((one) => one.host))];
    const several = hosts.length > 1;
    const slow = (one) => `${number(one.slow_call_count)} of ${number(one.call_count)} slow`;
    const options = this.pipelines.filter((one) => one.host === this.host).map((
      one,
    ) => [one.pipeline, `${one.pipeline} — ${text(one.mean_ps, "ps")} a call, ${slow(one)}`]);
    this.rankPicker = picker({ label: "Call", options: this.rankOptions(),
      value: this.rank === null ? ALL : String(this.rank),
      onchange: (to) => this.chooseRank(to === ALL ? null : Number(to)) });
    const hasAlike = new Set(this.iterators.column("long_name").map(alikeName)).size < this.iterators.length;
    const push = (changes) => this.context.push({ ...changes, rank: null });
    return h("div.parameters",
      several
        && picker({ label: "Host", options: hosts, value: this.host, onchange: (of) => push({ of, pipeline: null }) }),
      picker({ label: "Pipeline", options, value: this.pipeline,
        onchange: (pipeline) => push({ pipeline, of: several ? this.host : null }) }), this.rankPicker,
      hasAlike
        && toggle({ label: "Alike together", value: this.alike, title: "Merge iterators of equal inputs",
          onchange: (alike) => this.setAlike(alike) }));
  }

  setAlike(alike) {
    this.alike = alike;
    this.context.replace({ alike: alike ? null : "no" });
    this.drawGraph();
  }

  rankOptions() {
    const shown = Math.min(this.calls.length, MOST_OFFERED);
    const options = Array.from({ length: shown }, (_, row) => this.rankOption(row));
    if (this.rank !== null && this.rank >= shown) options.push(this.rankOption(this.rank));
    return [[ALL, this.calls.length === 1 ? "the only call" : `all ${number(this.calls.length)} calls`], ...options];
  }

  rankOption(row) {
    const step = this.calls.value(row, "step");
    const inStep = step === null ? "" : `, step ${step}`;
    return [String(row), `rank ${row}: ${text(this.calls.value(row, "duration_ps"), "ps")}${inStep}`];
  }

  chooseRank(rank) {
    this.rank = rank;
    this.context.replace({ rank });
    return this.drawGraph();
  }

  remarks() {
    const found = this.of("bottlenecks");
    if (!found.length) return;
    const { name, critical_ps: time, critical_share: share, suggestion } = found.row(0);
    this.graphBody.append(
      h("p.bottleneck", h("strong", `Bottleneck: ${name}`),
        ` ${text(time, "ps")} of a call, ${text(share, "share")}. ${suggestion}`),
    );
  }

  /** The iterators, with their figures over all calls, or in the call that is chosen. */
  async nodes() {
    const rows = this.iterators.rows();
    const total = this.rank === null
      ? rows.reduce((sum, row) => sum + row.critical_ps, 0)
      : this.calls.value(this.rank, "duration_ps");
    const inCall = this.rank === null ? null : await this.callRows();
    return rows.map((row) => {
      const own = inCall ? (inCall.get(row.iterator_id) ?? null) : row;
      return { ...row,
        ...(own
          ?? { critical_ps: 0, total_ps: 0, self_ps: 0, call_count: 0, is_blocking: false, is_bottleneck: false }),
        part: own && total ? own.critical_ps / total : 0, took_part: own !== null };
    });
  }

  async callRows() {
    const data = await tablePart(this.context, "call_iterators", { columns: OF_CALL });
    const [hosts, pipelines, ranks] = ["host", "pipeline", "rank"].map((name) => data.column(name));
    const own = data.where((row) =>
      ranks[row] === this.rank && pipelines[row] === this.pipeline && hosts[row] === this.host
    );
    return new Map(own.rows().map((row) => [row.iterator_id, row]));
  }

  async drawGraph() {
    const nodes = await this.nodes();
    this.holder.replaceChildren();
    const alone = (node) => ({ ...node, key: node.iterator_id, above: node.parent_id, count: 1 });
    const shown = this.alike ? together(nodes) : nodes.map(alone);
    const boxes = drawIterators(this.holder, shown, (node) => this.describe(node));
    const worst = nodes.find((node) => node.is_bottleneck);
    const box = worst && boxes.get(this.alike ? alikeName(worst.long_name) : worst.iterator_id);
    if (box) box.dispatchEvent(new Event("click"));
    else this.details.empty();
  }

  describe(node) {
    const ids = new Set(node.ids ?? [node.iterator_id]);
    const parts = this.of("self_time").rows().filter((row) => ids.has(row.iterator_id));
    const changes = this.of("what_if").rows().filter((row) => ids.has(row.iterator_id));
    this.details.show(node.count > 1 ? `${node.name} × ${node.count}` : node.name,
      meter(this.rank === null ? "Share of call time" : `Share of call ${this.rank}`, node.part * 100, null,
        heat(1 - node.part)), pairList([
        ...columnPairs(this.iterators, node, OF_ITERATOR),
        ["Keeps the order", node.deterministic === null ? null : text(node.deterministic)],
      ]), this.rank === null && parts.length
      ? [
        h("h4.subtitle", "Critical time by part"),
        ...summed(parts).map(([name, time, share]) =>
          meter(name, share * 100, `${text(time, "ps")}, ${text(share, "share")}`, "var(--accent)")
        ),
      ]
      : null, changes.length
      ? [
        h("h4.subtitle", "What if"),
        pairList(changes.slice(0, 8).map((row) => [
          row.change,
          row.then_ps === null
            ? "does not apply"
            : `${text(row.then_ps, "ps")} a batch${row.speedup ? `, ${number(row.speedup)} × as fast` : ""}`,
          row.assumption,
        ])),
      ]
      : null);
  }

  drawPath() {
    const data = this.of("critical_path");
    if (!data.length) return;
    const part_ = section(this.body, "The slowest call as it ran", { actions: [
      timelineButton(this.context,
        () => ({ host: this.host, start: data.value(0, "start_ps"),
          end: data.value(data.length - 1, "start_ps") + data.value(data.length - 1, "duration_ps") })),
    ] });
    part_.append(strip(data));
  }

  drawCalls() {
    const data = this.calls;
    const part_ = section(this.body, "Calls", { note: "In time order. Click to show the graph of that call." });
    const order = data.select().sort((one, other) => data.value(one, "start_ps") - data.value(other, "start_ps"));
    const drawn = order.length > MOST_CALLS ? slowest(order, data, MOST_CALLS) : order;
    if (drawn.length < order.length) {
      sentence(part_,
        `${number(order.length)} calls, downsampled to the slowest of each of ${number(drawn.length)} intervals.`);
    }
    const rows = drawn.map((row) => data.row(row));
    lines(part_, {
      x: rows.map((row) => row.start_ps),
      series: [
        { name: "Call", values: rows.map((row) => row.duration_ps), titles: drawn.map((row) => `rank ${row}`) },
        { name: "Its bottleneck", values: rows.map((row) => row.bottleneck_ps), dash: "dot",
          titles: rows.map((row) => row.bottleneck_name ?? "none") },
      ],
      unit: "ps",
      xUnit: "ps",
      xTitle: "Time from the start of the host's capture",
      label: "Call durations",
      height: 230,
      onclick: (place) => this.jump(drawn[place]),
    });
    reportTable(this.context, part_, "calls", data, { rows: 8, onrow: (row) => this.jump(row) });
  }

  jump(rank) {
    if (rank === undefined) return;
    this.rankPicker.value = String(rank);
    this.chooseRank(rank);
    this.graphBody.scrollIntoView({ block: "start" });
  }

  drawTables() {
    this.whatIf();
    this.waits();
    tableSection(this.context, this.body, "iterators", this.iterators, {
      columns: list(`depth, name:160, critical_share, critical_ps, self_ps, total_ps, call_count, is_async, parallelism,
        buffer_size, batch_size, is_blocking, long_name`),
    });
    tableSection(this.context, this.body, "pipelines", this.report.tables.pipelines, { title: "All pipelines" });
  }

  whatIf() {
    const data = this.of("what_if");
    const rows = data.rows().filter((row) => row.saved_ps > 0).slice(0, 12);
    if (!rows.length) return;
    const part_ = section(this.body, "What if", {
      note: `A batch takes ${
        text(rows[0].now_ps, "ps")
      } now. Each prediction is for one change, if CPU-bound; if I/O-bound, a batch may take less.`,
    });
    bars(part_, {
      names: rows.map((row) => `${row.name}: ${row.change}`),
      values: rows.map((row) => row.then_ps),
      titles: rows.map((row) => `${row.name} ${row.change} (${row.assumption})`),
      unit: "ps",
      label: "Batch time after a change",
    });
    reportTable(this.context, part_, "what_if", data, { rows: 6 });
  }

  waits() {
    const data = this.of("step_waits");
    if (!data.length) return;
    const part_ = section(this.body, "Step time waiting for input");
    const shown = data.where((row) => row < MOST_CALLS);
    if (shown.length < data.length)
      sentence(part_, `The first ${number(shown.length)} of ${number(data.length)} steps.`);
    const series = [
      { name: "Waits", column: "wait_ps", colour: "#d9534f" },
      { name: "Runs ahead", column: "ahead_ps", colour: "#7fa6e8" },
      { name: "Step", column: "step_ps", colour: "#98a0ab" },
    ].filter(({ column }) => data.isRecorded(column)).map((one) => ({ ...one, values: shown.column(one.column) }));
    lines(part_, { x: shown.column("step"), series, unit: "ps", xTitle: "Step", label: "Waiting for input by step",
      height: 220 });
  }
}
