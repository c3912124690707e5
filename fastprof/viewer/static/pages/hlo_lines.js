// The lines of a program, of any length: those in sight are elements, and pages of them are fetched as they are needed.

import { h } from "../dom.js";
import { number } from "../units.js";

const ROW = 18;
const PAGE = 2_000;
const KEPT = 24;
const AHEAD = 20;
const MOST_LETTERS = 3_000;
const TALLEST = 16_000_000;
const TOKEN = /"(?:[^"\\]|\\.)*"|[%A-Za-z_][\w.%-]*|[^"%A-Za-z_]+/g;
const INSTRUCTION = /^(\s*(?:ROOT )?%?[\w.-]+ = .*? )([a-z][\w-]*)(?=\()/;
const VALUES = new Set(["parameter", "constant", "iota"]);
const CALLED =
  /^(calls|to_apply|body|condition|branch_computations|called_computations|true_computation|false_computation|select|scatter|control-predecessors)$/;

/**
 * `first`: a page of the text as the server gives it; `more(from, count)` gives another; `onname(name)`: an instruction or
 * computation was clicked.
 */
export class HloLines {
  constructor(element, first, { more, onname }) {
    Object.assign(this, { more, onname, count: first.lines, marked: null, pages: new Map(), asked: new Set() });
    this.put(first.first, first.text);
    this.space = h("div.hlo-space");
    this.scroll = h("div.hlo-text", { tabindex: "0", role: "document", "aria-label": "Text of the program" },
      this.space);
    this.status = h("div.faint", `${number(this.count)} lines`);
    element.append(this.status, this.scroll);
    this.space.style.height = `${Math.min(this.count * ROW, TALLEST)}px`;
    this.scale = Math.max(1, (this.count * ROW) / TALLEST);
    this.scroll.addEventListener("scroll", () => this.soon());
    this.scroll.addEventListener("click", (event) => {
      const name = event.target.closest("[data-name]")?.dataset.name;
      if (name && window.getSelection().isCollapsed) this.onname(name);
    });
    this.draw();
  }

  put(first, lines) {
    this.pages.set(first, lines);
    if (this.pages.size > KEPT) this.pages.delete(this.pages.keys().next().value);
  }

  line(at) {
    for (const [first, lines] of this.pages) if (at >= first && at < first + lines.length) return lines[at - first];
    return null;
  }

  soon() {
    cancelAnimationFrame(this.frame);
    this.frame = requestAnimationFrame(() => this.draw());
  }

  /** The first line in sight; of texts taller than elements can be, a part of the way down is that part of the text. */
  get top() {
    return (this.scroll.scrollTop * this.scale) / ROW;
  }

  draw() {
    const first = Math.max(0, Math.floor(this.top) - AHEAD);
    const last = Math.min(this.count, Math.ceil(this.top + (this.scroll.clientHeight || 600) / ROW) + AHEAD);
    const offset = this.scroll.scrollTop - this.top * ROW;
    const drawn = [];
    let missing = null;
    for (let at = first; at < last; at += 1) {
      const text = this.line(at);
      missing ??= text === null ? at : null;
      drawn.push(this.row(at, text, offset));
    }
    this.space.replaceChildren(...drawn);
    if (missing !== null) this.fetch(missing);
  }

  async fetch(at) {
    const from = Math.floor(at / PAGE) * PAGE;
    if (this.asked.has(from)) return;
    this.asked.add(from);
    try {
      const found = await this.more(from, PAGE);
      this.put(found.first, found.text);
      this.soon();
    } catch (error) {
      if (error.name !== "AbortError") this.status.textContent = error.message;
    } finally {
      this.asked.delete(from);
    }
  }

  row(at, text, offset) {
    const line = h("div.hlo-line", { style: { transform: `translateY(${at * ROW + offset}px)` } },
      h("span.hlo-number", String(at + 1)));
    if (text === null) line.append("…");
    else line.append(...tokens(text.length > MOST_LETTERS ? `${text.slice(0, MOST_LETTERS)}…` : text));
    if (text !== null && this.marked && defined(text) === this.marked) line.classList.add("marked");
    return line;
  }

  mark(name) {
    this.marked = name?.replace(/^%/, "") ?? null;
    this.draw();
  }

  go(at) {
    this.scroll.scrollTop = (Math.max(0, at - 6) * ROW) / this.scale;
    this.draw();
  }

  leave() {
    cancelAnimationFrame(this.frame);
  }
}

/** What a line defines: an instruction or a computation; null: neither. */
function defined(text) {
  const found = /^\s*(?:ROOT |ENTRY )?%?([\w.-]+) (?:=|\{|\()/.exec(text);
  return found ? found[1] : null;
}

/** A line in coloured pieces, names of instructions and computations that can be clicked. */
function tokens(text) {
  const name = defined(text);
  const parts = INSTRUCTION.exec(text);
  if (name === null || parts === null) return words(text, name);
  const [lead, opcode] = [parts[1], parts[2]];
  const begin = lead.length + opcode.length;
  const end = closing(text, begin);
  const operands = text.slice(begin, end);
  return [
    ...words(lead, name),
    h("span.hlo-opcode", opcode),
    ...(VALUES.has(opcode) ? [operands] : named(operands)),
    ...attributes(text.slice(end)),
  ];
}

/** The place behind the parenthesis that closes the one at `begin`. */
function closing(text, begin) {
  let deep = 0;
  for (let at = begin; at < text.length; at += 1) {
    if (text[at] === "(") deep += 1;
    else if (text[at] === ")" && (deep -= 1) === 0) return at + 1;
  }
  return text.length;
}

/** What stands before an opcode, or a line that is no instruction. */
function words(text, name) {
  return pieces(text, (word) => {
    if (word === "ROOT" || word === "ENTRY" || word === "HloModule") return h("span.hlo-word", word);
    return word.replace(/^%/, "") === name ? h("span.hlo-name", { dataset: { name } }, word) : word;
  });
}

/** Operands: the last word of each is its name, after comments and in old texts its shape. */
function named(text) {
  return pieces(text, (word, next) => (/^[,)\s]/.test(next) && !/^(index)$/.test(word) ? clickable(word) : word));
}

/** Attributes: names of computations where one names them. */
function attributes(text) {
  let attribute = "";
  return pieces(text, (word, next) => {
    if (next.startsWith("=")) attribute = word;
    else if (CALLED.test(attribute)) return clickable(word);
    return word;
  });
}

/** A text in words and what is between them; `made(word, what follows)`. Quoted texts are one piece. */
function pieces(text, made) {
  const found = [];
  for (const match of text.matchAll(TOKEN)) {
    const [piece] = match;
    if (piece[0] === '"') found.push(h("span.hlo-quoted", piece));
    else if (/^[%A-Za-z_]/.test(piece))
      found.push(made(piece, text.slice(match.index + piece.length, match.index + piece.length + 2)));
    else found.push(piece);
  }
  return found;
}

function clickable(piece) {
  return h("span.hlo-link", { dataset: { name: piece.replace(/^%/, "") } }, piece);
}
