// The text of a program, of any length: pages of it are fetched as they come into sight.

import { h } from "../dom.js";
import { RowScroller } from "../row_scroller.js";
import { number } from "../units.js";

const ROW = 18;
const PAGE = 2_000;
const MOST_PAGES = 24;
const ABOVE = 6;
const MOST_LETTERS = 3_000;
const TOKEN = /"(?:[^"\\]|\\.)*"|[%A-Za-z_][\w.%-]*|[^"%A-Za-z_]+/g;
const INSTRUCTION = /^(\s*(?:ROOT )?%?[\w.-]+ = .*? )([a-z][\w-]*)(?=\()/;
const VALUES = new Set(["parameter", "constant", "iota"]);
const CALLED =
  /^(calls|to_apply|body|condition|branch_computations|called_computations|true_computation|false_computation|select|scatter|control-predecessors)$/;

/**
 * `page`: a page of the text as the server gives it; `more(from, count)` fetches another; `onname(name)`: an instruction
 * or computation was clicked.
 */
export class HloLines {
  constructor(element, page, { more, onname }) {
    Object.assign(this, { more, onname, marked: null, pages: new Map(), fetching: new Set() });
    this.put(page);
    const space = h("div.hlo-space");
    const box = h("div.hlo-text", { tabindex: "0", role: "document", "aria-label": "Program text",
      onclick: (event) => this.click(event) }, space);
    this.status = h("div.faint", `${number(page.lines)} lines`);
    element.append(this.status, box);
    this.scroller = new RowScroller(box, space, { height: ROW, make: () => h("div.hlo-line"),
      fill: (line, at) => this.fill(line, at) });
    this.scroller.show(page.lines);
  }

  click(event) {
    const name = event.target.closest("[data-name]")?.dataset.name;
    if (name && window.getSelection().isCollapsed) this.onname(name);
  }

  put({ first, text }) {
    this.pages.set(first, text);
    if (this.pages.size > MOST_PAGES) this.pages.delete(this.pages.keys().next().value);
  }

  line(at) {
    for (const [first, lines] of this.pages) if (at >= first && at < first + lines.length) return lines[at - first];
    this.fetch(Math.floor(at / PAGE) * PAGE);
    return null;
  }

  async fetch(from) {
    if (this.fetching.has(from)) return;
    this.fetching.add(from);
    try {
      this.put(await this.more(from, PAGE));
      this.scroller.draw();
    } catch (error) {
      if (error.name !== "AbortError") this.status.textContent = error.message;
    } finally {
      this.fetching.delete(from);
    }
  }

  fill(line, at) {
    const text = this.line(at);
    const pieces = text === null
      ? ["…"]
      : tokens(text.length > MOST_LETTERS ? `${text.slice(0, MOST_LETTERS)}…` : text);
    line.replaceChildren(h("span.hlo-number", String(at + 1)), ...pieces);
    line.classList.toggle("marked", text !== null && this.marked !== null && defined(text) === this.marked);
  }

  mark(name) {
    this.marked = name?.replace(/^%/, "") ?? null;
    this.scroller.draw();
  }

  go(at) {
    this.scroller.go(Math.max(0, at - ABOVE));
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
