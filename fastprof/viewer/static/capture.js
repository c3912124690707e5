// Captures that the page begins: of the servers that `fastprof serve` was given, and of no others.

import { button, picker, toggle } from "./controls.js";
import { clear, h } from "./dom.js";

const PERIOD_MS = 400;
const ALL_SERVERS = "";
const DURATIONS = [["500", "500 ms"], ["1000", "1 s"], ["2000", "2 s"], ["5000", "5 s"], ["10000", "10 s"]];
const HOST_LEVELS = [["0", "off"], ["1", "annotations"], ["2", "ops"], ["3", "all ops"]];

export class CapturePanel {
  /** `ask(options)`: how far a capture is; with options begins or stops one. `ended()`: a run may have come. */
  constructor(ask, ended) {
    Object.assign(this, { ask, ended });
    this.chosen = { address: ALL_SERVERS, duration_ms: "2000", host_level: "2", device_level: "1", python_level: "0" };
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
    if (runs) this.timer = setTimeout(() => this.look(), PERIOD_MS);
    else if (this.running) this.ended();
    this.running = runs;
  }

  draw(addresses) {
    const { chosen } = this;
    const choose = (name) => (value) => Object.assign(chosen, { [name]: value });
    const level = (name) => (on) => Object.assign(chosen, { [name]: on ? "1" : "0" });
    const servers = [[ALL_SERVERS, `All ${addresses.length} servers`], ...addresses];
    this.form.append(
      ...(addresses.length > 1
        ? [picker({ label: "Of", options: servers, value: chosen.address, onchange: choose("address") })]
        : [h("div", `Of ${addresses[0]}`)]),
      picker({ label: "Duration", options: DURATIONS, value: chosen.duration_ms, onchange: choose("duration_ms") }),
      picker({ label: "Host tracer", options: HOST_LEVELS, value: chosen.host_level, onchange: choose("host_level") }),
      toggle({ label: "Device tracer", value: true, onchange: level("device_level") }),
      toggle({ label: "Python tracer", value: false, title: "Slows the program, and writes tens of megabytes a second",
        onchange: level("python_level") }),
      button("Start", () => this.begin()),
    );
  }

  begin() {
    const { address, ...options } = this.chosen;
    this.look(address === ALL_SERVERS ? options : { ...options, address });
  }

  progress({ stage, done, total }) {
    const bar = h("progress", { max: total || null, value: total ? done : null, "aria-label": stage });
    clear(this.status).append(h("div", `${stage[0].toUpperCase()}${stage.slice(1)} …`), bar,
      button("Stop", () => this.look({ stop: "1" }), { kind: "small" }));
  }

  /** What became of the last capture. */
  outcome({ error, workers, run }) {
    const failed = workers.filter(({ status }) => status !== "written");
    clear(this.status);
    if (error) this.say(error);
    else if (run) this.say(`Wrote ${run}.`);
    for (const { address, status, reason } of failed) this.say(`${address}: ${status}${reason ? `: ${reason}` : ""}`);
  }

  say(text) {
    this.status.append(h("div", text));
  }
}
