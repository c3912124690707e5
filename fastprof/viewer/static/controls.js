// What users choose with: pickers, switches, sliders, boxes, tabs. Each is a node with a `value`.

import { h } from "./dom.js";

let controls = 0;

/** A list to choose from. `options`: texts, or {value, text}. */
export function picker({ label, options, value = null, onchange, title = null }) {
  const id = `control-${(controls += 1)}`;
  const select = h("select", { id, title });
  const node = labelled("picker", label, id, select);
  const items = options.map((option) => (typeof option === "object" ? option : { value: option, text: option }));
  for (const option of items) select.append(h("option", { value: option.value }, option.text));
  select.value = value ?? items[0]?.value ?? "";
  select.addEventListener("change", () => onchange?.(select.value));
  return valued(node, select);
}

/** A switch that is on or off. */
export function toggle({ label, value = false, onchange, title = null }) {
  const box = h("input", { type: "checkbox", checked: value, role: "switch" });
  box.addEventListener("change", () => onchange?.(box.checked));
  const node = h("label.control.toggle", { title }, box, h("span", label));
  Object.defineProperty(node, "value", { get: () => box.checked, set: (to) => {
    box.checked = to;
  } });
  return node;
}

/** A whole number between two; `text(value)` is what is shown of it. */
export function slider({ label, min, max, value, text = String, onchange }) {
  const id = `control-${(controls += 1)}`;
  const output = h("output", { for: id }, text(value));
  const range = h("input", { id, type: "range", min, max, step: 1, value: String(value),
    "aria-valuetext": text(value) });
  range.addEventListener("input", () => {
    output.textContent = text(Number(range.value));
    range.setAttribute("aria-valuetext", output.textContent);
    onchange?.(Number(range.value));
  });
  const node = labelled("slider", label, id, range);
  node.append(output);
  Object.defineProperty(node, "value", { get: () => Number(range.value), set: (to) => {
    range.value = to;
    output.textContent = text(Number(range.value));
  } });
  return node;
}

/** A box to write in; `onchange` when it is left or Enter is pressed. */
export function field({ label, value = "", placeholder = "", onchange, title = null, size = 12 }) {
  const id = `control-${(controls += 1)}`;
  const box = h("input", { id, type: "text", value, placeholder, title, size, spellcheck: "false",
    autocomplete: "off" });
  box.addEventListener("change", () => onchange?.(box.value));
  return valued(labelled("field", label, id, box), box);
}

/** A few choices side by side. `options`: texts, or {value, text}. */
export function tabs({ label, options, value = null, onchange }) {
  const name = `control-${(controls += 1)}`;
  const items = options.map((option) => (typeof option === "object" ? option : { value: option, text: option }));
  const chosen = value ?? items[0]?.value;
  const node = h("div.control.tabs", { role: "radiogroup", "aria-label": label });
  for (const option of items) {
    const box = h("input", { type: "radio", name, value: option.value, checked: option.value === chosen });
    box.addEventListener("change", () => onchange?.(option.value));
    node.append(h("label.tab", { title: option.title }, box, h("span", option.text)));
  }
  Object.defineProperty(node, "value", { get: () => node.querySelector("input:checked")?.value ?? null, set: (to) => {
    for (const box of node.querySelectorAll("input")) box.checked = box.value === to;
  } });
  return node;
}

/** A button that opens a box below it; Escape and clicks elsewhere close it. */
export function dropdown(title, body) {
  const menu = h("details.menu", h("summary.button", title), body);
  const elsewhere = (event) => {
    if (!menu.contains(event.target)) menu.open = false;
  };
  menu.addEventListener("toggle", () => {
    if (menu.open) document.addEventListener("pointerdown", elsewhere);
    else document.removeEventListener("pointerdown", elsewhere);
  });
  menu.addEventListener("keydown", (event) => {
    if (event.key !== "Escape" || !menu.open) return;
    menu.open = false;
    menu.firstElementChild.focus();
  });
  return menu;
}

export function button(text, onclick, { title = null, kind = "" } = {}) {
  return h("button", { class: `button ${kind}`, title, onclick }, text);
}

function labelled(kind, label, id, input) {
  return h("div", { class: `control ${kind}` }, h("label", { for: id }, label), input);
}

function valued(node, input) {
  Object.defineProperty(node, "value", { get: () => input.value, set: (to) => {
    input.value = to;
  } });
  return node;
}
