// Who is signed in, and whether this page is still the one that the server serves.
import { get, locked, post, Refusal } from "./api.js";
import { remembered, signal } from "./lib.js";

export const session = signal(null); // {tenant, operator, expires_at, model, page}
export const stale = signal(false); // the server has another build of the page by now

const build = document.querySelector('meta[name="headway-build"]').content;

export async function look() {
  const found = (await get("/v1/session")).session;
  remembered.set("signed-in", "yes");
  locked.value = null;
  session.value = found;
  if (found.page !== build) stale.value = true;
}

export async function signIn(token) {
  try {
    await post("/login", { token });
  } catch (refusal) {
    if (!(refusal instanceof Refusal) || refusal.status !== 401) throw refusal;
    throw new Refusal(401, "unauthorized", "This token opens nothing. Check that you copied all of it.");
  }
  await look();
}

export async function signOut() {
  await fetch("/logout", { method: "POST", redirect: "manual" });
  remembered.set("signed-in", null);
  session.value = null;
  locked.value = "missing";
}
