/** Values of details: long ones are folded, any can be copied. */

import { copyButton } from "../clipboard.js";
import { h } from "../dom.js";
import { counted, visibleLines } from "./text.js";

const FOLDED = 160; // letters
const FOLDED_LINES = 3;
const MOST_SHOWN = 200_000;

/**
 * A value as nodes: its text, folded if it is long, a `note` behind it, and a button that copies all of it. `rest`: for
 * the begin of a text, its `letters` and `get()`, a promise of all of it.
 */
export function folded(value, note = "", rest = null) {
  const text = String(value);
  const short = shortened(text);
  const all = { letters: rest?.letters ?? text.length, get: rest?.get ?? (() => text) };
  const shown = h("span.tl-value", visibleLines(short === null ? text : short, MOST_SHOWN));
  const parts = [shown, note && h("span.tl-value-note", ` ${note}`)];
  if (short !== null) parts.push(toggle(shown, all, short));
  return [...parts, copyButton(all.get, { label: "Copy", title: "Copy the value", kind: "tl-copy" })];
}

/** The begin of a long text; null: it is short. */
export function shortened(text) {
  const lines = text.split("\n", FOLDED_LINES + 1);
  const head = lines.slice(0, FOLDED_LINES).join("\n");
  if (text.length <= FOLDED && lines.length <= FOLDED_LINES) return null;
  return `${head.slice(0, FOLDED).trimEnd()}…`;
}

function toggle(shown, all, short) {
  let open = false;
  const label = () => (open ? "Show less" : `Show all (${counted(all.letters)} characters)`);
  const button = h("button.tl-fold", { "aria-expanded": "false", onclick: async () => {
    try {
      shown.textContent = visibleLines(open ? short : cut(await all.get()), MOST_SHOWN + 100);
    } catch (error) {
      shown.textContent = `${visibleLines(short)} (${error.message})`;
      return;
    }
    open = !open;
    button.textContent = label();
    button.setAttribute("aria-expanded", String(open));
  } }, label());
  return button;
}

function cut(text) {
  const rest = text.length - MOST_SHOWN;
  return rest > 0
    ? `${text.slice(0, MOST_SHOWN - 1)}… (${counted(rest)} more characters; copy for the full text)`
    : text;
}
