// Parts of graphs: the drawing, boxes that can be chosen, and the curves between them.

import { svg } from "../dom.js";

export function graphDrawing({ width, height }, label) {
  return svg("svg.graph", { width, height, viewBox: `0 0 ${width} ${height}`, role: "group", "aria-label": label });
}

/** A box at {x, y} of a size; `kind`: further classes, `title`: all of its name; `children` are drawn within it. */
export function graphBox({ x, y }, { width, height, kind = "", title, onchoose }, ...children) {
  const choose = () => {
    for (const other of box.parentNode.querySelectorAll(".chosen")) other.classList.remove("chosen");
    box.classList.add("chosen");
    onchoose();
  };
  const box = svg("g.graph-node", { class: kind, transform: `translate(${x} ${y})`, tabindex: "0", role: "button",
    onclick: choose, onkeydown: (event) => (event.key === "Enter" || event.key === " ") && choose() },
    svg("title", title), svg("rect.graph-box", { width, height, rx: 6 }), ...children);
  return box;
}

/** A curve down from {x, y} to another. */
export function graphEdge(from, to, kind = "") {
  const middle = (from.y + to.y) / 2;
  return svg("path.graph-edge", { class: kind,
    d: `M${from.x} ${from.y}C${from.x} ${middle} ${to.x} ${middle} ${to.x} ${to.y}` });
}
