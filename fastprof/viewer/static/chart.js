// Charts: plotly, loaded when the first one is drawn, in the colours of the page.

const FONT = 12;
const CONFIG = {
  displaylogo: false,
  plotlyServerURL: "", // no chart leaves the page
  responsive: false,
  showTips: false,
  modeBarButtonsToRemove: ["sendChartToCloud", "select2d", "lasso2d", "autoScale2d", "toggleSpikelines"],
};

let loading = null;
const shown = new Set();

/** How plotly is loaded; a saved report sets its own way. Gives plotly. */
export const library = {
  load: () => scripted("/lib/plotly.min.js"),
};

/** Loads plotly from an address. */
export function scripted(address) {
  return new Promise((resolve, reject) => {
    const script = document.createElement("script");
    script.src = address;
    script.onload = () => resolve(window.Plotly);
    script.onerror = () => reject(new Error("The library of charts could not be loaded."));
    document.head.append(script);
  });
}

/**
 * Draws traces of plotly in an element, with a layout for what differs from that of the page. Options: `label`, what a
 * screen reader calls it; `height` in pixels; `onclick(point)`, `onselect(points)`. Texts in traces and layouts must have
 * gone through `plain`, as plotly reads a few tags of markup in them.
 */
export async function chart(element, traces, layout = {}, options = {}) {
  element.classList.add("chart");
  element.style.height = `${options.height ?? 280}px`;
  element.setAttribute("role", "img");
  if (options.label) element.setAttribute("aria-label", options.label);
  loading ??= library.load();
  let plotly;
  try {
    plotly = await loading;
  } catch (error) {
    loading = null;
    element.textContent = error.message;
    element.style.height = "auto";
    return { update() {}, leave() {} };
  }
  const one = new Chart(plotly, element, traces, layout);
  await one.draw();
  one.listen(options);
  return one;
}

/** Charts take on the colours of the page anew. */
export function themed() {
  for (const one of shown) one.draw();
}

/** Text without what plotly would read as markup, cut to `most` letters. */
export function plain(value, most = 120) {
  const line = String(value).slice(0, 4 * most);
  const cut = line.length > most ? `${line.slice(0, most - 1)}…` : line;
  return cut.replace(/&/g, "&amp;").replace(/</g, "&lt;").replace(/>/g, "&gt;");
}

/** Text of several lines for what is shown beside the pointer. */
export function hover(value, most = 400) {
  return plain(value, most).replaceAll("\n", "<br>");
}

class Chart {
  constructor(plotly, element, traces, layout) {
    Object.assign(this, { plotly, element, traces, layout, left: false });
    this.watch = new ResizeObserver(() => this.resize());
    this.watch.observe(element);
    shown.add(this);
  }

  async draw() {
    if (this.left) return;
    const layout = merged(base(this.element), this.layout);
    await this.plotly.react(this.element, this.traces, layout, CONFIG);
  }

  /** Other data, and another layout where one is given. */
  update(traces, layout = this.layout) {
    Object.assign(this, { traces, layout });
    return this.draw();
  }

  listen({ onclick, onselect }) {
    if (onclick) this.element.on("plotly_click", (event) => onclick(event.points[0], event.event));
    if (onselect) this.element.on("plotly_selected", (event) => onselect(event?.points ?? []));
  }

  resize() {
    if (this.left || !this.element.isConnected || this.element.clientWidth === 0) return;
    requestAnimationFrame(() => {
      if (!this.left && this.element.isConnected && this.element.clientWidth) this.plotly.Plots.resize(this.element);
    });
  }

  leave() {
    this.left = true;
    shown.delete(this);
    this.watch.disconnect();
    this.plotly.purge(this.element);
  }
}

/** The layout that all charts share, from the page's own colours. */
function base(element) {
  const style = getComputedStyle(element);
  const colour = (name) => style.getPropertyValue(name).trim();
  const axis = { gridcolor: colour("--line"), linecolor: colour("--line-strong"),
    zerolinecolor: colour("--line-strong"), tickcolor: colour("--line-strong"), automargin: true,
    title: { standoff: 8 } };
  return { paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)",
    font: { family: style.fontFamily, size: FONT, color: colour("--text") }, margin: { l: 56, r: 16, t: 12, b: 40 },
    xaxis: { ...axis }, yaxis: { ...axis }, legend: { orientation: "v", itemsizing: "constant", font: { size: FONT } },
    hoverlabel: { bgcolor: colour("--raised"), bordercolor: colour("--line-strong"),
      font: { family: style.fontFamily, size: FONT, color: colour("--text") }, align: "left", namelength: -1 },
    modebar: { bgcolor: "rgba(0,0,0,0)", color: colour("--faint"), activecolor: colour("--accent") } };
}

function merged(one, other) {
  const found = { ...one };
  for (const [name, value] of Object.entries(other)) {
    const both = isPlain(value) && isPlain(found[name]);
    found[name] = both ? merged(found[name], value) : isPlain(value) ? merged({}, value) : value;
  }
  if (found.xaxis) { for (const name of Object.keys(other)) withBase(found, name, one); }
  return found;
}

/** Further axes, as yaxis2, look like the first. */
function withBase(found, name, one) {
  const of = /^([xy]axis)\d+$/.exec(name)?.[1];
  if (of && one[of]) found[name] = merged(one[of], found[name]);
}

function isPlain(value) {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
