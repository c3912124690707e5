/** Says whose steps the bands are, and lets another host or core be picked. */

import { clear, h } from "../dom.js";

const FOLLOWED = "";
const MOST_OFFERED = 5000;

export class StepPicker {
  /** `pick(key)`: of the steps that are to stand there, null for those of what is selected. */
  constructor(pick) {
    this.host = h("span.tl-steps-host");
    this.name = h("span.tl-steps-name");
    this.more = h("span.tl-steps-more", { "aria-hidden": "true" }, "▾");
    this.select = h("select.tl-steps-pick", { "aria-label": "Steps of",
      onchange: () => pick(this.select.value || null) });
    this.root = h("div.tl-steps-of", { hidden: true }, h("span.tl-steps-word", "Steps of"), this.host, this.name,
      this.more, this.select);
  }

  /** Takes all sets once they are known. */
  offer(sets, model) {
    const option = (value, text) => h("option", { value }, text);
    clear(this.select).append(option(FOLLOWED, "What is selected"),
      ...sets.slice(0, MOST_OFFERED).map((set) => option(set.key, nameOf(set.title(model)))));
    this.select.hidden = this.more.hidden = sets.length < 2;
  }

  /** `set`: whose steps there are, or null; `wanted`: the key that was picked, or null. */
  show(set, wanted, model) {
    const title = set?.title(model) ?? { host: "", name: "" };
    this.root.hidden = !set;
    this.host.textContent = title.host;
    this.name.textContent = title.name;
    this.root.title = set ? `Steps of ${nameOf(title)}` : "";
    this.select.value = wanted ?? FOLLOWED;
  }
}

function nameOf({ host, name }) {
  return host ? `${host} ${name}` : name;
}
