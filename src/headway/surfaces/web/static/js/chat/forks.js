// Forks of turns: copies that continue from an earlier point, in a new conversation. The original is not changed.
import { get, post } from "../core/api.js";
import { html, preferences, signal, useState } from "../core/lib.js";
import { navigate } from "../core/router.js";

/** The turn that the dialog is about to fork: {turnId, find: returns the step to begin with, of a list of steps}. */
export const forkedTurn = signal(null);

/** The steps of a turn: the answers of its model, each with its calls. */
export const loadSteps = async (turnId) =>
  (await get(`/v1/turns/${turnId}/diff/${turnId}`)).diff.steps.map(({ step, a }) => ({ step, ...a }));

const openConversation = (id) => navigate(`/c/${id}`);

export async function forkTurn(turnId, body) {
  openConversation((await post(`/v1/turns/${turnId}/fork`, body)).turn.conversation_id);
}

/** Send or write a message again, in a copy of the conversation up to that message. */
export async function forkAtMessage(conversationId, messageId, changes = {}) {
  const { conversation } = await post(`/v1/conversations/${conversationId}/fork`, { at: messageId, ...changes });
  openConversation(conversation.id);
}

/** Fork a fork that stopped, before the step at which it stopped, and let it make new calls. */
export async function continueLive(turnId) {
  const steps = await loadSteps(turnId);
  await forkTurn(turnId, { at: Math.max(0, steps.length - 1), live: true });
}

export const LiveChoice = ({ isLive, onChange }) => html`<label class="check-field">
  <input type="checkbox" checked=${isLive} onChange=${(event) => onChange(event.currentTarget.checked)} />
  <span>Live: make calls that have no recorded result <span class="faint">Without it, the fork stops there.</span></span>
</label>`;

/** `name`: of the preference. `fallback`: what holds until the user has chosen. */
export function useLiveChoice(name, fallback) {
  const [isLive, setIsLive] = useState(() => (preferences.get(name) ?? (fallback ? "yes" : "no")) === "yes");
  const choose = (live) => {
    setIsLive(live);
    preferences.set(name, live ? "yes" : "no");
  };
  return [isLive, choose];
}
