// Addresses without reloading: links of our own pages change the path, everything else is the browser's business.
import { signal } from "./lib.js";

export const path = signal(location.pathname);

const OURS = /^\/($|c\/|board$|goals|operations$|login$)/;

export function go(to, { replace = false } = {}) {
  if (to === location.pathname + location.search) return;
  history[replace ? "replaceState" : "pushState"](null, "", to);
  path.value = location.pathname;
}

addEventListener("popstate", () => (path.value = location.pathname));

document.addEventListener("click", (event) => {
  const link = event.target.closest?.("a[href]");
  if (!link || link.target || event.button || event.metaKey || event.ctrlKey || event.shiftKey || event.altKey) return;
  const to = new URL(link.href);
  if (to.origin !== location.origin || to.hash || !OURS.test(to.pathname)) return;
  event.preventDefault();
  go(to.pathname + to.search);
});
