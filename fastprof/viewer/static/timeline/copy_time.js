/** Buttons that copy a stretch of time as the command line takes it. */

import { h } from "../dom.js";

const TOLD_MS = 1500;
const LABEL = "Copy as --time";

/** `flag` is what is copied, such as "--time=1.5s:2s". */
export function timeButton(flag) {
  const button = h("button.tl-button", { title: `${flag}\nfor fastprof events, export and trace` }, LABEL);
  button.addEventListener("click", async () => {
    button.textContent = (await copied(flag)) ? "Copied" : "Not allowed";
    setTimeout(() => (button.textContent = LABEL), TOLD_MS);
  });
  return button;
}

/** Pages of other machines without encryption have no clipboard: there a field is copied from. */
async function copied(text) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    const field = h("textarea.tl-copied", { "aria-hidden": "true" });
    field.value = text;
    document.body.append(field);
    field.select();
    const done = document.execCommand("copy");
    field.remove();
    return done;
  }
}
