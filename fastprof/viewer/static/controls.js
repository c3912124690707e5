// What users choose with: pickers, switches, sliders, boxes, tabs.

import { h, on } from "./dom.js";

let controls = 0;

/** A list to choose from. `options`: texts, or [value, text]. */
export function picker({ label, options, value = null, onchange, title = null }) {
  const items = itemsOf(options);
  const select = h("select", { id: newId(), title, onchange: () => onchange(select.value) },
    items.map((option) => h("option", { value: option.value }, option.text)));
  select.value = value ?? items[0]?.value ?? "";
  return labelled("picker", label, select);
}

/** A switch that is on or off. */
export function toggle({ label, value = false, onchange, title = null }) {
  const box = h("input", { type: "checkbox", checked: value, role: "switch", onchange: () => onchange(box.checked) });
  return h("label.control.toggle", { title }, box, h("span", label));
}

/** An integer between two; `text(value)`: how it is shown. */
export function slider({ label, min, max, value, text = String, onchange }) {
  const id = newId();
  const output = h("output", { for: id });
  const show = () => {
    output.textContent = text(Number(range.value));
    range.setAttribute("aria-valuetext", output.textContent);
  };
  const range = h("input", { id, type: "range", min, max, step: 1, value: String(value), oninput: () => {
    show();
    onchange(Number(range.value));
  } });
  show();
  return labelled("slider", label, range, output, show);
}

/** A box to write in; `onchange` when it is left or Enter is pressed. */
export function field({ label, value = "", placeholder = "", onchange, title = null, size = 12 }) {
  const box = h("input", { id: newId(), type: "text", value, placeholder, title, size, spellcheck: "false",
    autocomplete: "off", onchange: () => onchange(box.value) });
  return labelled("field", label, box);
}

/** A few choices side by side. `options`: texts, or [value, text, title]. */
export function tabs({ label, options, value = null, onchange }) {
  const name = newId();
  const items = itemsOf(options);
  const chosen = value ?? items[0]?.value;
  return h("div.control.tabs", { role: "radiogroup", "aria-label": label },
    items.map((option) =>
      h("label.tab", { title: option.title },
        h("input", { type: "radio", name, value: option.value, checked: option.value === chosen, onchange: () =>
          onchange(option.value) }), h("span", option.text))
    ));
}

/**
 * A button that opens a box below it, to the left unless that is outside of the page; Escape and clicks elsewhere close
 * it.
 */
export function dropdown(title, body) {
  const menu = h("details.menu", h("summary.button", title), body);
  const elsewhere = (event) => {
    if (!menu.contains(event.target)) menu.open = false;
  };
  on(menu, {
    toggle: () => {
      if (menu.open) {
        document.addEventListener("pointerdown", elsewhere);
        const page = menu.closest(".main")?.getBoundingClientRect();
        if (page && body.getBoundingClientRect().left < page.left) body.classList.add("menu-start");
      } else document.removeEventListener("pointerdown", elsewhere);
    },
    keydown: (event) => {
      if (event.key !== "Escape" || !menu.open) return;
      menu.open = false;
      menu.firstElementChild.focus();
    },
  });
  return menu;
}

export function button(text, onclick, { title = null, kind = "" } = {}) {
  return h("button", { class: `button ${kind}`, title, onclick }, text);
}

function newId() {
  return `control-${(controls += 1)}`;
}

/** Options are texts or [value, text, title]. */
function itemsOf(options) {
  return options.map((option) => {
    const [value, text = value, title = null] = Array.isArray(option) ? option : [option];
    return { value, text, title };
  });
}

/** A control with a label and a `value`; `changed()` is called when the value is set. */
function labelled(kind, label, input, output = null, changed = null) {
  const node = h("div", { class: `control ${kind}`, title: input.title || null }, h("label", { for: input.id }, label),
    input, output);
  return Object.defineProperty(node, "value", { get: () => input.value, set: (to) => {
    input.value = to;
    changed?.();
  } });
}
