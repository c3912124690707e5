// What is around an instruction as a graph: operands above their users, in layers.

import { graphBox, graphDrawing, graphEdge } from "../charts/graph.js";
import { shortened, svg } from "../dom.js";

const WIDE = 206;
const TALL = 46;
const ACROSS = 16;
const DOWN = 30;
const SWEEPS = 4;
const COLOURS = [
  [/^(convolution|dot|ragged-dot|scaled-dot|fft|triangular-solve|cholesky)$/, "#7fa6e8"],
  [/^(all-|reduce-scatter|collective|infeed|outfeed|send|recv|ragged-all)/, "#b9a3e3"],
  [/^(copy|async|transpose|reshape|bitcast|concatenate|slice|dynamic-|pad|gather|scatter)/, "#d9b886"],
  [/^(fusion|call|while|conditional|custom-call)$/, "#82cc9e"],
  [/^(parameter|constant|iota)$/, "#f7b56d"],
];

/** Draws {nodes, edges} of the server, the instruction in the middle in sight; `onselect(node)`. */
export function drawHloGraph(element, { nodes: given, edges }, onselect) {
  const nodes = given.map((node, at) => ({ ...node, at, above: [], below: [] }));
  for (const [from, to] of edges) {
    nodes[from].below.push(nodes[to]);
    nodes[to].above.push(nodes[from]);
  }
  const drawing = graphDrawing(layout(nodes), "Instructions around");
  for (const node of nodes) for (const user of node.below) drawing.append(edge(node, user));
  for (const node of nodes) drawing.append(boxOf(node, onselect));
  element.append(drawing);
  const centre = nodes.find((node) => node.distance === 0);
  if (!centre) return;
  element.scrollLeft = centre.x - element.clientWidth / 2 + WIDE / 2;
  element.scrollTop = centre.y - element.clientHeight / 2 + TALL;
}

function boxOf(node, onselect) {
  const shade = COLOURS.find(([pattern]) => pattern.test(node.opcode))?.[1] ?? "#a3adbb";
  return graphBox(node, { width: WIDE, height: TALL, kind: node.distance === 0 ? "centre" : "",
    onchoose: () => onselect(node),
    title: `${node.name}, ${node.relation}\n${node.opcode} ${shortened(node.shape, 200)}` },
    svg("rect", { width: 6, height: TALL, rx: 3, fill: shade }),
    svg("text.graph-name", { x: 13, y: 18 }, shortened(node.name, 23)),
    svg("text.graph-note", { x: 13, y: 35 }, shortened(`${node.opcode} ${node.shape.replace(/\{[^}]*\}/g, "")}`, 30)));
}

/** Layers by the longest way from an instruction without operands, then each at the mean place of its neighbours. */
function layout(nodes) {
  for (const node of nodes)
    node.layer = Math.max(0, ...node.above.filter((one) => one.at < node.at).map((one) => one.layer + 1));
  for (const node of [...nodes].reverse()) {
    if (node.below.length && !node.above.length)
      node.layer = Math.max(0, Math.min(...node.below.map((one) => one.layer)) - 1);
  }
  const layers = [];
  for (const node of nodes) (layers[node.layer] ??= []).push(node);
  const filled = layers.filter(Boolean);
  filled.forEach(numbered);
  for (let sweep = 0; sweep < SWEEPS; sweep += 1) {
    for (const layer of sweep % 2 ? [...filled].reverse() : filled) {
      const key = (node) => mean(sweep % 2 ? node.below : node.above) ?? node.place;
      const keys = new Map(layer.map((node) => [node, key(node)]));
      layer.sort((one, other) => keys.get(one) - keys.get(other));
      numbered(layer);
    }
  }
  const widest = Math.max(...filled.map((layer) => layer.length));
  filled.forEach((layer, depth) => {
    const room = ((widest - layer.length) * (WIDE + ACROSS)) / 2;
    layer.forEach((node, place) => {
      node.x = 8 + room + place * (WIDE + ACROSS);
      node.y = 8 + depth * (TALL + DOWN);
    });
  });
  return { width: 16 + widest * (WIDE + ACROSS), height: 16 + filled.length * (TALL + DOWN) };
}

function numbered(layer) {
  layer.forEach((node, place) => {
    node.place = place;
  });
}

function mean(nodes) {
  return nodes.length ? nodes.reduce((sum, node) => sum + node.place, 0) / nodes.length : null;
}

function edge(from, to) {
  const near = from.distance === 0 || to.distance === 0;
  return graphEdge({ x: from.x + WIDE / 2, y: from.y + TALL }, { x: to.x + WIDE / 2, y: to.y }, near ? "near" : "");
}
