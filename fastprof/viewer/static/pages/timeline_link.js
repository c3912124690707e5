// From a time of a host to the window of the timeline that shows it.

import { button } from "../controls.js";

/** A button that goes to the timeline. `where()`: {host, start, end} in picoseconds from the start of the host's capture. */
export function timelineButton(context, where, title = "Timeline") {
  return button(title, async () => context.navigate("timeline", await place(context, where())), {
    title: "Show this time in the timeline",
  });
}

/** Parameters of the timeline for a time of a host, with some room around it: on the common clock of all hosts. */
async function place(context, { host, start, end }) {
  const { hosts } = await context.source.timeline({});
  const shift = Number(hosts.find((one) => one.host === host)?.offset_ps ?? 0);
  const room = Math.max(1_000, (end - start) * 0.1);
  return { t: `${Math.round(start + shift - room)}~${Math.round(end + shift + room)}` };
}
