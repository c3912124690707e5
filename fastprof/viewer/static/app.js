// Which page is shown, and what it receives.

import { clear, h } from "./dom.js";
import { generic, PAGES } from "./pages.js";
import { changed, read, written } from "./route.js";
import { newestOf, Shell } from "./shell.js";
import { apply, onTheme } from "./theme.js";

const PATIENCE_MS = 150;
const LEARNT_MS = 1_000;
const BEYOND_ANALYSES = ["timeline", "hlo"];

/** Starts the page. `sourceOf(run)`: where the data of a run come from; null is the newest. */
export async function start(sourceOf) {
  apply();
  const source = sourceOf(null);
  try {
    const { runs, title, fastprof, note } = await source.runs();
    const session = { runs, title, fastprof, note, saved: source.saved, analyses: [], pages: Object.keys(PAGES) };
    const app = new App(sourceOf, session);
    if (source.saved) await app.learn();
    window.addEventListener("hashchange", () => app.follow());
    app.follow();
    setTimeout(() => app.learn().catch(() => {}), LEARNT_MS); // a page that needs it says what is wrong
  } catch (error) {
    document.body.replaceChildren(h("div.failed", { role: "alert" }, h("p", sentenceOf(error))));
  }
}

class App {
  constructor(sourceOf, session) {
    Object.assign(this, { sourceOf, session });
    this.sources = new Map();
    this.route = null;
    this.shown = null;
    this.shell = new Shell(session, { href: (page, params) => this.href(page, params), hosts: () => this.hosts(),
      run: (run) =>
        this.navigated({ run: run === newestOf(session.runs) ? null : run, host: null, params: new URLSearchParams() }),
      host: (host) => this.navigated({ host }) });
  }

  /** The page that is shown first: what a file has of the timeline is less than a server has. */
  get first() {
    const { pages, saved } = this.session;
    return saved && pages.includes("overview") ? "overview" : "timeline";
  }

  /** Asks once which analyses there are. The timeline does not wait for that, as the server has to import them. */
  learn() {
    this.learnt ??= this.sourceOf(null).analyses().then(({ analyses, pages }) => {
      Object.assign(this.session, { analyses,
        pages: pages ?? [...BEYOND_ANALYSES, ...analyses.map((one) => one.name)] });
      if (this.route) this.shell.describe(this.route);
    }, (error) => {
      this.learnt = null;
      throw error;
    });
    return this.learnt;
  }

  /** Shows what the address says. */
  follow() {
    const route = read(window.location.hash, this.first);
    const before = this.route;
    this.route = route;
    const same = before && before.page === route.page && before.run === route.run && before.host === route.host;
    if (same && String(before.params) === String(route.params)) return;
    if (same && this.shown?.params) this.guarded(() => this.shown.params(route.params));
    else this.show();
  }

  async show() {
    this.leave();
    const { route, shell } = this;
    const control = new AbortController();
    this.control = control;
    shell.show(route);
    clear(shell.root).setAttribute("aria-busy", "true");
    const waiting = setTimeout(() => {
      if (!control.signal.aborted) control.waiting = shell.waiting("Reading the capture …");
    }, PATIENCE_MS);
    try {
      const page = h("div.page-root");
      if (!BEYOND_ANALYSES.includes(route.page)) await this.learn();
      if (control.signal.aborted) return;
      if (!this.session.pages.includes(route.page)) throw new Error(`There is no page ${JSON.stringify(route.page)}.`);
      const { show } = await (Object.hasOwn(PAGES, route.page) ? PAGES[route.page] : generic)();
      if (control.signal.aborted) return;
      shell.root.append(page);
      const shown = await show(page, this.context(control));
      if (control.signal.aborted) shown?.leave?.();
      else this.shown = shown ?? {};
    } catch (error) {
      if (!control.signal.aborted) this.fail(error);
    } finally {
      clearTimeout(waiting);
      control.waiting?.remove();
      if (!control.signal.aborted) shell.root.setAttribute("aria-busy", "false");
    }
  }

  leave() {
    this.control?.abort();
    const { shown } = this;
    this.shown = null;
    try {
      shown?.leave?.();
    } catch (error) {
      console.warn(error); // a page that fails to leave must not keep the next one from showing
    }
  }

  fail(error) {
    this.shell.failed(sentenceOf(error), () => this.show());
  }

  async guarded(act) {
    try {
      await act();
    } catch (error) {
      this.fail(error);
    }
  }

  hosts() {
    const { runs } = this.session;
    const name = this.route?.run ?? newestOf(runs);
    return (runs.find((run) => run.name === name) ?? runs[0])?.hosts ?? [];
  }

  source() {
    const { run } = this.route;
    if (!this.sources.has(run)) this.sources.set(run, this.sourceOf(run));
    return this.sources.get(run);
  }

  /** What a page receives. `params`: those of the address, as it is now; `replace` and `push` change them. */
  context({ signal }) {
    const { route, session, shell } = this;
    const app = this;
    return {
      source: this.source(),
      host: route.host,
      analyses: session.analyses,
      analysis: session.analyses.find((one) => one.name === route.page) ?? null,
      saved: session.saved,
      signal,
      actions: shell.actions,
      get params() {
        return new URLSearchParams(app.route.params);
      },
      on_theme: (listener) => signal.addEventListener("abort", onTheme(listener)),
      replace: (changes) => signal.aborted || this.replaced(changes),
      push: (changes) => signal.aborted || this.navigated({ params: changed(this.route.params, changes) }),
      navigate: (page, params = {}) => this.open(this.href(page, params)),
      href: (page, params = {}) => this.href(page, params),
    };
  }

  /** The address of a page for the same run and host, if there are such; `params` may name another host. */
  href(page, params) {
    const given = changed(new URLSearchParams(), params);
    const host = given.get("host") ?? this.route.host;
    given.delete("host");
    const run = this.session.runs.some(({ name }) => name === this.route.run) ? this.route.run : null;
    return written({ page, run, host: this.hosts().includes(host) ? host : null, params: given });
  }

  replaced(changes) {
    this.route = { ...this.route, params: changed(this.route.params, changes) };
    window.history.replaceState(null, "", written(this.route));
  }

  navigated(changes) {
    this.open(written({ ...this.route, ...changes }));
  }

  open(address) {
    window.location.hash = address;
    this.follow();
  }
}

function sentenceOf(error) {
  if (error?.name === "SourceError" || error?.name === "Error") return error.message;
  console.error(error);
  return `This page has a fault: ${error?.message ?? error}`;
}
