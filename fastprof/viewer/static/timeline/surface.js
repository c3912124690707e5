/** Canvases of the timeline. */

import { h } from "../dom.js";

/** A canvas and its context, whose drawing surface follows the size of its box and the density of the screen. */
export class Surface {
  /** An opaque one lets nothing through: it is cheaper to draw, and must be filled. */
  constructor(attributes = {}, opaque = false) {
    this.canvas = h("canvas", { ...attributes, width: 1, height: 1 }); // else 300 by 150: no room left for others
    this.context = this.canvas.getContext("2d", { alpha: !opaque });
    this.width = 0;
    this.height = 0;
    this.ratio = 1;
  }

  /** Takes a size in CSS pixels. */
  resize(width, height, ratio) {
    if (width === this.width && height === this.height && ratio === this.ratio) return;
    Object.assign(this, { width, height, ratio });
    this.canvas.width = Math.max(1, Math.round(width * ratio));
    this.canvas.height = Math.max(1, Math.round(height * ratio));
    this.canvas.style.width = `${width}px`;
    this.canvas.style.height = `${height}px`;
  }

  fill(colour, x, y, width, height) {
    this.context.fillStyle = colour;
    this.context.fillRect(x, y, width, height);
  }

  /** The context with one unit a CSS pixel, cleared or filled with a colour. */
  fresh(colour = null) {
    const context = this.context;
    context.setTransform(1, 0, 0, 1, 0, 0);
    if (colour === null) context.clearRect(0, 0, this.canvas.width, this.canvas.height);
    else this.fill(colour, 0, 0, this.canvas.width, this.canvas.height);
    context.setTransform(this.ratio, 0, 0, this.ratio, 0, 0);
    return context;
  }
}
