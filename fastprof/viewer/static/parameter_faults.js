// Faults of parameters of the address, found before a server is asked.

import { parsed } from "./units.js";

const FORMS = "write A:B, A:, :B, A or NAME=A:B; B is excluded, so 3:5 is 3 and 4";
const UNITS = {
  time: ["ps", "a time, such as 1.5ms"],
  bytes: ["bytes", "a size, such as 2GiB"],
};

/** A sentence on what is wrong with a value of a parameter of an analysis; null: nothing found here. */
export function fault({ name, type, choices, min }, value) {
  const sentence = (wanted) => `${name} is ${wanted}, not ${JSON.stringify(value.slice(0, 60))}.`;
  if (type === "steps") return ofSteps(value);
  if (choices) return choices.includes(value) ? null : sentence(`one of ${choices.join(", ")}`);
  if (type === "int" || type === "float") {
    const wanted = type === "int" ? "an integer" : "a number";
    const found = value.trim() === "" ? NaN : Number(value);
    if (!Number.isFinite(found) || (type === "int" && !Number.isInteger(found))) return sentence(wanted);
    return typeof min === "number" && found < min ? sentence(`${wanted} from ${min} on`) : null;
  }
  if (type === "bool") return /^(1|0|true|false)$/.test(value) ? null : sentence("true or false");
  if (type in UNITS) return Number.isNaN(parsed(value, UNITS[type][0])) ? sentence(UNITS[type][1]) : null;
  return null;
}

function ofSteps(value) {
  if (!value.trim()) return null;
  const quoted = JSON.stringify(value.slice(0, 60));
  const named = /^(.*)=(.*)$/s.exec(value);
  if (named && !named[1].trim()) return `${quoted} names no steps before the =: ${FORMS}.`;
  const numbers = named ? named[2] : value;
  const span = /^\s*(\d{1,18})\s*-\s*(\d{1,18})\s*$/.exec(numbers);
  if (span && Number(span[1]) <= Number(span[2])) {
    const [, low, high] = span;
    return `${quoted} is no range of steps: write A:B, where B is left out: ${low}:${
      Number(high) + 1
    } for ${low} to ${high}.`;
  }
  if (/^[\s\d:]*\d{19}[\s\d:]*$/.test(numbers))
    return `${quoted} is not a step range: step numbers have at most 18 digits.`;
  const found = /^\s*(\d{1,18})?\s*(:?)\s*(\d{1,18})?\s*$/.exec(numbers);
  if (!found || !(found[1] || found[3]) || (!found[2] && found[1] && found[3]))
    return `${quoted} is not a range of steps: ${FORMS}.`;
  const empty = found[2] && found[1] && found[3] && Number(found[3]) <= Number(found[1]);
  return empty ? `${quoted} contains no step: the second number is excluded, as in 3:5.` : null;
}
