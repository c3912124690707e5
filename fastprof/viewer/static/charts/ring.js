// Shares as a ring, with a legend of names and shares.

import { panel } from "../cards.js";
import { coloursOf, FAINT } from "../colours.js";
import { h, svg } from "../dom.js";
import { elided } from "../elision.js";
import { number, text } from "../units.js";
import { bars } from "./bar_list.js";
import { pictureButton } from "./picture.js";

const OTHERS = "Other";
const MOST_IN_RING = 6;
const SIZE = 200;
const [OUTER, INNER] = [96, 44];
const LEAST_WRITTEN = 0.05;

/** A panel with a ring; options as `pie` has them, and `note`. */
export function ringPanel(title, slices, { note = null, ...options } = {}) {
  const box = panel(title, note);
  pie(box.body, slices, { label: title, ...options });
  return box;
}

/**
 * A ring of `slices`: {name, value, title, colour}; those beyond `most` are one slice, "Other". `onclick(slice)`. More than
 * six slices are bars, which can be compared.
 */
export function pie(element, slices, { unit = "ps", most = 12, label, height = 280, onclick } = {}) {
  const shown = largest(slices, most);
  const total = shown.reduce((sum, slice) => sum + slice.value, 0);
  const colours = coloursOf(shown.map((slice) => slice.name));
  const names = elided(shown.map((slice) => slice.name), 28);
  const looks = shown.map((slice, at) => ({
    slice,
    share: slice.value / total,
    colour: slice.colour ?? (slice.others ? FAINT : colours[at]),
    title: [slice.name, slice.title, text(slice.value, unit)].filter(Boolean).join("\n"),
  }));
  if (looks.length > MOST_IN_RING) {
    bars(element, { names: shown.map(({ name }) => name), values: looks.map(({ share }) => share), unit: "share", label,
      colours: looks.map((look) => look.colour), titles: looks.map((look) => look.title), onclick: onclick && ((at) =>
        onclick(shown[at])) });
  } else element.append(ring(looks, names, { label, height, onclick }));
}

function ring(looks, names, { label, height, onclick }) {
  const legend = h("div.ring-legend");
  const drawing = svg("svg.ring-drawing", { viewBox: `0 0 ${SIZE} ${SIZE}`, role: "img", "aria-label": label });
  let from = 0;
  looks.forEach(({ slice, share, colour, title }, at) => {
    const choose = onclick && (() => onclick(slice));
    drawing.append(
      svg("g", { class: choose ? "ring-slice ring-choice" : "ring-slice", onclick: choose },
        svg("title", `${title}, ${text(share, "share")}`), svg("path", { d: sector(from, from + share), fill: colour }),
        share >= LEAST_WRITTEN ? shareText(from + share / 2, text(share, "share")) : null),
    );
    legend.append(
      h(choose ? "button.chart-entry" : "span.chart-entry", { title: `${title}, ${text(share, "share")}`,
        onclick: choose }, h("span.chart-key", { style: { "--series": colour } }), h("span.ring-name", names[at]),
        h("span.ring-share", text(share, "share"))),
    );
    from += share;
  });
  return h("div.chart.ring", { style: { height: `${height}px` } }, drawing, legend, pictureButton(drawing, label));
}

function point(share, radius) {
  const angle = 2 * Math.PI * share;
  return `${(SIZE / 2 + radius * Math.sin(angle)).toFixed(2)} ${(SIZE / 2 - radius * Math.cos(angle)).toFixed(2)}`;
}

/** The path of a slice between two shares of the ring; a full ring is a little less, as an arc needs two ends. */
function sector(from, to) {
  const end = Math.min(to, from + 0.99999);
  const far = end - from > 0.5 ? 1 : 0;
  return `M${point(from, OUTER)}A${OUTER} ${OUTER} 0 ${far} 1 ${point(end, OUTER)}`
    + `L${point(end, INNER)}A${INNER} ${INNER} 0 ${far} 0 ${point(from, INNER)}Z`;
}

function shareText(share, words) {
  const [x, y] = point(share, (OUTER + INNER) / 2).split(" ");
  return svg("text.ring-text", { x, y: Number(y) + 3, "text-anchor": "middle" }, words);
}

function largest(slices, most) {
  const known = slices.filter((slice) => slice.value > 0).sort((one, other) => other.value - one.value);
  if (known.length <= most) return known;
  const rest = known.slice(most - 1);
  const value = rest.reduce((sum, slice) => sum + slice.value, 0);
  return [...known.slice(0, most - 1), { name: OTHERS, title: `${number(rest.length)} more`, value, others: true }];
}
