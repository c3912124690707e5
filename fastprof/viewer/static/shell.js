// What surrounds the pages: navigation, pickers for run and host, theme, the head of a page.

import { CapturePanel } from "./capture.js";
import { failure } from "./cards.js";
import { dropdown, field, picker } from "./controls.js";
import { clear, h, shortened } from "./dom.js";
import { pageOf } from "./route.js";
import { SearchBox } from "./search_box.js";
import { toggleTheme } from "./theme.js";
import { label } from "./units.js";
import { seen } from "./unseen.js";

const GROUPS = [
  ["", ["timeline", "trends", "compare", "query"]],
  ["Summary", ["overview", "steps", "gaps", "input_pipeline", "annotations", "python_time", "inference"]],
  ["Ops", [
    "op_stats",
    "op_profile",
    "hlo_stats",
    "kernel_stats",
    "streams",
    "critical_path",
    "roofline",
    "hardware_units",
    "tfprof",
    "hlo",
  ]],
  ["Memory", ["memory_profile", "memory_viewer"]],
  ["Cluster and data", ["pod_viewer", "communication", "tf_data"]],
];
const EXTRA = {
  timeline: { title: "Trace viewer", summary: "" },
  trends: { title: "Trends", summary: "The runs of the log directory: step time, idle devices, findings, memory." },
  compare: { title: "Compare", summary: "Changes between two runs: step time, and the ops and causes behind it." },
  query: { title: "Query", summary: "SQL about events, reports and compiled programs of the run." },
  tfprof: { title: "tfprof",
    summary: "Nodes and ops by name scope, input, op and line of code: time, memory, operations, parameters." },
  hlo: { title: "HLO text", summary: "Compiled programs, as the compiler prints them." },
};
/** Pages that are not listed for runs that have nothing for them. */
const RARE = new Set(["inference", "tfprof"]);
/** Files as which a run can be saved: the server's name, the suffix, words, help. */
const FILES = [
  ["report.html", "html", "Report as HTML", "All pages and a timeline in one file, which opens without a server"],
  ["trace.pftrace", "pftrace", "Trace for Perfetto", "All events in a file; open it at ui.perfetto.dev"],
];
const ALL_HOSTS = "";
/** Pages of all hosts, or that choose one themselves. */
const WITHOUT_HOSTS = new Set(["timeline", "hlo", "compare"]);
const PROBLEM_LETTERS = 100;

export class Shell {
  constructor(session, go) {
    Object.assign(this, { session, go });
    this.nav = h("nav.nav", { "aria-label": "Pages" });
    this.pickers = h("div.pickers");
    this.bases = h("div.bases");
    this.saving = h("div.menu-body");
    this.search = new SearchBox({ read: go.read, href: go.href,
      pages: () =>
        this.session.pages.map((name) => [this.about(name).title, this.about(name).summary, go.href(name, {})]) });
    this.title = h("h1", { id: "page-title" });
    this.summary = h("p.page-summary");
    this.actions = h("div.page-actions");
    this.root = h("div.page", { id: "page", tabindex: "-1" });
    this.news = h("div.news");
    this.head = h("header.page-head", h("div", this.title, this.summary), h("span.spring"), this.actions);
    this.main = h("main.main", { "aria-labelledby": "page-title" }, this.news, this.head, this.root);
    document.body.replaceChildren(
      h("a.skip", { href: "#page", onclick: (event) => this.skip(event) }, "Skip to the page"),
      this.side(),
      this.main,
    );
    this.foldWhereNarrow();
  }

  skip(event) {
    event.preventDefault();
    this.root.focus();
  }

  side() {
    const icon = (sign, title, onclick) => h("button.icon", { title, "aria-label": title, onclick }, sign);
    const { title, fastprof, note, captures } = this.session;
    const capture = captures ? new CapturePanel(this.go.capture, this.go.captured).element : null;
    return h("aside.side",
      h("div.side-head", icon("☰", "Hide or show the list of pages", () => this.fold()), h("span.logo", "fastprof"),
        h("span.spring"), this.session.saved ? null : dropdown("Save", this.saving),
        icon("◐", "Light or dark", toggleTheme)),
      h("div.side-body", h("div.session", { title: title ?? "" }, title ?? ""), this.search.element, this.pickers,
        this.bases, capture, this.nav, note ? h("div.version", note) : null,
        h("div.version", fastprof ? `fastprof ${fastprof}` : "")));
  }

  /** Hides the list of pages while it would take much of the window, until someone folds it: a frame gets its width late. */
  foldWhereNarrow() {
    const narrow = window.matchMedia("(max-width: 700px)");
    const follow = () => document.body.classList.toggle("folded", narrow.matches);
    follow();
    narrow.addEventListener("change", follow);
    this.stopFollowing = () => narrow.removeEventListener("change", follow);
  }

  fold() {
    this.stopFollowing();
    document.body.classList.toggle("folded");
    window.dispatchEvent(new Event("resize"));
  }

  /** Shows which page this is, and its links for run and host. `run`: the one that is open, if any is yet. */
  show(route, run) {
    clear(this.actions);
    const fills = route.page === "timeline" || (route.page === "compare" && route.params.get("view") === "timelines");
    this.root.className = fills ? "page fills" : "page";
    this.main.classList.toggle("main-fills", fills);
    this.root.scrollTop = 0;
    this.main.scrollTop = 0;
    this.entered(route, run);
  }

  /** The run of the page is open. */
  entered(route, run) {
    this.describe(route);
    this.drawPickers(route, run);
    if (!this.session.saved) this.drawSaving(run ?? this.session.title);
  }

  /** Lists what the run can be saved as. */
  drawSaving(name) {
    const item = ([file, suffix, words, title]) =>
      h("a.menu-item", { href: this.go.saving(file), download: `${name}.${suffix}`, title }, words);
    this.saving.replaceChildren(...FILES.map(item));
  }

  /** Heads the page and lists all pages, as far as they are known. */
  describe(route) {
    const about = this.about(route.page);
    this.title.textContent = about.title;
    this.summary.textContent = about.summary;
    document.title = seen([about.title, this.session.title, "fastprof"].filter(Boolean).join(" · "));
    this.drawNav(route);
  }

  about(page) {
    return EXTRA[page] ?? this.session.analyses.find((one) => pageOf(one.name) === page)
      ?? { title: label(page), summary: "" };
  }

  drawNav(route) {
    const isOpen = this.nav.querySelector(".nav-fold")?.open ?? false;
    clear(this.nav);
    const { pages: names, count } = this.session;
    const empty = count > 1 ? this.session.empty : { ...this.session.empty, compare: null }; // a run alone has no base
    const grouped = new Set(GROUPS.flatMap(([, pages]) => pages));
    const rest = names.filter((name) => !grouped.has(name));
    const folded = [];
    for (const [title, pages] of [...GROUPS, ["More", rest]]) {
      const there = pages.filter((page) => names.includes(page));
      folded.push(...there.filter((page) => empty[page] && !RARE.has(page)));
      const shown = there.filter((page) => page === route.page || !Object.hasOwn(empty, page));
      if (!shown.length) continue;
      if (title) this.nav.append(h("div.nav-title", title));
      this.nav.append(h("ul", shown.map((page) => this.link(page, route))));
    }
    if (folded.length) this.nav.append(this.folded(folded, isOpen));
  }

  /** Pages for which the run has nothing, each with the reason, as one entry that opens. */
  folded(pages, isOpen) {
    const items = pages.map((page) =>
      h("li", h("a", { href: this.go.href(page, {}) }, this.about(page).title), h("p", this.session.empty[page]))
    );
    const count = pages.length === 1 ? "1 page" : `${pages.length} pages`;
    return h("details.nav-fold", { open: isOpen }, h("summary", `Nothing recorded for ${count}`), h("ul", items));
  }

  link(page, route) {
    const current = page === route.page ? "page" : null;
    return h("li", h("a", { href: this.go.href(page, {}), "aria-current": current }, this.about(page).title));
  }

  /** Names the run that is shown, even one that the server does not list, and offers the others. */
  drawPickers(route, shown = route.run) {
    clear(this.pickers);
    clear(this.bases);
    const { runs, count, matches } = this.session;
    const value = shown ?? runs.find((run) => run.open)?.name ?? "";
    const offered = matches?.runs ?? runs;
    const options = offered.map((run) => [run.name, optionOf(run)]);
    if (value && !offered.some(({ name }) => name === value))
      options.unshift([value, matches ? value : `${value} (not listed)`]);
    if (options.length > 1 || matches) {
      const label = value === runs.find((run) => run.newest)?.name ? "Run, the newest" : "Run";
      this.pickers.append(picker({ label, options, value, title: value, onchange: (run) => this.go.run(run) }));
      const base = route.page === "compare" ? route.params.get("base") : null;
      this.bases.append(this.basePicker(options.filter(([name]) => name !== value), base));
    }
    if (count > runs.length || matches) this.pickers.append(this.finder(count, matches));
    const hosts = this.go.hosts();
    if (hosts.length > 1 && !WITHOUT_HOSTS.has(route.page) && !this.session.saved) {
      const options = [[ALL_HOSTS, `All ${hosts.length} hosts`], ...hosts];
      this.pickers.append(
        picker({ label: "Host", title: "Hosts on this page", options, value: route.host ?? ALL_HOSTS,
          onchange: (host) => this.go.host(host || null) }),
      );
    }
  }

  /** A list of the runs that the run can be compared with; a choice leads to the page of both. */
  basePicker(options, base) {
    const missing = options.some(([name]) => name === base) ? [] : [[base ?? "", base ?? "–"]];
    return picker({ label: "Compare with", title: base, options: [...missing, ...options], value: base ?? "",
      onchange: (name) => name && this.go.compare(name) });
  }

  /** A box that finds runs by name: the list has the newest only. */
  finder(count, matches) {
    const placeholder = `of ${count.toLocaleString("en-US")} runs`;
    const title = matches ? `${matches.count.toLocaleString("en-US")} runs match` : "Part of a run name";
    return field({ label: "Find a run", value: matches?.q ?? "", placeholder, title,
      onchange: (q) => this.go.find(q.trim()) });
  }

  waiting(text) {
    const box = h("div.waiting", { role: "status" }, h("span.spinner", { "aria-hidden": "true" }), h("span", text));
    this.root.append(box);
    return box;
  }

  /** Says what went wrong, and offers a way out. */
  failed(message, words, onclick) {
    this.root.replaceChildren(failure(message, words, onclick));
  }
}

/** A run in the list, with what is wrong with it. */
function optionOf({ name, problem }) {
  return problem ? `${name} – broken: ${shortened(problem, PROBLEM_LETTERS)}` : name;
}
