/** What the panels below the tracks are made of. */

import { copyButton } from "../clipboard.js";
import { h } from "../dom.js";
import { visible } from "./text.js";

export function panelHead(title, facts, ...buttons) {
  return h("header.tl-panel-head", h("h2.tl-panel-title", title), h("span.tl-panel-facts", facts), h("span.tl-spring"),
    ...buttons);
}

export function hint(words) {
  return h("p.tl-hint", words);
}

export function failure(error) {
  return h("p.tl-failed", { role: "alert" }, errorText(error));
}

export function errorText(error) {
  return visible(error?.message ?? String(error), 1000);
}

export function panelButton(text, title, onclick) {
  return h("button.tl-button", { title, onclick }, text);
}

/** A button that copies an interval of time as the command takes it, such as "--time=1.5s:2s". */
export function copyTime(flag) {
  return copyButton(flag, { label: "Copy as --time", title: `${flag}\nfor fastprof events, export and trace`,
    kind: "tl-button" });
}
