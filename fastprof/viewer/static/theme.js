// Light or dark: as the system is, or as chosen here.

const KEY = "fastprof-theme";
const listeners = new Set();
const dark = window.matchMedia("(prefers-color-scheme: dark)");

/** "light" or "dark": what the user chose, else what the system says. */
export function theme() {
  return choice() ?? (dark.matches ? "dark" : "light");
}

function choice() {
  try {
    const value = localStorage.getItem(KEY);
    return value === "light" || value === "dark" ? value : null;
  } catch {
    return null; // a browser that stores nothing for pages of files
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
