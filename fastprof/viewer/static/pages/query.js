// SQL about the run: a box with completion, the answer as a table and a chart, and a query for each analysis to begin with.

import { section, sentence } from "../cards.js";
import { bars } from "../charts/bar_list.js";
import { lines, scatter } from "../charts/series.js";
import { dropdown, picker } from "../controls.js";
import { clear, h, on } from "../dom.js";
import { Table } from "../report.js";
import { table } from "../table.js";
import { save } from "../table_csv.js";
import { number } from "../units.js";
import { completions, wordAt } from "./query_completion.js";
import { EXAMPLES } from "./query_examples.js";

const QUERY = "sql";
const MOST_BARS = 40;
const LIST = "query-completions";

export async function show(root, context) {
  const page = new QueryPage(root, context);
  page.box.value = context.params.get(QUERY) ?? EXAMPLES[0][1];
  if (context.params.get(QUERY)) page.run();
  page.learn();
  return { params: (params) => page.follow(params), leave: () => page.control?.abort() };
}

class QueryPage {
  constructor(root, context) {
    Object.assign(this, { context, tables: [], offered: [], at: 0, control: null });
    this.box = h("textarea.query-box", { id: "query", rows: 5, spellcheck: "false", autocomplete: "off",
      autocapitalize: "off", role: "combobox", "aria-autocomplete": "list", "aria-expanded": "false",
      "aria-controls": LIST, "aria-describedby": "query-help" });
    this.list = h("ul.query-completions", { id: LIST, role: "listbox", "aria-label": "Completions", hidden: true });
    this.state = h("p.query-state", { role: "status" });
    this.fault = h("div.query-fault", { role: "alert" });
    this.answer = h("div.query-answer");
    const go = h("button.button.primary", { title: "Ctrl+Enter", onclick: () => this.run() }, "Run");
    const examples = h("div.menu-body",
      EXAMPLES.map(([title, query]) =>
        h("button.menu-item", { title: query, onclick: (event) => this.take(query, event) }, title)
      ));
    root.append(
      h("div.query-head", h("label", { for: "query" }, "Query"), h("span.spring"), dropdown("Examples", examples)),
      h("div.query-edit", this.box, this.list),
      h("p.section-note", { id: "query-help" },
        "SQL in DuckDB's dialect. Ctrl+Enter runs it; Ctrl+Space completes a name, Escape closes the list. Times are in picoseconds."),
      h("div.query-actions", go, this.state),
      this.fault,
      this.answer,
    );
    on(this.box, { input: () => this.offer(), keydown: (event) => this.key(event), blur: () => this.close(),
      click: () => this.close() });
  }

  /** Asks for the names of tables and columns. Without them, the page completes nothing. */
  async learn() {
    try {
      this.tables = (await this.context.source.sqlTables(this.context.signal)).tables;
    } catch (error) {
      if (error.name !== "AbortError")
        this.state.textContent = "Names cannot be completed: the list of tables is missing.";
    }
  }

  /** The address has changed from outside. */
  follow(params) {
    const query = params.get(QUERY) ?? "";
    if (!query || query === this.box.value) return;
    this.box.value = query;
    this.run();
  }

  take(query, event) {
    event.target.closest("details").open = false;
    this.box.value = query;
    this.run();
    this.box.focus();
  }

  async run() {
    this.close();
    this.control?.abort();
    const control = new AbortController();
    this.control = control;
    const { source, host, replace } = this.context;
    const query = this.box.value;
    replace({ [QUERY]: query });
    clear(this.fault);
    this.state.textContent = "Running …";
    try {
      const { answer, of, seconds } = await source.sql({ query, host }, control.signal);
      if (control.signal.aborted) return;
      const some = answer.rows.length < of
        ? `The first ${number(answer.rows.length)} of ${number(of)} rows`
        : `${number(of)} ${of === 1 ? "row" : "rows"}`;
      this.state.textContent = `${some} in ${number(seconds)} s`;
      this.draw(new Table({ ...answer, table: "query", of }), query);
    } catch (error) {
      if (error.name === "AbortError" || control.signal.aborted) return;
      this.state.textContent = "";
      clear(this.answer);
      this.fault.append(h("p", error.message));
    }
  }

  draw(data, query) {
    clear(this.answer);
    const all = h("button.button", { title: "All rows, as a file", onclick: () => this.save(query) },
      "All rows as CSV");
    const part = section(this.answer, "Rows", { actions: [all] });
    if (!data.length) {
      sentence(part, "No row is in the answer.");
      return;
    }
    const plain = data.columns.map(({ name }) => ({ name, title: name }));
    table(part, data, { columns: plain, caption: "Answer", rows: 20, name: "query" });
    chart(this.answer, data);
  }

  async save(query) {
    const { source, host } = this.context;
    try {
      save("query.csv", await source.sqlCsv({ query, host }, this.control.signal));
    } catch (error) {
      if (error.name !== "AbortError") this.fault.replaceChildren(h("p", error.message));
    }
  }

  // ---- completion

  offer(asked = false) {
    const { value, selectionStart: caret } = this.box;
    this.offered = asked || wordAt(value, caret).text ? completions(value, caret, this.tables) : [];
    this.at = 0;
    this.drawList();
  }

  drawList() {
    const isOpen = this.offered.length > 0;
    this.list.hidden = !isOpen;
    this.box.setAttribute("aria-expanded", String(isOpen));
    if (isOpen) this.box.setAttribute("aria-activedescendant", `${LIST}-${this.at}`);
    else this.box.removeAttribute("aria-activedescendant");
    this.list.replaceChildren(
      ...this.offered.map(({ text, kind, about }, at) =>
        h("li", { id: `${LIST}-${at}`, role: "option", "aria-selected": String(at === this.at), title: about,
          onpointerdown: (event) => {
            event.preventDefault();
            this.accept(at);
          } }, h("span", text), h("span.query-kind", about || kind))
      ),
    );
    this.list.children[this.at]?.scrollIntoView?.({ block: "nearest" });
  }

  close() {
    this.offered = [];
    this.drawList();
  }

  accept(at) {
    const { start, end } = wordAt(this.box.value, this.box.selectionStart);
    this.box.setRangeText(this.offered[at].text, start, end, "end");
    this.close();
    this.box.focus();
  }

  key(event) {
    const isOpen = this.offered.length > 0;
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) this.run();
    else if (event.key === " " && event.ctrlKey) this.offer(true);
    else if (isOpen && step) {
      this.at = (this.at + step + this.offered.length) % this.offered.length;
      this.drawList();
    } else if (isOpen && (event.key === "Tab" || event.key === "Enter")) this.accept(this.at);
    else if (isOpen && event.key === "Escape") this.close();
    else return;
    event.preventDefault();
  }
}

/** One column of numbers over another column, both to choose; nothing where there are no numbers. */
function chart(element, data) {
  const names = data.columns.map(({ name }) => name);
  const numeric = names.filter((name) => data.column(name).some((value) => typeof value === "number"));
  if (!numeric.length || names.length < 2 || data.length < 2) return;
  const y = numeric.find((name) => name !== names[0]) ?? numeric[0];
  const chosen = { x: names.find((name) => name !== y), y };
  const draw = () => drawChart(clear(body), data, chosen.x, chosen.y);
  const choice = (label, options, axis) =>
    picker({ label, options, value: chosen[axis], onchange: (name) => {
      chosen[axis] = name;
      draw();
    } });
  const body = section(element, "Chart", {
    actions: [choice("Values", numeric, "y"), choice("over", names, "x")],
  });
  draw();
}

/** Bars over texts, a line over ascending numbers, dots over others. */
function drawChart(element, data, x, y) {
  const rows = data.select((row) => typeof data.value(row, y) === "number" && data.value(row, x) !== null);
  const [across, values] = [x, y].map((name) => rows.map((row) => data.value(row, name)));
  const label = `${y} over ${x}`;
  if (!rows.length) sentence(element, "No row has both values.");
  else if (across.some((value) => typeof value !== "number")) {
    const names = across.map((value) => (typeof value === "string" ? value : JSON.stringify(value)));
    bars(element, { names: names.slice(0, MOST_BARS), values: values.slice(0, MOST_BARS), unit: null, label });
    if (rows.length > MOST_BARS) sentence(element, `The first ${MOST_BARS} of ${number(rows.length)} rows are drawn.`);
  } else if (across.every((value, at) => at === 0 || value > across[at - 1]))
    lines(element, { x: across, series: [{ name: y, values }], unit: null, xTitle: x, label });
  else {
    const points = rows.map((_, at) => ({ x: across[at], y: values[at],
      title: `${x}: ${across[at]}\n${y}: ${values[at]}` })
    );
    scatter(element, { points, x: { title: x }, y: { title: y }, label });
  }
}
