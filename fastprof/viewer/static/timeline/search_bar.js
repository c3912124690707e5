/** Search by name over the session: how many hits there are, where, and one after the other. */

import { clear, h, paused } from "../dom.js";
import { faultOf } from "./expressions.js";
import { errorText, hint } from "./panel_parts.js";
import { counted, plural, visible } from "./text.js";
import { short } from "./time_format.js";

const WAIT_MS = 220;
const NAMES_LISTED = 100;

export class SearchBar {
  /**
   * `found(hits)` gets {has(text), tracks} or null; `go(ref)` shows a hit; `place()` says where the window begins;
   * `list()` shows the list of all hits.
   */
  constructor(source, { found, go, place, changed, list }) {
    Object.assign(this, { source, found, go, place, changed, showAll: list });
    this.query = { q: "", mode: "substring", case: 0 };
    this.answer = null;
    this.hit = null;
    this.number = null;
    this.error = "";
    this.soon = paused(() => this.search(), WAIT_MS);
    this.build();
  }

  build() {
    const { saved } = this.source;
    this.input = h("input.tl-find", { type: "search", "aria-label": "Find events by name", autocomplete: "off",
      spellcheck: "false", disabled: saved,
      placeholder: saved ? "A saved report cannot be searched" : "Find events by name  ( / )",
      oninput: () => this.soon(), onkeydown: (event) => this.key(event), onfocus: () => this.showList(true) });
    this.caseButton = this.option("Aa", "Match case", "case");
    this.regexButton = this.option(".*", "Regular expression", "regex");
    this.status = h("span.tl-find-status", { role: "status" });
    const stepper = (text, label, key, direction) =>
      h("button.tl-button", { title: `${label} (${key})`, "aria-label": label, disabled: true, onclick: () =>
        this.step(direction) }, text);
    this.before = stepper("‹", "Previous hit", "N", "previous");
    this.after = stepper("›", "Next hit", "n", "next");
    this.all = h("button.tl-button", { title: "List all hits (l)", "aria-label": "List all hits", disabled: true,
      onclick: () => this.showAll() }, "List");
    this.list = h("div.tl-find-list", { hidden: true });
    this.root = h("div.tl-search", { role: "search",
      onfocusout: ({ relatedTarget }) => this.root.contains(relatedTarget) || this.showList(false) },
      h("div.tl-find-box", this.input, this.caseButton, this.regexButton), this.before, this.after, this.all,
      this.status, this.list);
  }

  option(text, title, name) {
    return h("button.tl-option", { title, "aria-label": title, "aria-pressed": "false", disabled: this.source.saved,
      onclick: () => this.toggle(name) }, text);
  }

  toggle(name) {
    if (name === "case") this.query.case = this.query.case ? 0 : 1;
    else this.query.mode = this.query.mode === "regex" ? "substring" : "regex";
    this.showOptions();
    this.search();
  }

  showOptions() {
    this.caseButton.setAttribute("aria-pressed", String(Boolean(this.query.case)));
    this.regexButton.setAttribute("aria-pressed", String(this.query.mode === "regex"));
  }

  /** Takes a query of elsewhere, an address or another panel. */
  set(query, step = false) {
    this.query = { ...this.query, ...query };
    this.input.value = this.query.q;
    this.showOptions();
    return this.search().then(() => step && this.step("next"));
  }

  focus() {
    this.input.focus();
    this.input.select();
  }

  key(event) {
    if (event.key === "Enter") {
      event.preventDefault();
      this.flush().then(() => this.step(event.shiftKey ? "previous" : "next"));
    } else if (event.key === "Escape") {
      event.preventDefault(); // a search field would empty itself
      event.stopPropagation();
      if (!this.list.hidden) this.showList(false);
      else this.input.blur();
    } else if (event.key === "ArrowDown" && !this.list.hidden) {
      event.preventDefault();
      this.list.querySelector("button")?.focus();
    }
  }

  clear() {
    this.set({ q: "" });
  }

  /** Searches at once for what was typed and not searched for yet. */
  async flush() {
    if (this.input.value !== this.query.q) await this.search();
    else await this.searching;
  }

  search() {
    this.soon.cancel();
    this.query.q = this.input.value;
    this.searching = this.ask({ ...this.query });
    this.changed();
    return this.searching;
  }

  async ask(query) {
    const stamp = (this.stamp = {});
    this.hit = null;
    this.number = null;
    this.error = query.mode === "regex" ? faultOf(query.q) : "";
    if (!query.q || this.error || this.source.saved) {
      this.take(null, query);
      return;
    }
    try {
      const answer = await this.source.search(query);
      if (stamp === this.stamp) this.take(answer, query);
    } catch (error) {
      if (stamp !== this.stamp) return;
      this.error = errorText(error);
      this.take(null, query);
    }
  }

  take(answer, query) {
    this.answer = answer;
    this.found(answer?.events && { tracks: answer.tracks ?? {}, names: matcher(answer, query) });
    this.before.disabled = this.after.disabled = this.all.disabled = !answer?.events;
    this.fillList();
    this.report();
  }

  report() {
    let text = "";
    if (this.error) text = this.error;
    else if (this.answer && !this.answer.events) text = "No event has such a name";
    else if (this.answer) {
      const number = this.number === null ? "" : `${counted(this.number + 1)} of `;
      text = `${number}${plural(this.answer.events, "event")}, ${plural(this.answer.names, "name")}`;
    }
    Object.assign(this.status, { textContent: text, title: text });
    this.status.classList.toggle("tl-failed", Boolean(this.error));
  }

  fillList() {
    clear(this.list);
    const rows = this.answer?.rows ?? [];
    for (const row of rows.slice(0, NAMES_LISTED)) {
      const pick = h("button.tl-find-row", { title: visible(row.name), onclick: () => this.pick(row) },
        h("span.tl-find-name", visible(row.name) || "(no name)"),
        h("span.tl-find-note", `${counted(row.count)} · ${short(row.total_ps)}`));
      this.list.append(pick);
    }
    const left = (this.answer?.names ?? 0) - Math.min(rows.length, NAMES_LISTED);
    if (left > 0) this.list.append(hint(`and ${plural(left, "more name")}`));
    if (!rows.length) this.list.hidden = true;
    else if (document.activeElement === this.input) this.list.hidden = false;
  }

  showList(shown) {
    this.list.hidden = !shown || !this.answer?.rows?.length;
  }

  pick(row) {
    this.set({ q: row.name.replace(/…$/, ""), mode: "substring", case: 1 }, true);
    this.showList(false);
  }

  /** Goes to a hit; `number`: its place among all in order of time, null: unknown. */
  at(hit, number) {
    this.hit = hit;
    this.number = number;
    this.go(hit);
    this.report();
  }

  /** Goes to the next or the previous hit, from the last one or from where the window begins; round at the ends. */
  async step(direction) {
    if (!this.answer?.events) return;
    this.showList(false);
    const from = this.hit
      ? { from_ps: this.hit.start_ps, track: this.hit.track, lane: this.hit.lane }
      : { from_ps: Math.floor(this.place()) };
    const stamp = this.stamp;
    try {
      let answer = await this.source.next({ ...this.query, ...from, direction });
      if (!answer.hit) answer = await this.source.next({ ...this.query, direction });
      if (stamp !== this.stamp || !answer.hit) return;
      this.at(answer.hit, answer.number);
    } catch (error) {
      this.error = errorText(error);
    }
    this.report();
  }
}

/** Which names were found, {has(text)}; null where it cannot be said here, and then nothing is dimmed. */
export function matcher(answer, query) {
  if (query.mode === "substring") {
    const part = query.case ? query.q : query.q.toLowerCase();
    return { has: (text) => (query.case ? text : text.toLowerCase()).includes(part) };
  }
  if (answer.more > 0 || answer.names > answer.rows.length) return null;
  return new Set(answer.rows.map((row) => visible(row.name)));
}
