// Requests to /v1. Every failure becomes an ApiError, whose message says what happened and what to do.
import { preferences, signal } from "./lib.js";
import { followMove } from "./moves.js";

/** Why there is no session: "missing" (not signed in), "expired", "left" (signed out here), or null while there is one. */
export const signedOut = signal(null);

export class ApiError extends Error {
  /** `failures`: the checks that did not pass, each as {check, detail}. */
  constructor(status, code, message, failures = []) {
    super(message);
    this.status = status;
    this.code = code;
    this.failures = failures;
  }
}

// The server's messages are written for programs too; these name the place on the page where the user can act.
const ADVICE = {
  halted: "Everything is halted. Lift the halt under Operations, then try again.",
  turn_running: "The agent is still answering. Wait for it, or stop it first.",
  turn_waiting: "The agent waits for your decision in this conversation. Decide, or stop it first.",
  operator_only: "Only the operator, who runs the installation, may do that.",
};
const UNREACHABLE = "Headway cannot be reached. Check that it is running; nothing you typed is lost.";

/** `send`: what sends it, with the parameters of `fetch`. */
async function request(method, path, body, headers = {}, send = fetch) {
  const options = { method, headers: { Accept: "application/json", ...headers } };
  if (body !== undefined) {
    options.body = JSON.stringify(body);
    options.headers["Content-Type"] = "application/json";
  }
  let response;
  try {
    response = await send(path, options);
  } catch {
    throw new ApiError(0, "unreachable", UNREACHABLE);
  }
  if (response.ok) return response.status === 204 ? null : response.json();
  const problem = await response.json().catch(() => ({}));
  const code = problem.code ?? "failed";
  if (code === "wrong_cell" && followMove(problem)) return new Promise(() => {}); // the page is being left
  if (response.status === 401 && path.startsWith("/v1")) signedOut.value = preferences.get("signed-in") ? "expired" : "missing";
  const message = ADVICE[code] ?? problem.detail ?? `The server answered ${response.status}.`;
  throw new ApiError(response.status, code, message, problem.failures);
}

export const get = (path, query) => request("GET", query ? `${path}?${new URLSearchParams(query)}` : path);
export const put = (path, body = {}) => request("PUT", path, body);
export const patch = (path, body) => request("PATCH", path, body);
export const remove = (path) => request("DELETE", path);
/** Requests that repeat the same key take effect once. */
export const post = (path, body = {}, key = createKey(), send = fetch) =>
  request("POST", path, body, { "Idempotency-Key": key }, send);

/** A random key. crypto.randomUUID does not exist where the page is served without TLS. */
export const createKey = () =>
  Array.from(crypto.getRandomValues(new Uint8Array(16)), (byte) => byte.toString(16).padStart(2, "0")).join("");
