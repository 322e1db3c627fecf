// The title of the window: what is on screen, after the number of things that wait for a person.
import { effect, signal, useEffect } from "./lib.js";
import { openRequests } from "./waiting.js";

export const pageTitle = signal(""); // the page's name; empty: no page yet
const itemTitles = signal([]); // what is on screen, such as a conversation and a todo on top of it, in this order

/** Put what a component shows into the window's title, for as long as it is on screen. Empty: the page's name says it. */
export function useItemTitle(title) {
  useEffect(() => {
    const entry = { title };
    itemTitles.value = [...itemTitles.peek(), entry];
    return () => {
      itemTitles.value = itemTitles.peek().filter((other) => other !== entry);
    };
  }, [title]);
}

effect(() => {
  const count = openRequests.value.length;
  const name = itemTitles.value.findLast(({ title }) => title)?.title ?? pageTitle.value;
  document.title = `${count ? `(${count}) ` : ""}${name ? `${name} · ` : ""}Headway`;
});
