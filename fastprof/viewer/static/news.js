// What users have to hear of the session while a page is shown: its capture was replaced, or there is a newer run.

import { h } from "./dom.js";

export class News {
  /** `element`: above the page. `open(run)`: shows another run. */
  constructor(element, open) {
    Object.assign(this, { element, open });
    this.seen = new Set();
    this.banners = new Map();
  }

  /** A run is shown now, with the server's remark on its choice. `chosen`: by the user, who saw the newer ones. */
  entered({ run, notice }, chosen, runs) {
    for (const kind of this.banners.keys()) this.hide(kind);
    if (notice) this.show("notice", notice);
    this.seen = new Set(chosen ? runs.map(({ name }) => name) : []);
    this.offer(runs, run);
  }

  /** Offers the newest run if it is newer than the one that is shown, and new to the user. */
  offer(runs, shown) {
    const at = runs.findIndex(({ name }) => name === shown);
    const newer = runs.slice(0, at < 0 ? runs.length : at).find((run) => !run.problem);
    if (!newer || this.seen.has(newer.name)) return;
    this.seen.add(newer.name);
    this.show("newer", `There is a newer run: ${newer.name}.`, ["Open it", () => this.open(newer.name)]);
  }

  /** The version that the page is of is gone. */
  gone(sentence) {
    if (this.banners.has("gone")) return;
    const words = sentence[0].toUpperCase() + sentence.slice(1);
    this.show("gone", `${words}.`, ["Reload", () => window.location.reload()]);
  }

  show(kind, sentence, button = null) {
    this.hide(kind);
    const close = () => this.hide(kind);
    const node = h("div", { class: `banner banner-${kind}`, role: "status" }, h("span.banner-text", sentence),
      button ? h("button.button.small", { onclick: button[1] }, button[0]) : null,
      kind === "gone" ? null : h("button.icon", { title: "Close", "aria-label": "Close", onclick: close }, "×"));
    this.banners.set(kind, node);
    this.element.append(node);
  }

  hide(kind) {
    this.banners.get(kind)?.remove();
    this.banners.delete(kind);
  }
}
