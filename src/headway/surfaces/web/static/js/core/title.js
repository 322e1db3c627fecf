// The title of the window: what is on screen, after the number of things that wait for a person.
import { effect, signal } from "./lib.js";
import { waitingCount } from "./waiting.js";

export const pageTitle = signal(""); // the page's name; empty: no page yet
export const itemTitle = signal(""); // what the page shows, such as a conversation; empty: the page's name says it

effect(() => {
  const count = waitingCount.value;
  const name = itemTitle.value || pageTitle.value;
  document.title = `${count ? `(${count}) ` : ""}${name ? `${name} · ` : ""}Headway`;
});
