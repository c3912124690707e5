// Cuts long names where they are alike, so that what distinguishes them stays: wording/screen.py is its twin.

import { seen } from "./unseen.js";

const ELLIPSIS = "…";
const LEAST_ALIKE = 6; // shorter beginnings stay: they say what the names are
const BREAKS = [/\/|[:,;(<[ ]/g, /[_.]/g]; // the second ones if there are no others
const MOST = 400; // longer texts are first cut to the letters around these, in their middle

/**
 * Cuts texts to `limit`, as `width(text)` measures them; by default in letters. What all long ones have in common at
 * their beginnings is left out, then the middle; texts that would look alike are cut again, before they differ.
 */
export class Elision {
  constructor(texts, limit, width = (text) => text.length) {
    Object.assign(this, { limit, width, again: new Map(), prefix: "", known: new Map() });
    const long = [...new Set(texts.map(onLine))].filter((text) => width(text) > limit);
    this.prefix = shared(long, limit - width(ELLIPSIS), width);
    const alike = new Map();
    for (const text of long) {
      const cut = this.withoutPrefix(text);
      alike.set(cut, [...(alike.get(cut) ?? []), text]);
    }
    for (const same of alike.values()) if (same.length > 1) this.setApart(same);
  }

  /** A text as it is shown, on one line. */
  cut(text) {
    let cut = this.known.get(text);
    if (cut === undefined) this.known.set(text, cut = this.cutLine(onLine(text)));
    return cut;
  }

  cutLine(line) {
    return this.width(line) <= this.limit ? line : this.again.get(line) ?? this.withoutPrefix(line);
  }

  withoutPrefix(text) {
    const begins = this.prefix && text.startsWith(this.prefix);
    return middle(begins ? ELLIPSIS + text.slice(this.prefix.length) : text, this.limit, this.width);
  }

  /** Texts that differ in their middles: from a little before the first difference on. */
  setApart(texts) {
    const differ = common(texts).length;
    const before = Math.floor(this.limit / this.width("n") / 2);
    const start = wholeLetters(texts[0], Math.max(breaks(texts[0].slice(0, differ)).at(-1) ?? 0, differ - before));
    for (const text of texts) {
      const rest = text.slice(start);
      const fits = (letters) =>
        ELLIPSIS + (letters < rest.length ? rest.slice(0, wholeLetters(rest, letters)) + ELLIPSIS : rest);
      this.again.set(text, longest(rest.length, fits, this.limit, this.width));
    }
  }
}

/** Texts in as many letters at most, each so that what distinguishes it from the others stays. */
export function elided(texts, letters) {
  const elision = new Elision(texts, letters);
  return texts.map((text) => elision.cut(text));
}

function onLine(text) {
  const all = String(text);
  const line = all.length > 2 * MOST ? all.slice(0, MOST) + ELLIPSIS + all.slice(-MOST) : all;
  return seen(line.replace(/\s+/g, " "));
}

/** The beginning that all texts share, up to the end of a part of a name: only as much as has to go so that all texts
 * fit, or all of it. Empty if it is short. */
function shared(texts, room, width) {
  if (texts.length < 2) return "";
  const start = common(texts);
  const ends = breaks(start);
  const excess = Math.max(...texts.map(width)) - room;
  return start.slice(0, ends.find((end) => width(start.slice(0, end)) >= excess) ?? ends.at(-1) ?? 0);
}

/** The beginning that all texts have: that of the first and the last of them in order. */
function common(texts) {
  const first = texts.reduce((one, other) => (other < one ? other : one));
  const last = texts.reduce((one, other) => (other > one ? other : one));
  let length = 0;
  while (length < first.length && first[length] === last[length]) length += 1;
  return first.slice(0, wholeLetters(first, length));
}

/** The ends of the parts of a name, without those near its beginning. */
function breaks(text) {
  for (const ends of BREAKS) {
    const some = [...text.matchAll(ends)].map((at) => at.index + (at[0] === "/" ? 0 : 1));
    const far = some.filter((end) => end >= LEAST_ALIKE);
    if (far.length) return far;
  }
  return [];
}

/** A text without as much of its middle as has to go. */
function middle(text, limit, width) {
  if (width(text) <= limit) return text;
  const left = (letters) => {
    const tail = text.length - Math.floor(letters / 2);
    const end = wholeLetters(text, tail) < tail ? tail + 1 : tail;
    return text.slice(0, wholeLetters(text, Math.ceil(letters / 2))) + ELLIPSIS + text.slice(end);
  };
  return longest(text.length - 1, left, limit, width);
}

/** What is made of the most letters, 0 to `most`, and is no wider than the limit. */
function longest(most, made, limit, width) {
  let [fits, above] = [0, most + 1];
  while (fits + 1 < above) {
    const letters = Math.floor((fits + above) / 2);
    if (width(made(letters)) <= limit) fits = letters;
    else above = letters;
  }
  return made(fits);
}

/** `at`, or the place before if a letter of two code units is there. */
function wholeLetters(text, at) {
  return at > 0 && /[\ud800-\udbff]/.test(text[at - 1]) ? at - 1 : at;
}
