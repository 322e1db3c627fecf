// What waits for a person: calls that need approval, questions, and goals that need a decision. Every page follows them, for the
// badges and the cards.
import { get } from "./api.js";
import { computed, signal } from "./lib.js";
import { coalesce, createLiveList } from "./live_list.js";

const PAGE_SIZE = 100;
const OPEN_STATES = new Set(["proposed", "open"]);

/** An approval or a question, as the cards and the lists take it. */
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

/** The goals that need a decision, newest first; null until the server has answered. */
export const decisions = signal(null);

function applyGoal({ goal }) {
  const at = decisions.value?.findIndex(({ id }) => id === goal.id) ?? -1;
  if (!goal.needs_decision) decisions.value = decisions.value?.filter(({ id }) => id !== goal.id) ?? null;
  else if (at < 0) decisions.value = [goal, ...(decisions.value ?? [])];
  else decisions.value = decisions.value.with(at, { ...decisions.value[at], ...goal });
}

const decisionList = createLiveList(
  () => get("/v1/goals", { waiting: true, limit: PAGE_SIZE }),
  ({ goals }) => (decisions.value = goals.filter(({ needs_decision }) => needs_decision)),
  applyGoal,
);

/** How much waits for a person. */
export const waitingCount = computed(() => openRequests.value.length + (decisions.value?.length ?? 0));
/** Whether the server has said what waits. */
export const isWaitingKnown = signal(false);

export async function loadRequests() {
  requests.value = openRequests.value;
  await Promise.all([load(), decisionList.load()]);
  isWaitingKnown.value = true;
}

const onApproval = ({ approval }) => onChange(toRequest("approval", approval));
const onQuestion = ({ question }) => onChange(toRequest("question", question));
export const waitingHandlers = {
  approval_requested: onApproval,
  approval_decided: onApproval,
  question_asked: onQuestion,
  question_answered: onQuestion,
  goal_changed: decisionList.onChange,
  // The only one of these events that also reaches the pages of other conversations.
  waiting_changed: coalesce(load),
};
