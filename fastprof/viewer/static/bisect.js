// Binary search.

/** The first integer of [low, high) for which `holds`, as it does for all after it; `high` if there is none. */
export function firstThat(holds, low, high) {
  while (low < high) {
    const middle = Math.floor((low + high) / 2);
    if (holds(middle)) high = middle;
    else low = middle + 1;
  }
  return low;
}
