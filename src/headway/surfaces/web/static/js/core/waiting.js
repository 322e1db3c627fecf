// Requests to people: calls that need approval, questions, and goals that need a decision. Every page follows them, for the badges
// and the cards.
import { get } from "./api.js";
import { computed, signal } from "./lib.js";
import { coalesce, createLiveList } from "./live_list.js";

const PAGE_SIZE = 100;
const OPEN_STATES = new Set(["proposed", "open"]);

/** A request, as the cards and the lists take it. */
export const toRequest = (kind, item) => ({ ...item, kind, key: `request${item.id}`, isOpen: OPEN_STATES.has(item.state) });

/** Requests of the inbox, as the cards and the lists take them. */
export const fetchRequests = async (query) =>
  (await get("/v1/inbox", query)).requests.map((request) => toRequest(request.kind, request));

/** The open requests, and those that were decided since the page was loaded. Oldest first. */
export const requests = signal([]);
export const openRequests = computed(() => requests.value.filter(({ isOpen }) => isOpen));

const sort = (list) => list.toSorted((a, b) => a.created_at - b.created_at || a.id - b.id);

function apply(request) {
  const at = requests.value.findIndex(({ key }) => key === request.key);
  if (at >= 0) requests.value = requests.value.with(at, request);
  else if (request.isOpen) requests.value = sort([...requests.value, request]);
}

const { load, onChange } = createLiveList(
  () => fetchRequests({ limit: PAGE_SIZE }),
  (open) => (requests.value = sort([...requests.value.filter(({ isOpen }) => !isOpen), ...open])),
  apply,
);

/** The open requests to decide about a goal. */
export const decisions = computed(() => openRequests.value.filter(({ kind }) => kind === "decision"));

/** Whether the server has said what waits. */
export const isWaitingKnown = signal(false);

export async function loadRequests() {
  requests.value = openRequests.value;
  await load();
  isWaitingKnown.value = true;
}

const onApproval = ({ approval }) => onChange(toRequest("approval", approval));
const onQuestion = ({ question }) => onChange(toRequest("question", question));
const onDecision = ({ decision }) => onChange(toRequest("decision", decision));
export const waitingHandlers = {
  approval_requested: onApproval,
  approval_decided: onApproval,
  question_asked: onQuestion,
  question_answered: onQuestion,
  decision_requested: onDecision,
  decision_made: onDecision,
  // The only one of these events that also reaches the pages of other conversations.
  waiting_changed: coalesce(load),
};
