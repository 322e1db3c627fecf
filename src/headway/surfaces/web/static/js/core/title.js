// The title of the window: the page's name, after the number of requests that wait for a person.
import { effect, signal } from "./lib.js";
import { openRequests } from "./waiting.js";

export const pageTitle = signal(""); // empty: no page yet

effect(() => {
  const count = openRequests.value.length;
  document.title = `${count ? `(${count}) ` : ""}${pageTitle.value ? `${pageTitle.value} · ` : ""}Headway`;
});
