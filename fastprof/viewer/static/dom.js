// Elements of the page. Whatever comes from a capture is text: nothing here reads markup.

const SVG = "http://www.w3.org/2000/svg";
const SAFE_LINK = /^(#|\/|\.\/|blob:|data:|https?:)/i;

/**
 * An element. Of `properties`, `class` and `text` are what they say, `dataset` and `style` are objects, names that begin
 * with "on" are listeners, and all others are attributes; null and false leave one out. Strings among `children` are text.
 */
export function h(tag, properties, ...children) {
  return filled(document.createElement(tag), properties, children);
}

/** An element of a drawing, otherwise as h. */
export function svg(tag, properties, ...children) {
  return filled(document.createElementNS(SVG, tag), properties, children);
}

export function clear(element) {
  element.replaceChildren();
  return element;
}

/**
 * Text of one line that is at most so long, cut in the middle: names of ops tell most at both ends. `tail`: which part of
 * what is left is its end.
 */
export function shortened(text, most = 80, tail = 0.5) {
  const whole = String(text);
  const line = (whole.length > 4 * most ? ends(whole, 2 * most) : whole).replace(/\s+/g, " ");
  if (line.length <= most) return line;
  const end = Math.floor((most - 1) * tail);
  return `${line.slice(0, most - 1 - end)}…${line.slice(line.length - end)}`;
}

function ends(text, letters) {
  return text.slice(0, letters) + text.slice(-letters);
}

function filled(element, properties, children) {
  for (const [name, value] of Object.entries(properties ?? {})) {
    if (value !== null && value !== undefined && value !== false) given(element, name, value);
  }
  append(element, children);
  return element;
}

function given(element, name, value) {
  if (name === "class") element.setAttribute("class", value);
  else if (name === "text") element.textContent = value;
  else if (name === "dataset") Object.assign(element.dataset, value);
  else if (name === "style") styled(element, value);
  else if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
  else if (name === "href" && !SAFE_LINK.test(value)) return;
  else if (name === "value" || name === "checked" || name === "disabled") element[name] = value;
  else element.setAttribute(name, value === true ? "" : value);
}

function styled(element, properties) {
  for (const [name, value] of Object.entries(properties)) element.style.setProperty(name, value);
}

function append(element, children) {
  for (const child of children) {
    if (Array.isArray(child)) append(element, child);
    else if (child !== null && child !== undefined && child !== false) element.append(child);
  }
}
