// Who is signed in, and whether this page is still the build that the server serves.
import { ApiError, get, post, signedOut } from "./api.js";
import { ask, showToast } from "./dialogs.js";
import { preferences, signal } from "./lib.js";
import { forgetMove, hasMoved } from "./moves.js";

export const session = signal(null); // {tenant, admin, operator, scopes, expires_at, model, page}
export const DRAFTS = "draft:"; // how the names of stored drafts begin
export const isOutdated = signal(false); // the server has another build of the page

const SIGN_IN_AGAIN =
  "Agents keep working. To sign in again, run headway login where the server runs and open the link, or use a token.";
const build = document.querySelector('meta[name="headway-build"]').content;

export async function loadSession() {
  const loaded = (await get("/v1/session")).session;
  preferences.set("signed-in", "yes");
  signedOut.value = null;
  session.value = loaded;
  if (hasMoved()) showToast(`Your workspace is now at ${location.host}.`);
  forgetMove();
  if (loaded.page !== build) isOutdated.value = true;
}

export async function signIn(token) {
  try {
    await post("/login", { token });
  } catch (error) {
    if (!(error instanceof ApiError) || error.status !== 401) throw error;
    throw new ApiError(401, "unauthorized", "This token is not valid. Check that you copied all of it.");
  }
  await loadSession();
}

/** Ask before the session ends: the link that opened it does not work again. */
export const askToSignOut = () =>
  ask({
    title: "Sign out?",
    text: SIGN_IN_AGAIN,
    confirm: "Sign out",
    cancel: "Stay signed in",
    danger: false,
    run: signOut,
  });

async function signOut() {
  await fetch("/logout", { method: "POST", redirect: "manual" });
  for (const name of ["signed-in", ...preferences.list(DRAFTS)]) preferences.set(name, null);
  session.value = null;
  signedOut.value = "left";
}
