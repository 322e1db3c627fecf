// Signing in. The links that `headway serve` and `headway login` print sign in directly; this form takes a token.
import { ApiError, signedOut } from "./api.js";
import { html, useState } from "./lib.js";
import { hasMoved } from "./moves.js";
import { navigate, path } from "./router.js";
import { signIn } from "./session.js";
import { Icon } from "./ui.js";

const renderHelp = () => html`For a new link, run <code>headway login</code> where the server runs, or paste a token.`;

function explainSignIn() {
  if (path.value === "/login" && new URLSearchParams(location.search).has("token")) {
    return ["This link no longer works", html`A login link works once, and for a while. ${renderHelp()}`];
  }
  if (hasMoved()) {
    return [
      "Your workspace is at this address now",
      `${location.host} serves it. Sign in with your token to continue where you left off. Agents keep working in the meantime.`,
    ];
  }
  if (signedOut.value === "expired") {
    return [
      "Your session has ended",
      html`Sign in again to continue where you left off. Agents keep working in the meantime. ${renderHelp()}`,
    ];
  }
  if (signedOut.value === "left") return ["You are signed out", html`Agents keep working. ${renderHelp()}`];
  return ["Sign in to Headway", html`Open the link that <code>headway serve</code> printed when it started. ${renderHelp()}`];
}

export function Login() {
  const [problem, setProblem] = useState(null);
  const [isBusy, setIsBusy] = useState(false);
  const [title, text] = explainSignIn();
  const submit = async (event) => {
    event.preventDefault();
    setIsBusy(true);
    setProblem(null);
    try {
      await signIn(event.currentTarget.token.value.trim());
      if (path.value === "/login") navigate("/", { replace: true });
    } catch (error) {
      if (!(error instanceof ApiError)) throw error;
      setProblem(error.message);
    } finally {
      setIsBusy(false);
    }
  };
  return html`<main class="login" id="main">
    <form class="card" onSubmit=${submit}>
      <${Icon} name="mark" class="logo" />
      <h1>${title}</h1>
      <p class="muted">${text}</p>
      <label class="field">Token<input
        name="token"
        type="password"
        autocomplete="current-password"
        placeholder="hw_…"
        required
        aria-describedby="login-problem"
        aria-invalid=${problem ? "true" : null}
        autofocus
      /></label>
      <p id="login-problem" class="problem" role="alert">${problem}</p>
      <button class="btn primary wide" disabled=${isBusy}>Sign in</button>
      <p class="hint"><code>headway token add --tenant NAME</code> creates a token.</p>
    </form>
  </main>`;
}
