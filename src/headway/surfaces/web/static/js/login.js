// Coming in: the link that `serve` prints does it by itself; here a token can be pasted.
import { locked, Refusal } from "./api.js";
import { html, useState } from "./lib.js";
import { go, path } from "./router.js";
import { signIn } from "./session.js";
import { Icon } from "./ui.js";

function told() {
  if (path.value === "/login" && new URLSearchParams(location.search).has("token")) {
    return [
      "This link no longer works",
      html`A login link works once. Restart <code>headway serve</code> to get a new one, or paste a token.`,
    ];
  }
  if (locked.value === "expired")
    return ["Your session has ended", "Sign in again to go on where you were. What agents do goes on meanwhile."];
  return [
    "Sign in to Headway",
    html`Open the link that <code>headway serve</code> printed when it started, or paste a token of yours.`,
  ];
}

export function Login() {
  const [problem, setProblem] = useState(null);
  const [busy, setBusy] = useState(false);
  const [title, text] = told();
  const submit = async (event) => {
    event.preventDefault();
    setBusy(true);
    setProblem(null);
    try {
      await signIn(event.currentTarget.token.value.trim());
      if (path.value === "/login") go("/", { replace: true });
    } catch (refusal) {
      if (!(refusal instanceof Refusal)) throw refusal;
      setProblem(refusal.message);
    } finally {
      setBusy(false);
    }
  };
  return html`<main class="login" id="main">
    <form class="card" onSubmit=${submit}>
      <${Icon} n="mark" c="logo" />
      <h1>${title}</h1>
      <p class="muted">${text}</p>
      <label class="field">Token<input name="token" type="password" autocomplete="current-password" placeholder="hw_…" required aria-describedby="login-problem" aria-invalid=${problem ? "true" : null} autofocus /></label>
      <p id="login-problem" class="problem" role="alert">${problem}</p>
      <button class="btn primary wide" disabled=${busy}>Sign in</button>
      <p class="hint"><code>headway token new --tenant NAME</code> makes a token.</p>
    </form>
  </main>`;
}
