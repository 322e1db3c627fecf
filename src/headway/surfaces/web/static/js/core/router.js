// Navigation without reloading: links to our own pages change the path; the browser follows all others.
import { signal } from "./lib.js";

export const path = signal(location.pathname);

const OWN_PATHS = /^\/($|c\/|board$|goals|approvals|questions\/|memory$|compare\/|operations(?:$|\/)|login$)/;

export function navigate(to, { replace = false } = {}) {
  if (to === location.pathname + location.search) return;
  history[replace ? "replaceState" : "pushState"](null, "", to);
  path.value = location.pathname;
}

addEventListener("popstate", () => (path.value = location.pathname));

document.addEventListener("click", (event) => {
  const link = event.target.closest?.("a[href]");
  if (!link || link.target || event.button || event.metaKey || event.ctrlKey || event.shiftKey || event.altKey) return;
  const to = new URL(link.href);
  if (to.origin !== location.origin || to.hash || !OWN_PATHS.test(to.pathname)) return;
  event.preventDefault();
  navigate(to.pathname + to.search);
});
