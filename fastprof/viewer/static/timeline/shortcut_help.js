/** The keys and gestures, in a dialog. */

import { h } from "../dom.js";

const GROUPS = [
  ["Move", [
    ["W  S", "zoom in and out at the pointer"],
    ["A  D", "pan left and right"],
    ["← →  ↑ ↓", "pan, scroll the tracks"],
    ["Ctrl + wheel", "zoom at the pointer (also Alt, ⌘, pinch)"],
    ["Wheel", "scroll; over the time axis: zoom"],
    ["Shift + wheel, Shift + drag", "pan"],
    ["0", "the entire session"],
  ]],
  ["Select", [
    ["Click", "details of an event; a section's name opens and closes it"],
    ["Double click", "zoom to an event"],
    ["Drag", "a time range on these tracks, with sums by name"],
    ["Drag on the time axis", "a range over all tracks"],
    ["f", "zoom to the selection"],
    [",  .", "previous and next event on the lane"],
    ["p  c", "the enclosing event; the first enclosed event"],
    ["Esc", "deselect the event or range; close the panel; clear the search"],
  ]],
  ["Tracks", [
    ["P", "pin or unpin the track under the pointer, or the selected event's track"],
    ["H", "hide the track or section"],
    ["E", "hide tracks that are empty in the window, or show them"],
    ["Drag a name", "move a track, a section; onto pinned tracks: pin it"],
    ["Alt + ↑ ↓", "move the track whose name has the focus"],
    ["e", "close or open all sections"],
  ]],
  ["Find and mark", [
    ["/", "find events by name"],
    ["n  N", "next and previous hit"],
    ["l", "list all hits"],
    ["m", "mark the selected event, or the time under the pointer"],
    ["M", "clear all marks"],
    ["g", "show the flows in the window, or hide them"],
    ["?", "this help"],
  ]],
];

export class ShortcutHelp {
  constructor() {
    const groups = GROUPS.map(([title, keys]) =>
      h("section", h("h3", title), h("dl", keys.map(([key, text]) => [h("dt", key), h("dd", text)])))
    );
    const close = h("button.tl-button", { onclick: () => this.root.close() }, "Close");
    this.root = h("dialog.tl-help", { "aria-label": "Timeline keys" },
      h("header.tl-panel-head", h("h2.tl-panel-title", "Timeline keys"), h("span.tl-spring"), close),
      h("div.tl-help-groups", groups));
    this.root.addEventListener("click", (event) => event.target === this.root && this.root.close());
  }

  toggle() {
    if (this.root.open) this.root.close();
    else this.root.showModal();
  }
}
