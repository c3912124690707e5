/** The icons of what can be done with a track. */

import { svg } from "../dom.js";

function icon(...paths) {
  return svg("svg", { viewBox: "0 0 16 16", width: 14, height: 14, "aria-hidden": "true", fill: "none",
    stroke: "currentColor", "stroke-width": 1.5, "stroke-linecap": "round", "stroke-linejoin": "round" },
    paths.map((d) => svg("path", { d })));
}

export function pinIcon() {
  return icon("M5.5 2h5l-.7 5 2.2 2.5h-8L6.2 7z", "M8 9.5V14");
}

export function hideIcon() {
  return icon("M2 8s2.2-3.7 6-3.7S14 8 14 8s-2.2 3.7-6 3.7S2 8 2 8z", "M3 13L13 3");
}

export function menuIcon() {
  return icon("M8 3.5v.01", "M8 8v.01", "M8 12.5v.01");
}
