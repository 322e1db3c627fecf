// Browser notifications about what waits for a person. They are off until the user turns them on, in this browser.
import { effect, html, preferences, signal } from "../core/lib.js";
import { navigate } from "../core/router.js";
import { Card } from "../core/ui.js";
import { isWaitingKnown, openRequests } from "../core/waiting.js";

const PREFERENCE = "notifications"; // `core/watch.js` loads this module on every page when it is "on"
const BODY_LENGTH = 160;

/** "on", "off", "blocked" by the browser, or "missing": the browser has none. */
function readState() {
  if (!("Notification" in window)) return "missing";
  if (Notification.permission === "denied") return "blocked";
  return Notification.permission === "granted" && preferences.get(PREFERENCE) === "on" ? "on" : "off";
}

const state = signal(readState());

async function turnOn() {
  const permission = await Notification.requestPermission();
  preferences.set(PREFERENCE, permission === "granted" ? "on" : null);
  state.value = readState();
}

function turnOff() {
  preferences.set(PREFERENCE, null);
  state.value = readState();
}

const TITLES = {
  approval: () => "An agent asks for approval",
  question: () => "An agent has a question",
  decision: ({ goal_id }) => `Goal ${goal_id} needs a decision`,
};
const describeRequest = (request) => ({
  key: request.key,
  href: `/inbox/${request.id}`,
  title: TITLES[request.kind](request),
  body: request.question || `It wants to call ${request.tool}.`,
});

function show({ key, href, title, body }) {
  try {
    // The tag lets several windows show one notification.
    const shown = new Notification(title, { body: body.slice(0, BODY_LENGTH), tag: key });
    shown.onclick = () => {
      window.focus();
      navigate(href);
      shown.close();
    };
  } catch {
    state.value = "missing"; // some phones allow notifications to service workers only
  }
}

let known = null; // the keys of what waited before; null: not known yet

effect(() => {
  if (!isWaitingKnown.value) return;
  const items = openRequests.value.map(describeRequest);
  const added = known ? items.filter(({ key }) => !known.has(key)) : [];
  known = new Set(items.map(({ key }) => key));
  if (state.peek() === "on" && !document.hasFocus()) added.forEach(show);
});

const TEXTS = {
  on: "On in this browser. Your browser tells you when something begins to wait for you while this window is in the background.",
  off: `Off. If you turn them on, your browser tells you when an agent or a goal begins to wait for you while this window is in the
    background. The window must be open, and no other service is involved.`,
  blocked: "Your browser blocks notifications of this site. Allow them in its settings for this site, then reload the page.",
  missing: "This browser shows no notifications for open windows.",
};

export const NotificationSwitch = () => html`<${Card}
  title="Notifications"
  actions=${
    {
      on: html`<button class="btn small" onClick=${turnOff}>Turn off</button>`,
      off: html`<button class="btn small" onClick=${turnOn}>Turn on notifications</button>`,
    }[state.value]
  }
><p class="empty" role="status">${TEXTS[state.value]}</p><//>`;
