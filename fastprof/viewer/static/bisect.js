// Binary search.

/** The first whole number of [low, high) for which `holds`, which holds for all after it too; `high` where it never does. */
export function firstThat(holds, low, high) {
  while (low < high) {
    const middle = Math.floor((low + high) / 2);
    if (holds(middle)) high = middle;
    else low = middle + 1;
  }
  return low;
}
