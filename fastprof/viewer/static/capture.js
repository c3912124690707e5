// Captures that the page begins: of the servers that `fastprof serve` was given, and of no others.

import { button, picker, toggle } from "./controls.js";
import { clear, h } from "./dom.js";

const PERIOD_MS = 400;
const WAITING_MS = 2_000;
const WAITING = "until the next capture";
const ALL_SERVERS = "";
const DURATIONS = [["500", "500 ms"], ["1000", "1 s"], ["2000", "2 s"], ["5000", "5 s"], ["10000", "10 s"]];
const ONCE = "";
const INTERVALS = [[ONCE, "Once"], ["10000", "Every 10 s"], ["60000", "Every minute"], ["300000", "Every 5 min"], [
  "600000",
  "Every 10 min",
], ["3600000", "Every hour"]];
const KEPT = ["3", "10", "30", "100"];
const HOST_LEVELS = [["0", "off"], ["1", "annotations"], ["2", "ops"], ["3", "all ops"]];

export class CapturePanel {
  /** `ask(options)`: how far a capture is; with options begins or stops one. `ended()`: a run may have come. */
  constructor(ask, ended) {
    Object.assign(this, { ask, ended });
    this.chosen = { address: ALL_SERVERS, duration_ms: "2000", host_level: "2", device_level: "1", python_level: "0",
      every_ms: ONCE, keep: "10" };
    this.taken = 0;
    this.form = h("div.capture-form");
    this.status = h("div.capture-status", { role: "status" });
    this.element = h("details.capture", { ontoggle: () => this.element.open && this.look() }, h("summary", "Capture"),
      this.form, this.status);
  }

  /** Shows how far it is, and looks again while a capture goes on. */
  async look(options = null) {
    clearTimeout(this.timer);
    let state;
    try {
      state = await this.ask(options);
    } catch (error) {
      this.say(error.message);
      return;
    }
    if (!this.form.childElementCount) this.draw(state.addresses);
    const runs = state.stage !== null;
    this.form.hidden = runs;
    if (runs) this.progress(state);
    else this.outcome(state);
    if (runs) this.timer = setTimeout(() => this.look(), state.stage === WAITING ? WAITING_MS : PERIOD_MS);
    if (this.running && (!runs || state.taken !== this.taken)) this.ended();
    this.taken = state.taken;
    this.running = runs;
  }

  draw(addresses) {
    const { chosen } = this;
    const choose = (name) => (value) => Object.assign(chosen, { [name]: value });
    const level = (name) => (on) => Object.assign(chosen, { [name]: on ? "1" : "0" });
    const servers = [[ALL_SERVERS, `All ${addresses.length} servers`], ...addresses];
    const kept = h("div", { hidden: true },
      picker({ label: "Keep the newest", options: KEPT, value: chosen.keep, onchange: choose("keep") }));
    this.form.append(
      ...(addresses.length > 1
        ? [picker({ label: "Of", options: servers, value: chosen.address, onchange: choose("address") })]
        : [h("div", `Of ${addresses[0]}`)]),
      picker({ label: "Duration", options: DURATIONS, value: chosen.duration_ms, onchange: choose("duration_ms") }),
      picker({ label: "Host tracer", options: HOST_LEVELS, value: chosen.host_level, onchange: choose("host_level") }),
      toggle({ label: "Device tracer", value: true, onchange: level("device_level") }),
      toggle({ label: "Python tracer", value: false,
        title: "Slows the program, and writes tens of megabytes per second", onchange: level("python_level") }),
      picker({ label: "How often", options: INTERVALS, value: chosen.every_ms, onchange: (every) => {
        chosen.every_ms = every;
        kept.hidden = every === ONCE;
      } }),
      kept,
      button("Start", () => this.begin()),
    );
  }

  begin() {
    const { address, every_ms: every, keep, ...options } = this.chosen;
    if (address !== ALL_SERVERS) options.address = address;
    if (every !== ONCE) Object.assign(options, { every_ms: every, keep });
    this.look(options);
  }

  progress(state) {
    const { stage, done, total } = state;
    const bar = h("progress", { max: total || null, value: total ? done : null, "aria-label": stage });
    clear(this.status).append(h("div", `${stage[0].toUpperCase()}${stage.slice(1)} …`), bar,
      button("Stop", () => this.look({ stop: "1" }), { kind: "small" }));
    if (state.every_ms === null) return;
    this.sayCounts(state);
    this.sayLast(state);
  }

  /** What became of the last capture, and of those before it. */
  outcome(state) {
    clear(this.status);
    if (state.every_ms !== null) this.sayCounts(state);
    this.sayLast(state);
  }

  sayCounts({ taken, failed, keep }) {
    this.say(`Captures: ${taken}${failed ? `, ${failed} of them with failures` : ""}. The newest ${keep} are kept.`);
  }

  sayLast({ error, workers, run }) {
    const failed = workers.filter(({ status }) => status !== "written");
    if (error) this.say(error);
    else if (run) this.say(`Wrote ${run}.`);
    for (const { address, status, reason } of failed) this.say(`${address}: ${status}${reason ? `: ${reason}` : ""}`);
  }

  say(text) {
    this.status.append(h("div", text));
  }
}
