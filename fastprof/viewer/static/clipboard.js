// Buttons that copy a text.

import { h } from "./dom.js";

const ANSWERED_MS = 1500;

/** A button that copies `value`, a text or a function that gets it, and says whether it could. `kind`: its classes. */
export function copyButton(value, { label = "Copy", title = null, kind = "button" } = {}) {
  const button = h("button", { class: kind, title }, label);
  button.addEventListener("click", async () => {
    button.textContent = (await copied(value).catch(() => false)) ? "Copied" : "Not allowed";
    setTimeout(() => (button.textContent = label), ANSWERED_MS);
  });
  return button;
}

/** Pages of other machines without encryption have no clipboard: there a field is copied from. */
async function copied(value) {
  const text = typeof value === "function" ? await value() : value;
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    const field = h("textarea.copied", { "aria-hidden": "true" });
    field.value = text;
    document.body.append(field);
    field.select();
    const done = document.execCommand("copy");
    field.remove();
    return done;
  }
}
