// Navigation without reloading: links to our own pages change the path; the browser follows all others.
import { batch, signal } from "./lib.js";

export const path = signal(location.pathname);
export const search = signal(location.search);

const readAddress = () =>
  batch(() => {
    path.value = location.pathname;
    search.value = location.search;
  });

/** `state`: what the browser keeps with the entry of its history. */
export function navigate(to, { replace = false, state = null } = {}) {
  if (to === location.pathname + location.search) return;
  history[replace ? "replaceState" : "pushState"](state, "", to);
  readAddress();
}

addEventListener("popstate", readAddress);

/** Follow the links for which `isOwn` is true without reloading. */
export function followLinks(isOwn) {
  document.addEventListener("click", (event) => {
    const link = event.target.closest?.("a[href]");
    if (!link || link.target || event.button || event.metaKey || event.ctrlKey || event.shiftKey || event.altKey) return;
    const to = new URL(link.href);
    if (to.origin !== location.origin || to.hash || !isOwn(to.pathname)) return;
    event.preventDefault();
    navigate(to.pathname + to.search);
  });
}
