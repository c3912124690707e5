// Names of kernels for people, as the command shortens them: render/report_text.py is its twin.

const LONG = 40;
/** A function of C++ with its arguments, which ops are not. */
const KERNEL = /^void |::.*\(/;
const NAMESPACE = /\b[A-Za-z_]\w*::/g;
const OPERATION = /\b(?!TensorAssignOp\b)\w*(?:Op|_op|[Ff]unctor)\b/g;

/** A name among those of ops and kernels: only kernels are shortened. */
export function shownName(name) {
  return KERNEL.test(name) ? kernelName(name) : name;
}

/** The function's name, without return type, namespaces and arguments; what is not C++ stays as it is. */
export function kernelName(name) {
  if (!name.includes("::") && !name.includes("<") && !name.startsWith("void ")) return name;
  const bare = called(name.replaceAll("(anonymous namespace)::", "")).replace(NAMESPACE, "");
  if (bare.length <= LONG || !bare.includes("<")) return bare || name;
  const begin = bare.indexOf("<");
  const operations = bare.slice(begin + 1).match(OPERATION);
  return operations ? `${bare.slice(0, begin)}<${operations.at(-1)}>` : bare;
}

/** The name from the last space before its arguments to these, outside of angle brackets. */
function called(name) {
  let depth = 0;
  let begin = 0;
  for (let at = 0; at < name.length; at += 1) {
    if (name[at] === "<") depth += 1;
    else if (name[at] === ">") depth -= 1;
    else if (depth === 0 && name[at] === " ") begin = at + 1;
    else if (depth === 0 && name[at] === "(") return name.slice(begin, at);
  }
  return name.slice(begin);
}
