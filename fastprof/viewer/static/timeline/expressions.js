/** Faults of regular expressions, found before the server is asked: its syntax is RE2's, and half an expression is no fault. */

const FLAGS = /\(\?[imsU]*(?:-[imsU]+)?(:|\))/g;
const AROUND = /\(\?<?[=!]/;
/** Escapes that browsers know, or take for a letter, and RE2 does not. */
const FOREIGN = /\\(?:[1-9ceghijklmoquyFGHIJKLMNORTUVXYZ])/;

/** What is wrong with an expression, a sentence; "" where nothing is seen to be. */
export function faultOf(expression) {
  const bare = expression.replace(/\\\\/g, "__"); // a backslash that stands for itself escapes nothing
  if (AROUND.test(bare.replace(/\\\(/g, "__"))) return "Lookahead and lookbehind are not supported in expressions.";
  const [foreign] = FOREIGN.exec(bare.replace(/\\Q[\s\S]*?(\\E|$)/g, "")) ?? [];
  if (foreign)
    return /\d/.test(foreign)
      ? "Backreferences are not supported in expressions."
      : `${foreign} is not part of an expression.`;
  try {
    RegExp(asBrowsersKnow(expression));
    return "";
  } catch (error) {
    return `Incomplete expression: ${error.message.replace(/^.*: /s, "").toLowerCase()}`;
  }
}

function asBrowsersKnow(expression) {
  return expression.replace(/\\Q([\s\S]*?)(\\E|$)/g, (_, text) => text.replace(/[^\w\s]/g, "\\$&")).replace(FLAGS,
    (_, end) => (end === ":" ? "(?:" : "")).replace(/\(\?P</g, "(?<");
}
