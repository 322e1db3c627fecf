// The theme that the user chose: the system's, light or dark. It is kept in this browser, and other tabs follow.
import { preferences, signal } from "./lib.js";

export const THEMES = ["system", "light", "dark"];
export const THEME_ICONS = { system: "theme", light: "sun", dark: "moon" };

const read = () => (THEMES.includes(preferences.get("theme")) ? preferences.get("theme") : "system");
export const theme = signal(read());

function apply(name) {
  theme.value = name;
  if (name === "system") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = name;
}

export function setTheme(name) {
  preferences.set("theme", name === "system" ? null : name);
  apply(name);
}

/** The theme that comes after the current one: system, light, dark, system, … */
export const getNextTheme = () => THEMES[(THEMES.indexOf(theme.value) + 1) % THEMES.length];

addEventListener("storage", (event) => {
  if (event.key === "theme" || event.key === null) apply(read());
});
