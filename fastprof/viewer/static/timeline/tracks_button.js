/** The menu of all tracks: hides empty ones, lists what is hidden, and takes everything back. */

import { dropdown } from "../controls.js";
import { clear, h } from "../dom.js";
import { counted } from "./text.js";

const MOST_LISTED = 200;

export class TracksButton {
  constructor(actions) {
    this.actions = actions;
    this.body = h("div.menu-body.tl-tracks-menu");
    this.root = dropdown("Tracks", this.body);
    this.root.classList.add("tl-tracks");
    this.title = this.root.firstElementChild;
    this.title.classList.replace("button", "tl-button");
    this.title.title = "Pinned, hidden and empty tracks";
    this.root.addEventListener("toggle", () => this.root.open && this.fill());
    actions.changed.add(() => this.show());
  }

  /** Follows the arrangement. */
  show() {
    const { arrangement } = this.actions;
    const parts = [];
    if (arrangement.hiddenCount) parts.push(`${counted(arrangement.hiddenCount)} hidden`);
    if (arrangement.hidesEmpty) parts.push("empty ones hidden");
    this.title.textContent = ["Tracks", ...parts].join(" · ");
    this.title.classList.toggle("tl-is-on", parts.length > 0);
    if (this.root.open) this.fill();
  }

  fill() {
    const { actions } = this;
    const { arrangement } = actions;
    const box = h("input", { type: "checkbox", checked: arrangement.hidesEmpty,
      onchange: () => actions.toggleEmpty() });
    const item = (text, run, disabled) => h("button.menu-item", { onclick: run, disabled }, text);
    clear(this.body).append(
      h("label.menu-item", { title: "Tracks without events in the window (E). Pinned tracks stay" }, box,
        "Hide empty tracks"),
      item("Show all hidden tracks", () => actions.showAll(), !arrangement.hiddenCount),
      item("Reset: unpin, show, original order", () => actions.reset(), arrangement.isPlain),
      ...this.hidden(),
    );
  }

  /** What is hidden; a click shows it again. */
  hidden() {
    const { actions } = this;
    const { model } = actions.timeline;
    const { hidden, hiddenSections } = actions.arrangement;
    const rows = [];
    for (const process of model.processes) {
      if (hiddenSections.has(process.id))
        rows.push([process.title.name, "section", () => actions.show(process.id, true)]);
      for (let track = process.first; hidden.size && track < process.last && rows.length < MOST_LISTED; track++)
        if (hidden.has(model.id[track]))
          rows.push([model.name[track], process.title.name, () => actions.show(model.id[track], false)]);
      if (rows.length >= MOST_LISTED) break;
    }
    if (!rows.length) return [];
    return [
      h("h3.tl-tracks-title", "Hidden: click to show"),
      ...rows.map(([name, of, run]) =>
        h("button.menu-item.tl-tracks-row", { onclick: run, title: name }, h("span.tl-find-name", name),
          h("span.tl-find-note", of))
      ),
    ];
  }
}
