// Talking to /v1. Whatever goes wrong becomes a Refusal, whose message says what happened and what to do.
import { remembered, signal } from "./lib.js";

/** Why there is no session: "missing" (nobody signed in), "expired", or null while there is one. */
export const locked = signal(null);

export class Refusal extends Error {
  constructor(status, code, message) {
    super(message);
    this.status = status;
    this.code = code;
  }
}

// The server's own sentences are for programs as well; these say where on the page to go.
const ADVICE = {
  halted: "Everything is halted. Lift the halt under Operations, then try again.",
  turn_running: "The agent is still answering. Wait for it, or stop it first.",
  forbidden: "This session may not do that: it needs a token with the operator grant.",
};
const UNREACHABLE = "Headway cannot be reached. Check that it is running; nothing you typed is lost.";

async function call(method, path, body, headers = {}) {
  const options = { method, headers: { Accept: "application/json", ...headers } };
  if (body !== undefined) {
    options.body = JSON.stringify(body);
    options.headers["Content-Type"] = "application/json";
  }
  let answer;
  try {
    answer = await fetch(path, options);
  } catch {
    throw new Refusal(0, "unreachable", UNREACHABLE);
  }
  if (answer.ok) return answer.status === 204 ? null : answer.json();
  const problem = await answer.json().catch(() => ({}));
  const code = problem.code ?? "failed";
  if (answer.status === 401 && path.startsWith("/v1")) locked.value = remembered.get("signed-in") ? "expired" : "missing";
  throw new Refusal(answer.status, code, ADVICE[code] ?? problem.detail ?? `The server answered ${answer.status}.`);
}

export const get = (path, query) => call("GET", query ? `${path}?${new URLSearchParams(query)}` : path);
export const put = (path, body = {}) => call("PUT", path, body);
export const patch = (path, body) => call("PATCH", path, body);
export const remove = (path) => call("DELETE", path);
/** Repeated with the same key, it does its work once. */
export const post = (path, body = {}, key = newKey()) => call("POST", path, body, { "Idempotency-Key": key });

/** Random, also where the page is not served over TLS and crypto.randomUUID does not exist. */
export const newKey = () =>
  Array.from(crypto.getRandomValues(new Uint8Array(16)), (byte) => byte.toString(16).padStart(2, "0")).join("");
