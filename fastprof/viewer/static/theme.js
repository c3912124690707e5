// Light or dark: as the system is, or as chosen here.

const KEY = "fastprof-theme";
const listeners = new Set();
const dark = window.matchMedia("(prefers-color-scheme: dark)");

/** "light" or "dark", as shown. */
export function theme() {
  return choice() ?? (dark.matches ? "dark" : "light");
}

/** The user's choice: "light", "dark", or null for that of the system. */
export function choice() {
  try {
    const kept = localStorage.getItem(KEY);
    return kept === "light" || kept === "dark" ? kept : null;
  } catch {
    return null; // a browser that keeps nothing for pages of files
  }
}

export function toggleTheme() {
  try {
    localStorage.setItem(KEY, theme() === "dark" ? "light" : "dark");
  } catch {
    document.documentElement.dataset.theme = theme() === "dark" ? "light" : "dark";
  }
  apply();
}

export function apply() {
  document.documentElement.dataset.theme = theme();
  for (const listener of listeners) listener(theme());
}

/** Calls back when the theme changes; gives what ends that. */
export function onTheme(listener) {
  listeners.add(listener);
  return () => listeners.delete(listener);
}

dark.addEventListener("change", apply);
