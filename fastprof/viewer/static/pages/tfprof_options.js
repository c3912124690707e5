// What a view of tfprof accounts and shows: presets, steps, orders, attributes, and all other options.

import { button, dropdown, field, picker, toggle } from "../controls.js";
import { h } from "../dom.js";
import { label } from "../units.js";

export const FIGURES = { micros: "Time", accelerator_micros: "Accelerator time", cpu_micros: "Host time",
  bytes: "Requested bytes", peak_bytes: "Peak bytes", residual_bytes: "Residual bytes", output_bytes: "Output bytes",
  params: "Parameters", float_ops: "Float operations", accessed_bytes: "Bytes accessed", run_count: "Runs",
  definition_count: "Nodes" };
const ATTRIBUTES = { ...FIGURES, device: "Devices", op_types: "Types", occurrence: "Runs and nodes",
  input_shapes: "Input shapes", name: "Name" };
const GROUPS = [
  ["Depth and amounts", (name) => name === "max_depth" || name.startsWith("min_")],
  [
    "Types and names: regular expressions, separated by commas, that match entire names",
    (name) => name.endsWith("_regexes"),
  ],
  ["Sums", (name) => name === "account_displayed_op_only"],
];
const PRESETS = [
  ["", "none"],
  ["trainable_variables_parameter", "Trainable parameters"],
  ["float_operation", "Float operations"],
  ["time_and_memory", "Time and memory"],
];
const TITLES = { max_depth: "Greatest depth", account_type_regexes: "Account types",
  start_name_regexes: "Start at names", trim_name_regexes: "Trim below names", show_name_regexes: "Show names",
  hide_name_regexes: "Hide names", account_displayed_op_only: "Sum up only shown rows" };
const EMPTY = "[]";
const ALL = "-1";
const MOST_STEPS = 1_000;

/** The options of an address; those that it does not name are of its preset, or of the page. */
export class Options {
  constructor(about, params) {
    this.about = about;
    this.names = about.options.map(({ name }) => name);
    this.preset = params.get("preset") ?? "";
    this.base = about.bases[this.preset] ?? about.bases[""];
    this.given = Object.fromEntries(
      this.names.filter((name) => params.has(name)).map((name) => [name, params.get(name)]),
    );
  }

  /** The text of an option. */
  value(name) {
    return this.given[name] ?? this.base[name];
  }

  /** What the address becomes when an option takes a text. */
  change(name, text) {
    return { [name]: text === this.base[name] ? null : text };
  }

  list(name) {
    return listOf(this.value(name));
  }

  /** What there is to choose from; what the session does not record is left out, unless it is chosen. */
  choices(name) {
    const all = this.about.options.find((one) => one.name === name).choices;
    return all.filter((one) => !(one in this.about.unknown) || this.list(name).includes(one));
  }

  /** A change that takes back all options. */
  get none() {
    return Object.fromEntries([...this.names, "preset"].map((name) => [name, null]));
  }
}

/** The texts of a list as addresses have it: in JSON, or with commas between them. */
export function listOf(text) {
  if (text.startsWith("[")) {
    try {
      const found = JSON.parse(text);
      if (Array.isArray(found) && found.every((one) => typeof one === "string")) return found;
    } catch {
      // an expression that begins with a bracket
    }
  }
  return text.split(",").map((one) => one.trim()).filter(Boolean);
}

/** Controls for what is chosen most. `push(changes)`; `ofOne`: whether one figure is shown only. */
export function firstControls(options, push, ofOne) {
  const set = (name) => (to) => push(options.change(name, to));
  return [
    named("preset",
      picker({ label: "Preset", options: presets(options), value: options.preset,
        title: "The option sets of tfprof's Python interface",
        onchange: (to) => push({ ...options.none, preset: to }) })),
    named("step", stepControl(options, set("step"))),
    named("order_by",
      picker({ label: "Order by", options: options.choices("order_by").map((name) => [name, words(name)]),
        value: options.value("order_by"), title: "Largest first", onchange: set("order_by") })),
    ofOne ? oneFigure(options, push) : attributes(options, push),
  ];
}

/** The presets that need nothing that the session does not record. */
function presets({ about, preset }) {
  const isUnknown = (name) => name in about.unknown;
  const works = ([name]) => {
    const base = about.bases[name];
    return listOf(base.select).some((one) => !isUnknown(one))
      && !Object.keys(about.unknown).some((one) => Number(base[`min_${one}`] ?? 0) > 0);
  };
  return PRESETS.filter((one) => one[0] === preset || works(one));
}

/** Averages, or a step; the steps of a capture are not listed, and without one all are summed up. */
function stepControl(options, onchange) {
  const { about } = options;
  const value = options.value("step");
  if (about.capture)
    return field({ label: "Step", value: value === ALL ? "" : value, placeholder: "all", size: 6,
      title: "A step number, as on the Steps page", onchange: (to) => onchange(to.trim() || ALL) });
  const steps = [[ALL, "average"], ...about.steps.slice(0, MOST_STEPS)];
  if (!steps.some((one) => one === value || one[0] === value)) steps.push(value);
  return picker({ label: "Step", options: steps, value, onchange,
    title: "Averages are over the steps in which a node ran" });
}

function oneFigure(options, push) {
  const figures = options.choices("select").filter((name) => name in FIGURES);
  return picker({ label: "Attribute", options: figures.map((name) => [name, words(name)]),
    value: options.list("select").find((name) => figures.includes(name)) ?? null,
    onchange: (to) => push(options.change("select", to)) });
}

function attributes(options, push) {
  const choices = options.choices("select");
  const chosen = options.list("select");
  const box = (name) => {
    const input = h("input", { type: "checkbox", checked: chosen.includes(name), value: name, onchange: () => {
      const now = choices.filter((one) => (one === name ? input.checked : chosen.includes(one)));
      if (now.length) push(options.change("select", now.join(",")));
      else input.checked = true; // one attribute at least
    } });
    return h("label.menu-item", input, words(name));
  };
  return named("select", dropdown("Attributes", h("div.menu-body.menu-start", choices.map(box))));
}

/** A box with a control for each other option; it stays as open as it was. */
export function allOptions(options, push, wasOpen, onopen) {
  const given = Object.keys(options.given).filter((name) => GROUPS.some(([, holds]) => holds(name)));
  const box = h("details.tfprof-options", {
    open: wasOpen,
    ontoggle: () => onopen(box.open),
  }, h("summary", given.length ? `Options (${given.length} changed)` : "Options"),
    GROUPS.map(([title, holds]) =>
      h("fieldset", h("legend", title), options.about.options.filter(({ name }) =>
        holds(name)
      ).map((one) => control(one, options, push)))
    ), button("Reset all", () => push(options.none)));
  return box;
}

function control({ name, kind, help }, options, push) {
  const value = options.value(name);
  const shared = { label: title(name), title: `${name}: ${help}` };
  const set = (to) => push(options.change(name, to || options.base[name]));
  const node = kind === "truth"
    ? toggle({ ...shared, value: ["true", "1", "yes"].includes(value), onchange: (to) => set(String(to)) })
    : field({ ...shared, value: value === EMPTY && !(name in options.given) ? "" : value,
      size: kind === "list" ? 20 : 10, placeholder: options.base[name] === EMPTY ? "none" : options.base[name],
      onchange: (to) => set(to.trim()) });
  node.classList.toggle("changed", name in options.given);
  return named(name, node);
}

/** A control that can be found by the option that it sets. */
export function named(option, node) {
  node.dataset.option = option;
  return node;
}

/** What an option is called: tfprof's name is under the pointer. */
function title(name) {
  if (!name.startsWith("min_")) return TITLES[name] ?? label(name);
  const unit = name.endsWith("_micros") ? ", µs" : "";
  return `Least ${words(name.slice("min_".length)).toLowerCase()}${unit}`;
}

export function words(attribute) {
  return ATTRIBUTES[attribute] ?? label(attribute);
}
