// Characters of names that do not show, or that turn the direction of the text around them, as escapes.

// Controls, line separators, marks that turn the direction of text, and what has no width.
const UNSEEN =
  /[\u0000-\u001f\u007f-\u009f\u00ad\u061c\u115f\u1160\u200b\u200e\u200f\u2028-\u202e\u2060-\u2069\u3164\ufeff\uffa0\ufff9-\ufffb]|\u034f/g;

const SHORT = {
  "\n": "\\n",
  "\r": "\\r",
  "\t": "\\t",
};

/** Text on one line: every character that would not be seen is an escape, as the command line writes it on a screen. */
export function seen(text) {
  return text.replace(UNSEEN, escaped);
}

/** Like `seen`, but line ends and tabs stay. */
export function seenLines(text) {
  return text.replace(UNSEEN,
    (character) => (character === "\n" || character === "\t" ? character : escaped(character)));
}

function escaped(character) {
  const code = character.charCodeAt(0);
  return SHORT[character]
    ?? (code < 0x100 ? `\\x${code.toString(16).padStart(2, "0")}` : `\\u${code.toString(16).padStart(4, "0")}`);
}
