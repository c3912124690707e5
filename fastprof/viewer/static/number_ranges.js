// Numbers in addresses and requests: "1,2,5-9".

/** Numbers written so, ascending. */
export function spelled(numbers) {
  const sorted = [...numbers].sort((one, other) => one - other);
  const parts = [];
  for (let first = 0; first < sorted.length;) {
    let last = first;
    while (last + 1 < sorted.length && sorted[last + 1] === sorted[last] + 1) last++;
    parts.push(first === last ? `${sorted[first]}` : `${sorted[first]}-${sorted[last]}`);
    first = last + 1;
  }
  return parts.join(",");
}

/** Such a text as a set, of `most` numbers at most; null where nothing is given. */
export function numbers(ranges, most = Infinity) {
  if (ranges === null || ranges === undefined || ranges === "") return null;
  const found = new Set();
  for (const range of String(ranges).split(",")) {
    const [first, last = first] = range.split("-").map(Number);
    for (let number = first; number <= last && found.size < most; number += 1) found.add(number);
  }
  return found;
}
