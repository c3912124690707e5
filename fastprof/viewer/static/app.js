// Which page is shown, and what it receives.

import { clear, h } from "./dom.js";
import { News } from "./news.js";
import { generic, PAGES } from "./pages.js";
import { changed, pageOf, read, shared, usualBase, written } from "./route.js";
import { Shell } from "./shell.js";
import { apply, onTheme } from "./theme.js";

const PATIENCE_MS = 150;
const LEARNT_MS = 1_000;
const WAIT_MS = 2_000;
const LOOK_MS = 5_000;
const GONE = 410;
const BEYOND_ANALYSES = ["timeline", "trends", "compare", "query", "tfprof", "hlo"];
const OF_RUNS = new Set(["trends", "compare"]);

/** Starts the page. `sourceOf(run)`: where the data of a run come from; null is the one that the server shows. */
export async function start(sourceOf) {
  apply();
  followLinksInFrame();
  const { run } = read(window.location.hash, null);
  const source = sourceOf(run);
  source.open().catch(() => {}); // the page says what is wrong when it needs the run
  try {
    const { runs, count, directory, title, fastprof, note, captures } = await source.runs();
    const session = { runs, count, matches: null, directory, title, fastprof, note, captures, saved: source.saved,
      analyses: [], empty: {}, pages: Object.keys(PAGES) };
    const app = new App(sourceOf, session, source);
    if (source.saved) await app.learn();
    else app.watch();
    window.addEventListener("hashchange", () => app.follow());
    app.follow();
    setTimeout(() => app.learn().then(() => app.findEmpty(), () => {}), LEARNT_MS); // a page that needs it says what is wrong
  } catch (error) {
    document.body.replaceChildren(h("div.failed", { role: "alert" }, h("p", sentenceOf(error))));
  }
}

/** Changes the address without a new entry in the history. It is whole: in a frame, a part would name the page around. */
function replaceAddress(route) {
  window.history.replaceState(null, "", window.location.href.split("#")[0] + written(route));
}

/** Follows links of a page that stands in a frame as text, as in notebooks: there they name the page around it. */
function followLinksInFrame() {
  if (!window.location.href.startsWith("about:srcdoc")) return;
  document.addEventListener("click", (event) => {
    const link = event.target.closest("a[href^='#']");
    if (!link || event.defaultPrevented) return;
    event.preventDefault();
    window.location.hash = link.getAttribute("href");
  });
}

class App {
  /** `source`: of the run of the address, or of the one that the server shows; `opened`: that run, once it is open. */
  constructor(sourceOf, session, source) {
    Object.assign(this, { sourceOf, session });
    this.route = null;
    this.opened = null;
    this.shown = null;
    const run = (name) => this.navigated({ run: name, host: null, params: this.paramsFor(name) });
    const find = (q) => this.guarded(() => this.find(q));
    this.shell = new Shell(session, { href: (page, params) => this.href(page, params), hosts: () => this.hosts(), run,
      compare: (base) => this.open(this.href("compare", { base })), find, host: (host) => this.navigated({ host }),
      capture: (options) => this.source.capture(options), captured: () => this.look(),
      saving: (file) => this.source.saving(file),
      read: (name, options) => (name ? this.source.report(name, options) : this.source) });
    this.news = new News(this.shell.news, run);
    this.take(source);
  }

  /** The page that is shown first: what costs the time. A saved report may lack it. */
  get first() {
    const { pages } = this.session;
    return pages.includes("overview") ? "overview" : "timeline";
  }

  /** Asks once which analyses there are. Only the timeline does not wait for that: the server has to import them. */
  learn() {
    this.learnt ??= this.source.analyses().then(({ analyses, pages }) => {
      Object.assign(this.session, { analyses, pages: [...new Set((pages ?? this.pagesOf(analyses)).map(pageOf))] });
      if (this.route) this.shell.describe(this.route);
    }, (error) => {
      this.learnt = null;
      throw error;
    });
    return this.learnt;
  }

  /** All pages of a server: some are of several runs. */
  pagesOf(analyses) {
    const every = [...BEYOND_ANALYSES, ...analyses.map((one) => one.name)];
    return this.session.directory ? every : every.filter((name) => !OF_RUNS.has(name));
  }

  /** Asks, once analyses are known, which pages have nothing to show; a page that was computed may have more to say. */
  async findEmpty() {
    const { source } = this;
    if (!this.learnt || !this.opened || source.gone) return;
    try {
      const empty = await source.empty();
      if (source !== this.source || JSON.stringify(empty) === JSON.stringify(this.session.empty)) return;
      this.session.empty = empty;
      this.shell.describe(this.route);
    } catch {
      return; // all pages can be opened, and say themselves that they are empty
    }
  }

  /** Shows what the address says. */
  follow() {
    const route = read(window.location.hash, this.first);
    const before = this.route;
    this.route = route;
    if (/^#\/diagnosis\b/.test(window.location.hash)) replaceAddress(route);
    if (before && before.run !== route.run) this.take(this.sourceOf(route.run));
    const same = before && before.page === route.page && before.run === route.run && before.host === route.host;
    if (same && String(before.params) === String(route.params)) return;
    if (same && this.shown?.params) this.guarded(() => this.shown.params(route.params));
    else this.show();
  }

  async show() {
    this.leave();
    const { shell } = this;
    const control = new AbortController();
    this.control = control;
    shell.show(this.route, this.opened?.run);
    clear(shell.root).setAttribute("aria-busy", "true");
    const waiting = setTimeout(() => {
      if (!control.signal.aborted) control.waiting ??= shell.waiting("Reading the capture …");
    }, PATIENCE_MS);
    try {
      const page = h("div.page-root");
      if (!this.opened) await this.enter(control);
      if (control.signal.aborted) return;
      const { route } = this;
      if (!BEYOND_ANALYSES.includes(route.page)) await this.learn();
      if (control.signal.aborted) return;
      if (!this.session.pages.includes(route.page)) {
        shell.failed(`There is no page ${JSON.stringify(route.page)}.`, `Show the ${shell.about(this.first).title}`,
          () => this.open(this.href(this.first, {})));
        return;
      }
      const { show } = await (Object.hasOwn(PAGES, route.page) ? PAGES[route.page] : generic)();
      if (control.signal.aborted) return;
      shell.root.append(page);
      const shown = await show(page, this.context(control));
      if (control.signal.aborted) shown?.leave?.();
      else this.shown = shown ?? {};
      this.findEmpty();
    } catch (error) {
      if (!control.signal.aborted) this.fail(error);
    } finally {
      clearTimeout(waiting);
      control.waiting?.remove();
      if (!control.signal.aborted) shell.root.setAttribute("aria-busy", "false");
    }
  }

  /** Opens the run of the address, as it is now. An address without a run gets the one that the server shows. */
  async enter(control) {
    const { run } = this.route;
    const { source } = this;
    let opened;
    try {
      opened = await source.open();
      while (opened.run === null && !control.signal.aborted) {
        control.waiting?.remove();
        control.waiting = this.shell.waiting(opened.notice);
        await new Promise((resolve) => setTimeout(resolve, WAIT_MS));
        opened = await source.open();
      }
      if (!this.session.runs.some(({ name }) => name === opened.run)) await this.list(source);
    } catch (error) {
      if (!control.signal.aborted) this.take(this.sourceOf(run)); // for the next try
      throw error;
    }
    if (control.signal.aborted) return;
    this.opened = opened;
    if (run === null && this.session.directory) {
      this.route = { ...this.route, run: opened.run };
      replaceAddress(this.route);
    }
    this.shell.entered(this.route, opened.run);
    this.news.entered(opened, run !== null, this.session.runs);
  }

  /** Looks from time to time, and when the page is seen again, whether the capture was replaced or runs have come. */
  watch() {
    setInterval(() => this.look(), LOOK_MS);
    document.addEventListener("visibilitychange", () => this.look());
  }

  /** Runs of the directory as it is now, also if the version that the page is of is gone. */
  runs(source, options = {}) {
    const asked = source.gone ? this.sourceOf(null) : source;
    return asked.runs({ run: source.run, ...options });
  }

  /** Takes the list of runs. */
  async list(source) {
    const { runs, count } = await this.runs(source);
    if (source === this.source) Object.assign(this.session, { runs, count });
  }

  async look() {
    const { source } = this;
    if (document.hidden || !this.opened || (source.gone && !this.session.directory)) return;
    try {
      const before = JSON.stringify(this.session.runs);
      await this.list(source);
      if (source !== this.source || !this.opened || JSON.stringify(this.session.runs) === before) return;
    } catch {
      return; // a version that is gone is news already; a server that does not answer is not worth a sentence
    }
    this.shell.entered(this.route, this.opened.run);
    this.news.offer(this.session.runs, this.opened.run);
  }

  /** Offers the runs whose names contain a text; the empty text: the newest. */
  async find(q) {
    this.session.matches = q ? { q, ...(await this.runs(this.source, { q })) } : null;
    this.shell.drawPickers(this.route, this.opened?.run);
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
    if (error?.status === GONE) {
      clear(this.shell.root);
      this.news.gone(sentenceOf(error)); // above the page, with the way out
    } else this.shell.failed(sentenceOf(error), "Try again", () => this.show());
  }

  async guarded(act) {
    try {
      await act();
    } catch (error) {
      this.fail(error);
    }
  }

  hosts() {
    return this.opened?.hosts ?? this.session.runs.find(({ name }) => name === this.route?.run)?.hosts ?? [];
  }

  /** All data come from this source from now on. */
  take(source) {
    Object.assign(this, { source, opened: null });
    this.session.empty = {};
    source.onGone = (sentence) => source === this.source && this.news.gone(sentence);
  }

  /** What a page receives. `params`: those of the address, as it is now; `replace` and `push` change them. */
  context({ signal }) {
    const { route, session, shell } = this;
    const app = this;
    return {
      source: this.source,
      host: route.host,
      title: session.title,
      run: session.directory ? this.opened.run : null,
      analyses: session.analyses,
      analysis: session.analyses.find((one) => pageOf(one.name) === route.page) ?? null,
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
      lists: (page) => session.empty[page] !== null,
      open: async (run) => {
        const source = this.sourceOf(run);
        await source.open();
        return source;
      },
    };
  }

  /**
   * The address of a page for the same run and host, if there are such, with the parameters that both pages have; `params`
   * may name another host.
   */
  href(page, params) {
    const given = changed(this.kept(page), params);
    const host = given.get("host") ?? this.route.host;
    given.delete("host");
    const known = this.opened || this.session.runs.some(({ name }) => name === this.route.run);
    const run = known ? this.route.run : null;
    return written({ page: pageOf(page), run, host: this.hosts().includes(host) ? host : null, params: given });
  }

  /** The run that this one is compared with: the one that the address has, else the usual one. */
  get base() {
    const { page, params, run } = this.route;
    const base = page === "compare" ? params.get("base") : null;
    return base && base !== run ? base : usualBase(this.session.runs, run);
  }

  /** The parameters for another run: its base stays, unless it is that run; then both change places. */
  paramsFor(run) {
    if (this.route.page !== "compare") return new URLSearchParams();
    return changed(new URLSearchParams(), { base: this.base === run ? this.route.run : this.base });
  }

  /** The parameters of the address that another page has too. */
  kept(page) {
    if (page === "compare") return changed(new URLSearchParams(), { base: this.base });
    const [here, there] = [this.route.page, page].map((name) =>
      this.session.analyses.find((one) => pageOf(one.name) === pageOf(name))
    );
    return here && there && here !== there ? shared(this.route.params, here, there) : new URLSearchParams();
  }

  /** Writes changes into the address, unless it has just been changed from outside: then `follow` is about to come. */
  replaced(changes) {
    const there = read(window.location.hash, this.first);
    if (there.page !== this.route.page || String(there.params) !== String(this.route.params)) return;
    this.route = { ...this.route, params: changed(this.route.params, changes) };
    replaceAddress(this.route);
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
  return `Error on this page: ${error?.message ?? error}`;
}
