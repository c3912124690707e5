// Saves a drawing as a picture: a PNG of twice its size, with the colours and type that the page gives it.

import { h } from "../dom.js";
import { list } from "../list.js";
import { save } from "../table_csv.js";

const STYLES = list(`fill, stroke, stroke-width, stroke-dasharray, stroke-linejoin, opacity, font-size, font-family,
  text-anchor`);
const SHARP = 2;

/** A button that saves a drawing, shown where the pointer is over it. */
export function pictureButton(drawing, name = "chart") {
  return h("button.chart-save", { title: "Save as a picture (PNG)", onclick: () => savePicture(drawing, name) }, "PNG");
}

async function savePicture(drawing, name) {
  const { width, height } = drawing.getBoundingClientRect();
  const copy = drawing.cloneNode(true);
  const originals = drawing.querySelectorAll("*");
  copy.querySelectorAll("*").forEach((element, at) => {
    const style = getComputedStyle(originals[at]);
    for (const property of STYLES) element.style.setProperty(property, style.getPropertyValue(property));
  });
  for (const [side, size] of [["width", width], ["height", height]]) copy.setAttribute(side, size);
  copy.setAttribute("xmlns", "http://www.w3.org/2000/svg");
  const image = new Image();
  image.src = `data:image/svg+xml;charset=utf-8,${encodeURIComponent(new XMLSerializer().serializeToString(copy))}`;
  await image.decode();
  const canvas = document.createElement("canvas");
  Object.assign(canvas, { width: SHARP * width, height: SHARP * height });
  const pen = canvas.getContext("2d");
  pen.fillStyle = getComputedStyle(drawing).getPropertyValue("--raised");
  pen.fillRect(0, 0, canvas.width, canvas.height);
  pen.drawImage(image, 0, 0, canvas.width, canvas.height);
  save(`${name}.png`, await new Promise((resolve) => canvas.toBlob(resolve, "image/png")));
}
