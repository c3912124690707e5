// Elements of the page. Whatever comes from a capture is text: nothing here reads markup, and characters that turn the
// direction of text or do not show are escapes.

import { seen, seenLines } from "./unseen.js";

const SVG = "http://www.w3.org/2000/svg";
const SAFE_LINK = /^(#|\/|\.\/|blob:|data:|https?:)/i;

/**
 * An element: `h("p.note.wide", { title }, "text", child)`. The tag may carry classes. Properties may be left out: `class`
 * adds classes, `dataset` and `style` are objects, names that begin with "on" are listeners, all others are attributes;
 * null, undefined and false omit one. Strings among the children are text, as `seenLines` writes it, arrays are flattened. Buttons submit nothing.
 */
export function h(tag, ...rest) {
  return made((name) => document.createElement(name), tag, rest);
}

/** An element of a drawing, otherwise as h. */
export function svg(tag, ...rest) {
  return made((name) => document.createElementNS(SVG, name), tag, rest);
}

export function clear(element) {
  element.replaceChildren();
  return element;
}

/** Listeners by kind, until a signal if one is given: `on(node, { click: go, "pointerup pointercancel": release })`. */
export function on(target, listeners, signal = undefined) {
  for (const [kinds, listener] of Object.entries(listeners)) {
    for (const kind of kinds.split(" ")) target.addEventListener(kind, listener, { signal });
  }
}

/** A function that calls `act` once its own calls have ceased for a while; `cancel()` drops what waits. */
export function paused(act, ms) {
  let timer = 0;
  const call = (...given) => {
    clearTimeout(timer);
    timer = setTimeout(act, ms, ...given);
  };
  return Object.assign(call, { cancel: () => clearTimeout(timer) });
}

/** Drags that begin on an element: `begin(event)` returns what `move(event, begun)` receives. */
export function onDrag(element, begin, move) {
  let begun = null;
  on(element, {
    pointerdown: (event) => {
      event.preventDefault();
      element.setPointerCapture(event.pointerId);
      begun = begin(event);
    },
    pointermove: (event) => begun && move(event, begun),
    "pointerup pointercancel": () => {
      begun = null;
    },
  });
}

/** Calls back when the size of an element changes, until the element is taken out of the page. */
export function onResize(element, act) {
  const watch = new ResizeObserver(() => (element.isConnected ? act() : watch.disconnect()));
  watch.observe(element);
}

/** Text of one line, at most `most` letters long, cut in the middle; of several names, `elided` shows what differs. */
export function shortened(text, most = 80) {
  const all = String(text);
  const line = seen((all.length > 4 * most ? ends(all, 2 * most) : all).replace(/\s+/g, " "));
  if (line.length <= most) return line;
  const end = Math.floor((most - 1) / 2);
  return `${line.slice(0, most - 1 - end)}…${line.slice(line.length - end)}`;
}

function ends(text, letters) {
  return text.slice(0, letters) + text.slice(-letters);
}

function made(create, tag, [first, ...children]) {
  const [name, ...classes] = tag.split(".");
  const element = create(name);
  if (name === "button") element.setAttribute("type", "button");
  if (classes.length) element.classList.add(...classes);
  const hasProperties = isProperties(first);
  for (const [property, value] of Object.entries(hasProperties ? first : {})) {
    if (value !== null && value !== undefined && value !== false) give(element, property, value);
  }
  append(element, hasProperties ? children : [first, ...children]);
  return element;
}

function isProperties(value) {
  return typeof value === "object" && value !== null && !Array.isArray(value) && !(value instanceof Node);
}

function give(element, name, value) {
  if (name === "class") element.classList.add(...value.split(/\s+/).filter(Boolean));
  else if (name === "dataset") Object.assign(element.dataset, value);
  else if (name === "style") styled(element, value);
  else if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
  else if (name === "href" && !SAFE_LINK.test(value)) return;
  else if (name === "title" || name === "aria-label") element.setAttribute(name, seenLines(String(value)));
  else if (name === "value" || name === "checked" || name === "disabled") element[name] = value;
  else element.setAttribute(name, value === true ? "" : value);
}

function styled(element, properties) {
  for (const [name, value] of Object.entries(properties)) element.style.setProperty(name, value);
}

function append(element, children) {
  for (const child of children) {
    if (Array.isArray(child)) append(element, child);
    else if (typeof child === "string") element.append(seenLines(child));
    else if (child !== null && child !== undefined && child !== false) element.append(child);
  }
}
