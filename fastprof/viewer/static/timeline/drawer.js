/** The panel below the tracks: details of what is selected, the sums of a range. It opens by itself and can be sized. */

import { h, onDrag } from "../dom.js";

const LEAST = 96;
const FIRST = 250;

export class Drawer {
  /** `tabs`: {name: {title, node, opened()}}; `resized()` is called as its height changes. */
  constructor(tabs, resized) {
    Object.assign(this, { tabs, resized });
    this.height = FIRST;
    this.buttons = {};
    const bar = h("div.tl-drawer-bar", { role: "tablist", "aria-label": "Details" });
    for (const [name, tab] of Object.entries(tabs)) {
      this.buttons[name] = h("button.tl-tab", { role: "tab", id: `tl-tab-${name}`, onclick: () => this.open(name) },
        tab.title);
      tab.node.setAttribute("role", "tabpanel");
      tab.node.setAttribute("aria-labelledby", `tl-tab-${name}`);
      bar.append(this.buttons[name]);
    }
    const close = h("button.tl-button.tl-drawer-close", { title: "Close the panel", "aria-label": "Close the panel",
      onclick: () => this.close() }, "✕");
    bar.append(h("span.tl-spring"), close);
    const grip = h("div.tl-grip", { role: "separator", "aria-orientation": "horizontal", "aria-label": "Panel height",
      tabindex: "0" });
    this.body = h("div.tl-drawer-body", Object.values(tabs).map((tab) => tab.node));
    this.root = h("section.tl-drawer", { "aria-label": "Details", hidden: true }, grip, bar, this.body);
    this.makeSizable(grip);
  }

  makeSizable(grip) {
    onDrag(grip, (event) => ({ sum: event.clientY + this.root.offsetHeight }),
      (event, { sum }) => this.size(sum - event.clientY));
    grip.addEventListener("keydown", (event) => {
      const step = { ArrowUp: 24, ArrowDown: -24 }[event.key];
      if (!step) return;
      event.preventDefault();
      event.stopPropagation();
      this.size(this.root.offsetHeight + step);
    });
  }

  size(height) {
    const most = (this.root.parentElement?.clientHeight ?? 800) * 0.7;
    this.height = Math.round(Math.min(Math.max(height, LEAST), most));
    this.root.style.height = `${this.height}px`;
    this.resized();
  }

  open(name) {
    for (const [other, tab] of Object.entries(this.tabs)) {
      tab.node.hidden = other !== name;
      this.buttons[other].setAttribute("aria-selected", String(other === name));
    }
    this.shown = name;
    if (this.root.hidden) {
      this.root.hidden = false;
      this.size(this.height);
    }
    this.tabs[name].opened?.();
  }

  close() {
    if (this.root.hidden) return;
    this.root.hidden = true;
    this.resized();
  }
}
