// Data that are in the page itself: elements of JSON, or of bytes compressed with gzip and written as base64.

/** Whether the page holds data of this name. */
export function has(name) {
  return element(name) !== null;
}

/** The bytes of this name, uncompressed. */
export async function bytes(name) {
  const found = element(name);
  if (!found) throw new Error(`The report lacks ${name}: it is not whole.`);
  const packed = Uint8Array.from(atob(found.textContent.trim()), (letter) => letter.charCodeAt(0));
  const unpacked = new Blob([packed]).stream().pipeThrough(new DecompressionStream("gzip"));
  return new Response(unpacked).arrayBuffer();
}

/** The text of this name, however it is kept. */
export async function text(name) {
  const found = element(name);
  if (found?.type === "application/json") return found.textContent;
  return new TextDecoder().decode(await bytes(name));
}

function element(name) {
  return document.getElementById(`data-${name}`);
}
