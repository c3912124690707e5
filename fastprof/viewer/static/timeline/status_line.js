/** How far the session is: what is read, what is derived, what went wrong. */

import { h } from "../dom.js";
import { errorText } from "./panel_parts.js";
import { counted, plural, visible } from "./text.js";

export class StatusLine {
  constructor() {
    this.text = h("span.tl-status-text");
    this.bar = h("progress.tl-progress", { max: "1", hidden: true, "aria-label": "Reading the session" });
    this.root = h("div.tl-status", { role: "status" }, this.bar, this.text);
    this.error = "";
    this.remark = "";
  }

  /** Shows what a link says and the session does not have, before all else; "" for nothing. */
  note(sentence) {
    this.remark = sentence;
    this.write();
  }

  write() {
    const text = this.remark || this.error || this.settled || "";
    this.text.textContent = text;
    this.text.title = [...new Set([text, this.settled, ...(this.more ?? [])])].filter(Boolean).join("\n");
    this.text.classList.toggle("tl-failed", Boolean(this.remark || this.error || this.isFailed));
  }

  /** Takes an answer of the timeline. */
  show(answer) {
    const hosts = answer.hosts ?? [];
    const failed = hosts.filter((host) => host.state === "failed" || host.derived === "failed");
    const building = hosts.filter((host) => host.state === "building" || host.state === "waiting");
    const deriving = hosts.filter((host) => host.state === "ready" && host.derived === "building");
    const [events, derived, untimed] = ["events", "derived_events", "untimed_events"].map((name) =>
      hosts.reduce((sum, host) => sum + Number(host[name] ?? 0), 0)
    );
    this.error = "";
    this.bar.hidden = !building.length;
    if (building.length)
      this.bar.value = hosts.reduce((sum, host) => sum + (host.state === "ready" ? 1 : Number(host.progress ?? 0)), 0)
        / hosts.length;
    const parts = [];
    if (building.length)
      parts.push(hosts.length > 1 ? `reading ${building.length} of ${plural(hosts.length, "host")}` : "reading");
    else if (deriving.length) parts.push("deriving lines");
    if (events) parts.push(`${plural(events, "event")}${derived ? `, ${counted(derived)} derived` : ""}`);
    if (failed.length) parts.push(`${plural(failed.length, "host")} failed`);
    this.settled = parts.join(" · ");
    const faults = failed.map((host) => `${visible(host.host)}: ${visible(host.error ?? "")}`);
    const apart = untimed ? `${plural(untimed, "event")} without a start: not in the timeline` : "";
    this.more = [apart, ...faults];
    this.isFailed = failed.length > 0;
    this.write();
  }

  /** Tells of tiles that could not be had, until they can. */
  busy(cache) {
    const error = cache.error && cache.error.status !== 410 ? visible(cache.error.message) : "";
    if (error === this.error) return;
    this.error = error;
    this.write();
  }

  fail(error) {
    this.text.textContent = errorText(error);
    this.text.classList.add("tl-failed");
  }
}
