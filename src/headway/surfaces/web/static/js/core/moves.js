// Workspaces that are in another cell, which may have another address. Behind a proxy that knows all cells, this is not used.
import { signal } from "./lib.js";

/** Why the page cannot go to the workspace; empty while it can. */
export const moveProblem = signal("");

const PARAMETER = "moved"; // in the address: how often the page was sent on
const MOST_MOVES = 2; // in a row; more would mean that the cells disagree

const query = () => new URLSearchParams(location.search);

/** Whether the page was opened because a workspace is here and no longer, or never was, where it was opened first. */
export const hasMoved = () => query().has(PARAMETER);

/** Open the same page at the address of another cell. Returns false, and notes why, if that is not possible. */
export function followMove({ location: address, detail }) {
  moveProblem.value = detail;
  const moves = Number(query().get(PARAMETER)) || 0;
  if (!URL.canParse?.(address) || moves >= MOST_MOVES) return false;
  const target = new URL(location.pathname, address);
  if (!/^https?:$/.test(target.protocol) || target.origin === location.origin) return false;
  target.searchParams.set(PARAMETER, moves + 1);
  location.replace(target);
  return true;
}

/** Remove the note from the address, once it was shown. */
export function forgetMove() {
  moveProblem.value = "";
  if (hasMoved()) history.replaceState(history.state, "", location.pathname);
}
