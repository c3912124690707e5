// Iterators of an input pipeline as a graph: the program on top, each iterator above those whose elements it takes.

import { graphBox, graphDrawing, graphEdge } from "../charts/graph.js";
import { h, shortened, svg } from "../dom.js";
import { number, text } from "../units.js";
import { heat } from "./details.js";

const WIDE = 186;
const TALL = 58;
const ACROSS = 18;
const DOWN = 34;
const MOST = 400;

/**
 * Draws `nodes`: {key, above, name, part, critical_ps, call_count, count, is_async, is_blocking, is_bottleneck, took_part};
 * `onselect(node)`. Returns the boxes by key.
 */
export function drawIterators(element, nodes, onselect) {
  const shown = mostCritical(nodes);
  const drawing = graphDrawing(layout(shown), "Iterators of the pipeline");
  for (const node of shown) if (node.up) drawing.append(edge(node));
  const boxes = new Map(shown.map((node) => [node.key, boxOf(node, onselect)]));
  drawing.append(...boxes.values());
  element.append(drawing);
  if (shown.length < nodes.length)
    element.append(h("p.sentence", `The ${MOST} iterators with the most critical time, of ${number(nodes.length)}.`));
  return boxes;
}

function boxOf(node, onselect) {
  const shade = node.part > 0 ? heat(1 - Math.min(1, node.part * 1.4)) : "var(--line-strong)";
  const words = `${text(node.part, "share")} · ${text(node.critical_ps, "ps")}`;
  const kind = [node.is_bottleneck && "worst", !node.took_part && "absent"].filter(Boolean).join(" ");
  return graphBox(node, { width: WIDE, height: TALL, kind, title: node.long_name ?? node.name,
    onchoose: () => onselect(node) },
    svg("rect.graph-track", { x: 8, y: TALL - 13, width: WIDE - 16, height: 6, rx: 3 }),
    svg("rect", { x: 8, y: TALL - 13, width: Math.max(node.part > 0 ? 1 : 0, (WIDE - 16) * Math.min(1, node.part)),
      height: 6, rx: 3, fill: shade }),
    svg("text.graph-name", { x: 10, y: 19 },
      shortened(node.count > 1 ? `${node.name} × ${number(node.count)}` : node.name, 20)),
    node.is_async ? svg("text.graph-mark", { x: WIDE - 10, y: 18 }, "ahead") : null,
    svg("text.graph-note", { x: 10, y: 36 }, words));
}

/** The nodes to draw, in their order. */
function mostCritical(nodes) {
  const chosen = new Set(
    nodes.length > MOST ? [...nodes].sort((one, other) => other.part - one.part).slice(0, MOST) : nodes,
  );
  return nodes.filter((node) => chosen.has(node)).map((node) => ({ ...node, below: [], up: null }));
}

/** Places of nodes: leaves side by side, each other one above the middle of its own. */
function layout(nodes) {
  const found = new Map(nodes.map((node) => [node.key, node]));
  for (const node of nodes) {
    node.up = found.get(node.above) ?? null;
    if (node.up === node) node.up = null;
    node.up?.below.push(node);
  }
  let next = 8;
  let deepest = 0;
  const roots = nodes.filter((node) => !node.up);
  const waiting = roots.map((node) => [node, 0, false]).reverse();
  while (waiting.length) {
    const [node, depth, done] = waiting.pop();
    if (!done && node.below.length) {
      waiting.push([node, depth, true]);
      for (let at = node.below.length - 1; at >= 0; at -= 1) waiting.push([node.below[at], depth + 1, false]);
    } else {
      node.y = 8 + depth * (TALL + DOWN);
      node.x = node.below.length ? (node.below[0].x + node.below.at(-1).x) / 2 : next;
      if (!node.below.length) next += WIDE + ACROSS;
    }
    deepest = Math.max(deepest, depth);
  }
  return { width: Math.max(next, WIDE + 16), height: 16 + (deepest + 1) * TALL + deepest * DOWN };
}

function edge(node) {
  const below = { x: node.x + WIDE / 2, y: node.y };
  const above = { x: node.up.x + WIDE / 2, y: node.up.y + TALL };
  return graphEdge(above, below, node.is_blocking ? "blocking" : "");
}
