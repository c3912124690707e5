// Lists of names written as text: columns, figures, tables.

/**
 * The items of a list: "rank, name:220, op:grow, self_ps=Self time" is ["rank", {name: "name", width: 220},
 * {name: "op", grow: true}, ["self_ps", "Self time"]].
 */
export function list(text) {
  return text.split(",").map((item) => {
    const [name, title] = item.trim().split("=");
    if (title) return [name, title];
    const [column, width] = name.split(":");
    if (!width) return column;
    return width === "grow" ? { name: column, grow: true } : { name: column, width: Number(width) };
  });
}
